import { keyOf } from "../noise/key";
import { fillUniform } from "../noise/philox";
import { Painting } from "../ui/canvas";
import { choice, decimal, element, percent, press, slider } from "../ui/elements";
import { whileSeen } from "../ui/visibility";
import { Agent, type Council, type Name, type Rule } from "./agent";
import { MOVES, paintVotes, paintWorld } from "./picture";
import { senses } from "./sight";
import { World } from "./world";

const WINDOW = 1000; // ticks whose rewards are averaged
const LATE = 12; // ticks that a slow frame may catch up with

/** Watch a trained agent, and its functions argue. */
export function startForager(): void {
  const agents = new Map<Name, Agent>();
  const name = choice<Name>("forager-agent", changed);
  const rule = choice<Rule>("forager-rule", changed);
  const speed = slider("forager-speed", String, () => undefined);
  const functions = slider("forager-draws", String, changed);
  const drop = slider("forager-drop", percent, changed);
  let seed = 1n;
  let world = freshWorld(seed);
  let rewards: number[] = [];
  let council: Council;
  let playing = !matchMedia("(prefers-reduced-motion: reduce)").matches;
  let [before, due] = [0, 0];

  const picture = new Painting(element("world"), (context, colours, own) => paintWorld(context, colours, own, world));
  const votes = new Painting(element("votes"), (context, colours, own) => paintVotes(context, colours, own, council));
  const play = press("play", () => {
    playing = !playing;
    show();
  });
  press("step", () => {
    playing = false;
    tick();
    show();
  });
  press("new-world", () => {
    world = freshWorld(++seed);
    rewards = [];
    changed();
  });
  changed();
  whileSeen(picture.canvas, (now) => {
    const passed = Math.min(250, now - before);
    before = now;
    if (!playing) return;
    due = Math.min(LATE, due + (passed / 1000) * Number(speed.value));
    if (due < 1) return;
    for (; due >= 1; due--) tick();
    show();
  });

  function agent(): Agent {
    const chosen = name();
    if (!agents.has(chosen)) agents.set(chosen, new Agent(chosen));
    return agents.get(chosen)!;
  }

  function ask(): void {
    council = agent().choose(senses(world.sight), world.clock, seed, rule(), Number(functions.value), Number(drop.value));
  }

  function tick(): void {
    rewards.push(world.tick(council.action));
    if (rewards.length > WINDOW) rewards.shift();
    ask();
  }

  function changed(): void {
    const one = agent();
    element("forager-past").textContent = one.reward === null
      ? "It has learned nothing yet."
      : `It has learned for ${one.ticks.toLocaleString("en")} ticks and earned ${decimal(one.reward)} a tick at the end.`;
    ask();
    show();
  }

  function show(): void {
    const average = rewards.length ? rewards.reduce((a, b) => a + b, 0) / rewards.length : 0;
    play.textContent = playing ? "Pause" : "Play";
    element("forager-status").replaceChildren(
      ...bold(`Tick *${world.clock}*: *${world.apples}* ${world.apples === 1 ? "apple" : "apples"}, *${world.poison}* poison, reward *${decimal(average)}* a tick.`),
    );
    const move = MOVES.find(([action]) => action === council.action)![2];
    const who = { tick: "the function of this tick", episode: "its function of 200 ticks", argue: "the vote" }[rule()];
    const caption = `Each dot is the value that one of ${functions.value} functions gives to a move, each bar the share of functions that would choose it. By ${who}, it will ${move}.`;
    element("votes-caption").textContent = caption;
    votes.canvas.setAttribute("aria-label", caption);
    picture.canvas.setAttribute("aria-label", `A forager among apples and poison at tick ${world.clock}: ${world.apples} apples and ${world.poison} poison eaten.`);
    picture.paint();
    votes.paint();
  }
}

/** A text whose parts between asterisks are bold. */
function bold(text: string): (string | HTMLElement)[] {
  return text.split("*").map((part, i) => {
    if (i % 2 === 0) return part;
    const strong = document.createElement("b");
    strong.textContent = part;
    return strong;
  });
}

/** A world whose random numbers follow from a seed. */
function freshWorld(seed: bigint): World {
  const key = keyOf(seed, [5]);
  let draw = 0;
  const one = new Float64Array(1);
  return new World(() => {
    fillUniform(key, draw++, one);
    return one[0];
  });
}
