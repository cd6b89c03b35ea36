// Builds the page's data (tools/viz/page/data.d.ts) for tests, from names as text to columns.

export class DataBuilder {
  constructor(title = "sample.genesis") {
    this.json = { version: 1, made_by: "genesis-viz test", title, strings: [], paths: { parent: [], segment: [] }, types: [], attributes: [], costs: [], kernels: [], models: [], runs: [] };
    this.known = new Map();
  }

  string(text) {
    return this.once("string", text, () => this.json.strings.push(text) - 1);
  }

  path(name) {
    if (name === "") return -1;
    return this.once("path", name, () => {
      const dot = name.lastIndexOf("."), parent = dot < 0 ? -1 : this.path(name.slice(0, dot)), { paths } = this.json, own = paths.parent.length;
      paths.parent.push(parent < 0 ? 0 : own - parent);
      paths.segment.push(this.string(name.slice(dot + 1)));
      return own;
    });
  }

  type(dtype, shape, bytes = shape.every(Number.isInteger) ? shape.reduce((product, size) => product * size, 4) : null) {
    return this.row("types", { dtype, shape, sizes: bytes === null ? null : shape, bytes });
  }

  row(table, row) {
    return this.once(table, JSON.stringify(row), () => this.json[table].push(row) - 1);
  }

  once(table, key, make) {
    const whole = `${table}\n${key}`;
    if (!this.known.has(whole)) this.known.set(whole, make());
    return this.known.get(whole);
  }

  states(states) {
    return { name: deltas(states.map((state) => this.path(state.name))), type: states.map((state) => state.type), bytes: states.map((state) => this.json.types[state.type].bytes ?? 0),
      role: states.map((state) => this.string(state.role ?? "parameter")), trainable: states.map((state) => (state.role === undefined ? 1 : 0)), format: states.map(() => -1) };
  }

  /**
   * @param {{kind: number, name: string, type: number, index?: number}[]} values
   * @param {{op: string, name: string, author?: string, reads: string[], type: number|number[], attributes?: [string, string][], flops?: number, bytes?: number, kernel?: object}[]} nodes
   *   `reads`: names of values of the table ("@name") or of nodes ("name", "name:1")
   * @param {[string, string][]} outputs
   */
  graph(values, nodes, outputs = []) {
    const number = new Map(values.map((value, i) => [`@${value.name}`, i])), columns = { op: [], name: [], author: [], attributes: [], cost: [], kernel: [], inputs: [], outputs: [] };
    const input = [], outputType = [];
    let first = values.length;
    for (const node of nodes) {
      const types = [node.type].flat(), path = this.path(node.name);
      columns.op.push(this.string(node.op));
      columns.name.push(path);
      columns.author.push(node.author ? this.path(node.author) - path : 0);
      columns.attributes.push(this.row("attributes", node.attributes ?? []));
      columns.cost.push(node.bytes === undefined ? -1 : this.row("costs", { flops: node.flops ?? 0, bytes: node.bytes, at_most: false }));
      columns.kernel.push(node.kernel ? this.row("kernels", node.kernel) : -1);
      columns.inputs.push(node.reads.length);
      columns.outputs.push(types.length);
      for (const read of node.reads) {
        const value = number.get(read);
        if (value === undefined) throw new Error(`${node.name} reads ${read}, which nobody makes`);
        input.push(value < values.length ? -1 - value : first - value);
      }
      types.forEach((type, i) => {
        number.set(i === 0 ? node.name : `${node.name}:${i}`, first + i);
        outputType.push(type);
      });
      first += types.length;
    }
    return { values: { kind: values.map((value) => value.kind), index: values.map((value, i) => value.index ?? i), name: deltas(values.map((value) => this.path(value.name))), type: values.map((value) => value.type) },
      nodes: { ...columns, name: deltas(columns.name) }, input, output_type: outputType, outputs: outputs.map(([name, of]) => [name, number.get(of)]), updates: [] };
  }
}

export function deltas(values) {
  return values.map((value, i) => value - (i === 0 ? 0 : values[i - 1]));
}
