import { keyOf } from "../noise/key";
import { fillNormal } from "../noise/philox";
import { Painting } from "../ui/canvas";
import { choice, decimal, element, percent, press, slider } from "../ui/elements";
import { whileSeen } from "../ui/visibility";
import { CurveLearner, SETTINGS } from "./learner";
import type { Method } from "./network";
import { type Belief, moments, paintPlane, Plane, type Point, SPAN } from "./picture";

const STEPS = 3000; // of learning after a change
const PATIENCE = 10; // milliseconds of a frame
const REPAINT = 70; // milliseconds between pictures
const PLACES = Float64Array.from({ length: 97 }, (_, i) => SPAN.x * (i / 48 - 1));
const NEAR = 14; // pixels at which a point is meant
const SLIP = 4; // pixels that a click may slip without becoming a drag
const STRIDE = 0.1; // of the cross, by an arrow key
const MOST = 80; // points

const wave = (x: number): number => Math.sin(1.6 * x) + 0.25 * x;
const EXAMPLES: Readonly<Record<string, () => Point[]>> = {
  gap: () => spread(26, (x) => x < -0.3 || x > 1.3, 0.08),
  few: () => [{ x: -1.6, y: -0.8 }, { x: 0, y: 0.7 }, { x: 1.7, y: -0.2 }],
  noisy: () => spread(44, () => true, 0.45),
};

