/**
 * The world of Gal and Ghahramani 2016, figure 5: a forager among walls, apples and poison.
 *
 * The physics are those of Karpathy's demonstration (ConvNetJS, `rldemo.js`), in the order of
 * operations of `dubio_studies.worlds`. Lengths are in pixels, y points down.
 */
import { look, type Sight, WALL } from "./sight";

export const WIDTH = 700;
export const HEIGHT = 500;
export const RADIUS = 10; // of the forager and of items
export const CAPACITY = 30; // items at the start, and at most
export const RANGE = 85; // of eyes
export const APPLE = 1;
export const POISON = 2;
export const START: Pose = { x: 50, y: 50, angle: 0 };
/** How far each action turns the two wheels. */
export const WHEELS: readonly (readonly [number, number])[] = [[1, 1], [0.8, 1], [1, 0.8], [0.5, 0], [0, 0.5]];

const FORWARD = 0;
const TURN = 2 * Math.PI;

/** Where the forager is; it looks along (sin angle, cos angle). */
export interface Pose {
  readonly x: number;
  readonly y: number;
  readonly angle: number;
}

/** An apple or poison. */
export interface Item {
  readonly x: number;
  readonly y: number;
  readonly kind: number;
  age: number; // ticks
}

/** A line that nothing crosses, from (x, y) on. */
export interface Wall {
  readonly x: number;
  readonly y: number;
  readonly alongX: number;
  readonly alongY: number;
}

export const WALLS: readonly Wall[] = [
  ...box(10, 10, WIDTH - 20, HEIGHT - 20),
  ...box(100, 100, 200, 300).slice(0, 3), // open to the left
  ...box(400, 100, 200, 300).slice(0, 3),
];

function box(x: number, y: number, width: number, height: number): Wall[] {
  const [right, bottom] = [x + width, y + height];
  const lines = [[x, y, right, y], [right, y, right, bottom], [right, bottom, x, bottom], [x, bottom, x, y]];
  return lines.map(([fromX, fromY, toX, toY]) => ({ x: fromX, y: fromY, alongX: toX - fromX, alongY: toY - fromY }));
}

/** What a tick was worth: how open the view is as in Gal's figure, or as in Karpathy's demonstration. */
export type Reward = "gal" | "karpathy";

/** A forager in a world of its own. */
export class World {
  clock = 0;
  pose: Pose = START;
  items: Item[];
  sight: Sight;
  apples = 0;
  poison = 0;

  constructor(private readonly random: () => number, private readonly reward: Reward = "gal") {
    this.items = Array.from({ length: CAPACITY }, () => this.newItem());
    this.sight = look(this.pose, this.items);
  }

  /** Set the world as it is at some moment. */
  place(items: readonly Item[], pose: Pose, clock: number): void {
    this.items = items.map((item) => ({ ...item }));
    this.pose = pose;
    this.clock = clock;
    this.sight = look(this.pose, this.items);
  }

  /** Act; what it earned. Rewards count what the eyes saw before the move. */
  tick(action: number): number {
    this.clock++;
    this.pose = moved(this.pose, WHEELS[action]);
    for (const item of this.items) item.age++;
    const meals = this.eatAndSpoil();
    if (this.clock % 10 === 0 && this.items.length < CAPACITY && this.random() < 0.25) {
      this.items.push(this.newItem());
    }
    const earned = this.earned(action) + meals;
    this.sight = look(this.pose, this.items);
    return earned;
  }

  private newItem(): Item {
    const x = this.random() * (WIDTH - 40) + 20;
    const y = this.random() * (HEIGHT - 40) + 20;
    return { x, y, kind: Math.floor(this.random() * 2 + 1), age: 0 };
  }

  private eatAndSpoil(): number {
    const { x, y } = this.pose;
    const due = this.clock % 100 === 0;
    let meals = 0;
    this.items = this.items.filter((item) => {
      const [gapX, gapY] = [x - item.x, y - item.y];
      const near = Math.sqrt(gapX * gapX + gapY * gapY) < 2 * RADIUS;
      const eaten = near && !crossesWall(x, y, item.x, item.y);
      if (eaten) {
        meals += item.kind === APPLE ? 5 : -6;
        if (item.kind === APPLE) this.apples++;
        else this.poison++;
      }
      const spoiled = due && item.age > 5000 && this.random() < 0.1;
      return !eaten && !spoiled;
    });
    return meals;
  }

  private earned(action: number): number {
    let sum = 0;
    this.sight.forEach(({ kind, distance }) => (sum += kind === WALL ? distance / RANGE : 1));
    let clear = sum / this.sight.length;
    if (this.reward === "karpathy") clear = Math.min(1, clear * 2);
    return clear + (action === FORWARD && clear > 0.75 ? 0.1 * clear : 0);
  }
}

/**
 * Turn each wheel about the other one, and go to the middle of where both then are. A forager whose
 * way a wall crosses stays where it is, and turns.
 */
function moved(pose: Pose, [first, second]: readonly [number, number]): Pose {
  const axle = pose.angle + Math.PI / 2;
  const [axleX, axleY] = [(RADIUS / 2) * Math.sin(axle), (RADIUS / 2) * Math.cos(axle)];
  const one = about(pose, pose.x - axleX, pose.y - axleY, -first);
  const two = about(pose, pose.x + axleX, pose.y + axleY, second);
  const x = one.x * 0.5 + two.x * 0.5;
  const y = one.y * 0.5 + two.y * 0.5;
  let angle = pose.angle - first;
  angle = (angle < 0 ? angle + TURN : angle) + second;
  angle = angle > TURN ? angle - TURN : angle;
  const free = !crossesWall(pose.x, pose.y, x, y);
  return { x: clip(free ? x : pose.x, WIDTH), y: clip(free ? y : pose.y, HEIGHT), angle };
}

/** Where a point goes that turns about another. */
function about(pose: Pose, x: number, y: number, turn: number): { x: number; y: number } {
  const [armX, armY] = [pose.x - x, pose.y - y];
  const [cos, sin] = [Math.cos(turn), Math.sin(turn)];
  return { x: x + (armX * cos + armY * sin), y: y + (-armX * sin + armY * cos) };
}

const clip = (value: number, most: number): number => Math.min(most, Math.max(0, value));

/** Whether a wall is between two points; one that is only touched is not. */
function crossesWall(x: number, y: number, toX: number, toY: number): boolean {
  return WALLS.some((wall) => depthOfWall(x, y, toX - x, toY - y, wall) < Infinity);
}

/** How far along a segment it meets a wall, strictly between 0 and 1; else infinity. */
export function depthOfWall(x: number, y: number, dx: number, dy: number, wall: Wall): number {
  const across = wall.alongY * dx - wall.alongX * dy;
  if (across === 0) return Infinity; // parallel
  const [fromX, fromY] = [x - wall.x, y - wall.y];
  const depth = (wall.alongX * fromY - wall.alongY * fromX) / across;
  const onWall = (dx * fromY - dy * fromX) / across;
  return depth > 0 && depth < 1 && onWall > 0 && onWall < 1 ? depth : Infinity;
}
