import type { Stroke } from "./strokes";

/** Pixels of a side of a drawing that is read. */
export const SIDE = 140;
const PEN = 0.04; // half its width, in sides
const PICTURE = 28;

/** What is on the pad: strokes, or a picture of 28 × 28 pixels, turned and blurred. */
export interface Drawing {
  readonly strokes: readonly Stroke[];
  readonly picture: Float32Array | null;
  readonly turn: number; // degrees, clockwise
  readonly blur: number; // standard deviation, in sides
  readonly example: boolean; // not drawn by the visitor
}

export const EMPTY: Drawing = { strokes: [], picture: null, turn: 0, blur: 0, example: false };

/** Whether there is nothing to be read. */
export function isEmpty(drawing: Drawing): boolean {
  return drawing.strokes.length === 0 && drawing.picture === null;
}

/** The last stroke goes; of a single one, its last third, until it is as short as the pen is wide. */
export function eraseStroke(drawing: Drawing): Drawing {
  const kept = drawing.strokes.slice(0, -1);
  const last = drawing.strokes.at(-1);
  if (kept.length || !last) return { ...drawing, strokes: kept };
  if (lengthsOf(last).reduce((a, b) => a + b, 0) < 2 * PEN) return { ...drawing, strokes: [] };
  return { ...drawing, strokes: [resampled(last, 30).slice(0, 20)] };
}

/** Ink from 0 to 1, (side × side). */
export function rendered(drawing: Drawing, side = SIDE): Float32Array {
  const ink = drawing.picture ? turnedPicture(drawing.picture, drawing.turn, side) : new Float32Array(side * side);
  const strokes = drawing.turn ? fitted(drawing.strokes.map((stroke) => turned(stroke, drawing.turn))) : drawing.strokes;
  for (const stroke of strokes) addStroke(ink, stroke, side);
  return drawing.blur > 0 ? blurred(ink, drawing.blur * side, side) : ink;
}

function turned(stroke: Stroke, degrees: number): Stroke {
  const [cos, sin] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)];
  return stroke.map(([x, y]) => [
    0.5 + cos * (x - 0.5) - sin * (y - 0.5),
    0.5 + sin * (x - 0.5) + cos * (y - 0.5),
  ] as const);
}

/** Made smaller about the middle, if lines would leave the pad. */
function fitted(strokes: readonly Stroke[]): readonly Stroke[] {
  const farthest = Math.max(0, ...strokes.flat(2).map((place) => Math.abs(place - 0.5)));
  const scale = Math.min(1, (0.5 - 1.25 * PEN) / farthest);
  return strokes.map((stroke) => stroke.map(([x, y]) => [0.5 + scale * (x - 0.5), 0.5 + scale * (y - 0.5)] as const));
}

/** Lengths of the pieces of a line. */
function lengthsOf(stroke: Stroke): number[] {
  return stroke.slice(1).map(([x, y], i) => Math.hypot(x - stroke[i][0], y - stroke[i][1]));
}

/** Equally spaced points of a line. */
function resampled(stroke: Stroke, count: number): Stroke {
  const lengths = lengthsOf(stroke);
  const total = lengths.reduce((a, b) => a + b, 0);
  return Array.from({ length: count }, (_, number) => {
    let left = (total * number) / (count - 1);
    let piece = 0;
    while (piece < lengths.length - 1 && left > lengths[piece]) left -= lengths[piece++];
    const share = lengths[piece] ? Math.min(1, left / lengths[piece]) : 0;
    const [from, to] = [stroke[piece], stroke[Math.min(piece + 1, stroke.length - 1)]];
    return [from[0] + share * (to[0] - from[0]), from[1] + share * (to[1] - from[1])] as const;
  });
}

/** Ink within the pen's reach of a line, with edges of one pixel. */
function addStroke(ink: Float32Array, stroke: Stroke, side: number): void {
  const pen = PEN * side;
  const points = stroke.length === 1 ? [stroke[0], stroke[0]] : stroke;
  for (let i = 1; i < points.length; i++) {
    const [ax, ay] = [points[i - 1][0] * side, points[i - 1][1] * side];
    const [bx, by] = [points[i][0] * side, points[i][1] * side];
    const squared = (bx - ax) ** 2 + (by - ay) ** 2;
    const reach = pen + 1;
    const [left, right] = [Math.max(0, Math.floor(Math.min(ax, bx) - reach)), Math.min(side - 1, Math.ceil(Math.max(ax, bx) + reach))];
    const [top, bottom] = [Math.max(0, Math.floor(Math.min(ay, by) - reach)), Math.min(side - 1, Math.ceil(Math.max(ay, by) + reach))];
    for (let y = top; y <= bottom; y++) {
      for (let x = left; x <= right; x++) {
        const [px, py] = [x + 0.5 - ax, y + 0.5 - ay];
        const along = squared ? Math.min(1, Math.max(0, (px * (bx - ax) + py * (by - ay)) / squared)) : 0;
        const distance = Math.sqrt((px - along * (bx - ax)) ** 2 + (py - along * (by - ay)) ** 2);
        const shade = Math.min(1, Math.max(0, pen + 0.5 - distance));
        if (shade > ink[y * side + x]) ink[y * side + x] = shade;
      }
    }
  }
}

/** A small picture on the pad, turned about its middle. */
function turnedPicture(picture: Float32Array, degrees: number, side: number): Float32Array {
  const ink = new Float32Array(side * side);
  const [cos, sin] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)];
  const scale = PICTURE / side;
  for (let y = 0; y < side; y++) {
    for (let x = 0; x < side; x++) {
      const [dx, dy] = [x + 0.5 - side / 2, y + 0.5 - side / 2];
      ink[y * side + x] = between(
        picture,
        (cos * dx + sin * dy) * scale + PICTURE / 2 - 0.5,
        (-sin * dx + cos * dy) * scale + PICTURE / 2 - 0.5,
      );
    }
  }
  return ink;
}

/** Between four pixels; outside there is none. */
function between(picture: Float32Array, x: number, y: number): number {
  const [left, top] = [Math.floor(x), Math.floor(y)];
  const at = (column: number, row: number): number =>
    column < 0 || row < 0 || column >= PICTURE || row >= PICTURE ? 0 : picture[row * PICTURE + column];
  const [right, low] = [x - left, y - top];
  return (
    (at(left, top) * (1 - right) + at(left + 1, top) * right) * (1 - low) +
    (at(left, top + 1) * (1 - right) + at(left + 1, top + 1) * right) * low
  );
}

/** A Gaussian blur: along rows, then along columns. */
function blurred(ink: Float32Array, deviation: number, side: number): Float32Array {
  const reach = Math.ceil(3 * deviation);
  const weights = Array.from({ length: 2 * reach + 1 }, (_, i) => Math.exp(-0.5 * ((i - reach) / deviation) ** 2));
  const sum = weights.reduce((a, b) => a + b, 0);
  const along = (from: Float32Array, step: number, across: number): Float32Array => {
    const made = new Float32Array(from.length);
    for (let line = 0; line < side; line++) {
      for (let place = 0; place < side; place++) {
        const value = from[line * across + place * step];
        if (!value) continue;
        for (let i = Math.max(-reach, -place); i <= Math.min(reach, side - 1 - place); i++) {
          made[line * across + (place + i) * step] += (value * weights[i + reach]) / sum;
        }
      }
    }
    return made;
  };
  return along(along(ink, 1, side), side, 1);
}
