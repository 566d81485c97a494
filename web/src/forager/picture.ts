import { type Colours, disc, type Painting, trace } from "../ui/canvas";
import { percent } from "../ui/elements";
import type { Council } from "./agent";
import { ANGLES, NOTHING } from "./sight";
import { APPLE, RADIUS, WALLS, WIDTH, type World } from "./world";

/** Moves as a forager sees them, from left to right: their numbers and names. */
export const MOVES: readonly (readonly [number, string, string])[] = [
  [4, "↰", "turn left"],
  [1, "↖", "bear left"],
  [0, "↑", "go straight"],
  [2, "↗", "bear right"],
  [3, "↱", "turn right"],
];

/** The world with everything in it. */
export function paintWorld(context: CanvasRenderingContext2D, colours: Colours, { width }: Painting, world: World): void {
  const scale = width / WIDTH;
  context.scale(scale, scale);
  const { x, y, angle } = world.pose;
  world.sight.forEach(({ kind, distance }, eye) => {
    const direction = angle + ANGLES[eye];
    context.strokeStyle = kind === APPLE ? colours.accent : kind === NOTHING ? colours.shared : colours.quiet;
    context.lineWidth = kind === NOTHING ? 1.25 : 2;
    trace(context, [[x, y], [x + distance * Math.sin(direction), y + distance * Math.cos(direction)]]);
  });
  context.strokeStyle = colours.ink;
  context.lineWidth = 3;
  for (const wall of WALLS) trace(context, [[wall.x, wall.y], [wall.x + wall.alongX, wall.y + wall.alongY]]);
  for (const item of world.items) {
    if (item.kind === APPLE) {
      context.fillStyle = colours.accent;
      disc(context, item.x, item.y, RADIUS - 1);
    } else {
      context.strokeStyle = colours.ink;
      context.lineWidth = 2;
      context.beginPath();
      context.arc(item.x, item.y, RADIUS - 2, 0, 2 * Math.PI);
      context.stroke();
      trace(context, [[item.x - 4, item.y - 4], [item.x + 4, item.y + 4]]);
      trace(context, [[item.x + 4, item.y - 4], [item.x - 4, item.y + 4]]);
    }
  }
  context.fillStyle = colours.ink;
  disc(context, x, y, RADIUS + 1);
  context.fillStyle = colours.paper;
  disc(context, x + 5 * Math.sin(angle), y + 5 * Math.cos(angle), 3.5);
}

/** A dot for every function and move at the value it gives, and the share of votes below. */
export function paintVotes(context: CanvasRenderingContext2D, colours: Colours, { width, height }: Painting, council: Council): void {
  const column = width / MOVES.length;
  const [top, bottom] = [14, height - 58];
  const actions = MOVES.length;
  const least = Math.min(...council.values);
  const most = Math.max(...council.values, least + 0.5);
  const y = (value: number): number => bottom - ((value - least) / (most - least)) * (bottom - top);
  const functions = council.values.length / actions;
  context.textAlign = "center";
  MOVES.forEach(([action, arrow], place) => {
    const middle = (place + 0.5) * column;
    const chosen = action === council.action;
    context.fillStyle = chosen ? colours.accent : colours.quiet;
    context.globalAlpha = chosen ? 0.8 : 0.5;
    for (let k = 0; k < functions; k++) {
      const aside = (((k * 0.618034) % 1) - 0.5) * column * 0.6;
      disc(context, middle + aside, y(council.values[k * actions + action]), 2.6);
    }
    context.globalAlpha = 1;
    context.fillStyle = colours.faint;
    context.fillRect(middle - column * 0.38, height - 46, column * 0.76, 6);
    context.fillStyle = chosen ? colours.accent : colours.shared;
    context.fillRect(middle - column * 0.38, height - 46, column * 0.76 * council.votes[action], 6);
    context.fillStyle = chosen ? colours.ink : colours.quiet;
    context.font = `${chosen ? 600 : 400} 12px ui-sans-serif, system-ui, sans-serif`;
    context.fillText(percent(council.votes[action]), middle, height - 26);
    context.font = "15px ui-sans-serif, system-ui, sans-serif";
    context.fillText(arrow, middle, height - 8);
  });
}
