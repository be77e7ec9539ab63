#!/usr/bin/env python3
"""The files that llm.c's train_gpt2 reads from its folder, for a shape of bench_train: a checkpoint
of random weights and two files of random tokens. Layouts: 256 int32 of header each (magic, version,
sizes), then f32 parameters, or uint16 tokens.

    python3 llmc_files.py SHAPE FOLDER
"""
import array
import os
import random
import sys

SHAPES = {  # layers, embd, heads, vocab, batch, sequence
    "gpt2-6x384": (6, 384, 6, 256, 8, 256),
    "gpt2-124m": (12, 768, 12, 50257, 4, 64),
    "gpt2-24x768": (24, 768, 12, 2048, 4, 1024),
}
CHECKPOINT, TOKENS = (20240326, 3), (20240520, 1)  # magic, version


def header(*numbers):
    return array.array("i", list(numbers) + [0] * (256 - len(numbers))).tobytes()


def main():
    shape, folder = sys.argv[1:3]
    layers, embd, heads, vocab, batch, sequence = SHAPES[shape]
    padded = (vocab + 127) // 128 * 128
    layer = 12 * embd * embd + 13 * embd  # four matrices, their biases, two norms
    parameters = (padded + sequence) * embd + layers * layer + 2 * embd
    rng = random.Random(1)
    weights = array.array("f", (rng.gauss(0, 0.02) for _ in range(1 << 16))).tobytes()
    with open(os.path.join(folder, "gpt2_124M.bin"), "wb") as out:
        out.write(header(*CHECKPOINT, sequence, vocab, layers, heads, embd, padded))
        for at in range(0, 4 * parameters, len(weights)):
            out.write(weights[: 4 * parameters - at])
    tokens = array.array("H", (rng.randrange(vocab) for _ in range(64 * batch * sequence + 1)))
    data = os.path.join(folder, "dev", "data", "tinyshakespeare")
    os.makedirs(data)
    for part in "train", "val":
        with open(os.path.join(data, f"tiny_shakespeare_{part}.bin"), "wb") as out:
            out.write(header(*TOKENS, len(tokens)) + tokens.tobytes())


main()
