import { fields, float, text } from "./protobuf";
import { type Tensor, tensor } from "./tensor";

/** One operation of a graph. */
export interface Node {
  readonly operation: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: ReadonlyMap<string, number>;
}

/** A noise of a network, as `dubio.export` describes it in the file. */
export interface NoiseCard {
  readonly name: string;
  readonly distribution: "bernoulli" | "uniform" | "normal";
  readonly keep: number | null;
  readonly shape: readonly number[]; // draws first; −1 stands for the number of rows
}

/** What is in an ONNX file. */
export interface Model {
  readonly nodes: readonly Node[];
  readonly constants: ReadonlyMap<string, Tensor>;
  readonly outputs: readonly string[];
  readonly noises: readonly NoiseCard[];
}

const FLOAT = 1;
const INT64 = 7;
const FLOAT16 = 10;

/** Read a file that `dubio.export` has written. */
export function readModel(file: Uint8Array): Model {
  let graph: Uint8Array | undefined;
  let noises: NoiseCard[] | undefined;
  for (const [number, , bytes] of fields(file)) {
    if (number === 7) graph = bytes;
    if (number === 14) {
      const [key, value] = [...fields(bytes)].map(([, , each]) => text(each));
      if (key === "dubio") noises = JSON.parse(value).noise;
    }
  }
  if (!graph || !noises) throw new Error("file: expected one of dubio.export, got another.");
  const nodes: Node[] = [];
  const constants = new Map<string, Tensor>();
  const outputs: string[] = [];
  for (const [number, , bytes] of fields(graph)) {
    if (number === 1) nodes.push(readNode(bytes));
    if (number === 5) constants.set(...readConstant(bytes));
    if (number === 12) outputs.push(nameOf(bytes));
  }
  return { nodes, constants, outputs, noises };
}

function readNode(node: Uint8Array): Node {
  const inputs: string[] = [];
  const outputs: string[] = [];
  const attributes = new Map<string, number>();
  let operation = "";
  for (const [number, , bytes] of fields(node)) {
    if (number === 1) inputs.push(text(bytes));
    if (number === 2) outputs.push(text(bytes));
    if (number === 4) operation = text(bytes);
    if (number === 5) {
      let [name, value] = ["", 0];
      for (const [field, whole, part] of fields(bytes)) {
        if (field === 1) name = text(part);
        if (field === 2) value = float(part);
        if (field === 3) value = Number(whole);
      }
      attributes.set(name, value);
    }
  }
  return { operation, inputs, outputs, attributes };
}

function readConstant(bytes: Uint8Array): [string, Tensor] {
  const dims: number[] = [];
  let [kind, name, raw] = [0, "", new Uint8Array(0)];
  for (const [number, whole, part] of fields(bytes)) {
    if (number === 1) dims.push(...(part.length ? packed(part) : [Number(whole)]));
    if (number === 2) kind = Number(whole);
    if (number === 8) name = text(part);
    if (number === 9) raw = new Uint8Array(part); // a copy, which starts where numbers may
  }
  return [name, tensor(dims, numbers(kind, raw, name))];
}

/** Integers one behind the other. */
function packed(bytes: Uint8Array): number[] {
  const tagged = new Uint8Array(bytes.length * 2); // each as a field of its own
  let length = 0;
  for (let i = 0, first = true; i < bytes.length; i++) {
    if (first) tagged[length++] = 8;
    tagged[length++] = bytes[i];
    first = bytes[i] < 0x80;
  }
  return [...fields(tagged.subarray(0, length))].map(([, whole]) => Number(whole));
}

function numbers(kind: number, raw: Uint8Array, name: string): ArrayLike<number> {
  if (kind === FLOAT) return new Float32Array(raw.buffer);
  if (kind === FLOAT16) return Float32Array.from(new Uint16Array(raw.buffer), fromHalf);
  if (kind === INT64) return Array.from(new BigInt64Array(raw.buffer), Number);
  throw new Error(`${name}: expected numbers of type float, float16 or int64, got type ${kind}.`);
}

/** The number that 16 bits stand for. */
export function fromHalf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

function nameOf(value: Uint8Array): string {
  for (const [number, , bytes] of fields(value)) if (number === 1) return text(bytes);
  return "";
}
