/** The colours of the style sheet. */
export interface Colours {
  readonly paper: string;
  readonly ink: string;
  readonly quiet: string;
  readonly line: string;
  readonly faint: string;
  readonly accent: string;
  readonly shared: string;
  readonly soft: string;
}

/** A canvas that is painted at the resolution of the screen, again when its size or colours change. */
export class Painting {
  width = 0;
  height = 0;

  constructor(
    readonly canvas: HTMLCanvasElement,
    private readonly draw: (context: CanvasRenderingContext2D, colours: Colours, painting: Painting) => void,
  ) {
    new ResizeObserver(() => this.paint()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint());
  }

  /** Paint now. */
  paint(): void {
    const { canvas } = this;
    this.width = canvas.clientWidth;
    this.height = canvas.clientHeight;
    if (!this.width || !this.height) return;
    const scale = Math.min(3, window.devicePixelRatio || 1);
    const [width, height] = [Math.round(this.width * scale), Math.round(this.height * scale)];
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    const context = canvas.getContext("2d")!;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.font = "13px ui-sans-serif, system-ui, sans-serif";
    context.lineCap = context.lineJoin = "round";
    this.draw(context, colours(), this);
  }
}

function colours(): Colours {
  const style = getComputedStyle(document.documentElement);
  const named = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  return {
    paper: named("raised"),
    ink: named("ink"),
    quiet: named("quiet"),
    line: named("line"),
    faint: named("faint"),
    accent: named("accent"),
    shared: named("shared"),
    soft: named("soft"),
  };
}

/** Draw a line through points. */
export function trace(context: CanvasRenderingContext2D, points: Iterable<readonly [number, number]>): void {
  context.beginPath();
  for (const [x, y] of points) context.lineTo(x, y);
  context.stroke();
}

/** Draw a disc. */
export function disc(context: CanvasRenderingContext2D, x: number, y: number, radius: number): void {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}
