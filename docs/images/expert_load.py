#!/usr/bin/env python3
"""Draws expert_load.svg from a metrics.jsonl with loads of experts, as the page's view Training does.

    python3 docs/images/expert_load.py metrics.jsonl docs/images/expert_load.svg
"""
import json
import sys

SCALE = [(253, 246, 215), (252, 205, 130), (240, 138, 84), (196, 72, 96), (122, 30, 104), (60, 12, 80)]
WIDTH, HIGH, LEFT, MOST, COLUMNS = 640, 96, 60, 4, 80


def color(share):
    at = max(0.0, min(1.0, share)) * (len(SCALE) - 1)
    low = min(len(SCALE) - 2, int(at))
    return "#%02x%02x%02x" % tuple(round(a + (b - a) * (at - low)) for a, b in zip(SCALE[low], SCALE[low + 1]))


def main():
    rows = [row for row in map(json.loads, open(sys.argv[1])) if "expert_load" in row]
    count, layers = min(COLUMNS, len(rows)), len(rows[0]["expert_load"])
    parts = [rows[i * len(rows) // count:(i + 1) * len(rows) // count] for i in range(count)]
    height = 40 + layers * (HIGH + 24) + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 10} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{LEFT + WIDTH + 10}" height="{height}" fill="white"/>',
           '<text x="10" y="22">Load of experts, as a multiple of the mean:</text>']
    for i, times in enumerate([0, 1, 2, 3, MOST]):
        out.append(f'<rect x="{270 + 60 * i}" y="11" width="14" height="14" fill="{color(times / MOST)}" stroke="#6b7280"/>'
                   f'<text x="{290 + 60 * i}" y="22">{times}{"+" if times == MOST else ""}</text>')
    for layer in range(layers):
        top, experts = 40 + layer * (HIGH + 24), len(rows[0]["expert_load"][layer])
        out.append(f'<text x="10" y="{top + HIGH / 2}">layer {layer}</text>')
        for i, part in enumerate(parts):
            for expert in range(experts):
                load = sum(row["expert_load"][layer][expert] for row in part) / len(part) * experts
                out.append(f'<rect x="{LEFT + i * WIDTH / count:.1f}" y="{top + expert * HIGH / experts:.1f}" width="{WIDTH / count + 0.3:.1f}" '
                           f'height="{HIGH / experts + 0.3:.1f}" fill="{color(load / MOST)}"/>')
    first, last = rows[0]["step"], rows[-1]["step"]
    out.append(f'<text x="{LEFT}" y="{height - 20}">step {first}</text>'
               f'<text x="{LEFT + WIDTH}" y="{height - 20}" text-anchor="end">step {last}</text></svg>')
    open(sys.argv[2], "w").write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
