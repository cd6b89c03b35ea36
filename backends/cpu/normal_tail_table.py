#!/usr/bin/env python3
"""Writes normal_tail_table.h: python3 backends/cpu/normal_tail_table.py > backends/cpu/normal_tail_table.h

Each piece interpolates tail(centre + t) / tail(centre) at the zeros of a Chebyshev polynomial, which spreads the
relative error evenly over the piece; prints the largest relative error of the rounded coefficients to stderr.
"""
import math
import struct
import sys

PIECES, DEGREE, STEP = 32, 5, 0.17
EDGE = 5.355  # the end of the last piece


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def tail(a):
    return 0.5 * math.erfc(a / math.sqrt(2))


def coefficients(centre):
    """Of powers of t, by Newton's divided differences."""
    nodes = [0.5 * STEP * math.cos(math.pi * (2 * i + 1) / (2 * DEGREE + 2)) for i in range(DEGREE + 1)]
    differences = [tail(centre + t) / tail(centre) for t in nodes]
    for order in range(1, DEGREE + 1):
        for i in range(DEGREE, order - 1, -1):
            differences[i] = (differences[i] - differences[i - 1]) / (nodes[i] - nodes[i - order])
    powers = [0.0] * (DEGREE + 1)
    for i in range(DEGREE, -1, -1):
        powers = [(powers[k - 1] if k else 0.0) - nodes[i] * powers[k] for k in range(DEGREE + 1)]
        powers[0] += differences[i]
    return [f32(p * tail(centre)) for p in powers]


def main():
    step = f32(STEP)
    table = [coefficients(piece * step) for piece in range(PIECES)]
    worst = 0.0
    for i in range(200000):
        a = EDGE * i / 200000
        piece = round(a / step)
        value = sum(c * (a - piece * step) ** k for k, c in enumerate(table[piece]))
        worst = max(worst, abs(value / tail(a) - 1))
    print(f"largest relative error {worst:.2e}", file=sys.stderr)
    print("// Made by normal_tail_table.py. Coefficients of t^k in the normal tail at a = piece * kNormalTailStep + t.")
    print("// Used by simd_math.h.\n#pragma once\n\nnamespace genesis::cpu {\n")
    print(f"inline constexpr float kNormalTailStep = {STEP}f, kNormalTailEnd = {EDGE}f;")
    print(f"alignas(64) inline constexpr float kNormalTail[{DEGREE + 1}][{PIECES}] = {{")
    for k in range(DEGREE + 1):
        print("{" + ", ".join(f"{row[k]:#.9g}f" for row in table) + "},")
    print("};\n\n}  // namespace genesis::cpu")


main()
