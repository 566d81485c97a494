import { Painting } from "../ui/canvas";
import { type Drawing, EMPTY, rendered } from "./drawing";
import type { Stroke } from "./strokes";

const SIDE = 300; // pixels of what is shown
const STEP = 0.04; // of the pen, by an arrow key
const ARROWS: Readonly<Record<string, readonly [number, number]>> = {
  ArrowLeft: [-STEP, 0],
  ArrowRight: [STEP, 0],
  ArrowUp: [0, -STEP],
  ArrowDown: [0, STEP],
};

/** What one draws on, by pointer or by keys. */
export class Pad {
  drawing: Drawing = EMPTY;
  private readonly painting: Painting;
  private readonly bitmap = new OffscreenCanvas(SIDE, SIDE);
  private pen: readonly [number, number] = [0.5, 0.25];
  private down = false; // the pen of the keys
  private focused = false;
  private pointer: number | null = null;

  constructor(canvas: HTMLCanvasElement, private readonly changed: () => void) {
    this.painting = new Painting(canvas, (context, colours, { width }) => {
      this.fillBitmap(colours.ink);
      context.drawImage(this.bitmap, 0, 0, width, width);
      if (!this.focused) return;
      context.strokeStyle = context.fillStyle = colours.accent;
      context.lineWidth = 2;
      context.beginPath();
      context.arc(this.pen[0] * width, this.pen[1] * width, width * 0.043, 0, 2 * Math.PI);
      if (this.down) context.fill();
      else context.stroke();
    });
    canvas.addEventListener("pointerdown", (event) => this.start(event));
    canvas.addEventListener("pointermove", (event) => this.go(event));
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (this.pointer = null));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("focus", () => this.focus(canvas.matches(":focus-visible")));
    canvas.addEventListener("blur", () => this.focus(false));
  }

  /** Show another drawing. */
  set(drawing: Drawing): void {
    this.drawing = drawing;
    this.painting.paint();
    this.changed();
  }

  private start(event: PointerEvent): void {
    if (event.button !== 0) return;
    event.preventDefault();
    this.painting.canvas.focus({ preventScroll: true });
    this.focus(false);
    this.painting.canvas.setPointerCapture(event.pointerId);
    this.pointer = event.pointerId;
    this.begin(this.place(event));
  }

  private go(event: PointerEvent): void {
    if (event.pointerId !== this.pointer) return;
    const passed = event.getCoalescedEvents?.() ?? [];
    for (const each of passed.length ? passed : [event]) this.extend(this.place(each));
    this.set(this.drawing);
  }

  private key(event: KeyboardEvent): void {
    const arrow = ARROWS[event.key];
    if (arrow) {
      this.pen = [clip(this.pen[0] + arrow[0]), clip(this.pen[1] + arrow[1])];
      if (this.down) this.extend(this.pen);
    } else if (event.key === " " || event.key === "Enter") {
      this.down = !this.down;
      if (this.down) this.begin(this.pen);
    } else {
      return;
    }
    event.preventDefault();
    this.focused = true;
    this.set(this.drawing);
  }

  private begin(place: readonly [number, number]): void {
    const fresh = this.drawing.example || this.drawing.turn || this.drawing.blur; // a new drawing
    const strokes: readonly Stroke[] = fresh ? [] : this.drawing.strokes;
    this.set({ ...EMPTY, strokes: [...strokes, [place]] });
  }

  private extend(place: readonly [number, number]): void {
    const last = this.drawing.strokes.at(-1) ?? [];
    this.drawing = { ...this.drawing, strokes: [...this.drawing.strokes.slice(0, -1), [...last, place]] };
  }

  private place(event: PointerEvent): readonly [number, number] {
    const box = this.painting.canvas.getBoundingClientRect();
    return [clip((event.clientX - box.left) / box.width), clip((event.clientY - box.top) / box.height)];
  }

  private focus(focused: boolean): void {
    this.focused = focused;
    if (!focused) this.down = false;
    this.painting.paint();
  }

  private fillBitmap(colour: string): void {
    const context = this.bitmap.getContext("2d", { willReadFrequently: true })!;
    context.clearRect(0, 0, SIDE, SIDE);
    context.fillStyle = colour;
    context.fillRect(0, 0, SIDE, SIDE);
    const image = context.getImageData(0, 0, SIDE, SIDE);
    const ink = rendered(this.drawing, SIDE);
    for (let pixel = 0; pixel < ink.length; pixel++) image.data[4 * pixel + 3] = 255 * ink[pixel];
    context.putImageData(image, 0, 0);
  }
}

const clip = (share: number): number => Math.min(1, Math.max(0, share));
