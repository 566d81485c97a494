import { keyOf } from "./noise/key";
import { fillBernoulli, fillNormal, fillUniform } from "./noise/philox";
import { Graph } from "./onnx/graph";
import type { NoiseCard } from "./onnx/model";
import { type Tensor, tensor } from "./onnx/tensor";

/** How a network is asked. */
export interface Asking {
  readonly draws: number;
  readonly seed: bigint;
  /** Whether all rows of a draw share its noise, so that a draw is one function. */
  readonly shared: boolean;
  /** A dropout rate in place of that of the file, by the number of the site; null leaves it. */
  readonly drop?: readonly (number | null)[];
}

/** A network with its noise, which gives the draws of `dubio.predict`. */
export class Network {
  private readonly graph: Graph;

  constructor(file: Uint8Array) {
    this.graph = new Graph(file);
  }

  /** Outputs of all draws of some rows: (draws × rows × outputs), flat. */
  predict(rows: readonly Float32Array[], asking: Asking): Float32Array {
    const alone = rows.length === 1;
    const width = rows[0].length;
    const count = asking.draws * rows.length;
    const x = new Float32Array(alone ? width : count * width); // one row meets the noise of all draws
    for (let start = 0; start < x.length; start += rows.length * width) {
      rows.forEach((row, index) => x.set(row, start + index * width));
    }
    const noises = this.graph.noises.map((noise, site) => this.noise(noise, site, rows.length, asking));
    const inputs = { x: tensor([x.length / width, width], x), ...Object.fromEntries(noises) };
    return this.graph.run(inputs).data;
  }

  /** One noise for all draws and rows, one behind the other as rows of one batch. */
  private noise(noise: NoiseCard, site: number, rows: number, asking: Asking): [string, Tensor] {
    const features = noise.shape[2];
    const plain = noise.distribution === "bernoulli"; // of nn.Dropout; dubio's own number their noises
    const key = keyOf(asking.seed, plain ? [site] : [site, 0]);
    const data = new Float32Array(asking.draws * rows * features);
    const own = new Float32Array((asking.shared ? 1 : rows) * features);
    for (let draw = 0; draw < asking.draws; draw++) {
      if (noise.distribution === "normal") fillNormal(key, draw, own);
      else if (noise.distribution === "uniform") fillUniform(key, draw, own);
      else {
        const keep = 1 - (asking.drop?.[site] ?? 1 - noise.keep!);
        fillBernoulli(key, draw, keep, noise.keep! / keep, own); // the graph divides by its own rate
      }
      for (let start = 0; start < rows * features; start += own.length) {
        data.set(own, draw * rows * features + start);
      }
    }
    return [noise.name, tensor([1, asking.draws * rows, features], data)];
  }
}
