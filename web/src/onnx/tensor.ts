/** Numbers in rows and columns; all that a graph computes with is float32. */
export interface Tensor {
  readonly dims: readonly number[];
  readonly data: Float32Array;
}

/** A tensor of given numbers. */
export function tensor(dims: readonly number[], data: ArrayLike<number>): Tensor {
  const numbers = data instanceof Float32Array ? data : Float32Array.from(data);
  const size = dims.reduce((product, each) => product * each, 1);
  if (numbers.length !== size) {
    throw new Error(`tensor: expected ${size} numbers for [${dims}], got ${numbers.length}.`);
  }
  return { dims, data: numbers };
}

export type Unary = "relu" | "sigmoid" | "softplus" | "log" | "sqrt" | "reciprocal";
export type Binary = "add" | "subtract" | "multiply" | "divide" | "power" | "less" | "greater" | "least" | "most";

// One loop with a choice inside is several times faster than a loop that calls any function.

/** A function of every entry. */
export function map(x: Tensor, operation: Unary): Tensor {
  const data = new Float32Array(x.data.length);
  for (let i = 0; i < data.length; i++) {
    const value = x.data[i];
    switch (operation) {
      case "relu": data[i] = value > 0 ? value : 0; break;
      case "sigmoid": data[i] = 1 / (1 + Math.exp(-value)); break;
      case "softplus": data[i] = Math.max(value, 0) + Math.log1p(Math.exp(-Math.abs(value))); break;
      case "log": data[i] = Math.log(value); break;
      case "sqrt": data[i] = Math.sqrt(value); break;
      case "reciprocal": data[i] = 1 / value; break;
    }
  }
  return { dims: x.dims, data };
}

/** A function of the entries of two tensors, of which one may be repeated along some axes. */
export function zip(a: Tensor, b: Tensor, operation: Binary): Tensor {
  const dims = broadcast(a.dims, b.dims);
  const data = new Float32Array(dims.reduce((product, each) => product * each, 1));
  const columns = dims.at(-1) ?? 1;
  const [rowsA, stepA] = strides(a.dims, dims);
  const [rowsB, stepB] = strides(b.dims, dims);
  for (let start = 0, row = 0; start < data.length; start += columns, row++) {
    let i = rowsA(row);
    let j = rowsB(row);
    for (let column = 0; column < columns; column++, i += stepA, j += stepB) {
      const p = a.data[i];
      const q = b.data[j];
      switch (operation) {
        case "add": data[start + column] = p + q; break;
        case "subtract": data[start + column] = p - q; break;
        case "multiply": data[start + column] = p * q; break;
        case "divide": data[start + column] = p / q; break;
        case "power": data[start + column] = q === 2 ? p * p : p ** q; break;
        case "less": data[start + column] = p < q ? 1 : 0; break;
        case "greater": data[start + column] = p > q ? 1 : 0; break;
        case "least": data[start + column] = p < q ? p : q; break;
        case "most": data[start + column] = p > q ? p : q; break;
      }
    }
  }
  return { dims, data };
}

function broadcast(a: readonly number[], b: readonly number[]): number[] {
  const axes = Math.max(a.length, b.length);
  return Array.from({ length: axes }, (_, axis) => {
    const one = a[axis - axes + a.length] ?? 1;
    const other = b[axis - axes + b.length] ?? 1;
    if (one !== other && one !== 1 && other !== 1) {
      throw new Error(`shapes: expected ones that fit, got [${a}] and [${b}].`);
    }
    return one === 1 ? other : one;
  });
}

/** Where a row of the whole starts in a part that is repeated, and the step along its columns. */
function strides(part: readonly number[], whole: readonly number[]): [(row: number) => number, number] {
  const columns = part.at(-1) ?? 1;
  const step = columns === 1 ? 0 : 1;
  const rows = whole.slice(0, -1);
  const own = rows.map((_, axis) => part[axis - whole.length + part.length] ?? 1);
  if (own.every((size, axis) => size === rows[axis])) return [(row) => row * columns, step];
  if (own.every((size) => size === 1)) return [() => 0, step];
  const start = (row: number): number => {
    let [place, factor] = [0, columns];
    for (let axis = rows.length - 1; axis >= 0; axis--) {
      if (own[axis] > 1) {
        place += (row % rows[axis]) * factor;
        factor *= own[axis];
      }
      row = Math.floor(row / rows[axis]);
    }
    return place;
  };
  return [start, step];
}
