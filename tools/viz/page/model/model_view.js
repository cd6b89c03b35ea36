// The view "Weights": the contents of a file other than its graphs: states and tensors with their types and bytes, metadata,
// files.
import { histogram } from "../charts/histogram.js";
import { element, fill, shortened } from "../core/dom.js";
import { bytes, count, digits } from "../core/format.js";
import { lenientMatcher } from "../core/matcher.js";
import { undelta } from "../core/page_data.js";
import { Table } from "../core/table.js";
import { bars, largest } from "../memory/bars.js";
import { layerOf, sums } from "../memory/memory_data.js";

export function modelView(app) {
  const root = element("div", { class: "model view" });
  let shown = -1;
  return {
    root,
    shown: () => {
      if (shown === app.model) return;
      shown = app.model;
      fill(root, new ModelPage(app.page, app.page.json.models[app.model]).parts());
    },
  };
}

class ModelPage {
  constructor(page, model) {
    Object.assign(this, { page, model, rows: [...stateRows(page, model), ...tensorRows(page, model)] });
    const known = this.rows.some((row) => row.values), number = (title, field) => ({ title, value: (row) => row.values?.[field] ?? null, text: (row) => digits(row.values?.[field]), number: true });
    this.table = new Table("States and tensors", [{ title: "Name", value: (row) => row.name, text: (row) => shortened(row.name, 100), wide: true }, { title: "Role", value: (row) => row.role }, { title: "Type", value: (row) => row.type },
      { title: "Bytes", value: (row) => row.bytes, text: (row) => bytes(row.bytes), number: true }, { title: "Kept as", value: (row) => row.format },
      ...(known ? [number("Least", "low"), number("Largest", "high"), number("Mean", "mean"), number("Deviation", "deviation"), number("Not finite", "not_finite")] : [])], known ? { select: (row) => this.showValues(row) } : {});
    this.values = element("div", { class: "values", "aria-live": "polite" });
    this.found = element("span", { class: "muted", role: "status" });
  }

  parts() {
    const { model, rows } = this, total = rows.reduce((sum, row) => sum + row.bytes, 0);
    const filter = element("input", { type: "search", placeholder: "Filter by name, role or type", "aria-label": "Filter by name, role or type", oninput: () => this.filter(filter.value) });
    this.filter("");
    return [element("h2", {}, shortened(model.file, 120)), element("p", { class: "muted" }, `${model.format}, ${bytes(model.file_bytes)}; ${count(rows.length, "state")} and tensors of ${bytes(total)}`),
      element("div", { class: "columns" }, this.sums("By role", (row) => row.role), this.sums("By layer", (row) => layerOf(row.name)), this.sums("By dtype", (row) => row.type.split("[")[0])),
      this.pairs("Metadata", model.metadata), this.pairs("Files", model.files.map(([name, size]) => [name, bytes(size)])),
      rows.length > 0 && element("div", { class: "toolbar" }, filter, this.found), this.values, rows.length > 0 && this.table.root];
  }

  filter(text) {
    const fits = lenientMatcher(text), kept = this.rows.filter((row) => fits(`${row.name} ${row.role} ${row.type} ${row.format}`));
    this.found.textContent = `${count(kept.length, "row")}, ${bytes(kept.reduce((sum, row) => sum + row.bytes, 0))}`;
    this.table.use(kept);
  }

  // Shows the histogram of one tensor, and its first values.
  showValues(row) {
    const { values } = row;
    if (!values) return fill(this.values, element("p", { class: "muted" }, `${shortened(row.name, 200)}: zeros, before training gives it values`));
    const cells = values.counts.length, edges = cells > 0 ? Array.from({ length: cells + 1 }, (_, i) => values.low + ((values.high - values.low) * i) / cells) : [], none = { nan: 0, positive_infinity: 0, negative_infinity: 0 };
    fill(this.values, element("h3", {}, shortened(row.name, 200)), element("p", { class: "muted" }, `${row.type}, ${count(values.zeros, "zero")}, ${values.not_finite.toLocaleString("en")} not finite`),
      histogram({ edges, a: values.counts, b: [], a_special: none, b_special: none }, "values", ""), element("p", {}, "First: ", element("code", {}, values.first.map((value) => digits(value)).join(", "))));
    this.values.scrollIntoView({ block: "nearest" });
  }

  sums(title, key) {
    const found = sums(this.rows, key);
    return found.length > 0 && element("div", {}, element("h3", {}, title), bars(largest(found.map(([name, value]) => ({ name: shortened(name, 50), value, text: bytes(value) })), 12, bytes)));
  }

  pairs(title, rows) {
    return rows.length > 0 && element("details", { open: rows.length <= 6 }, element("summary", {}, title), element("table", { class: "facts" }, element("tbody", {},
      rows.map(([name, value]) => element("tr", {}, element("th", { scope: "row" }, shortened(name, 100)), element("td", {}, shortened(value, 3000)))))));
  }
}

function stateRows(page, { states }) {
  return [...undelta(states.name)].map((path, i) => ({ name: page.names.full(path), role: page.string(states.role[i]) + (states.role[i] >= 0 && states.trainable[i] === 0 && page.string(states.role[i]) === "parameter" ? " (frozen)" : ""),
    type: page.typeTexts[states.type[i]] ?? "", bytes: states.bytes[i], format: page.string(states.format[i]), values: states.values?.[i] }));
}

function tensorRows(page, { tensors }) {
  return [...undelta(tensors.name)].map((path, i) => ({ name: page.names.full(path), role: "tensor", type: page.typeTexts[tensors.type[i]] ?? "", bytes: tensors.bytes[i], format: "", values: tensors.values?.[i] }));
}
