import { describe, expect, test } from "vitest";
import fixture from "../fixtures/curve.json";
import { Adam } from "../src/curve/adam";
import { CurveLearner, SETTINGS } from "../src/curve/learner";
import { CurveNetwork, type Parameters, type Uniforms } from "../src/curve/network";
import { keyOf } from "../src/noise/key";
import { fillUniform } from "../src/noise/philox";

const x = Float64Array.from(fixture.x);
const y = Float64Array.from(fixture.y);
const sizes = [1, fixture.hidden, fixture.hidden, 1];
const numbers = (state: { weights: number[][]; biases: number[][]; logits: number[] }): Parameters => ({
  weights: state.weights.map((each) => Float64Array.from(each)),
  biases: state.biases.map((each) => Float64Array.from(each)),
  logits: Float64Array.from(state.logits),
});
const flat = ({ weights, biases, logits }: Parameters): number[] => [...weights, ...biases, logits].flatMap((each) => [...each]);
const uniforms = (seed: string, draw: number, rows: number): Uniforms =>
  [0, 1].map((mask) => {
    const made = new Float64Array(rows * fixture.hidden);
    fillUniform(keyOf(BigInt(seed), [mask, 0]), draw, made);
    return made;
  });
const farthest = (a: ArrayLike<number>, b: ArrayLike<number>): number =>
  Math.max(...Array.from(a, (value, i) => Math.abs(value - b[i])));

describe.each(["dropout", "concrete"] as const)("%s", (method) => {
  const known = fixture.methods[method];
  const made = (state: typeof known.start) => new CurveNetwork(sizes, method, fixture.length_scale, numbers(state));

  test("learns what dubio learns under the same noise", () => {
    const network = made(known.start);
    const { weights, biases, logits } = network.parameters;
    const moved = [...weights, ...biases, ...(method === "concrete" ? [logits] : [])];
    const adam = new Adam(moved, fixture.learning_rate);
    known.seeds.forEach((seed, step) => {
      const slopes = numbers({ weights: known.start.weights.map((w) => w.map(() => 0)), biases: known.start.biases.map((b) => b.map(() => 0)), logits: [0, 0] });
      const loss = network.loss(x, y, fixture.precision, uniforms(seed, 0, x.length), slopes);
      expect(loss).toBeCloseTo(known.losses[step], 8);
      adam.step([...slopes.weights, ...slopes.biases, ...(method === "concrete" ? [slopes.logits] : [])]);
    });
    expect(farthest(flat(network.parameters), flat(numbers(known.end)))).toBeLessThan(1e-8);
  });

  test.each(["apart", "shared"] as const)("draws what dubio draws, masks %s", (how) => {
    const network = made(known.end);
    known[how].forEach((outputs, draw) => {
      const found = network.forward(x, uniforms(known.seed, draw, how === "shared" ? 1 : x.length));
      expect(farthest(found, outputs)).toBeLessThan(1e-9);
    });
  });
});

test.each(["dropout", "concrete", "ensemble"] as const)("%s doubts more where there is no point", (method) => {
  const learner = new CurveLearner({ ...SETTINGS, method }, 1n);
  const places = Float64Array.from([...Array(20).keys()].map((i) => -2 + i / 10));
  const heights = places.map((place) => Math.sin(2 * place));
  for (let step = 0; step < 600; step++) learner.step(places, heights);
  const spread = (at: number): number => {
    const values = learner.functions(Float64Array.of(at), 50, true).map(([value]) => value);
    const mean = values.reduce((a, b) => a + b) / values.length;
    return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length);
  };
  expect(spread(3)).toBeGreaterThan(2 * spread(-1));
  const mean = learner.functions(Float64Array.of(-1), 50, true).reduce((sum, [value]) => sum + value, 0);
  const count = method === "ensemble" ? SETTINGS.members : 50;
  expect(Math.abs(mean / count - Math.sin(-2))).toBeLessThan(0.25);
});
