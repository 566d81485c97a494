import { argmax, type Predictive, predictive } from "../predictive";
import { Painting } from "../ui/canvas";
import { choice, decimal, element, percent, press, slider } from "../ui/elements";
import { type Drawing, EMPTY, eraseStroke, isEmpty, rendered } from "./drawing";
import { Pad } from "./pad";
import { paintDots, paintTurning } from "./pictures";
import { asMnist } from "./pixels";
import { CLASSES, FITTED, type Method, PROMISE, Reader, type Reading, SHIRTS } from "./reader";
import { DIGITS, LETTERS } from "./strokes";

const TURNS = Array.from({ length: 19 }, (_, i) => 10 * (i - 9)); // degrees
const LINES = 16; // draws of the picture of turns
const SEED = 2016n;
const EXAMPLE: Drawing = { ...EMPTY, example: true };

/** Draw a digit, and see what the networks make of it. */
export function startDigits(): void {
  const readers = new Map<Method, Reader>();
  const method = choice<Method>("digit-method", update);
  const noise = choice<"shared" | "apart">("digit-mask", turnLater);
  const draws = slider("digit-draws", String, update);
  const drop = slider("digit-drop", percent, update);
  const example = element<HTMLSelectElement>("example");
  const erase = press("erase", () => pad.set(eraseStroke(pad.drawing)));
  let [letter, shirt] = [0, 0];
  let found: Predictive | null = null;
  let lines: Float64Array[] = [];
  let [frame, waiting, speaking] = [0, 0, 0];

  const dots = new Painting(element("dots"), (context, colours, painting) => paintDots(context, colours, painting, found));
  const turning = new Painting(element("turning"), (context, colours, painting) =>
    paintTurning(context, colours, painting, TURNS, lines, 0),
  );
  const pad = new Pad(element("pad"), update);

  press("rotate", () => pad.set({ ...pad.drawing, turn: (pad.drawing.turn + 15) % 360 }));
  press("blur", () => pad.set({ ...pad.drawing, blur: pad.drawing.blur > 0.08 ? 0 : pad.drawing.blur + 0.02 }));
  press("clear", () => pad.set(EMPTY));
  press("letter", () => pad.set({ ...EXAMPLE, strokes: LETTERS[letter++ % LETTERS.length][1] }));
  press("shirt", () => pad.set({ ...EXAMPLE, picture: SHIRTS[shirt++ % SHIRTS.length] }));
  DIGITS.forEach((_, digit) => example.add(new Option(String(digit), String(digit))));
  example.addEventListener("change", () => {
    if (example.value) pad.set({ ...EXAMPLE, strokes: DIGITS[Number(example.value)] });
    example.value = ""; // so that the same digit can be chosen again
  });
  pad.set({ ...EXAMPLE, strokes: DIGITS[3] });

  function reader(): Reader {
    const chosen = method();
    if (!readers.has(chosen)) readers.set(chosen, new Reader(chosen));
    return readers.get(chosen)!;
  }

  function reading(count: number, shared: boolean): Reading {
    return { draws: count, seed: SEED, shared, drop: Number(drop.value) };
  }

  /** At the next frame, however often it is asked for until then. */
  function update(): void {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(read);
  }

  function read(): void {
    const one = reader();
    const pixels = asMnist(rendered(pad.drawing));
    found = pixels && one.read(pixels, reading(Number(draws.value), false));
    erase.disabled = pad.drawing.strokes.length === 0;
    drop.disabled = one.method !== "mc";
    sayRate(one);
    sayVerdict(one);
    dots.paint();
    turnLater();
    clearTimeout(speaking); // a voice says what is left after a pause
    speaking = window.setTimeout(() => (element("digit-spoken").textContent = element("answer").textContent), 700);
  }

  function turnLater(): void {
    clearTimeout(waiting);
    waiting = window.setTimeout(turn, 150);
  }

  /** The drawing at all turns, by a few draws. */
  function turn(): void {
    const one = reader();
    element<HTMLFieldSetElement>("digit-mask").disabled = !one.hasFunctions;
    const shared = one.hasFunctions && noise() === "shared";
    const rows = found ? TURNS.map((degrees) => seen({ ...pad.drawing, turn: pad.drawing.turn + degrees })) : [];
    const digit = found ? argmax(found.mean) : 0;
    lines = found ? linesOf(one.logits(rows, reading(LINES, shared)), rows.length, digit) : [];
    const what = !one.hasFunctions
      ? "this network has new noise for every row, so there is no function to follow"
      : shared
        ? "each line keeps its mask at all turns and is one function"
        : "every turn has a mask of its own, so the lines jump";
    const caption = found
      ? `Each of ${LINES} lines is the probability of ${named(digit)} by one draw while your drawing turns from −90° to 90°: ${what}.`
      : "Draw something, and see it turned from −90° to 90°.";
    element("turning-caption").textContent = caption;
    turning.canvas.setAttribute("aria-label", caption);
    turning.paint();
  }

  function sayRate(one: Reader): void {
    const rates = one.drop.slice(1).map(percent).join(" and ");
    element<HTMLOutputElement>("digit-drop-value").value = {
      mc: percent(Number(drop.value)),
      concrete: `learned: ${rates}`,
      bernoulli: `learned: ${rates}`,
      bayes: "none",
    }[one.method];
  }

  function sayVerdict(one: Reader): void {
    const split = element("split");
    const largest = Math.log(CLASSES);
    element("epistemic").style.width = `${(100 * (found?.epistemic ?? 0)) / largest}%`;
    element("aleatoric").style.width = `${(100 * (found?.aleatoric ?? 0)) / largest}%`;
    element("epistemic-value").textContent = decimal(found?.epistemic ?? 0);
    element("aleatoric-value").textContent = decimal(found?.aleatoric ?? 0);
    split.setAttribute("aria-label", found ? `Entropy ${decimal(found.entropy)}: epistemic ${decimal(found.epistemic)}, aleatoric ${decimal(found.aleatoric)}.` : "No doubt yet.");
    if (!found || isEmpty(pad.drawing)) {
      element("answer").textContent = "Draw a digit.";
      element("why").textContent = "Or start from an example: a digit, a letter, a shirt.";
      element("dots-caption").textContent = "Here each draw of the network will put a dot for each digit.";
      dots.canvas.setAttribute("aria-label", "Nothing is drawn yet.");
      return;
    }
    const verdict = one.decide(found);
    const share = percent(found.mean[verdict.digit]);
    const limit = verdict.threshold < 0.1 ? 4 : 2;
    const altered = Number(draws.value) !== FITTED.draws || (one.method === "mc" && Number(drop.value) !== FITTED.drop);
    const rule = `its ${verdict.score} of ${decimal(verdict.value, limit)} is ${verdict.answered ? "below" : "not below"} ${decimal(verdict.threshold, limit)}`;
    const promise = altered
      ? "This limit was fitted with other settings, so there is no guarantee."
      : `For digits like those of MNIST, at most ${percent(PROMISE.errorRate)} of its answers are wrong, at ${percent(PROMISE.confidence)} confidence.`;
    element("answer").textContent = verdict.answered ? `${named(verdict.digit).replace("a", "A")}.` : "I would ask a human.";
    element("why").textContent = verdict.answered
      ? `The network answers: ${rule}. ${promise}`
      : `My best guess is ${named(verdict.digit)} (${share}), but ${rule}, a limit found on validation digits.`;
    const caption = `Each dot is the probability of a digit by one of ${draws.value} draws, each bar their mean: ${share} for ${named(verdict.digit)}.`;
    element("dots-caption").textContent = caption;
    dots.canvas.setAttribute("aria-label", caption);
  }
}

/** A digit with its article. */
function named(digit: number): string {
  return `${digit === 8 ? "an" : "a"} ${digit}`;
}

/** Pixels of a drawing that has ink. */
function seen(drawing: Drawing): Float32Array {
  return asMnist(rendered(drawing)) ?? new Float32Array(28 * 28);
}

/** The probability of a class, draw by draw. */
function linesOf(logits: Float32Array, rows: number, digit: number): Float64Array[] {
  return Array.from({ length: LINES }, (_, draw) =>
    Float64Array.from({ length: rows }, (_, row) => {
      const start = (draw * rows + row) * CLASSES;
      return predictive(logits.subarray(start, start + CLASSES), CLASSES).mean[digit];
    }),
  );
}
