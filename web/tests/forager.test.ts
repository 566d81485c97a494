import { describe, expect, test } from "vitest";
import golden from "../../tests/studies/golden/forager.json";
import { senses } from "../src/forager/sight";
import { type Item, START, World } from "../src/forager/world";

/** The random numbers of the golden values, which the original JavaScript has recorded. */
function minstd(seed: number): () => number {
  return () => (seed = (16807 * seed) % 2147483647) / 2147483647;
}

type Row = readonly number[];
const asItem = ([x, y, kind, age]: Row): Item => ({ x, y, kind, age });
const near = (found: ArrayLike<number>, wanted: ArrayLike<number>): void => {
  expect(found.length).toBe(wanted.length);
  for (let i = 0; i < wanted.length; i++) {
    expect(Math.abs(found[i] - wanted[i])).toBeLessThanOrEqual(1e-12 * (1 + Math.abs(wanted[i])));
  }
};

const groups = ["sense", "move", "eat", "item_sensor", "respawn_and_age"] as const;

describe.each(groups)("%s", (group) => {
  test.each((golden as any)[group].cases.map((each: any, i: number) => [i, each]))("case %i", (...[, one]: any[]) => {
    const world = new World(minstd(one.seed ?? 1), "karpathy");
    const given = { sense: golden.reset_seed_1.items, move: [] as Row[] };
    const before: Row[] = (given as any)[group] ?? one.items_before;
    const [x, y, angle] = one.pose_before ?? [350, 250, 0];
    world.place(before.map(asItem), { x, y, angle }, one.clock_before ?? 0);
    const { sight } = world;
    const after = one.after ?? one;
    const reward = world.tick(one.action ?? 0);
    expect(sight.map(({ kind }) => kind)).toEqual(after.eye_type);
    near(sight.map(({ distance }) => distance), after.eye_proximity);
    near([world.pose.x, world.pose.y, world.pose.angle], after.pose);
    expect(world.items.length).toBe(after.num_items);
    near([reward], [after.reward]);
  });
});

test("a world starts as the original", () => {
  const world = new World(minstd(1));
  near(world.items.flatMap(({ x, y, kind, age }) => [x, y, kind, age]), golden.reset_seed_1.items.flat());
  expect(world.pose).toEqual(START);
  expect(senses(world.sight).length).toBe(27);
});

test("a thousand ticks are those of the original", () => {
  const world = new World(minstd(1), "karpathy");
  const records = new Map(golden.rollout.records.map((record) => [record.clock, record]));
  let total = 0;
  for (const action of golden.rollout.actions) {
    total += world.tick(Number(action));
    const record = records.get(world.clock);
    if (!record) continue;
    near([world.pose.x, world.pose.y, world.pose.angle, total], [...record.pose, record.cumulative_reward]);
    expect(world.items.length).toBe(record.num_items);
    records.delete(world.clock);
  }
  expect(records.size).toBe(0);
});
