// The search box of a graph, with the list of results.
import { element, fill, shortened } from "../core/dom.js";
import { search } from "./search.js";

const kMaxShown = 200;

/** The search box with its results. `on.found(items)` marks them, `on.go(item)` shows one. */
export class SearchBox {
  constructor(on) {
    this.on = on;
    this.items = [];
    this.at = -1;
    this.input = element("input", { type: "search", id: "search", placeholder: "Search: name, op, type, /regex/  ( / )", "aria-label": "Search nodes by name, op, type or /regular expression/",
      "aria-controls": "results", autocomplete: "off", spellcheck: false, oninput: () => this.later(), onkeydown: (event) => this.key(event) });
    this.status = element("span", { class: "search-status", role: "status" });
    this.list = element("ul", { class: "results", id: "results", role: "listbox", "aria-label": "Found", hidden: true });
    this.root = element("div", { class: "search" }, this.input, this.status, this.list);
  }

  use(hierarchy) {
    this.hierarchy = hierarchy;
    this.run(false);
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.run(true), 120);
  }

  run(list) {
    const { items, problem } = search(this.hierarchy, this.input.value);
    this.items = items;
    this.at = -1;
    this.status.textContent = problem ?? (this.input.value.trim() === "" ? "" : `${items.length.toLocaleString("en")} found`);
    this.status.classList.toggle("problem", problem !== null);
    this.showList(list && items.length > 0);
    this.on.found(items);
  }

  showList(visible) {
    this.list.hidden = !visible;
    if (!visible) return;
    const { graph } = this.hierarchy;
    fill(this.list, this.items.slice(0, kMaxShown).map((item, i) => {
      const op = this.hierarchy.isNode(item) ? graph.op(item) : item < this.hierarchy.firstOutput ? "input" : "output";
      const name = this.hierarchy.isNode(item) ? graph.nodeName(item) : this.hierarchy.label(item);
      return element("li", { role: "option", "aria-selected": String(i === this.at), onclick: () => this.go(i) },
        element("b", {}, shortened(op, 40)), " ", element("span", {}, shortened(name)));
    }), this.items.length > kMaxShown && element("li", { class: "muted", role: "presentation" }, `and ${(this.items.length - kMaxShown).toLocaleString("en")} more: a longer word finds fewer`));
  }

  key(event) {
    if (event.key === "Enter" || event.key === "ArrowDown") this.step(1);
    else if (event.key === "ArrowUp") this.step(-1);
    else if (event.key === "Escape") this.clear();
    else return;
    event.preventDefault();
  }

  /** Goes to the next (1) or the previous (-1) result. */
  step(by) {
    clearTimeout(this.timer);
    if (this.items.length === 0 && this.input.value.trim() !== "") this.run(true);
    if (this.items.length > 0) this.go((this.at + by + this.items.length) % this.items.length);
  }

  go(i) {
    this.at = i;
    [...this.list.children].forEach((row, at) => row.setAttribute("aria-selected", String(at === i)));
    this.list.children[i]?.scrollIntoView({ block: "nearest" });
    this.status.textContent = `${(i + 1).toLocaleString("en")} of ${this.items.length.toLocaleString("en")}`;
    this.on.go(this.items[i]);
  }

  hideList() {
    this.list.hidden = true;
  }

  clear() {
    this.input.value = "";
    this.run(false);
    this.on.left();
  }
}
