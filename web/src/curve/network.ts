/** Where the noise of a network comes from. */
export type Method = "dropout" | "concrete" | "ensemble";

/** The uniform numbers of a masked layer, for each row and unit: (rows × units). */
export type Uniforms = readonly Float64Array[];

/** What is learned: weights by layer (outputs × inputs), biases, and logits of rates of keeping. */
export interface Parameters {
  readonly weights: readonly Float64Array[];
  readonly biases: readonly Float64Array[];
  readonly logits: Float64Array;
}

const TEMPERATURE = 0.1;

const sigmoid = (z: number): number => 1 / (1 + Math.exp(-z));
const softplus = (z: number): number => Math.max(z, 0) + Math.log1p(Math.exp(-Math.abs(z)));

/**
 * A curve: one input, hidden layers with rectifiers, one output, and a mask before every layer but
 * the first. In dubio: `Masked(nn.Linear(…), masks.Bernoulli(drop=…))`, or `masks.Concrete`.
 */
export class CurveNetwork {
  readonly sizes: readonly number[];
  readonly method: Method;
  readonly parameters: Parameters;
  private readonly lengthScale: number;

  constructor(sizes: readonly number[], method: Method, lengthScale: number, parameters: Parameters) {
    this.sizes = sizes;
    this.method = method;
    this.lengthScale = lengthScale;
    this.parameters = parameters;
  }

  /** Units that each mask has. */
  get masked(): readonly number[] {
    return this.method === "ensemble" ? [] : this.sizes.slice(1, -1);
  }

  /** Rates of dropping, by mask. */
  get drop(): number[] {
    return Array.from(this.masked, (_, mask) => sigmoid(-this.parameters.logits[mask]));
  }

  /** Outputs of some rows. */
  forward(x: Float64Array, noise: Uniforms): Float64Array {
    return this.layers(x, noise).at(-1)!.outputs;
  }

  /**
   * The loss of `dubio.ELBO` under Gaussian noise of a known precision, and its gradient, which is
   * added to `slopes`.
   */
  loss(x: Float64Array, y: Float64Array, precision: number, noise: Uniforms, slopes: Parameters): number {
    const rows = x.length;
    const layers = this.layers(x, noise);
    const outputs = layers.at(-1)!.outputs;
    let loss = 0.5 * Math.log((2 * Math.PI) / precision);
    let gradient = new Float64Array(rows);
    for (let row = 0; row < rows; row++) {
      const error = outputs[row] - y[row];
      loss += (0.5 * precision * error * error) / rows;
      gradient[row] = (precision * error) / rows;
    }
    for (let layer = layers.length - 1; layer >= 0; layer--) {
      gradient = this.backward(layer, layers[layer], rows, gradient, slopes);
    }
    for (let mask = 0; mask < this.masked.length; mask++) loss += this.divergence(mask, rows, slopes);
    return loss;
  }

  private layers(x: Float64Array, noise: Uniforms): Layer[] {
    const found: Layer[] = [];
    let inputs = x;
    for (let layer = 0; layer + 1 < this.sizes.length; layer++) {
      if (layer > 0) inputs = rectified(inputs);
      const mask = layer > 0 && this.masked.length ? this.mask(layer - 1, noise[layer - 1]) : null;
      const entered = mask ? multiplied(inputs, mask.values) : inputs;
      const outputs = this.linear(layer, entered, x.length);
      found.push({ inputs, entered, mask, outputs });
      inputs = outputs;
    }
    return found;
  }

  private linear(layer: number, entered: Float64Array, rows: number): Float64Array {
    const [inputs, outputs] = [this.sizes[layer], this.sizes[layer + 1]];
    const biases = this.parameters.biases[layer];
    const byInput = transposed(this.parameters.weights[layer], outputs, inputs);
    const made = new Float64Array(rows * outputs);
    for (let row = 0; row < rows; row++) {
      made.set(biases, row * outputs);
      for (let input = 0; input < inputs; input++) {
        const factor = entered[row * inputs + input];
        if (factor === 0) continue; // a unit that is dropped, or not active
        for (let output = 0; output < outputs; output++) {
          made[row * outputs + output] += factor * byInput[input * outputs + output];
        }
      }
    }
    return made;
  }

