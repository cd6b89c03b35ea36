// The dialog that names the program that made the page and the software it contains.
import notices from "built/notices.json";

import { button, element } from "./dom.js";

export function about(madeBy) {
  const dialog = element("dialog", { class: "about", "aria-label": "About this page", onclose: () => dialog.remove() },
    element("h2", {}, "About this page"),
    element("p", {}, `Made by ${madeBy}. It holds all its data and asks nobody for anything.`),
    element("h3", {}, "Keys"),
    element("p", {}, "/ search · n and N next and previous · arrows follow edges, or pan · + − 0 zoom · Enter opens and closes · Esc deselects"),
    element("h3", {}, "Contains"),
    notices.map(({ name, version, copyright, license }) => element("details", {}, element("summary", {}, `${name} ${version}, ${license.name}`), element("p", {}, copyright), element("pre", {}, license.text))),
    button("Close", () => dialog.close()));
  document.body.append(dialog);
  dialog.showModal();
}
