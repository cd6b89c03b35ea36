// The canvas: pan, zoom, hover, select, open and close. It knows a scene and a camera. The selection belongs to the pane around
// it, which is notified through `on`.
import { Camera } from "./camera.js";
import { Overlay } from "./overlay.js";
import { Painter } from "./painter.js";
import { Tiles } from "./tiles.js";
import { downloadBlob, element } from "../core/dom.js";
import { onThemeChange, themeColor } from "../core/theme.js";

const kWheelZoom = 0.0016, kClick = 4;

export class GraphView {
  /** @param {{select(item: number): void, toggle(item: number): void, key(event: KeyboardEvent): boolean, moved(): void}} on */
  constructor(on) {
    this.on = on;
    this.camera = new Camera();
    this.scene = null;
    this.colors = () => ({});
    this.tiles = new Tiles(() => this.painter);
    this.overlay = new Overlay(this);
    this.canvas = element("canvas", { class: "graph-canvas", tabIndex: 0, role: "application",
      "aria-label": "Graph. Arrow keys follow edges or pan, plus and minus zoom, 0 shows all, Enter opens and closes, Escape deselects. The tree of scopes beside it holds the same." });
    this.pointers = new Map();
    this.frames = 0;
    this.listen();
    onThemeChange(() => this.restyle());
  }

  get width() {
    return this.canvas.clientWidth;
  }

  get height() {
    return this.canvas.clientHeight;
  }

  show(scene, colors) {
    this.scene = scene;
    this.colors = colors;
    this.restyle();
  }

  restyle() {
    if (!this.scene) return;
    this.painter = new Painter(this.scene, this.colors, {
      background: themeColor("--canvas"), box: themeColor("--box"), boxBorder: themeColor("--box-border"),
      text: themeColor("--text"), muted: themeColor("--muted"), edge: themeColor("--edge"),
    });
    this.tiles.clear();
    this.draw();
  }

  fit() {
    this.camera.fit(this.scene.bounds, this.width, this.height);
    this.draw();
  }

  /** Shows everything if its labels are readable then; else the top around the first item, at a readable scale. */
  begin() {
    const readable = 0.72, least = 0.6, [left, top, right] = this.scene.bounds;
    this.fit();
    if (this.camera.scale >= readable * 0.8) return;
    this.camera.scale = Math.max(least, Math.min(readable, (this.width - 40) / (right - left)));
    const isWider = (right - left) * this.camera.scale > this.width, first = this.scene.blocks.reduce((high, block) => (block.y < high.y ? block : high), this.scene.blocks[0]);
    const middle = isWider && first ? first.x + first.width / 2 : (left + right) / 2;
    this.camera.x = this.width / 2 - middle * this.camera.scale;
    this.camera.y = 20 - top * this.camera.scale;
  }

  /** Scrolls to a rectangle of the plane, and zooms only if it would not be readable. */
  reveal(place) {
    const least = 0.55, { camera } = this;
    if (camera.scale < least) camera.scale = Math.min(1, Math.max(least, Math.min(this.width / (place.width * 3), 1)));
    const [x, y] = camera.toScreen(place.x + place.width / 2, place.y + place.height / 2);
    const margin = 60, outside = x < margin || y < margin || x > this.width - margin || y > this.height - margin;
    if (outside || camera.scale !== this.lastScale) camera.center(place.x + place.width / 2, place.y + Math.min(place.height, this.height / camera.scale) / 2, this.width, this.height);
    this.draw();
  }

