// Makes DOM elements. Text is only ever added as text nodes, so a name from a file cannot become markup.

/**
 * Makes an element with properties, listeners (keys that begin with "on") and children.
 * @param {string} tag
 * @param {Object<string, any>} [properties] `class` and `aria-*`, `data-*`, `role` are attributes; `style` is an object
 * @param {...(Node|string|number|null|undefined|false)} children
 * @returns {HTMLElement}
 */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  set(made, properties);
  append(made, children);
  return made;
}

const kSvg = "http://www.w3.org/2000/svg";

/** Makes an SVG element. Every property except listeners is an attribute. */
export function svg(tag, properties = {}, ...children) {
  const made = document.createElementNS(kSvg, tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(key, String(value));
  }
  append(made, children);
  return made;
}

/** @param {HTMLElement} target */
function set(target, properties) {
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined) continue;
    if (key.startsWith("on")) target.addEventListener(key.slice(2), value);
    else if (key === "class") target.className = value;
    else if (key === "style") for (const [name, text] of Object.entries(value)) target.style.setProperty(name, text);
    else if (key === "role" || key === "for" || key.includes("-")) target.setAttribute(key, String(value));
    else target[key] = value;
  }
}

function append(target, children) {
  for (const child of children.flat(Infinity))
    if (child !== null && child !== undefined && child !== false) target.append(child instanceof Node ? child : String(child));
}

/** Replaces the content of `target` by `children`. */
export function fill(target, ...children) {
  target.replaceChildren();
  append(target, children);
  return target;
}

/** Makes a button with a label. */
export function button(label, onclick, properties = {}) {
  return element("button", { type: "button", onclick, ...properties }, label);
}

/**
 * Makes a labeled drop-down list.
 * @param {string} label
 * @param {[value: string, text: string][]} options
 */
export function choice(label, options, value, onchange) {
  const select = element("select", { "aria-label": label, onchange: () => onchange(select.value) },
    options.map(([key, text]) => element("option", { value: key }, text)));
  select.value = value;
  return element("label", { class: "choice" }, element("span", {}, label), select);
}

/** Shortens a name for a label, since names may have 10,000 characters. */
export function shortened(text, most = 120) {
  return text.length <= most ? text : text.slice(0, most * 0.6) + "…" + text.slice(-most * 0.35);
}

/** Saves a file through the browser. Nothing is sent anywhere. */
export function download(name, type, text) {
  downloadBlob(name, new Blob([text], { type }));
}

export function downloadBlob(name, blob) {
  const url = URL.createObjectURL(blob);
  const link = element("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
