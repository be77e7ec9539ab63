#!/usr/bin/env python3
"""Prints the perplexity of heldout.txt's first windows by NumPy in f32, from the files' weights as the
Python package of llama.cpp (`gguf`, 0.19 here) reads them; its own pre-tokenizer and merges.

    python3 make_perplexity.py kjv-5m-f16.gguf 134     # what the other program has of all windows
    python3 make_perplexity.py kjv-5m-f16.gguf 16

Windows, and the tokens of them that count, are those of ../README.md.
"""
import pathlib
import re
import sys

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

WINDOW, SKIPPED = 256, 128
reader = GGUFReader(sys.argv[1])
keys = {name: field.contents() for name, field in reader.fields.items()}
# stored as rows, the first dimension of the file last
weights = {t.name: dequantize(t.data, t.tensor_type).astype(np.float32) for t in reader.tensors}


def byte_names():
    """GPT-2's characters for bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(others)) for b in range(256)]


def encode(text):
    ids = {token: i for i, token in enumerate(keys["tokenizer.ggml.tokens"])}
    ranks = {tuple(m.split(" ")): i for i, m in enumerate(keys["tokenizer.ggml.merges"])}
    names, out, known = byte_names(), [], {}
    words = r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+"
    for word in re.findall(words, text):
        if word not in known:
            parts = [names[b] for b in word.encode()]
            while len(parts) > 1:
                rank, at = min((ranks.get(pair, 1 << 30), i) for i, pair in enumerate(zip(parts, parts[1:])))
                if rank == 1 << 30:
                    break
                parts[at:at + 2] = [parts[at] + parts[at + 1]]
            known[word] = [ids[p] for p in parts]
        out += known[word]
    return out


def norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + keys["llama.attention.layer_norm_rms_epsilon"]) * weight


def turned(x):
    """RoPE of neighbours; x [tokens, heads, head_dim]."""
    half = x.shape[-1] // 2
    angle = np.outer(np.arange(len(x)), keys["llama.rope.freq_base"] ** (-np.arange(half) / half))[:, None]
    cos, sin, even, odd = np.cos(angle), np.sin(angle), x[..., ::2], x[..., 1::2]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape).astype(np.float32)


def attention(x, of, heads, kv_heads):
    n = len(x)
    q = turned((x @ of("attn_q").T).reshape(n, heads, -1)).transpose(1, 0, 2)
    k = turned((x @ of("attn_k").T).reshape(n, kv_heads, -1)).transpose(1, 2, 0).repeat(heads // kv_heads, 0)
    v = (x @ of("attn_v").T).reshape(n, kv_heads, -1).transpose(1, 0, 2).repeat(heads // kv_heads, 0)
    scores = q @ k / np.sqrt(q.shape[-1]) + np.triu(np.full((n, n), -np.inf), 1)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p = (p / p.sum(-1, keepdims=True)).astype(np.float32)
    return (p @ v).transpose(1, 0, 2).reshape(n, -1) @ of("attn_output").T


def losses(window):
    """Of the tokens that count, in nats."""
    x = weights["token_embd.weight"][window[:-1]]
    for layer in range(keys["llama.block_count"]):
        of = lambda name: weights[f"blk.{layer}.{name}.weight"]
        x = x + attention(norm(x, of("attn_norm")), of, keys["llama.attention.head_count"],
                          keys["llama.attention.head_count_kv"])
        h = norm(x, of("ffn_norm"))
        gate = h @ of("ffn_gate").T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ of("ffn_up").T)) @ of("ffn_down").T
    logits = (norm(x[SKIPPED:], weights["output_norm.weight"])
              @ weights["token_embd.weight"].T).astype(np.float64)
    top = logits.max(-1)
    total = np.log(np.exp(logits - top[:, None]).sum(-1)) + top
    return total - logits[np.arange(len(logits)), window[SKIPPED + 1:]]


ids = encode(pathlib.Path(__file__).with_name("heldout.txt").read_text())
count = int(sys.argv[2])
assert count <= len(ids) // WINDOW
print("%.4f" % np.exp(np.mean([losses(ids[w * WINDOW:(w + 1) * WINDOW]) for w in range(count)])))