  /** Draws in the next frame. */
  draw() {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      this.paint();
    });
  }

  paint() {
    if (!this.scene || this.width === 0) return;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    this.resize(ratio);
    const context = this.canvas.getContext("2d", { alpha: false });
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = themeColor("--canvas");
    context.fillRect(0, 0, this.width, this.height);
    const zooming = performance.now() - (this.lastZoom ?? -1e9) < 120;
    const complete = this.tiles.draw(context, this.camera, this.width, this.height, ratio, zooming);
    this.overlay.draw(context);
    this.lastScale = this.camera.scale;
    ++this.frames;
    this.canvas.dataset.complete = String(complete);
    this.on.moved();
    if (!complete) this.draw();
  }

  resize(ratio) {
    const width = Math.round(this.width * ratio), height = Math.round(this.height * ratio);
    if (this.canvas.width !== width) this.canvas.width = width;
    if (this.canvas.height !== height) this.canvas.height = height;
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("pointercancel", (event) => this.pointers.delete(event.pointerId));
    canvas.addEventListener("pointerleave", () => this.hover(-1));
    canvas.addEventListener("dblclick", (event) => this.on.toggle(this.itemAt(event)));
    canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  itemAt(event) {
    return this.scene ? this.scene.itemAt(...this.camera.toWorld(...this.point(event))) : -1;
  }

  // A mouse wheel zooms. On a touchpad two fingers pan, and a pinch (which arrives as a wheel event with Ctrl) zooms.
  /** Downloads the current view as a picture. */
  savePicture() {
    this.canvas.toBlob((blob) => downloadBlob("graph.png", blob), "image/png");
  }

  wheel(event) {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1, touchpad = !event.ctrlKey && (event.deltaX !== 0 || (Math.abs(event.deltaY) < 40 && event.deltaMode === 0));
    if (touchpad && !event.ctrlKey) this.camera.pan(-event.deltaX * lines, -event.deltaY * lines);
    else this.zoomAt(Math.exp(-event.deltaY * lines * kWheelZoom * (event.ctrlKey ? 5 : 1)), ...this.point(event));
    this.draw();
  }

  zoomAt(factor, x = this.width / 2, y = this.height / 2) {
    this.camera.zoom(factor, x, y);
    this.lastZoom = performance.now();
    this.draw();
    setTimeout(() => this.draw(), 140);
  }

  press(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, this.point(event));
    this.dragged = this.pointers.size > 1 ? Infinity : 0;
  }

  move(event) {
    const now = this.point(event), before = this.pointers.get(event.pointerId);
    if (!before) return this.hover(this.itemAt(event));
    if (this.pointers.size === 2) this.pinch(event.pointerId, now);
    else this.camera.pan(now[0] - before[0], now[1] - before[1]);
    this.dragged += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
    this.pointers.set(event.pointerId, now);
    this.draw();
  }

  pinch(id, now) {
    const before = this.pointers.get(id), other = [...this.pointers].find(([key]) => key !== id)[1];
    const distance = (point) => Math.max(1, Math.hypot(point[0] - other[0], point[1] - other[1]));
    this.camera.pan((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
    this.zoomAt(distance(now) / distance(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
  }

  // A press without a drag is a click. A click on the small triangle of a box opens or closes the box.
  release(event) {
    this.pointers.delete(event.pointerId);
    if (this.dragged > kClick || !this.scene) return;
    const item = this.itemAt(event);
    if (this.onTitle(item, event)) this.on.toggle(item);
    else this.on.select(item);
  }

  onTitle(item, event) {
    const box = this.scene.boxes.find((candidate) => candidate.item === item);
    if (!box) return false;
    const [x, y] = this.camera.toWorld(...this.point(event));
    return y - box.y < 28 && x - box.x < 28;
  }

  hover(item) {
    if (this.overlay.hovered === item) return;
    this.overlay.hovered = item;
    this.canvas.style.cursor = item >= 0 ? "pointer" : "grab";
    this.draw();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const pan = { ArrowLeft: [80, 0], ArrowRight: [-80, 0], ArrowUp: [0, 80], ArrowDown: [0, -80] }[event.key];
    if (this.on.key(event)) event.preventDefault();
    else if (event.key === "+" || event.key === "=") this.zoomAt(1.3);
    else if (event.key === "-") this.zoomAt(1 / 1.3);
    else if (event.key === "0") this.fit();
    else if (pan) {
      this.camera.pan(...pan);
      this.draw();
      event.preventDefault();
    }
  }
}
