import { keyOf } from "../noise/key";
import { fillNormal, fillUniform } from "../noise/philox";
import { Adam } from "./adam";
import { CurveNetwork, type Method, type Parameters, type Uniforms } from "./network";

/** How a curve is learned. */
export interface Settings {
  readonly method: Method;
  readonly drop: number;
  readonly hidden: number;
  readonly members: number; // of an ensemble
  readonly precision: number;
  readonly lengthScale: number;
  readonly learningRate: number;
}

export const SETTINGS: Settings = {
  method: "dropout",
  drop: 0.05,
  hidden: 40,
  members: 5,
  precision: 100,
  lengthScale: 0.1,
  learningRate: 0.01,
};

/** Sites of random numbers: of weights at the start, of training, and of what is drawn. */
const START = 0;
const TRAINING = 1;
const DRAWING = 2;

/** Networks that learn from points on a plane: one, or the members of an ensemble. */
export class CurveLearner {
  readonly settings: Settings;
  steps = 0;
  private readonly seed: bigint;
  private readonly networks: readonly CurveNetwork[];
  private readonly optimisers: readonly Adam[];

  constructor(settings: Settings, seed: bigint) {
    this.settings = settings;
    this.seed = seed;
    const sizes = [1, settings.hidden, settings.hidden, 1];
    const members = settings.method === "ensemble" ? settings.members : 1;
    this.networks = Array.from({ length: members }, (_, member) => {
      const parameters = started(sizes, settings.drop, seed, member);
      return new CurveNetwork(sizes, settings.method, settings.lengthScale, parameters);
    });
    this.optimisers = this.networks.map(
      (network) => new Adam(learned(network.parameters, settings.method), settings.learningRate),
    );
  }

  /** Rates of dropping, by mask. */
  get drop(): number[] {
    return this.networks[0].drop;
  }

  /** A step of every network, with fresh masks for each row. */
  step(x: Float64Array, y: Float64Array): void {
    this.networks.forEach((network, member) => {
      const noise = this.uniforms([TRAINING, member], this.steps, x.length);
      const slopes = zeros(network.parameters);
      network.loss(x, y, this.settings.precision, noise, slopes);
      this.optimisers[member].step(learned(slopes, this.settings.method));
    });
    this.steps++;
  }

  /**
   * Functions that the learner believes in, at some places: (draws × places).
   *
   * An ensemble has as many as members. With `shared` a draw has one mask for all places, and is a
   * function; without, every place has its own.
   */
  functions(x: Float64Array, draws: number, shared: boolean): Float64Array[] {
    if (this.settings.method === "ensemble") return this.networks.map((each) => each.forward(x, []));
    return Array.from({ length: draws }, (_, draw) =>
      this.networks[0].forward(x, this.uniforms([DRAWING, 0], draw, shared ? 1 : x.length)),
    );
  }

  private uniforms(site: readonly number[], draw: number, rows: number): Uniforms {
    return this.networks[0].masked.map((units, mask) => {
      const numbers = new Float64Array(rows * units);
      fillUniform(keyOf(this.seed, [...site, mask]), draw, numbers);
      return numbers;
    });
  }
}

/** Weights from N(0, 2/inputs), and biases that spread the bends of the first layer over the plane. */
function started(sizes: readonly number[], drop: number, seed: bigint, member: number): Parameters {
  const normal = (layer: number, count: number, deviation: number): Float64Array => {
    const numbers = new Float64Array(count);
    fillNormal(keyOf(seed, [START, layer]), member, numbers);
    return numbers.map((e) => deviation * e);
  };
  const layers = sizes.slice(1).map((outputs, layer) => ({ outputs, inputs: sizes[layer], layer }));
  return {
    weights: layers.map(({ outputs, inputs, layer }) =>
      normal(2 * layer, outputs * inputs, Math.sqrt(2 / inputs)),
    ),
    biases: layers.map(({ outputs, layer }) => normal(2 * layer + 1, outputs, layer ? 0 : 1.5)),
    logits: new Float64Array(sizes.length - 2).fill(Math.log((1 - drop) / drop)),
  };
}

/** What an optimiser moves: rates only if they are learned. */
function learned(parameters: Parameters, method: Method): Float64Array[] {
  const { weights, biases, logits } = parameters;
  return [...weights, ...biases, ...(method === "concrete" ? [logits] : [])];
}

function zeros(like: Parameters): Parameters {
  return {
    weights: like.weights.map((each) => new Float64Array(each.length)),
    biases: like.biases.map((each) => new Float64Array(each.length)),
    logits: new Float64Array(like.logits.length),
  };
}
