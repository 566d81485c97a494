import { argmax, type Predictive } from "../predictive";
import { type Colours, disc, type Painting, trace } from "../ui/canvas";
import { CLASSES } from "./reader";

const MARGIN = { left: 34, right: 10, top: 14, bottom: 26 };

/** A dot for every draw and class at its probability, and a bar at the mean. */
export function paintDots(
  context: CanvasRenderingContext2D,
  colours: Colours,
  { width, height }: Painting,
  found: Predictive | null,
): void {
  const y = grid(context, colours, width, height);
  const column = (width - MARGIN.left - MARGIN.right) / CLASSES;
  const best = found ? argmax(found.mean) : -1;
  context.textAlign = "center";
  for (let label = 0; label < CLASSES; label++) {
    const middle = MARGIN.left + (label + 0.5) * column;
    context.fillStyle = label === best ? colours.ink : colours.quiet;
    context.font = `${label === best ? 600 : 400} 14px ui-sans-serif, system-ui, sans-serif`;
    context.fillText(String(label), middle, height - 7);
    if (!found) continue;
    const draws = found.draws.length / CLASSES;
    context.fillStyle = label === best ? colours.accent : colours.quiet;
    context.globalAlpha = Math.max(0.25, Math.min(0.75, 30 / draws));
    for (let draw = 0; draw < draws; draw++) {
      const aside = (((draw * 0.618034) % 1) - 0.5) * column * 0.62; // spread evenly
      disc(context, middle + aside, y(found.draws[draw * CLASSES + label]), 2.6);
    }
    context.globalAlpha = 1;
    context.fillStyle = colours.ink;
    context.fillRect(middle - column * 0.38, y(found.mean[label]) - 1, column * 0.76, 2);
  }
}

/** A line for every draw: the probability of one class as the drawing turns. */
export function paintTurning(
  context: CanvasRenderingContext2D,
  colours: Colours,
  { width, height }: Painting,
  turns: readonly number[],
  lines: readonly Float64Array[],
  here: number,
): void {
  const y = grid(context, colours, width, height);
  const [first, last] = [turns[0], turns[turns.length - 1]];
  const x = (turn: number): number => MARGIN.left + 8 + ((turn - first) / (last - first)) * (width - MARGIN.left - MARGIN.right - 16);
  context.textAlign = "center";
  context.fillStyle = colours.quiet;
  for (const turn of turns) {
    if (turn % (width < 500 ? 90 : 30)) continue;
    context.fillText(`${String(turn).replace("-", "−")}°`, x(turn), height - 7);
  }
  if (!lines.length) return;
  context.strokeStyle = colours.line;
  context.setLineDash([4, 4]);
  trace(context, [[x(here), y(0)], [x(here), y(1)]]);
  context.setLineDash([]);
  context.strokeStyle = colours.accent;
  context.globalAlpha = 0.35;
  context.lineWidth = 1.25;
  for (const line of lines) trace(context, turns.map((turn, i) => [x(turn), y(line[i])] as const));
  context.globalAlpha = 1;
  context.strokeStyle = colours.ink;
  context.lineWidth = 2.25;
  const mean = turns.map((_, i) => lines.reduce((sum, line) => sum + line[i], 0) / lines.length);
  trace(context, turns.map((turn, i) => [x(turn), y(mean[i])] as const));
}

/** Lines at probabilities of 0, ½ and 1; where a probability lies. */
function grid(
  context: CanvasRenderingContext2D, colours: Colours, width: number, height: number,
): (p: number) => number {
  const y = (p: number): number => height - MARGIN.bottom - p * (height - MARGIN.top - MARGIN.bottom);
  context.textAlign = "right";
  context.fillStyle = colours.quiet;
  context.strokeStyle = colours.line;
  context.lineWidth = 1;
  for (const p of [0, 0.5, 1]) {
    trace(context, [[MARGIN.left, y(p)], [width - MARGIN.right, y(p)]]);
    context.fillText(p === 0.5 ? "½" : String(p), MARGIN.left - 8, y(p) + 4);
  }
  return y;
}
