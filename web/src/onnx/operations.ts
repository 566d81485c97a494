import type { Node } from "./model";
import { type Binary, map, type Tensor, tensor, type Unary, zip } from "./tensor";

/** What a node computes from its inputs; `undefined` stands for one that is left out. */
type Operation = (inputs: Tensor[], node: Node) => Tensor[];

/** The operations that networks of `dubio.export` are made of, as ONNX defines them. */
export const OPERATIONS: Readonly<Record<string, Operation>> = {
  Add: binary("add"),
  Sub: binary("subtract"),
  Mul: binary("multiply"),
  Div: binary("divide"),
  Pow: binary("power"),
  Less: binary("less"),
  Greater: binary("greater"),
  Cast: ([x]) => [x], // numbers, zeros and ones are float32 here, whatever they were
  Relu: unary("relu"),
  Sigmoid: unary("sigmoid"),
  Softplus: unary("softplus"),
  Log: unary("log"),
  Sqrt: unary("sqrt"),
  Reciprocal: unary("reciprocal"),
  Clip: ([x, low, high]) => {
    const raised = low ? zip(x, low, "most") : x;
    return [high ? zip(raised, high, "least") : raised];
  },
  Where: ([which, one, other]) => {
    const no = zip(tensor([], [1]), which, "subtract");
    return [zip(zip(which, one, "multiply"), zip(no, other, "multiply"), "add")]; // of finite numbers
  },
  Gather: ([x, index], node) => {
    if (node.attributes.get("axis") !== 0 || index.data.length !== 1) {
      throw new Error("Gather: expected one entry of the first axis.");
    }
    const size = x.data.length / x.dims[0];
    const start = index.data[0] * size;
    return [tensor([...index.dims, ...x.dims.slice(1)], x.data.subarray(start, start + size))];
  },
  Reshape: ([x, shape]) => {
    const known = shape.data.reduce((product, size) => (size < 0 ? product : product * size), 1);
    return [tensor(Array.from(shape.data, (size) => (size < 0 ? x.data.length / known : size)), x.data)];
  },
  Unsqueeze: ([x, axes]) => {
    if (axes.data.length !== 1 || axes.data[0] !== 0) throw new Error("Unsqueeze: expected axis 0.");
    return [tensor([1, ...x.dims], x.data)];
  },
  Split: ([x, sizes]) => {
    if (x.dims.length !== 1) throw new Error("Split: expected one axis.");
    let start = 0;
    return Array.from(sizes.data, (size) => tensor([size], x.data.subarray(start, (start += size))));
  },
  Gemm: ([x, weights, bias], node) => {
    if (node.attributes.get("transA") || !node.attributes.get("transB")) {
      throw new Error("Gemm: expected rows times weights by output.");
    }
    return [linear(x, weights, bias)];
  },
};

function unary(operation: Unary): Operation {
  return ([x]) => [map(x, operation)];
}

function binary(operation: Binary): Operation {
  return ([a, b]) => [zip(a, b, operation)];
}

const transposed = new WeakMap<Tensor, Float32Array>();

/** Rows times weights (outputs × inputs) plus bias; what is zero, as dropped units are, costs nothing. */
function linear(x: Tensor, weights: Tensor, bias?: Tensor): Tensor {
  const [outputs, inputs] = weights.dims;
  const rows = x.data.length / inputs;
  const columns = byInput(weights);
  const data = new Float32Array(rows * outputs);
  const sums = new Float64Array(outputs);
  for (let row = 0; row < rows; row++) {
    if (bias) sums.set(bias.data);
    else sums.fill(0);
    for (let input = 0; input < inputs; input++) {
      const factor = x.data[row * inputs + input];
      if (factor === 0) continue;
      const start = input * outputs;
      for (let output = 0; output < outputs; output++) sums[output] += factor * columns[start + output];
    }
    data.set(sums, row * outputs);
  }
  return { dims: [rows, outputs], data };
}

/** Weights with those of one input side by side, turned once. */
function byInput(weights: Tensor): Float32Array {
  let turned = transposed.get(weights);
  if (!turned) {
    const [outputs, inputs] = weights.dims;
    turned = new Float32Array(outputs * inputs);
    for (let o = 0; o < outputs; o++) {
      for (let i = 0; i < inputs; i++) turned[i * outputs + o] = weights.data[o * inputs + i];
    }
    transposed.set(weights, turned);
  }
  return turned;
}
