import grown from "../../models/forager-grown.onnx";
import newborn from "../../models/forager-newborn.onnx";
import known from "../../models/foragers.json";
import { fromBase64 } from "../base64";
import { Network } from "../network";
import { argmax } from "../predictive";
import { WHEELS } from "./world";

export type Name = keyof typeof known;
/** What an agent follows: one function for some ticks, or the vote of many. */
export type Rule = "tick" | "episode" | "argue";

const ACTIONS = WHEELS.length;
const TICKS_OF_EPISODE = 200;
const FILES: Readonly<Record<Name, string>> = { newborn, grown };

/** What many functions think of the moves, and what is done. */
export interface Council {
  readonly values: Float32Array; // (functions × actions)
  readonly votes: Float64Array; // the share of functions for which an action is best
  readonly action: number;
}

/** A network that values moves. */
export class Agent {
  private readonly network: Network;

  constructor(readonly name: Name) {
    this.network = new Network(fromBase64(FILES[name]));
  }

  /** How many ticks it has lived. */
  get ticks(): number {
    return known[this.name].ticks;
  }

  /** What it earned per tick at the end of its training, if it had any. */
  get reward(): number | null {
    return known[this.name].reward;
  }

  /** Ask as many functions as may argue, and choose. */
  choose(senses: Float32Array, clock: number, seed: bigint, rule: Rule, functions: number, drop: number): Council {
    const values = this.values(senses, seed + BigInt(clock), functions, drop);
    const best = Array.from({ length: functions }, (_, k) => argmax(values.subarray(k * ACTIONS, (k + 1) * ACTIONS)));
    const votes = new Float64Array(ACTIONS);
    for (const action of best) votes[action] += 1 / functions;
    if (rule === "argue") return { values, votes, action: argmax(votes) };
    if (rule === "tick") return { values, votes, action: best[0] };
    const episode = BigInt(Math.floor(clock / TICKS_OF_EPISODE));
    return { values, votes, action: argmax(this.values(senses, -1n - seed - episode, 1, drop)) };
  }

  private values(senses: Float32Array, seed: bigint, draws: number, drop: number): Float32Array {
    return this.network.predict([senses], { draws, seed, shared: true, drop: [drop, drop] });
  }
}
