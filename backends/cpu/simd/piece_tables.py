#!/usr/bin/env python3
"""Writes piece_tables.h: python3 backends/cpu/simd/piece_tables.py | clang-format > backends/cpu/simd/piece_tables.h

A function of a >= 0 in 16 pieces, each a polynomial of degree 5 in the distance to a center, with the least largest
relative error (Remez). The piece is round(index(a) / step), where `index` is what a multiply-add can compute: it
decides where pieces are short. The first piece has its center at 0, no constant and an exact slope, for small numbers.
Prints the largest relative error of the rounded coefficients to stderr.
"""
import math
import struct
import sys

PIECES, DEGREE = 16, 5


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def solve(rows):
    """Linear equations, by elimination; the last column is the right side."""
    n = len(rows)
    for c in range(n):
        pivot = max(range(c, n), key=lambda r: abs(rows[r][c]))
        rows[c], rows[pivot] = rows[pivot], rows[c]
        for r in range(n):
            if r != c:
                k = rows[r][c] / rows[c][c]
                rows[r] = [a - k * b for a, b in zip(rows[r], rows[c])]
    return [rows[i][n] / rows[i][i] for i in range(n)]


def alternating(errors, count):
    """The largest of each run of errors of one sign; `count` of them."""
    peaks = []
    for i, e in enumerate(errors):
        if not peaks or (e > 0) != (errors[peaks[-1]] > 0):
            peaks.append(i)
        elif abs(e) > abs(errors[peaks[-1]]):
            peaks[-1] = i
    while len(peaks) > count:
        peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
    return peaks


def minimax(f, allowed, low, high, degree):
    """Coefficients of powers of s, -1 to 1 for f from low to high; the error is spread as `allowed` is."""
    middle, half, grid = (low + high) / 2, (high - low) / 2, 400
    scaled = [-math.cos(math.pi * i / grid) for i in range(grid + 1)]
    values = [f(middle + half * s) for s in scaled]
    weights = [allowed(middle + half * s) for s in scaled]
    peaks = [round(grid * i / (degree + 1)) for i in range(degree + 2)]
    for _ in range(12):
        rows = [[scaled[i]**j for j in range(degree + 1)] + [(-1)**k * weights[i], values[i]]
                for k, i in enumerate(peaks)]
        c = solve(rows)[:-1]
        errors = [(value(c, s) - v) / w for s, v, w in zip(scaled, values, weights)]
        better = alternating(errors, degree + 2)
        if better == peaks or len(better) < degree + 2:
            break
        peaks = better
    return c


def powers_of_t(c, offset, half):
    """From powers of (t + offset) / half."""
    powers = [0.0] * len(c)
    for cj in reversed(c):
        powers = [((powers[k - 1] if k else 0.0) + offset * powers[k]) / half for k in range(len(c))]
        powers[0] += cj
    return powers


def value(c, s):
    return sum(cj * s**j for j, cj in enumerate(c))


def first_piece(f, slope, high):
    """f(t) = slope t + t^2 p(t)"""
    start = high / 1000  # the differences are accurate from here on
    p = minimax(lambda t: (f(max(t, start)) / max(t, start) - slope) / max(t, start),
                lambda t: 1 / max(t, high / 50), 0.0, high, DEGREE - 2)
    return [0.0, 0.0, slope] + powers_of_t(p, -high / 2, high / 2)


def other_piece(f, low, high):
    """The center lies near the middle, where rounding the constant changes it least."""
    middle, half = (low + high) / 2, (high - low) / 2
    c = minimax(f, f, low, high, DEGREE)
    centers = [f32(middle + half * i / 2000) for i in range(-200, 201)]
    constants = [value(c, (center - middle) / half) for center in centers]
    lost, center = min((abs(f32(v) / v - 1), center) for v, center in zip(constants, centers))
    return [center] + powers_of_t(c, center - middle, half)


def boundary(index, number, low, end):
    """The last f32 with index(a) <= number, or the end."""
    while f32((low + end) / 2) not in (low, end):
        a = f32((low + end) / 2)
        low, end = (a, end) if index(a) <= number else (low, a)
    return low


def pieces(f, slope, index, step, first, end):
    """A row per piece: the center, then the coefficients; and where they begin and end. `slope` is that at 0."""
    begin = low = boundary(index, (first - 0.5) * step, 0.0, end) if first else 0.0
    rows = []
    for piece in range(first, first + PIECES):
        high = boundary(index, (piece + 0.5) * step, low, end)
        rows.append(other_piece(f, low, high) if piece else first_piece(f, slope, high))
        low = high
    return [[f32(x) for x in row] for row in rows], begin, low


def write(name, f, slope, index, step, end, first=0):
    table, begin, end = pieces(f, slope, index, step, first, end)
    worst = 0.0
    for i in range(1, 200000):
        a = begin + (end - begin) * i / 200000
        center, *c = table[round(index(a) / step) - first]
        worst = max(worst, abs(value(c, a - center) / f(a) - 1))
    print(f"{name}: {begin:.4f} to {end:.4f}, largest relative error {worst:.2e}", file=sys.stderr)
    print(f"inline constexpr float {name}End = {end:.9g}f;")
    print(f"alignas(64) inline constexpr float {name}[{DEGREE + 2}][{PIECES}] = {{")
    for k in range(DEGREE + 2):
        print("{" + ", ".join(f"{row[k]:#.9g}f" for row in table) + "},")
    print("};\n")


def product(a, p):
    """As a multiply-add of f32 sees it."""
    return f32(a + f32(p)) * f32(a + f32(0.2))


def tail(a):
    return 0.5 * math.erfc(a / math.sqrt(2))


def tail_by_tanh(a):
    return 1 / (1 + math.exp(math.sqrt(8 / math.pi) * (a + 0.044715 * a**3)))


print("// Made by piece_tables.py. Each table approximates a function by 16 polynomials, one for each piece of its domain. "
      "A column holds\n// the center of a piece, then the coefficients of the powers of the distance to the center. "
      "Used by simd_math.h.\n#pragma once\n\nnamespace genesis::cpu {\n")
print("// |x| times the probability that a standard normal variable exceeds |x|. "
      "The piece is (|x| + 1.6) (|x| + 0.2) / 2, rounded.")
write("kGeluTail", lambda a: a * tail(a), 0.5, lambda a: product(a, 1.6), 2, 6)
print("// The next 16 pieces of the same function.")
write("kGeluFarTail", lambda a: a * tail(a), 0.5, lambda a: product(a, 1.6), 2, 9, PIECES)
print("// The same for the form of GELU with tanh. The piece is (|x| + 1.8) (|x| + 0.2) / 2, rounded.")
write("kGeluTanhTail", lambda a: a * tail_by_tanh(a), 0.5, lambda a: product(a, 1.8), 2, 6)
print("// tanh(|x|). The piece is |x| (15.6 - |x|) / 4, rounded.")
write("kTanh", math.tanh, 1.0, lambda a: a * (15.6 - a), 4, f32(9.2))
print("// 2^(k / 16) rounded to f32, and its rounding error: the exact value minus the rounded one.")
powers = [2**(k / 16) for k in range(16)]
print("alignas(64) inline constexpr float kPowers[2][16] = {")
print("{" + ", ".join(f"{f32(x):#.9g}f" for x in powers) + "},")
print("{" + ", ".join(f"{f32(x - f32(x)):#.9g}f" for x in powers) + "},")
print("};\n")
print("}  // namespace genesis::cpu")
