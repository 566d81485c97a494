import { type Model, type NoiseCard, readModel } from "./model";
import { OPERATIONS } from "./operations";
import type { Tensor } from "./tensor";

/** A network of `dubio.export`: a function of its inputs and its noise. */
export class Graph {
  readonly noises: readonly NoiseCard[];
  private readonly model: Model;
  private readonly constants: Map<string, Tensor>;

  constructor(file: Uint8Array) {
    this.model = readModel(file);
    this.noises = this.model.noises;
    this.constants = new Map(this.model.constants);
    for (const node of this.model.nodes) {
      if (!OPERATIONS[node.operation]) {
        throw new Error(`file: expected operations that the page knows, got ${node.operation}.`);
      }
      if (node.inputs.every((name) => !name || this.constants.has(name))) {
        this.compute(node, this.constants); // what no input enters is computed once
      }
    }
  }

  /**
   * The first output.
   *
   * Noise may have many rows where an input has one: that row then meets all of them, and what comes
   * before the noise is computed once.
   */
  run(inputs: Readonly<Record<string, Tensor>>): Tensor {
    const values = new Map([...this.constants, ...Object.entries(inputs)]);
    for (const node of this.model.nodes) {
      if (!values.has(node.outputs[0])) this.compute(node, values);
    }
    return values.get(this.model.outputs[0])!;
  }

  private compute(node: Model["nodes"][number], values: Map<string, Tensor>): void {
    const given = node.inputs.map((name) => {
      const found = values.get(name);
      if (name && !found) throw new Error(`${name}: expected an input of this name, got none.`);
      return found as Tensor;
    });
    const made = OPERATIONS[node.operation](given, node);
    node.outputs.forEach((name, index) => values.set(name, made[index]));
  }
}