  /** What multiplies each input, and its derivative by the logit. */
  private mask(number: number, uniforms: Float64Array): Mask {
    const logit = this.parameters.logits[number];
    const keep = sigmoid(logit);
    const values = new Float64Array(uniforms.length);
    if (this.method === "dropout") {
      for (let i = 0; i < values.length; i++) values[i] = uniforms[i] < keep ? 1 / keep : 0;
      return { values, slopes: null };
    }
    const slopes = new Float64Array(uniforms.length);
    for (let i = 0; i < uniforms.length; i++) {
      const u = Math.min(Math.max(uniforms[i], Number.EPSILON), 1 - Number.EPSILON);
      const soft = sigmoid((logit + Math.log(u / (1 - u))) / TEMPERATURE);
      values[i] = soft / keep;
      slopes[i] = (soft * (1 - soft)) / TEMPERATURE / keep - values[i] * (1 - keep);
    }
    return { values, slopes };
  }

  private backward(
    number: number, layer: Layer, rows: number, gradient: Float64Array, slopes: Parameters,
  ): Float64Array<ArrayBuffer> {
    const [inputs, outputs] = [this.sizes[number], this.sizes[number + 1]];
    const [weights, ofWeights] = [this.parameters.weights[number], slopes.weights[number]];
    const before = new Float64Array(rows * inputs);
    for (let row = 0; row < rows; row++) {
      for (let output = 0; output < outputs; output++) {
        const g = gradient[row * outputs + output];
        if (g === 0) continue;
        slopes.biases[number][output] += g;
        for (let input = 0; input < inputs; input++) {
          ofWeights[output * inputs + input] += g * layer.entered[row * inputs + input];
          before[row * inputs + input] += g * weights[output * inputs + input];
        }
      }
    }
    if (number === 0) return before;
    const { mask } = layer;
    for (let i = 0; i < before.length; i++) {
      if (mask?.slopes) slopes.logits[number - 1] += before[i] * layer.inputs[i] * mask.slopes[i];
      before[i] = layer.inputs[i] > 0 ? before[i] * (mask ? mask.values[i] : 1) : 0;
    }
    return before;
  }

  /** KL/N of a masked layer: ℓ²‖W‖²/(2·keep), less the entropy of a rate that is learned. */
  private divergence(mask: number, rows: number, slopes: Parameters): number {
    const weights = this.parameters.weights[mask + 1];
    const logit = this.parameters.logits[mask];
    const keep = sigmoid(logit);
    const scale = this.lengthScale ** 2 / keep;
    let norm = 0;
    for (let i = 0; i < weights.length; i++) {
      norm += weights[i] * weights[i];
      slopes.weights[mask + 1][i] += (weights[i] * scale) / rows;
    }
    const ofNorm = 0.5 * scale * norm;
    if (this.method !== "concrete") return ofNorm / rows;
    const units = this.masked[mask];
    slopes.logits[mask] += ((units * logit * keep - ofNorm) * (1 - keep)) / rows;
    return (ofNorm - units * (softplus(logit) - logit * keep)) / rows;
  }
}

interface Mask {
  readonly values: Float64Array;
  readonly slopes: Float64Array | null;
}

interface Layer {
  readonly inputs: Float64Array;
  readonly entered: Float64Array;
  readonly mask: Mask | null;
  readonly outputs: Float64Array;
}

function rectified(x: Float64Array): Float64Array {
  const made = new Float64Array(x.length);
  for (let i = 0; i < x.length; i++) if (x[i] > 0) made[i] = x[i];
  return made;
}

/** Rows times factors, which have as many rows or one for all. */
function multiplied(x: Float64Array, factors: Float64Array): Float64Array {
  const made = new Float64Array(x.length);
  for (let start = 0; start < x.length; start += factors.length) {
    for (let i = 0; i < factors.length; i++) made[start + i] = x[start + i] * factors[i];
  }
  return made;
}

function transposed(weights: Float64Array, outputs: number, inputs: number): Float64Array {
  const made = new Float64Array(weights.length);
  for (let output = 0; output < outputs; output++) {
    for (let input = 0; input < inputs; input++) made[input * outputs + output] = weights[output * inputs + input];
  }
  return made;
}
