import { depthOfWall, type Item, type Pose, RADIUS, RANGE, WALLS } from "./world";

export const NOTHING = -1;
export const WALL = 0;
export const EYES = 9;
/** Of each eye, against the direction of the forager: from −0.75 to 1.25, which is not symmetric. */
export const ANGLES: readonly number[] = Array.from({ length: EYES }, (_, eye) => (eye - 3) * 0.25);

/** What each eye sees: 0 a wall, 1 an apple, 2 poison, −1 nothing; and how far away. */
export type Sight = readonly { readonly kind: number; readonly distance: number }[];

/**
 * What each eye sees first on its ray. Of a wall and an item that are equally near, the wall is seen;
 * of two walls or items the first.
 *
 * An item is seen if its centre is at most 10 from the line of the ray. The place where it is seen is
 * the centre moved by that distance along the normal (dy, −dx), always to the same side, as in the
 * original.
 */
export function look(pose: Pose, items: readonly Item[]): Sight {
  const { x, y, angle } = pose;
  return ANGLES.map((own) => {
    const dx = x + RANGE * Math.sin(angle + own) - x;
    const dy = y + RANGE * Math.cos(angle + own) - y;
    let [kind, distance, depth] = [NOTHING, RANGE, Infinity];
    for (const wall of WALLS) depth = Math.min(depth, depthOfWall(x, y, dx, dy, wall));
    if (depth < Infinity) {
      const [offX, offY] = [x + depth * dx - x, y + depth * dy - y];
      [kind, distance] = [WALL, Math.sqrt(offX * offX + offY * offY)];
    }
    const length = Math.sqrt(dy * dy + dx * dx);
    const wide = Math.abs(dx) > Math.abs(dy);
    for (const item of items) {
      const [fromX, fromY] = [x - item.x, y - item.y];
      const beside = Math.abs(dx * fromY - fromX * dy) / length;
      if (beside > RADIUS) continue;
      const offX = item.x + dy * (1 / length) * beside - x;
      const offY = item.y + -dx * (1 / length) * beside - y;
      const along = wide ? offX / dx : offY / dy;
      if (along > 0 && along < 1 && along < depth) {
        depth = along;
        [kind, distance] = [item.kind, Math.sqrt(offX * offX + offY * offY)];
      }
    }
    return { kind, distance };
  });
}

/** What a network gets: wall, apple and poison for each eye; distance / 85 for what it sees, else 1. */
export function senses(sight: Sight): Float32Array {
  const numbers = new Float32Array(3 * EYES).fill(1);
  sight.forEach(({ kind, distance }, eye) => {
    if (kind !== NOTHING) numbers[3 * eye + kind] = distance / RANGE;
  });
  return numbers;
}
