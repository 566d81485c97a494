import { SIDE } from "./drawing";

const FIELD = 28;
const BOX = 20;
const FAINT = 0.05;

/**
 * Ink as MNIST has its digits: no larger than 20 × 20 pixels, with its centre of mass in the middle of
 * 28 × 28 (LeCun et al. 1998). Null if there is no ink.
 */
export function asMnist(ink: Float32Array): Float32Array | null {
  let [left, right, top, bottom] = [SIDE, -1, SIDE, -1];
  let [mass, massX, massY] = [0, 0, 0];
  for (let y = 0; y < SIDE; y++) {
    for (let x = 0; x < SIDE; x++) {
      const value = ink[y * SIDE + x];
      if (value < FAINT) continue;
      [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
      mass += value;
      massX += value * (x + 0.5);
      massY += value * (y + 0.5);
    }
  }
  if (mass === 0) return null;
  const cell = (Math.max(right - left, bottom - top) + 1) / BOX; // pixels of the pad to one of the field
  const [startX, startY] = [massX / mass - (FIELD / 2) * cell, massY / mass - (FIELD / 2) * cell];
  const field = new Float32Array(FIELD * FIELD);
  for (let row = 0; row < FIELD; row++) {
    for (let column = 0; column < FIELD; column++) {
      field[row * FIELD + column] = average(ink, startX + column * cell, startY + row * cell, cell);
    }
  }
  return field;
}

/** The mean ink of a square, of whose border pixels a share counts. */
function average(ink: Float32Array, left: number, top: number, side: number): number {
  let sum = 0;
  for (let y = Math.max(0, Math.floor(top)); y < Math.min(SIDE, top + side); y++) {
    const height = Math.min(y + 1, top + side) - Math.max(y, top);
    for (let x = Math.max(0, Math.floor(left)); x < Math.min(SIDE, left + side); x++) {
      sum += ink[y * SIDE + x] * height * (Math.min(x + 1, left + side) - Math.max(x, left));
    }
  }
  return Math.min(1, sum / (side * side));
}
