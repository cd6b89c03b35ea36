// A graph as a tree of scopes, drawn as boxes that open and close. The dots in the nodes' names separate scopes. Gradient nodes
// ("layers.0.mlp.linear.grad.matmul") have a tree of their own, "gradient", beside the forward one; otherwise every layer would
// form a cycle with the next. Repeated neighbors (layers.0 … layers.23) are folded into one.
//
// Items are numbered: first the nodes of the graph, then its inputs, its outputs, and the groups. The root is the first group.

/** @typedef {{label: string, path: string, numbered: boolean, children: number[], nodes: number, repeats: number, first: number}} Group
 *  `numbered`: its scope is a number, one of a list of layers; `nodes`: number of nodes below it; `repeats`: how many equal
 *  groups are folded into it, 0 if none; `first`: lowest node below. */

const kMinRepeats = 3;

export class Hierarchy {
  /** @param {import("../core/page_data").Graph} graph */
  constructor(graph) {
    this.graph = graph;
    const inputs = tableInputs(graph);
    this.inputItems = inputs;
    this.firstInput = graph.size;
    this.firstOutput = this.firstInput + inputs.length;
    this.firstGroup = this.firstOutput + graph.columns.outputs.length;
    this.root = this.firstGroup;
    /** @type {Group[]} */
    this.groups = [];
    this.parent = [];
    this.labels = new Map();
    this.newGroup("", "", -1);
    this.place();
    this.tidy();
  }

  isGroup(item) {
    return item >= this.firstGroup;
  }

  isNode(item) {
    return item < this.graph.size;
  }

  group(item) {
    return this.groups[item - this.firstGroup];
  }

  /** Returns the groups around an item, outermost first, without the root. */
  ancestors(item) {
    const found = [];
    for (let at = this.parent[item]; at >= 0; at = this.parent[at]) found.push(at);
    return found.reverse();
  }

  /** Returns the label of an item among its siblings. */
  label(item) {
    if (this.isGroup(item)) return this.group(item).label;
    if (this.labels.has(item)) return this.labels.get(item);
    if (this.isNode(item)) return this.graph.page.names.segment(this.graph.name[item]);
    if (item < this.firstOutput) return this.graph.valueText(this.inputItems[item - this.firstInput]);
    return this.graph.columns.outputs[item - this.firstOutput][0];
  }

  /** Returns all nodes below an item. */
  nodesBelow(item) {
    const found = [], waiting = [item];
    while (waiting.length > 0) {
      const at = waiting.pop();
      if (this.isGroup(at)) waiting.push(...this.group(at).children);
      else if (this.isNode(at)) found.push(at);
    }
    return found;
  }

  newGroup(label, path, parent) {
    const item = this.firstGroup + this.groups.length;
    const numbered = /^\d+$/.test(label), above = parent >= 0 ? this.group(parent).label : "";
    this.groups.push({ label: numbered && above ? `${above}.${label}` : label, path, numbered, children: [], nodes: 0, repeats: 0, first: Infinity });
    this.parent[item] = parent;
    return item;
  }

  newChild(parent, label, path) {
    const made = this.newGroup(label, path, parent);
    this.group(parent).children.push(made);
    return made;
  }

  place() {
    const scopes = new Scopes(this);
    for (let item = this.firstInput; item < this.firstGroup; ++item) this.adopt(this.root, item);
    for (let node = 0; node < this.graph.size; ++node)
      this.adopt(scopes.of(this.graph.page.names.parent(this.graph.name[node])), node);
  }

  adopt(group, item) {
    this.parent[item] = group;
    this.group(group).children.push(item);
  }

  // Simplifies the tree from the leaves to the root. A parent has a lower number than its children.
  tidy() {
    const signatures = new Signatures(this);
    for (let at = this.groups.length - 1; at >= 0; --at) {
      const item = this.firstGroup + at;
      const group = this.groups[at];
      group.children = group.children.filter((child) => !this.isGroup(child) || this.group(child).children.length > 0);
      this.count(group);
      this.unwrap(group, item);
      group.children.sort((a, b) => this.firstNode(a) - this.firstNode(b));
      this.fold(item, signatures);
    }
    this.countFolds();
  }

  count(group) {
    for (const child of group.children) {
      group.nodes += this.isGroup(child) ? this.group(child).nodes : this.isNode(child) ? 1 : 0;
      group.first = Math.min(group.first, this.firstNode(child));
    }
  }

  firstNode(item) {
    if (this.isGroup(item)) return this.group(item).first;
    return this.isNode(item) ? item : item < this.firstOutput ? -1 : Infinity;
  }

  // Replaces a group that has only one child by the child, which takes over its name.
  unwrap(group, item) {
    group.children = group.children.map((child) => {
      if (!this.isGroup(child)) return child;
      const inner = this.group(child);
      if (inner.children.length !== 1) return child;
      const only = inner.children[0];
      this.takeName(inner, only);
      this.parent[only] = item;
      return only;
    });
  }

