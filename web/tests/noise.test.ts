import { expect, test } from "vitest";
import fixture from "../fixtures/noise.json";
import { keyOf } from "../src/noise/key";
import { fillBernoulli, fillNormal, fillUniform } from "../src/noise/philox";

const key = keyOf(BigInt(fixture.seed), fixture.site);
const size = fixture.uniform[0].length;

test.each([0, 1, 2, 3])("draw %i has dubio's numbers", (draw) => {
  const single = new Float32Array(size);
  const double = new Float64Array(size);
  fillUniform(key, fixture.first + draw, single);
  expect(Array.from(single)).toEqual(fixture.uniform[draw]);
  fillUniform(key, fixture.first + draw, double);
  expect(Array.from(double)).toEqual(fixture.uniform64[draw]);
  fillBernoulli(key, fixture.first + draw, fixture.keep, 1, single);
  expect(Array.from(single)).toEqual(fixture.bernoulli[draw]);
  fillNormal(key, fixture.first + draw, single);
  const errors = single.map((value, i) => Math.abs(value - fixture.normal[draw][i]));
  expect(Math.max(...errors)).toBeLessThan(2e-6);
});

test("rates of zero and one drop all and nothing", () => {
  const numbers = new Float32Array(5);
  fillBernoulli(key, 0, 1, 2, numbers);
  expect(Array.from(numbers)).toEqual([2, 2, 2, 2, 2]);
  fillBernoulli(key, 0, 0, 2, numbers);
  expect(Array.from(numbers)).toEqual([0, 0, 0, 0, 0]);
});
