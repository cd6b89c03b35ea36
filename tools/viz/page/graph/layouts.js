// Requests the layout of the visible levels from the worker and caches it: a level is laid out again only if the open groups
// below it have changed.
import { blockSize } from "./scene.js";
import { textWidth } from "./text_width.js";
import { drawnEdges, visibleLevels } from "./levels.js";

export class Layouts {
  /** @param {import("./hierarchy").Hierarchy} hierarchy @param {LayoutWorker} worker */
  constructor(hierarchy, worker) {
    this.hierarchy = hierarchy;
    this.worker = worker;
    this.kept = new Map();
  }

  /** @param {Set<number>} open @returns {Promise<{levels: import("./levels").Level[], layouts: Map<number, any>}>} */
  async of(open) {
    const levels = visibleLevels(this.hierarchy, open).map((level) => ({ ...level, edges: drawnEdges(level) })), keys = this.keys(levels, open);
    const results = await this.worker.layout(levels.map((level) => this.request(level, open, this.kept.get(keys.get(level.group)))));
    const layouts = new Map();
    for (const result of results) {
      const key = keys.get(result.group);
      if (!result.same) this.kept.set(key, result);
      layouts.set(result.group, this.kept.get(key));
    }
    return { levels, layouts };
  }

  // Returns a key per level. Equal keys have the same open groups below the level, and so the same picture.
  keys(levels, open) {
    const keys = new Map();
    for (const { group, items } of levels)
      keys.set(group, `${group}(${items.filter((item) => open.has(item)).map((item) => keys.get(item)).join(",")})`);
    return keys;
  }

  request(level, open, kept) {
    if (kept) return { group: level.group, known: { width: kept.width, height: kept.height } };
    const index = new Map(level.items.map((item, i) => [item, i])), end = (item) => (item < 0 ? item : index.get(item));
    const sizes = level.items.map((item) => blockSize(this.hierarchy, item));
    return {
      group: level.group,
      widths: sizes.map((size) => size[0]),
      heights: sizes.map((size) => size[1]),
      boxes: level.items.map((item) => (open.has(item) ? item : null)),
      edges: level.edges.flatMap((edge) => [end(edge.from), end(edge.to)]),
      least: level.group === this.hierarchy.root ? 0 : Math.min(400, textWidth(this.hierarchy.label(level.group)) * 1.1 + 50),
    };
  }
}

/** The page's only layout worker. Its script is embedded in the page as text. */
export class LayoutWorker {
  constructor(script) {
    this.worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
    this.waiting = new Map();
    this.last = 0;
    this.worker.onmessage = ({ data }) => this.answer(data);
    this.worker.onerror = (event) => this.failAll(event.message);
  }

  layout(levels) {
    const id = ++this.last;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, levels });
    });
  }

  answer({ id, results, problem }) {
    const { resolve, reject } = this.waiting.get(id);
    this.waiting.delete(id);
    if (problem) reject(new Error(problem));
    else resolve(results);
  }

  failAll(message) {
    for (const { reject } of this.waiting.values()) reject(new Error(message));
    this.waiting.clear();
  }
}

const kVisibleAtFirst = 46;

/** Returns the groups to open at first: from the outermost inwards, while the picture stays small enough to read. */
export function openAtFirst(hierarchy) {
  const open = new Set(), waiting = [hierarchy.root];
  let visible = hierarchy.group(hierarchy.root).children.length;
  while (waiting.length > 0) {
    const children = hierarchy.group(waiting.shift()).children;
    for (const item of children) {
      if (!hierarchy.isGroup(item)) continue;
      const { children: inner, repeats } = hierarchy.group(item);
      if (repeats > 0 || visible + inner.length - 1 > kVisibleAtFirst) continue;
      visible += inner.length - 1;
      open.add(item);
      waiting.push(item);
    }
  }
  return open;
}
