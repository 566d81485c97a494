import { type Colours, disc, type Painting, trace } from "../ui/canvas";

/** A point on the plane. */
export interface Point {
  readonly x: number;
  readonly y: number;
}

export const SPAN = { x: 3, y: 2.2 }; // the plane goes from minus to plus this
const FUNCTIONS = 12; // that are drawn one by one

/** Where a point of the plane lies on a canvas of some size, and back. */
export class Plane {
  constructor(private readonly width: number, private readonly height: number) {}

  at(x: number, y: number): readonly [number, number] {
    return [((x / SPAN.x + 1) / 2) * this.width, ((1 - y / SPAN.y) / 2) * this.height];
  }

  under(left: number, top: number): Point {
    return { x: ((2 * left) / this.width - 1) * SPAN.x, y: (1 - (2 * top) / this.height) * SPAN.y };
  }
}

/** What the plane shows. */
export interface Belief {
  readonly places: Float64Array;
  readonly functions: readonly Float64Array[];
  readonly noise: number; // standard deviation of observations
}

/** Mean and deviation of functions at every place. */
export function moments(functions: readonly Float64Array[]): { mean: Float64Array; deviation: Float64Array } {
  const mean = new Float64Array(functions[0].length);
  const deviation = new Float64Array(mean.length);
  for (const values of functions) values.forEach((value, i) => (mean[i] += value / functions.length));
  for (const values of functions) values.forEach((value, i) => (deviation[i] += (value - mean[i]) ** 2 / functions.length));
  return { mean, deviation: deviation.map(Math.sqrt) };
}

/** Bands of two deviations, some functions, the mean, the points and a cross. */
export function paintPlane(
  context: CanvasRenderingContext2D,
  colours: Colours,
  { width, height }: Painting,
  belief: Belief | null,
  points: readonly Point[],
  cross: Point | null,
): void {
  const plane = new Plane(width, height);
  context.strokeStyle = colours.line;
  context.lineWidth = 1;
  trace(context, [plane.at(-SPAN.x, 0), plane.at(SPAN.x, 0)]);
  if (belief) {
    const { places, functions, noise } = belief;
    const { mean, deviation } = moments(functions);
    const band = (half: (i: number) => number): void => {
      context.beginPath();
      places.forEach((x, i) => context.lineTo(...plane.at(x, mean[i] + half(i))));
      for (let i = places.length - 1; i >= 0; i--) context.lineTo(...plane.at(places[i], mean[i] - half(i)));
      context.closePath();
      context.fill();
    };
    context.fillStyle = colours.soft;
    band((i) => 2 * Math.hypot(deviation[i], noise));
    band((i) => 2 * deviation[i]);
    context.strokeStyle = colours.accent;
    context.globalAlpha = 0.55;
    context.lineWidth = 1;
    for (const values of functions.slice(0, FUNCTIONS)) {
      trace(context, Array.from(places, (x, i) => plane.at(x, values[i])));
    }
    context.globalAlpha = 1;
    context.strokeStyle = colours.ink;
    context.lineWidth = 2.25;
    trace(context, Array.from(places, (x, i) => plane.at(x, mean[i])));
  }
  for (const point of points) {
    context.fillStyle = colours.paper;
    disc(context, ...plane.at(point.x, point.y), 6.5);
    context.fillStyle = colours.ink;
    disc(context, ...plane.at(point.x, point.y), 4.5);
  }
  if (cross) {
    const [x, y] = plane.at(cross.x, cross.y);
    context.strokeStyle = colours.accent;
    context.lineWidth = 2;
    trace(context, [[x - 12, y], [x + 12, y]]);
    trace(context, [[x, y - 12], [x, y + 12]]);
  }
}