/** Put points, and watch a network learn them. */
export function startCurve(): void {
  const method = choice<Method>("curve-method", restart);
  const noise = choice<"shared" | "apart">("curve-mask", refresh);
  const drop = slider("curve-drop", percent, restart);
  const draws = slider("curve-draws", String, refresh);
  const status = element("curve-status");
  let points = EXAMPLES.gap();
  let learner = new CurveLearner(SETTINGS, 1n);
  let last = STEPS; // the step at which learning ends
  let belief: Belief | null = null;
  let cross: Point | null = null;
  let painted = 0;
  let held: Point | null = null; // by the pointer
  let [pressed, dragged] = [[0, 0], false];

  const painting = new Painting(element("plane"), (context, colours, own) =>
    paintPlane(context, colours, own, belief, points, cross),
  );
  const { canvas } = painting;
  canvas.addEventListener("click", (event) => {
    cross = null;
    if (!dragged) toggle(under(event));
    dragged = false;
  });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    held = nearest(under(event));
    [pressed, dragged] = [[event.clientX, event.clientY], false];
    if (held) canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", drag);
  canvas.addEventListener("touchmove", (event) => held && event.preventDefault(), { passive: false }); // no scrolling
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, () => {
      if (held && dragged) say(`Point moved to ${written(held)}.`);
      held = null;
    });
  }
  canvas.addEventListener("keydown", key);
  canvas.addEventListener("blur", () => {
    cross = null;
    painting.paint();
  });
  for (const name of Object.keys(EXAMPLES)) press(`points-${name}`, () => place(EXAMPLES[name]()));
  press("points-clear", () => place([]));
  press("curve-restart", restart);
  restart();
  whileSeen(canvas, frame);

  function restart(): void {
    const chosen = method();
    learner = new CurveLearner({ ...SETTINGS, method: chosen, drop: Number(drop.value) }, BigInt(1 + Math.floor(1e6 * Math.random())));
    last = STEPS;
    drop.disabled = chosen === "ensemble";
    draws.disabled = chosen === "ensemble";
    element<HTMLOutputElement>("curve-drop-value").value = chosen === "ensemble" ? "none" : percent(Number(drop.value));
    element<HTMLOutputElement>("curve-draws-value").value = chosen === "ensemble" ? String(SETTINGS.members) : draws.value;
    element<HTMLFieldSetElement>("curve-mask").disabled = chosen === "ensemble";
    element("curve-drop-name").textContent = chosen === "concrete" ? "Drop rate to start from" : "Drop rate";
    refresh();
  }

  function place(given: Point[]): void {
    points = given;
    last = learner.steps + STEPS;
    refresh();
  }

  /** Where the pointer is, on the plane. */
  function under(event: MouseEvent): Point {
    const box = canvas.getBoundingClientRect();
    return within(new Plane(box.width, box.height).under(event.clientX - box.left, event.clientY - box.top));
  }

  /** The point that is meant by a place, if there is one. */
  function nearest(where: Point): Point | null {
    const plane = new Plane(painting.width, painting.height);
    const [left, top] = plane.at(where.x, where.y);
    const distance = ({ x, y }: Point): number => Math.hypot(plane.at(x, y)[0] - left, plane.at(x, y)[1] - top);
    const near = points.filter((point) => distance(point) <= NEAR);
    return near.sort((a, b) => distance(a) - distance(b))[0] ?? null;
  }

  /** Remove the point that is meant, or add one. */
  function toggle(where: Point): void {
    const meant = nearest(where);
    if (!meant && points.length >= MOST) return say(`There are ${MOST} points already: remove one first.`);
    place(meant ? points.filter((point) => point !== meant) : [...points, where]);
    say(meant ? `Point removed; ${points.length} left.` : `Point added at ${written(where)}.`);
  }

  function drag(event: PointerEvent): void {
    if (!held) return;
    dragged ||= Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]) > SLIP;
    if (!dragged) return;
    const to = under(event);
    points = points.map((point) => (point === held ? to : point));
    held = to;
    last = learner.steps + STEPS; // the next frames learn, and paint what is believed
    painting.paint();
  }

  function key(event: KeyboardEvent): void {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (step) {
      const from = cross ?? { x: 0, y: 0 };
      cross = within({ x: from.x + STRIDE * step[0], y: from.y + STRIDE * step[1] });
      say(written(cross));
    } else if (event.key === "Enter" || event.key === " ") {
      toggle((cross ??= { x: 0, y: 0 }));
    } else {
      return;
    }
    event.preventDefault();
    painting.paint();
  }

  /** Learn for some milliseconds, and paint now and then. */
  function frame(now: number): void {
    if (learner.steps >= last || !points.length) return;
    const x = Float64Array.from(points, (point) => point.x);
    const y = Float64Array.from(points, (point) => point.y);
    const stop = performance.now() + PATIENCE;
    while (learner.steps < last && performance.now() < stop) learner.step(x, y);
    if (now - painted > REPAINT || learner.steps >= last) {
      refresh();
      painted = performance.now();
    }
  }

  function refresh(): void {
    const shared = noise() === "shared";
    const functions = points.length ? learner.functions(PLACES, Number(draws.value), shared) : [];
    belief = functions.length ? { places: PLACES, functions, noise: SETTINGS.precision ** -0.5 } : null;
    const ensemble = learner.settings.method === "ensemble";
    const lines = ensemble
      ? "each thin line is a network of its own"
      : shared
        ? "each thin line is one function, the network under one mask"
        : "each place has a mask of its own, so the thin lines are not functions";
    const caption = points.length
      ? `The thick line is the mean, the inner band two standard deviations of what the network does not know, the outer band adds the noise of the points (0.1); ${lines}.`
      : "Without points there is nothing to learn: add some.";
    element("plane-caption").textContent = caption;
    const count = `${points.length} ${points.length === 1 ? "point" : "points"}`;
    const widest = belief ? ` The band is widest at ${decimal(PLACES[widestAt(belief)], 1)}.` : "";
    canvas.setAttribute("aria-label", `A plane with ${count}, x from −3 to 3. Arrow keys move the cross, Enter adds or removes a point.${widest}`);
    const rates = points.length && learner.settings.method === "concrete" ? ` Learned drop rates: ${learner.drop.map(percent).join(" and ")}.` : "";
    const state = !points.length ? "" : learner.steps >= last ? `Learned in ${learner.steps} steps.` : `Learning: step ${learner.steps}.`;
    const full = points.length === MOST ? ", the most that are possible" : "";
    status.textContent = `${count}${full}. ${state}${rates}`;
    painting.paint();
  }

  function say(what: string): void {
    element("curve-spoken").textContent = what;
  }
}

/** The nearest place on the plane. */
function within({ x, y }: Point): Point {
  const clip = (value: number, most: number): number => Math.min(most, Math.max(-most, value));
  return { x: clip(x, SPAN.x), y: clip(y, SPAN.y) };
}

const written = ({ x, y }: Point): string => `${decimal(x, 1)}, ${decimal(y, 1)}`;

function widestAt(belief: Belief): number {
  const { deviation } = moments(belief.functions);
  return deviation.indexOf(Math.max(...deviation));
}

/** Points along a wave, where it is asked for. */
function spread(count: number, where: (x: number) => boolean, noise: number): Point[] {
  const errors = new Float64Array(count);
  fillNormal(keyOf(5n, [count]), 0, errors);
  return Array.from(errors, (error, i) => {
    const x = -2.2 + (4.4 * i) / (count - 1);
    return { x, y: Math.min(SPAN.y - 0.1, Math.max(0.1 - SPAN.y, wave(x) + noise * error)) };
  }).filter(({ x }) => where(x));
}
