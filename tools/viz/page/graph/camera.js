// The window's position over the drawing: screen = world * scale + offset, in CSS pixels.

export class Camera {
  constructor() {
    this.scale = 1;
    this.x = 0;
    this.y = 0;
  }

  toWorld(x, y) {
    return [(x - this.x) / this.scale, (y - this.y) / this.scale];
  }

  toScreen(x, y) {
    return [x * this.scale + this.x, y * this.scale + this.y];
  }

  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
  }

  /** Zooms while keeping the point under (x, y) fixed. */
  zoom(factor, x, y, least = 1e-4, most = 4) {
    const scale = Math.max(least, Math.min(most, this.scale * factor)), by = scale / this.scale;
    this.x = x - (x - this.x) * by;
    this.y = y - (y - this.y) * by;
    this.scale = scale;
  }

  /** Shows a rectangle of the world as large as the window allows, at a scale of at most 1. */
  fit([left, top, right, bottom], width, height, margin = 24) {
    const wide = Math.max(1, right - left), high = Math.max(1, bottom - top);
    this.scale = Math.max(1e-4, Math.min(1, (width - 2 * margin) / wide, (height - 2 * margin) / high));
    this.x = (width - wide * this.scale) / 2 - left * this.scale;
    this.y = (height - high * this.scale) / 2 - top * this.scale;
  }

  center(x, y, width, height) {
    this.x = width / 2 - x * this.scale;
    this.y = height / 2 - y * this.scale;
  }

  /** Returns the part of the world that the window shows. */
  window(width, height) {
    return [...this.toWorld(0, 0), ...this.toWorld(width, height)];
  }
}
