#!/usr/bin/env python3
"""Makes blocks.gguf, with rows of every tensor type that Genesis reads, and blocks.safetensors with the numbers that the package
gguf reads from them.

    python3 tests/models/gguf/make_blocks.py      needs numpy, gguf and safetensors

Blocks are random bytes, since any bytes are valid. Their scales are ordinary numbers in the first rows, then the largest f16, the
smallest f16 above zero, and zero of either sign.
"""
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from safetensors.numpy import save_file

HERE = Path(__file__).parent
ROWS, COLUMNS = 6, 256
# Positions of the scales in a block; each scale is an f16.
SCALES = {Type.Q4_0: (0,), Type.Q4_1: (0, 2), Type.Q5_0: (0,), Type.Q5_1: (0, 2), Type.Q8_0: (0,), Type.IQ4_NL: (0,),
          Type.Q2_K: (80, 82), Type.Q3_K: (108,), Type.Q4_K: (0, 2), Type.Q5_K: (0, 2), Type.Q6_K: (208,), Type.IQ4_XS: (0,),
          Type.IQ2_XXS: (0,), Type.IQ2_XS: (0,), Type.IQ2_S: (0,), Type.IQ3_XXS: (0,), Type.IQ3_S: (0,), Type.IQ1_S: (0,),
          Type.TQ1_0: (52,), Type.TQ2_0: (64,), Type.IQ1_M: (), Type.MXFP4: (), Type.NVFP4: ()}


def random_rows(kind, random):
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (ROWS, COLUMNS // elements, size), dtype=np.uint8)
    extremes = np.array([65504, -65504, 6e-8, 0.0, -0.0], dtype=np.float16)
    for at in SCALES[kind]:
        scales = random.standard_normal((ROWS, COLUMNS // elements)).astype(np.float16)
        for row in range(3, ROWS):
            scales[row] = random.choice(extremes, COLUMNS // elements)
        blocks[:, :, at:at + 2] = scales[:, :, None].view(np.uint8)
    if kind == Type.IQ1_M:  # the f16 scale is in the upper nibbles of four half words
        bits = random.standard_normal((ROWS, COLUMNS // elements)).astype(np.float16).view(np.uint16)
        for i in range(4):
            blocks[:, :, 49 + 2 * i] = blocks[:, :, 49 + 2 * i] & 15 | (bits >> 4 * i & 15) << 4
    if kind == Type.MXFP4:  # exponents of which twelve times the power of two is finite
        blocks[:, :, 0] %= 252
    return blocks.reshape(ROWS, -1)


def main():
    random = np.random.default_rng(7)
    values = random.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    writer, expected = gguf.GGUFWriter(HERE / "blocks.gguf", "blocks"), {}
    for kind in (Type.F32, Type.F16, Type.BF16, *SCALES):
        rows = random_rows(kind, random) if kind in SCALES else gguf.quantize(values, kind)
        writer.add_tensor(kind.name, rows, raw_dtype=kind)
        expected[kind.name] = gguf.dequantize(rows, kind).astype(np.float32)
        assert np.isfinite(expected[kind.name]).all()
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(expected, HERE / "blocks.safetensors")


if __name__ == "__main__":
    main()
