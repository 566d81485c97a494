/**
 * The random numbers of dubio: a function of a key, a draw and the place of an entry.
 *
 * Philox4x32 with 7 rounds (Salmon et al. 2011). `src/dubio/native/philox.py` has the same in torch,
 * and docs/native.md says how the words lie. Zeros, ones and uniform numbers agree with dubio's bit
 * by bit, normal numbers up to rounding.
 */

const BLOCKS = 16; // of a tile
const WORDS = 4 * BLOCKS;
const HALVES = 2 * WORDS;
const HIGH_HALVES = 0;
const LOW_HALVES = 1;
const FOR_NORMALS = 2;
const ROUNDS = 7;

/** What tells the numbers of one site under one seed from all others: 64 bits. */
export interface Key {
  readonly low: number;
  readonly high: number;
}

/** Uniform numbers in [0, 1), 24 bits each as those of float32, or 32 as those of float64. */
export function fillUniform(key: Key, draw: number, out: Float32Array | Float64Array): void {
  const shift = out instanceof Float32Array ? 8 : 0;
  const scale = shift ? 2 ** -24 : 2 ** -32;
  const high = new Uint32Array(WORDS);
  const low = new Uint32Array(WORDS);
  for (let start = 0; start < out.length; start += HALVES) {
    fillTile(key, draw, HIGH_HALVES, start / HALVES, high);
    fillTile(key, draw, LOW_HALVES, start / HALVES, low);
    const stop = Math.min(HALVES, out.length - start);
    for (let entry = 0; entry < stop; entry++) {
      const bits = ((half(high, entry) << 16) | half(low, entry)) >>> 0;
      out[start + entry] = (bits >>> shift) * scale;
    }
  }
}

/** Zeros and ones, `P(one) = keep`, times a scale. */
export function fillBernoulli(
  key: Key,
  draw: number,
  keep: number,
  scale: number,
  out: Float32Array,
): void {
  if (keep <= 0 || keep >= 1) {
    out.fill(keep >= 1 ? scale : 0);
    return;
  }
  const limit = Math.max(1, Math.round(keep * 2 ** 32)) - 1; // the largest bits that are kept
  const high = new Uint32Array(WORDS);
  const low = new Uint32Array(WORDS);
  for (let start = 0; start < out.length; start += HALVES) {
    fillTile(key, draw, HIGH_HALVES, start / HALVES, high);
    fillTile(key, draw, LOW_HALVES, start / HALVES, low);
    const stop = Math.min(HALVES, out.length - start);
    for (let entry = 0; entry < stop; entry++) {
      const bits = ((half(high, entry) << 16) | half(low, entry)) >>> 0;
      out[start + entry] = bits <= limit ? scale : 0;
    }
  }
}

/** Standard normal numbers by Box and Muller (1958). */
export function fillNormal(key: Key, draw: number, out: Float32Array | Float64Array): void {
  const words = new Uint32Array(WORDS);
  const pairs = WORDS / 2;
  for (let start = 0; start < out.length; start += WORDS) {
    fillTile(key, draw, FOR_NORMALS, start / WORDS, words);
    for (let pair = 0; pair < pairs && start + pair < out.length; pair++) {
      const radius = Math.sqrt(-2 * Math.log(((words[pair] >>> 1) + 0.5) * 2 ** -31));
      const second = words[pairs + pair];
      const angle = (second << 2) * ((Math.PI / 2) * 2 ** -32); // with a sign
      const quarter = second >>> 30;
      const [sine, cosine] = [Math.sin(angle), Math.cos(angle)];
      const [x, y] = quarter % 2 === 1 ? [sine, cosine] : [cosine, sine];
      out[start + pair] = radius * (quarter === 1 || quarter === 2 ? -x : x);
      if (start + pairs + pair < out.length) {
        out[start + pairs + pair] = radius * (quarter >= 2 ? -y : y);
      }
    }
  }
}

/** 16 of the bits of an entry of a tile. */
function half(words: Uint32Array, entry: number): number {
  const word = words[entry >> 1];
  return entry & 1 ? word >>> 16 : word & 0xffff;
}

/** The 64 words of sixteen blocks: first and second words of each block, then third and fourth. */
function fillTile(key: Key, draw: number, purpose: number, tile: number, out: Uint32Array): void {
  for (let block = 0; block < BLOCKS; block++) {
    let a = (tile * BLOCKS + block) >>> 0;
    let b = 0;
    let c = draw >>> 0;
    let d = purpose;
    let low = key.low;
    let high = key.high;
    for (let round = 0; round < ROUNDS; round++) {
      const p = highProduct(a, 0xd2511f53);
      const q = highProduct(c, 0xcd9e8d57);
      const pLow = Math.imul(a, 0xd2511f53);
      const qLow = Math.imul(c, 0xcd9e8d57);
      a = (q ^ b ^ low) >>> 0;
      b = qLow;
      c = (p ^ d ^ high) >>> 0;
      d = pLow;
      low = (low + 0x9e3779b9) >>> 0;
      high = (high + 0xbb67ae85) >>> 0;
    }
    out[2 * block] = a;
    out[2 * block + 1] = b;
    out[2 * BLOCKS + 2 * block] = c;
    out[2 * BLOCKS + 2 * block + 1] = d;
  }
}

/** The upper 32 bits of a product of two words, by halves. */
function highProduct(one: number, other: number): number {
  const a = one & 0xffff;
  const b = one >>> 16;
  const c = other & 0xffff;
  const d = other >>> 16;
  const low = a * c;
  const middle = b * c + (low >>> 16);
  const cross = a * d + (middle & 0xffff);
  return (b * d + (middle >>> 16) + (cross >>> 16)) >>> 0;
}
