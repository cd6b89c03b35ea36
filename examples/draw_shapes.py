#!/usr/bin/env python3
"""Draws pictures of circles, squares and triangles into folders of classes, for docs/tutorials/fine-tune-an-image-model.md:

  draw_shapes.py FOLDER [COUNT]     FOLDER/CLASS/NUMBER.png, COUNT (200) of each class
  draw_shapes.py FOLDER COUNT SEED  others
"""
import math
import os
import random
import struct
import sys
import zlib

SIZE = 64


def write_png(path, rows):
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    raw = b''.join(b'\0' + bytes(value for pixel in row for value in pixel) for row in rows)
    with open(path, 'wb') as file:
        file.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', SIZE, SIZE, 8, 2, 0, 0, 0))
                   + chunk(b'IDAT', zlib.compress(raw)) + chunk(b'IEND', b''))


def is_inside(kind, x, y):
    """Tells whether a point is in the shape around 0 with the radius 1."""
    if kind == 'circle':
        return x * x + y * y <= 1
    sides = 4 if kind == 'square' else 3
    return all(x * math.cos(2 * math.pi * k / sides) + y * math.sin(2 * math.pi * k / sides) <= math.cos(math.pi / sides)
               for k in range(sides))


def draw(kind, rng):
    radius, angle = rng.uniform(12, 24), rng.uniform(0, 2 * math.pi)
    center_x, center_y = (rng.uniform(radius, SIZE - radius) for _ in range(2))
    paper, ink = ([rng.randrange(low, low + 90) for _ in range(3)] for low in rng.sample((0, 165), 2))
    rows = []
    for y in range(SIZE):
        row = []
        for x in range(SIZE):
            u, v = (x - center_x) / radius, (y - center_y) / radius
            u, v = u * math.cos(angle) + v * math.sin(angle), v * math.cos(angle) - u * math.sin(angle)
            color = ink if is_inside(kind, u, v) else paper
            row.append([min(255, max(0, value + rng.randrange(-12, 13))) for value in color])
        rows.append(row)
    return rows


def main():
    if len(sys.argv) not in (2, 3, 4) or sys.argv[1].startswith('-'):
        raise SystemExit(__doc__)
    folder, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    for kind in ('circle', 'square', 'triangle'):
        os.makedirs(os.path.join(folder, kind), exist_ok=True)
        for number in range(count):
            write_png(os.path.join(folder, kind, f'{number:04}.png'), draw(kind, rng))


main()
