import bayes from "../models/bayes.onnx";
import bernoulli from "../models/bernoulli.onnx";
import concrete from "../models/concrete.onnx";
import foragerNewborn from "../models/forager-newborn.onnx";
import foragerGrown from "../models/forager-grown.onnx";
import mc from "../models/mc.onnx";
import { fromBase64 } from "./base64";
import { rendered, EMPTY } from "./digits/drawing";
import { asMnist } from "./digits/pixels";
import { type Method, Reader } from "./digits/reader";
import { DIGITS } from "./digits/strokes";
import { Network } from "./network";

const FILES: Readonly<Record<string, string>> = {
  mc, concrete, bernoulli, bayes, "forager-grown": foragerGrown, "forager-newborn": foragerNewborn,
};

/** What tests in a browser ask, at an address that ends in `?check`. */
export const check = {
  /** Draws of a network for rows of bytes. */
  draws(name: string, rows: number[][], draws: number, seed: string, shared: boolean): number[] {
    const x = rows.map((row) => Float32Array.from(row, (byte) => byte / 255));
    return Array.from(new Network(fromBase64(FILES[name])).predict(x, { draws, seed: BigInt(seed), shared }));
  },

  /** Milliseconds that a reading of a drawn digit takes, again and again. */
  times(method: Method, draws: number, repeats: number): number[] {
    const reader = new Reader(method);
    const pixels = asMnist(rendered({ ...EMPTY, strokes: DIGITS[3] }))!;
    return Array.from({ length: repeats }, (_, repeat) => {
      const start = performance.now();
      reader.read(pixels, { draws, seed: BigInt(repeat), shared: false });
      return performance.now() - start;
    });
  },
};
