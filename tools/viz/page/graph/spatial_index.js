// Finds the rectangles that overlap a window, in time proportional to their number. It is a uniform grid of lists. A rectangle
// that would be in very many cells is in one extra list, which every search reads.

const kMaxCells = 48;

export class SpatialIndex {
  /**
   * @param {Float64Array|number[]} bounds left, top, right, bottom of one rectangle behind the other
   */
  constructor(bounds) {
    this.bounds = bounds;
    this.count = bounds.length / 4;
    this.measure();
    this.build();
    this.seen = new Uint32Array(this.count);
    this.search = 0;
  }

  measure() {
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let i = 0; i < this.bounds.length; i += 4) {
      left = Math.min(left, this.bounds[i]);
      top = Math.min(top, this.bounds[i + 1]);
      right = Math.max(right, this.bounds[i + 2]);
      bottom = Math.max(bottom, this.bounds[i + 3]);
    }
    if (this.count === 0) [left, top, right, bottom] = [0, 0, 1, 1];
    const area = Math.max(1, (right - left) * (bottom - top));
    this.cell = Math.max(64, Math.sqrt((area / Math.max(1, this.count)) * 4), Math.sqrt(area / 4e6));
    [this.left, this.top] = [left, top];
    this.across = Math.floor((right - left) / this.cell) + 1;
    this.down = Math.floor((bottom - top) / this.cell) + 1;
  }

  cells(left, top, right, bottom) {
    const clamp = (value, most) => Math.max(0, Math.min(most - 1, Math.floor(value / this.cell)));
    return [clamp(left - this.left, this.across), clamp(top - this.top, this.down),
      clamp(right - this.left, this.across), clamp(bottom - this.top, this.down)];
  }

  // Counts, then fills: cell c holds members[start[c]] up to members[start[c + 1]].
  build() {
    this.large = [];
    this.start = new Int32Array(this.across * this.down + 1);
    this.eachCell((cell) => ++this.start[cell + 1], (i) => this.large.push(i));
    for (let i = 1; i < this.start.length; ++i) this.start[i] += this.start[i - 1];
    const next = this.start.slice();
    this.members = new Int32Array(next[next.length - 1]);
    this.eachCell((cell, i) => (this.members[next[cell]++] = i), () => {});
  }

  eachCell(use, useLarge) {
    for (let i = 0; i < this.count; ++i) {
      const [a, b, c, d] = this.cells(...this.rectangle(i));
      if ((c - a + 1) * (d - b + 1) > kMaxCells) {
        useLarge(i);
        continue;
      }
      for (let y = b; y <= d; ++y) for (let x = a; x <= c; ++x) use(y * this.across + x, i);
    }
  }

  rectangle(i) {
    return [this.bounds[4 * i], this.bounds[4 * i + 1], this.bounds[4 * i + 2], this.bounds[4 * i + 3]];
  }

  meets(i, left, top, right, bottom) {
    const { bounds } = this;
    return bounds[4 * i] <= right && bounds[4 * i + 2] >= left && bounds[4 * i + 1] <= bottom && bounds[4 * i + 3] >= top;
  }

  /** Calls `use` once for every rectangle that overlaps the window. */
  each(left, top, right, bottom, use) {
    const mark = ++this.search, [a, b, c, d] = this.cells(left, top, right, bottom);
    for (const i of this.large) if (this.meets(i, left, top, right, bottom)) use(i);
    for (let y = b; y <= d; ++y)
      for (let at = this.start[y * this.across + a]; at < this.start[y * this.across + c + 1]; ++at) {
        const i = this.members[at];
        if (this.seen[i] === mark || !this.meets(i, left, top, right, bottom)) continue;
        this.seen[i] = mark;
        use(i);
      }
  }
}
