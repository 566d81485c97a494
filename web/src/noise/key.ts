import type { Key } from "./philox";

const WORD = (1n << 64n) - 1n;

/** The key of a site under a seed, as `dubio.noise.numbers.mix` makes it (splitmix64's finaliser). */
export function keyOf(seed: bigint, site: readonly number[]): Key {
  let state = 0n;
  for (const word of [seed, ...site.map(BigInt)]) {
    state = ((state ^ (word & WORD)) + 0x9e3779b97f4a7c15n) & WORD;
    state = ((state ^ (state >> 30n)) * 0xbf58476d1ce4e5b9n) & WORD;
    state = ((state ^ (state >> 27n)) * 0x94d049bb133111ebn) & WORD;
    state ^= state >> 31n;
  }
  return { low: Number(state & 0xffffffffn), high: Number(state >> 32n) };
}
