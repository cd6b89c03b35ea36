// Shows the hierarchy as a tree of text: the navigation for screen readers and keyboards, and a table of contents for everybody
// (pattern "tree view" of the WAI-ARIA Authoring Practices). Closed rows do not exist in the document.
import { button, element, fill, shortened } from "../core/dom.js";
import { ownName } from "./scene.js";

const kMaxChildren = 300;

export class ScopeTree {
  /** @param {{select(item: number): void}} on */
  constructor(on) {
    this.on = on;
    this.root = element("ul", { class: "tree", role: "tree", "aria-label": "Scopes and nodes", onkeydown: (event) => this.key(event) });
  }

  use(hierarchy) {
    this.hierarchy = hierarchy;
    this.rows = new Map();
    fill(this.root, this.children(hierarchy.root, 1));
    this.focusable(this.root.querySelector("[role=treeitem]"));
  }

  children(group, level, from = 0) {
    const items = this.hierarchy.group(group).children, shown = items.slice(from, from + kMaxChildren).map((item) => this.row(item, level));
    const rest = items.length - from - kMaxChildren;
    if (rest > 0) shown.push(this.more(group, level, from + kMaxChildren, rest));
    return shown;
  }

  more(group, level, from, rest) {
    const row = element("li", { role: "none" }, button(`${rest.toLocaleString("en")} more`, () => row.replaceWith(...this.children(group, level, from))));
    return row;
  }

  row(item, level) {
    const { hierarchy } = this, group = hierarchy.isGroup(item), { graph } = hierarchy;
    const kind = group ? hierarchy.group(item).nodes.toLocaleString("en") : hierarchy.isNode(item) ? graph.op(item) : item < hierarchy.firstOutput ? "input" : "output";
    const name = hierarchy.label(item), label = hierarchy.isNode(item) ? ownName(name, kind) || name : name;
    const line = element("span", { class: "tree-label", onclick: () => this.press(row, item) },
      element("span", { class: "tree-mark", "aria-hidden": "true" }, group ? "▸" : "·"), element("span", {}, shortened(label, 80), " ", element("small", {}, shortened(kind, 40))));
    const row = element("li", { role: "treeitem", tabIndex: -1, "aria-level": level, "aria-selected": "false" }, line);
    if (group) row.setAttribute("aria-expanded", "false");
    row.dataset.item = String(item);
    this.rows.set(item, row);
    return row;
  }

  press(row, item) {
    this.focusable(row);
    this.on.select(item);
    if (row.getAttribute("aria-expanded") === "false") this.expand(row, true);
    else if (row.getAttribute("aria-expanded") === "true") this.expand(row, false);
  }

  expand(row, open) {
    if (row.getAttribute("aria-expanded") === null || (row.getAttribute("aria-expanded") === "true") === open) return;
    row.setAttribute("aria-expanded", String(open));
    row.querySelector(".tree-mark").textContent = open ? "▾" : "▸";
    if (open) row.append(element("ul", { role: "group" }, this.children(Number(row.dataset.item), Number(row.getAttribute("aria-level")) + 1)));
    else row.querySelector("ul").remove();
  }

  /** Opens the rows around an item and marks it. */
  reveal(item) {
    for (const above of this.hierarchy.ancestors(item).slice(1)) if (this.rows.has(above)) this.expand(this.rows.get(above), true);
    this.root.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
    const row = this.rows.get(item);
    if (!row?.isConnected) return;
    row.setAttribute("aria-selected", "true");
    this.focusable(row);
    row.querySelector(".tree-label").scrollIntoView({ block: "nearest" });
  }

  // Makes one row reachable by Tab: the one that had the focus last.
  focusable(row) {
    this.root.querySelector("[tabindex='0']")?.setAttribute("tabindex", "-1");
    row?.setAttribute("tabindex", "0");
  }

  key(event) {
    const rows = [...this.root.querySelectorAll("[role=treeitem]")], row = event.target.closest("[role=treeitem]"), at = rows.indexOf(row);
    if (at < 0) return;
    const to = { ArrowDown: rows[at + 1], ArrowUp: rows[at - 1], Home: rows[0], End: rows[rows.length - 1] }[event.key];
    if (to) this.focus(to);
    else if (event.key === "ArrowRight") this.right(row);
    else if (event.key === "ArrowLeft") this.left(row);
    else if (event.key === "Enter" || event.key === " ") this.on.select(Number(row.dataset.item));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  focus(row) {
    this.focusable(row);
    row.focus();
  }

  right(row) {
    if (row.getAttribute("aria-expanded") === "true") this.focus(row.querySelector("[role=treeitem]"));
    else this.expand(row, true);
  }

  left(row) {
    if (row.getAttribute("aria-expanded") === "true") this.expand(row, false);
    else if (row.parentElement.closest("[role=treeitem]")) this.focus(row.parentElement.closest("[role=treeitem]"));
  }
}
