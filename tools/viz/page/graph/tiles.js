// Draws the scene as square pictures that are then only moved: panning costs a dozen copies per frame for any number of nodes.
// After a zoom the old pictures are shown stretched until the new ones are drawn, a few per frame.

const kSide = 512; // CSS pixels
const kMaxTiles = 80;
const kMilliseconds = 9; // drawing time per frame, so that a frame stays below 16

export class Tiles {
  /** @param {() => import("./painter").Painter} painter */
  constructor(painter) {
    this.painter = painter;
    this.clear();
  }

  /** Drops all tiles after the scene or its colors have changed. */
  clear() {
    this.current = { scale: 0, tiles: new Map(), complete: false };
    this.previous = null;
  }

  /** Draws the visible part. @returns {boolean} true if it is complete; if not, call again in the next frame. */
  draw(context, camera, width, height, ratio, moving = false) {
    this.useScale(camera.scale);
    if (this.previous) this.paste(context, this.previous, camera, width, height, ratio);
    const missing = this.missing(camera, width, height);
    if (!(moving && this.previous)) this.render(missing, ratio);
    this.paste(context, this.current, camera, width, height, ratio);
    this.current.complete = missing.length === 0;
    if (this.current.complete) this.previous = null;
    return this.current.complete;
  }

  useScale(scale) {
    if (scale === this.current.scale) return;
    if (this.current.complete) this.previous = this.current;
    this.current = { scale, tiles: new Map(), complete: false };
  }

  visible({ scale, x, y }, width, height, tileScale = scale) {
    const side = (kSide / tileScale) * scale, from = (offset) => Math.floor(-offset / side), to = (offset, size) => Math.floor((size - 1 - offset) / side);
    return { side, left: from(x), right: to(x, width), top: from(y), bottom: to(y, height) };
  }

  missing(camera, width, height) {
    const { left, right, top, bottom } = this.visible(camera, width, height), found = [];
    for (let row = top; row <= bottom; ++row)
      for (let column = left; column <= right; ++column) if (!this.current.tiles.has(`${column},${row}`)) found.push([column, row]);
    return found;
  }

  // Draws at least one tile, then as many as the time allows.
  render(missing, ratio) {
    const start = performance.now();
    while (missing.length > 0) {
      const [column, row] = missing.shift();
      this.current.tiles.set(`${column},${row}`, this.tile(column, row, ratio));
      if (performance.now() - start > kMilliseconds) break;
    }
    for (const key of this.current.tiles.keys()) {
      if (this.current.tiles.size <= kMaxTiles) break;
      this.current.tiles.delete(key);
    }
  }

  tile(column, row, ratio) {
    const canvas = document.createElement("canvas"), { scale } = this.current;
    canvas.width = canvas.height = Math.ceil(kSide * ratio);
    const context = canvas.getContext("2d", { alpha: false });
    context.setTransform(scale * ratio, 0, 0, scale * ratio, -column * kSide * ratio, -row * kSide * ratio);
    const left = (column * kSide) / scale, top = (row * kSide) / scale, side = kSide / scale;
    this.painter().draw(context, [left, top, left + side, top + side], scale);
    return canvas;
  }

  paste(context, set, camera, width, height, ratio) {
    const { side, left, right, top, bottom } = this.visible(camera, width, height, set.scale);
    const same = set.scale === camera.scale, at = (value) => (same ? Math.round(value * ratio) / ratio : value);
    if ((right - left) * (bottom - top) > 4 * kMaxTiles) return;
    for (let row = top; row <= bottom; ++row)
      for (let column = left; column <= right; ++column) {
        const tile = set.tiles.get(`${column},${row}`);
        if (tile) context.drawImage(tile, at(camera.x + column * side), at(camera.y + row * side), side, side);
      }
  }
}
