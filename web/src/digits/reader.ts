import bayes from "../../models/bayes.onnx";
import bernoulli from "../../models/bernoulli.onnx";
import concrete from "../../models/concrete.onnx";
import known from "../../models/digits.json";
import mc from "../../models/mc.onnx";
import { fromBase64 } from "../base64";
import { Network } from "../network";
import { argmax, type Predictive, predictive } from "../predictive";

export type Method = keyof typeof known.methods;

/** How digits are read. */
export interface Reading {
  readonly draws: number;
  readonly seed: bigint;
  readonly shared: boolean;
  /** The rate at which hidden units are dropped, where the network lets one choose. */
  readonly drop?: number;
}

/** What a network would do with a drawing. */
export interface Verdict {
  readonly answered: boolean;
  readonly digit: number;
  readonly score: string;
  readonly value: number;
  readonly threshold: number;
}

export const CLASSES = 10;
/** Draws and rate for which the rule of deferral was fitted. */
export const FITTED = { draws: 100, drop: 0.5 };
/** What is promised: an error rate among answers, at a confidence. */
export const PROMISE = { errorRate: known.error_rate, confidence: known.confidence };
/** Shirts of Fashion-MNIST, 28 × 28 each. */
export const SHIRTS = known.shirts.map((each) => Float32Array.from(fromBase64(each), (byte) => byte / 255));

const FILES: Readonly<Record<Method, string>> = { mc, concrete, bernoulli, bayes };

/** A network that reads digits. */
export class Reader {
  private readonly network: Network;
  private readonly facts: (typeof known.methods)[Method];

  constructor(readonly method: Method) {
    this.network = new Network(fromBase64(FILES[method]));
    this.facts = known.methods[method];
  }

  /** Dropout rates, layer by layer. */
  get drop(): readonly number[] {
    return this.facts.drop;
  }

  /** Whether its draws can be functions: local noise of weights belongs to rows. */
  get hasFunctions(): boolean {
    return this.method !== "bayes";
  }

  /** Logits of all draws of some rows of 28 × 28 pixels: (draws × rows × classes). */
  logits(rows: readonly Float32Array[], reading: Reading): Float32Array {
    const drop = this.method === "mc" && reading.drop !== undefined ? [null, reading.drop, reading.drop] : undefined;
    return this.network.predict(rows, { ...reading, drop });
  }

  /** What the draws say of one drawing. */
  read(pixels: Float32Array, reading: Reading): Predictive {
    return predictive(this.logits([pixels], reading), CLASSES);
  }

  /** Answer, or ask a human: by the threshold that `dubio.decide.Deferral` has found. */
  decide(found: Predictive): Verdict {
    const { score, threshold } = this.facts;
    const value = score === "entropy" ? found.entropy : found.epistemic;
    return {
      answered: value < threshold,
      digit: argmax(found.mean),
      score: score === "entropy" ? "entropy" : "mutual information",
      value,
      threshold,
    };
  }
}
