import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import * as ort from "onnxruntime-web";
import { describe, expect, test } from "vitest";
import { keyOf } from "../src/noise/key";
import { fillBernoulli, fillNormal, fillUniform } from "../src/noise/philox";
import { Network } from "../src/network";
import { Graph } from "../src/onnx/graph";
import { fromHalf, readModel } from "../src/onnx/model";
import { tensor } from "../src/onnx/tensor";

const NAMES = ["mc", "concrete", "bernoulli", "bayes", "forager-grown", "forager-newborn"];
const bytes = (name: string): Uint8Array<ArrayBuffer> => new Uint8Array(readFileSync(resolve(__dirname, `../models/${name}.onnx`)));
const fixture = (name: string) => JSON.parse(readFileSync(resolve(__dirname, `../fixtures/${name}.json`), "utf-8"));

describe.each(NAMES)("%s", (name) => {
  const known = fixture(name);
  const rows: Float32Array[] = known.x.map((row: number[]) => Float32Array.from(row, (byte) => byte / 255));
  const ask = (given: Float32Array[], shared: boolean) =>
    new Network(bytes(name)).predict(given, { draws: known.draws, seed: BigInt(known.seed), shared });

  test("gives the draws of dubio.predict under the same seed", () => {
    expect(farthest(ask(rows, false), known.apart.flat(2))).toBeLessThan(1e-4);
  });

  test.skipIf(!known.shared)("gives its functions, one noise for all rows", () => {
    expect(farthest(ask(rows, true), known.shared.flat(2))).toBeLessThan(1e-4);
  });

  test.skipIf(!known.shared)("a row alone, which meets all noise at once, gets the same", () => {
    const outputs = known.shared[0][0].length;
    const first = known.shared.map((draw: number[][]) => draw[0]).flat();
    expect(first.length).toBe(known.draws * outputs);
    expect(farthest(ask([rows[0]], true), first)).toBeLessThan(1e-4);
  });

  test("is what onnxruntime makes of the file", async () => {
    ort.env.wasm.numThreads = 1;
    const session = await ort.InferenceSession.create(bytes(name));
    const model = readModel(bytes(name));
    const count = rows.length;
    const inputs: Record<string, [number[], Float32Array]> = { x: [[count, rows[0].length], Float32Array.from(rows.flatMap((row) => [...row]))] };
    model.noises.forEach((noise, site) => {
      const numbers = new Float32Array(count * noise.shape[2]);
      const key = keyOf(3n, [site]);
      if (noise.distribution === "normal") fillNormal(key, 0, numbers);
      else if (noise.distribution === "uniform") fillUniform(key, 0, numbers);
      else fillBernoulli(key, 0, noise.keep!, 1, numbers);
      inputs[noise.name] = [[1, count, noise.shape[2]], numbers];
    });
    const entries = Object.entries(inputs);
    const wanted = await session.run(Object.fromEntries(entries.map(([key, [dims, data]]) => [key, new ort.Tensor("float32", data, dims)])));
    const found = new Graph(bytes(name)).run(Object.fromEntries(entries.map(([key, [dims, data]]) => [key, tensor(dims, data)])));
    expect(farthest(found.data, wanted.y.data as Float32Array)).toBeLessThan(1e-4);
  });
});

test("a rate that is chosen keeps the mean and changes the spread", () => {
  const known = fixture("forager-grown");
  const network = new Network(bytes("forager-grown"));
  const row = Float32Array.from(known.x[0] as number[], (byte) => byte / 255);
  const moments = (drop?: (number | null)[]) => {
    const values = network.predict([row], { draws: 2000, seed: 1n, shared: true, drop });
    const first = Array.from({ length: 2000 }, (_, draw) => values[5 * draw]);
    const mean = first.reduce((a, b) => a + b) / 2000;
    return { mean, variance: first.reduce((sum, value) => sum + (value - mean) ** 2, 0) / 2000 };
  };
  const [own, same, wilder] = [moments(), moments([0.1, 0.1]), moments([0.4, 0.4])];
  expect(same.mean).toBeCloseTo(own.mean, 6);
  expect(wilder.variance).toBeGreaterThan(2 * own.variance);
});

test("an unknown operation and another file are errors", () => {
  expect(() => new Graph(new Uint8Array([0x08, 0x07]))).toThrow("dubio.export");
});

test("halves are numbers", () => {
  expect([0x3c00, 0xc000, 0x0001, 0x7bff, 0x7c00].map(fromHalf)).toEqual([1, -2, 2 ** -24, 65504, Infinity]);
});

function farthest(a: ArrayLike<number>, b: ArrayLike<number>): number {
  expect(a.length).toBe(b.length);
  return Math.max(...Array.from(a, (value, i) => Math.abs(value - b[i])));
}
