import { describe, expect, test } from "vitest";
import { EMPTY, eraseStroke, rendered, SIDE } from "../src/digits/drawing";
import { asMnist } from "../src/digits/pixels";
import { type Method, Reader, type Reading, SHIRTS } from "../src/digits/reader";
import { DIGITS, LETTERS } from "../src/digits/strokes";
import { predictive } from "../src/predictive";

const reading: Reading = { draws: 100, seed: 1n, shared: false };
const pixels = (drawing: Partial<typeof EMPTY>): Float32Array => asMnist(rendered({ ...EMPTY, ...drawing }))!;

describe("a drawing becomes what MNIST has", () => {
  test("in a box of 20 pixels around its centre of mass", () => {
    const field = pixels({ strokes: [[[0.2, 0.2], [0.2, 0.9]]] });
    const ink = [...field.keys()].filter((i) => field[i] > 0.02);
    const rows = ink.map((i) => Math.floor(i / 28));
    expect(Math.max(...rows) - Math.min(...rows) + 1).toBeGreaterThanOrEqual(20);
    expect(Math.max(...rows) - Math.min(...rows) + 1).toBeLessThanOrEqual(21);
    const mass = field.reduce((a, b) => a + b, 0);
    const middle = field.reduce((sum, value, i) => sum + value * ((i % 28) + 0.5), 0) / mass;
    expect(middle).toBeCloseTo(14, 1);
  });

  test("wherever on the pad it is", () => {
    const one = pixels({ strokes: [[[0.3, 0.3], [0.5, 0.6]]] });
    const other = pixels({ strokes: [[[0.4, 0.4], [0.6, 0.7]]] });
    expect(Math.max(...one.map((value, i) => Math.abs(value - other[i])))).toBeLessThan(0.02);
  });

  test("and nothing if there is no ink", () => {
    expect(asMnist(rendered(EMPTY))).toBeNull();
  });
});

test("ink is kept by a blur and by a turn", () => {
  const sum = (blur: number, turn: number): number => rendered({ ...EMPTY, strokes: DIGITS[3], blur, turn }).reduce((a, b) => a + b, 0);
  expect(sum(0.02, 0) / sum(0, 0)).toBeCloseTo(1, 2);
  expect(sum(0, 90) / sum(0, 0)).toBeCloseTo(1, 2);
  expect(rendered(EMPTY).length).toBe(SIDE * SIDE);
});

test("a large drawing stays on the pad when it turns", () => {
  const ink = rendered({ ...EMPTY, strokes: [[[0.05, 0.05], [0.95, 0.95]], [[0.05, 0.95], [0.95, 0.05]]], turn: 45 });
  const atEdge = (place: number): boolean => place === 0 || place === SIDE - 1;
  expect(ink.some((shade, i) => shade > 0 && (atEdge(i % SIDE) || atEdge(Math.floor(i / SIDE))))).toBe(false);
  expect(ink[70 * SIDE + 3]).toBeGreaterThan(0); // and is as large as it can be
});

test("erasing takes the last stroke, and a third of the only one", () => {
  expect(eraseStroke({ ...EMPTY, strokes: DIGITS[4] }).strokes).toEqual([DIGITS[4][0]]);
  const [left] = eraseStroke({ ...EMPTY, strokes: [[[0.5, 0], [0.5, 0.9]]] }).strokes;
  expect(left.at(-1)![1]).toBeCloseTo(0.59, 1);
  let drawing = { ...EMPTY, strokes: DIGITS[1] };
  for (let times = 0; times < 8; times++) drawing = { ...drawing, ...eraseStroke(drawing) };
  expect(drawing.strokes).toEqual([]);
});

test("doubt is split as in dubio", () => {
  const { mean, entropy, aleatoric, epistemic } = predictive(Float32Array.of(50, 0, 0, 50), 2);
  expect(Array.from(mean)).toEqual([0.5, 0.5]);
  expect(entropy).toBeCloseTo(Math.LN2);
  expect([aleatoric, epistemic]).toEqual([expect.closeTo(0), expect.closeTo(Math.LN2)]);
});

describe.each(["mc", "concrete", "bernoulli", "bayes"] as Method[])("%s", (method) => {
  const reader = new Reader(method);

  test("reads digits", () => {
    const right = DIGITS.filter((strokes, digit) => reader.decide(reader.read(pixels({ strokes }), reading)).digit === digit);
    expect(right.length).toBeGreaterThanOrEqual(9);
  });

  test("is sure of a one, and asks a human when it is turned by 60°", () => {
    const upright = reader.read(pixels({ strokes: DIGITS[1] }), reading);
    const turned = reader.read(pixels({ strokes: DIGITS[1], turn: 60 }), reading);
    expect(reader.decide(upright)).toMatchObject({ digit: 1, answered: true });
    expect(reader.decide(turned).answered).toBe(false);
    expect(turned.entropy).toBeGreaterThan(upright.entropy + 0.5);
    expect(turned.epistemic).toBeGreaterThan(upright.epistemic + 0.1);
  });

  test("asks a human about some letters and shirts", () => {
    const foreign = [...LETTERS.map(([, strokes]) => pixels({ strokes })), ...SHIRTS.map((picture) => pixels({ picture }))];
    const asked = foreign.filter((each) => !reader.decide(reader.read(each, reading)).answered);
    console.log(`${method} asks a human about ${asked.length} of ${foreign.length}`);
    expect(asked.length).toBeGreaterThan(foreign.length / 3);
  });
});
