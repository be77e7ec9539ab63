#!/usr/bin/env python3
"""Writes types.txt: blocks of random bytes of every quantized type and the floats that they are, by the
Python package of llama.cpp (`gguf`, 0.19 here), for tests/ops/core/test_dequantize.c.

    python3 make_types.py LLAMA_CPP/gguf-py > types.txt

Two lines for each type, `TYPE BYTES SUM VALUES`: the first has scales of ordinary size, the second any
bits, infinities and NaN among them. BYTES is 256 elements in hexadecimal. SUM is FNV-1a (64 bits) over
the 256 floats' bytes, every NaN taken as 7fc00000; VALUES are elements 0, 17, 94, 255 as bits.
"""
import sys

sys.path.insert(0, sys.argv[1])

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

NAMES = ("Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ4_NL IQ4_XS "
         "MXFP4 F16 BF16").split()
# where the halves are that are scales; the rest of a type's bytes may be anything
SCALES = {"Q4_1": (0, 2), "Q5_1": (0, 2), "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2),
          "Q6_K": (208,), "MXFP4": (), "F16": (0,), "BF16": ()}


def fnv(data):
    h = 0xcbf29ce484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return h


def ordinary(name, blocks, random):
    for at in SCALES.get(name, (0,)):
        halves = (random.integers(0x0c00, 0x3c00, len(blocks)) | random.integers(0, 2, len(blocks)) << 15)
        blocks[:, at:at + 2] = halves.astype("<u2").view(np.uint8).reshape(-1, 2)
    if name == "MXFP4":
        blocks[:, 0] = random.integers(110, 130, len(blocks))


def line(name, any_bits, random):
    kind = Type[name]
    elements, size = GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (256 // elements, size), dtype=np.uint8)
    if not any_bits:
        ordinary(name, blocks, random)
    with np.errstate(all="ignore"):
        floats = dequantize(blocks.reshape(1, -1), kind).astype("<f4").reshape(-1)
    bits = floats.view("<u4").copy()
    bits[np.isnan(floats)] = 0x7fc00000
    values = " ".join("%08x" % bits[i] for i in (0, 17, 94, 255))
    return "%s %s %016x %s" % (name, blocks.tobytes().hex(), fnv(bits.tobytes()), values)


def main():
    random = np.random.default_rng(15)
    for name in NAMES:
        for any_bits in (False, True):
            print(line(name, any_bits, random))


main()
