#!/usr/bin/env python3
"""Makes gguf_grids.h: the codebooks of GGUF's types IQ1 to IQ3, which are part of the format, packed as the file says.

    python3 schema/file/other_formats/gguf_grids.py      needs numpy and gguf
"""
from pathlib import Path

import numpy as np
from gguf import quants

GRIDS = {"kGridOfIq2Xxs": quants.IQ2_XXS, "kGridOfIq2Xs": quants.IQ2_XS, "kGridOfIq2S": quants.IQ2_S,
         "kGridOfIq3Xxs": quants.IQ3_XXS, "kGridOfIq3S": quants.IQ3_S, "kGridOfIq1": quants.IQ1_S}
PER_LINE = 13

HEAD = """// The codebooks of GGUF's types IQ1 to IQ3, made by gguf_grids.py. A word holds the indices of one entry's numbers in the type's
// list of numbers, lowest bits first: eight of two bits for IQ1 and IQ2, four of four bits for IQ3.
#pragma once

#include <array>
#include <cstdint>

namespace genesis {
"""


def words(kind):
    kind.init_grid()
    entries, size = kind.grid_shape
    numbers = np.array(kind.grid_map, dtype=np.float32)
    indices = np.argmax(kind.grid.reshape(entries, size, 1) == numbers, axis=-1)
    return [sum(int(index) << (16 // size * i) for i, index in enumerate(entry)) for entry in indices]


def main():
    text = HEAD
    for name, kind in GRIDS.items():
        grid = words(kind)
        text += f"\ninline constexpr std::array<uint16_t, {len(grid)}> {name} = {{\n"
        for first in range(0, len(grid), PER_LINE):
            text += "    " + ", ".join(f"0x{word:04x}" for word in grid[first:first + PER_LINE]) + ",\n"
        text += "};\n"
    Path(__file__).with_name("gguf_grids.h").write_text(text + "\n}  // namespace genesis\n")


if __name__ == "__main__":
    main()
