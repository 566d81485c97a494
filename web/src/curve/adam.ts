const [FADE, FADE_OF_SQUARES, LEAST] = [0.9, 0.999, 1e-8];

/** Adam (Kingma and Ba 2015), as torch has it. */
export class Adam {
  private readonly means: Float64Array[];
  private readonly squares: Float64Array[];
  private steps = 0;

  constructor(private readonly parameters: readonly Float64Array[], private readonly rate: number) {
    this.means = parameters.map((each) => new Float64Array(each.length));
    this.squares = parameters.map((each) => new Float64Array(each.length));
  }

  /** Move the parameters against their slopes. */
  step(slopes: readonly Float64Array[]): void {
    this.steps++;
    const correction = 1 - FADE ** this.steps;
    const root = Math.sqrt(1 - FADE_OF_SQUARES ** this.steps);
    this.parameters.forEach((values, k) => {
      const [mean, square, slope] = [this.means[k], this.squares[k], slopes[k]];
      for (let i = 0; i < values.length; i++) {
        mean[i] += (1 - FADE) * (slope[i] - mean[i]);
        square[i] = FADE_OF_SQUARES * square[i] + (1 - FADE_OF_SQUARES) * slope[i] * slope[i];
        values[i] -= ((this.rate / correction) * mean[i]) / (Math.sqrt(square[i]) / root + LEAST);
      }
    });
  }
}
