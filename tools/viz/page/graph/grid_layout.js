// Places thousands of items in well under a second, where a real layout would take minutes. Items are in rows by depth (the
// longest path that leads to an item). Wide rows are wrapped so that the whole is about as wide as high.

/**
 * @param {number[]} widths
 * @param {number[]} heights
 * @param {number[]} edges from, to, from, to, ... as indices of items
 * @returns {{x: Float64Array, y: Float64Array, width: number, height: number}} corners
 */
export function gridLayout(widths, heights, edges, gap = 24) {
  const depth = depths(widths.length, edges);
  const rows = rowsByDepth(depth);
  order(rows, edges, widths.length);
  return place(rows, widths, heights, gap);
}

/** Returns the longest path from a source to each item; items in a cycle get the depth at which they are first reached. */
export function depths(count, edges) {
  const waitsFor = new Int32Array(count), depth = new Int32Array(count), readers = adjacency(count, edges, 0);
  for (let i = 1; i < edges.length; i += 2) ++waitsFor[edges[i]];
  const ready = [], done = new Uint8Array(count);
  for (let item = 0; item < count; ++item) if (waitsFor[item] === 0) ready.push(item);
  for (let at = 0, next = 0; at < count; ++at) {
    if (at === ready.length) {
      while (done[next]) ++next;
      ready.push(next);
    }
    const item = ready[at];
    done[item] = 1;
    for (let i = readers.start[item]; i < readers.start[item + 1]; ++i) {
      const reader = readers.other[i];
      if (done[reader]) continue;
      depth[reader] = Math.max(depth[reader], depth[item] + 1);
      if (--waitsFor[reader] === 0) ready.push(reader);
    }
  }
  return depth;
}

// Returns neighbors in compressed rows: for `side` 0 the readers of each item, for `side` 1 the items it reads.
function adjacency(count, edges, side) {
  const start = new Int32Array(count + 1);
  for (let i = side; i < edges.length; i += 2) ++start[edges[i] + 1];
  for (let i = 0; i < count; ++i) start[i + 1] += start[i];
  const next = start.slice(), other = new Int32Array(edges.length / 2);
  for (let i = 0; i < edges.length; i += 2) other[next[edges[i + side]]++] = edges[i + 1 - side];
  return { start, other };
}

function rowsByDepth(depth) {
  const rows = [];
  depth.forEach((row, item) => (rows[row] ??= []).push(item));
  return rows.filter((row) => row);
}

// Sorts each row by the mean position of its inputs, in one sweep from top to bottom.
function order(rows, edges, count) {
  const reads = adjacency(count, edges, 1), at = new Float64Array(count);
  for (const row of rows) {
    const key = new Map(row.map((item) => [item, meanPlace(item, reads, at)]));
    row.sort((a, b) => key.get(a) - key.get(b) || a - b);
    row.forEach((item, i) => (at[item] = i / row.length));
  }
}

function meanPlace(item, reads, at) {
  let sum = 0;
  for (let i = reads.start[item]; i < reads.start[item + 1]; ++i) sum += at[reads.other[i]];
  return sum / Math.max(1, reads.start[item + 1] - reads.start[item]);
}

function place(rows, widths, heights, gap) {
  const x = new Float64Array(widths.length), y = new Float64Array(widths.length);
  let area = 0;
  for (let i = 0; i < widths.length; ++i) area += (widths[i] + gap) * (heights[i] + gap);
  const side = Math.max(1200, Math.sqrt(area) * 1.3);
  let left = 0, right = 0, top = 0, bottom = 0;
  for (const row of rows)
    for (const line of wrapped(row, widths, gap, side)) {
      if (top > side) [left, top] = [right + 3 * gap, 0];
      let across = left, high = 0;
      for (const item of line) {
        [x[item], y[item]] = [across, top];
        across += widths[item] + gap;
        high = Math.max(high, heights[item]);
      }
      top += high + gap;
      right = Math.max(right, across - gap);
      bottom = Math.max(bottom, top - gap);
    }
  return { x, y, width: right, height: bottom };
}

function wrapped(row, widths, gap, most) {
  const lines = [[]];
  let width = 0;
  for (const item of row) {
    if (width > most) {
      lines.push([]);
      width = 0;
    }
    lines[lines.length - 1].push(item);
    width += widths[item] + gap;
  }
  return lines;
}
