/** What draws of a classifier say, as `dubio.Predictive` has it. */
export interface Predictive {
  /** Probabilities of each draw, (draws × classes). */
  readonly draws: Float32Array;
  /** Their mean over draws. */
  readonly mean: Float64Array;
  /** The entropy of the mean, in nats: all doubt. */
  readonly entropy: number;
  /** The mean entropy of a draw: doubt that all draws share. */
  readonly aleatoric: number;
  /** The mutual information of label and weights: doubt by which draws differ. */
  readonly epistemic: number;
}

/** From logits of some draws (draws × classes). */
export function predictive(logits: Float32Array, classes: number): Predictive {
  const count = logits.length / classes;
  const draws = new Float32Array(logits.length);
  const mean = new Float64Array(classes);
  let aleatoric = 0;
  for (let draw = 0; draw < count; draw++) {
    const own = softmax(logits.subarray(draw * classes, (draw + 1) * classes));
    draws.set(own, draw * classes);
    aleatoric += entropy(own) / count;
    own.forEach((p, label) => (mean[label] += p / count));
  }
  const total = entropy(mean);
  return { draws, mean, entropy: total, aleatoric, epistemic: Math.max(0, total - aleatoric) };
}

/** The likeliest class. */
export function argmax(values: ArrayLike<number>): number {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}

function softmax(logits: Float32Array): Float64Array {
  const largest = Math.max(...logits);
  const powers = Float64Array.from(logits, (z) => Math.exp(z - largest));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((p) => p / sum);
}

function entropy(p: Float64Array): number {
  return -p.reduce((sum, each) => sum + (each > 0 ? each * Math.log(each) : 0), 0);
}