  takeName(inner, only) {
    const group = this.isGroup(only) ? this.group(only) : null;
    const label = group?.numbered ? group.label : `${inner.label}.${this.label(only)}`;
    if (group) Object.assign(group, { label, numbered: group.numbered || inner.numbered });
    else this.labels.set(only, label);
  }

  // Folds runs of equal numbered groups.
  fold(item, signatures) {
    const group = this.group(item);
    const runs = numberedRuns(group.children, (child) => this.isGroup(child) && this.group(child).numbered ? signatures.of(child) : -1);
    for (const run of runs.reverse()) {
      if (run.count < kMinRepeats) continue;
      if (run.count === group.children.length && item !== this.root) this.becomeFold(group, run);
      else this.insertFold(item, run);
    }
  }

  becomeFold(group, run) {
    const [first, last] = [group.children[0], group.children[run.count - 1]].map((child) => this.label(child));
    group.repeats = run.count;
    group.label = `${first} … ${last}`;
  }

  insertFold(item, run) {
    const group = this.group(item);
    const members = group.children.slice(run.from, run.from + run.count);
    const labels = [members[0], members[run.count - 1]].map((member) => this.label(member));
    const fold = this.newGroup(`${labels[0]} … ${labels[1]}`, group.path, item);
    Object.assign(this.group(fold), { children: members, repeats: run.count, first: this.firstNode(members[0]) });
    for (const member of members) this.parent[member] = fold;
    group.children.splice(run.from, run.count, fold);
  }

  countFolds() {
    for (const group of this.groups)
      if (group.repeats > 0) group.nodes = group.children.reduce((sum, child) => sum + this.group(child).nodes, 0);
  }
}

// Finds the group of a scope, and makes it when it is first requested.
class Scopes {
  constructor(hierarchy) {
    this.hierarchy = hierarchy;
    this.names = hierarchy.graph.page.names;
    this.known = new Map([[-1, hierarchy.root]]);
    this.mirrors = new Map();
  }

  of(path) {
    const above = [];
    for (; !this.known.has(path); path = this.names.parent(path)) above.push(path);
    let group = this.known.get(path);
    for (const below of above.reverse()) {
      group = this.names.segment(below) === "grad" ? this.gradientOf(group) : this.child(group, below);
      this.known.set(below, group);
    }
    return group;
  }

  child(group, path) {
    return this.hierarchy.newChild(group, this.names.segment(path), this.names.full(path));
  }

  // Returns the group in the gradient tree that corresponds to this group of the forward tree.
  gradientOf(group) {
    if (this.mirrors.has(group)) return this.mirrors.get(group);
    const { hierarchy } = this;
    if (this.isGradient(group)) return group;
    const { label, path, numbered } = hierarchy.group(group);
    const made = group === hierarchy.root ? hierarchy.newChild(group, "gradient", "")
      : hierarchy.newChild(this.gradientOf(hierarchy.parent[group]), numbered ? label.slice(label.lastIndexOf(".") + 1) : label, path);
    this.mirrors.set(group, made);
    return made;
  }

  isGradient(group) {
    const top = this.mirrors.get(this.hierarchy.root);
    return top !== undefined && (group === top || this.hierarchy.ancestors(group).includes(top));
  }
}

// Groups with the same signature look the same: they have the same ops under the same names, in the same order.
class Signatures {
  constructor(hierarchy) {
    this.hierarchy = hierarchy;
    this.numbers = new Map();
    this.known = new Map();
  }

  of(item) {
    const seen = this.known.get(item);
    if (seen !== undefined) return seen;
    const { hierarchy } = this;
    const text = hierarchy.isGroup(item)
      ? hierarchy.group(item).children.map((child) => `${hierarchy.label(child).slice(0, 200)}:${this.of(child)}`).join(";")
      : `${hierarchy.isNode(item) ? hierarchy.graph.op(item) : "value"}`;
    if (!this.numbers.has(text)) this.numbers.set(text, this.numbers.size);
    const number = this.numbers.get(text);
    this.known.set(item, number);
    return number;
  }
}

/** Returns runs of neighbors with equal signatures; items with signature -1 belong to no run. */
export function numberedRuns(items, signatureOf) {
  const runs = [];
  let last = -1;
  items.forEach((item, i) => {
    const signature = signatureOf(item);
    if (signature >= 0 && signature === last) ++runs[runs.length - 1].count;
    else if (signature >= 0) runs.push({ from: i, count: 1 });
    last = signature;
  });
  return runs;
}

function tableInputs(graph) {
  const found = [];
  for (let value = 0; value < graph.tableSize; ++value) if (graph.kind(value) === 0) found.push(value);
  return found;
}
