// Shows the whole scene in small, with the rectangle of the window; a press moves the window there.
import { element } from "../core/dom.js";
import { themeColor } from "../core/theme.js";

const kWidth = 180, kHeight = 130;

export class Minimap {
  /** @param {import("./graph_view").GraphView} view */
  constructor(view) {
    this.view = view;
    this.canvas = element("canvas", { class: "minimap", width: kWidth * 2, height: kHeight * 2, "aria-hidden": "true" });
    const jump = (event) => event.buttons === 1 && this.jump(event);
    this.canvas.addEventListener("pointerdown", jump);
    this.canvas.addEventListener("pointermove", jump);
  }

  /** Redraws the scene if it or its colors have changed, and always the window. */
  draw() {
    const { painter } = this.view;
    if (!painter) return;
    if (this.painter !== painter) this.drawScene(painter);
    const context = this.canvas.getContext("2d"), { camera } = this.view;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(this.picture, 0, 0);
    const [left, top, right, bottom] = camera.window(this.view.width, this.view.height);
    context.setTransform(this.scale, 0, 0, this.scale, this.x, this.y);
    context.strokeStyle = themeColor("--accent");
    context.lineWidth = 3 / this.scale;
    context.strokeRect(left, top, right - left, bottom - top);
  }

  drawScene(painter) {
    this.painter = painter;
    const [left, top, right, bottom] = painter.scene.bounds, wide = right - left, high = bottom - top;
    this.scale = Math.min((kWidth * 2 - 8) / wide, (kHeight * 2 - 8) / high);
    this.x = (kWidth * 2 - wide * this.scale) / 2 - left * this.scale;
    this.y = (kHeight * 2 - high * this.scale) / 2 - top * this.scale;
    this.picture = element("canvas", { width: kWidth * 2, height: kHeight * 2 });
    const context = this.picture.getContext("2d");
    context.fillStyle = themeColor("--canvas");
    context.fillRect(0, 0, kWidth * 2, kHeight * 2);
    context.setTransform(this.scale, 0, 0, this.scale, this.x, this.y);
    painter.draw(context, [left, top, right, bottom], Math.min(this.scale, 0.1));
  }

  jump(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * kWidth * 2, y = ((event.clientY - box.top) / box.height) * kHeight * 2;
    this.view.camera.center((x - this.x) / this.scale, (y - this.y) / this.scale, this.view.width, this.view.height);
    this.view.draw();
  }
}
