#!/usr/bin/env python3
"""Writes mixed.txt, and for each pre-tokenizer the merges that the library `tokenizers` (PyPI, 0.23)
learns from it: byte-level BPE, 700 tokens of which the last is the end of text.

    python3 make_merges.py KING_JAMES_TEXT     (bible -f 'gen1:1-rev22:21' | sed ...; see README.md)
"""
import json
import os
import random
import sys

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
PATTERNS = {
    "gpt-2": [GPT2],
    "llama-bpe": [CL100K % "{1,3}"],
    "qwen2": [CL100K % ""],
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"],
}
OTHERS = [
    "The year 1999, 2024 and 31415926535 weren't prime; we'll see that they've 12 and 007.\n",
    "Größe, Übermut und Straße: Fünf Äpfel für öde Öfen.\r\n",
    "Быть или не быть, вот в чём вопрос.\n\n",
    "道可道，非常道。名可名，非常名。\n",
    "　吾輩は猫である。名前はまだ無い。\n",
    "for (int i = 0; i < 10; i++) { x[i] += y[i] * 3.5e-7; }\t// aaaaaaaaaaaa\n",
    "    indented    text \t with   spaces  \n   \n",
    "😀😀 🏴‍☠️ café naïve e\u0301\u0301 don't CAN'T I'M we'RE\n",
]


def text(path):
    rng = random.Random(7)
    lines = open(path).read().split("\n")
    out = []
    for _ in range(160):
        out.append(rng.choice(lines) + "\n")
        if rng.random() < 0.4:
            out.append(rng.choice(OTHERS))
    return "".join(out)


def merges(pre, words):
    tokenizer = Tokenizer(models.BPE())
    parts = [pre_tokenizers.Split(Regex(p), "isolated") for p in PATTERNS[pre]]
    parts.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts)
    trainer = trainers.BpeTrainer(vocab_size=699, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([words], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]


if __name__ == "__main__":
    folder = os.path.dirname(os.path.abspath(__file__))
    mixed = text(sys.argv[1])
    with open(os.path.join(folder, "mixed.txt"), "w", newline="") as file:
        file.write(mixed)
    for pre in PATTERNS:
        with open(os.path.join(folder, pre + ".merges.txt"), "w") as file:
            file.write("\n".join(merges(pre, mixed)) + "\n")
