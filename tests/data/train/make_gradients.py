#!/usr/bin/env python3
"""Losses and gradients of two tiny transformers, computed by PyTorch in f64 from the same weights and
tokens that tests/train/test_trainer.c makes: number i of all weights and tokens is a hash of i.

    python3 make_gradients.py FOLDER     writes llama.f32 and gpt2.f32: the mean loss in nats, then the
                                    gradients of all parameters in the order of train_shape.h
"""
import math
import sys

import numpy as np
import torch

LAYERS, EMBD, HEADS, KV_HEADS, HEAD_DIM, FF, VOCAB, CONTEXT = 2, 32, 4, 2, 8, 48, 53, 24
BATCH, SEQUENCE, EPSILON, ROPE_BASE = 3, 20, 1e-5, 10000.0


def hashes(first, n):
    """splitmix64 of first .. first + n - 1."""
    with np.errstate(over="ignore"):
        z = (np.arange(first, first + n, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


class Weights:
    """Hands out parameters in order: uniform numbers in [-1, 1) times a size, as f32."""

    def __init__(self):
        self.at, self.list = 0, []

    def get(self, *shape, size=0.3, plus=0.0):
        n = math.prod(shape)
        unit = (hashes(self.at, n) >> np.uint64(40)).astype(np.float64) / 2.0**23 - 1.0
        x = (np.float32(plus) + np.float32(size) * unit.astype(np.float32)).astype(np.float32)
        self.at += n
        p = torch.tensor(x.astype(np.float64).reshape(shape), requires_grad=True)
        self.list.append(p)
        return p


def tokens(first):
    n = BATCH * SEQUENCE
    return torch.tensor((hashes(first, n) % np.uint64(VOCAB)).astype(np.int64).reshape(BATCH, SEQUENCE))


def attention(q, k, v):
    """q [B, S, H, D], k and v [B, S, G, D]; causal."""
    k = k.repeat_interleave(q.shape[2] // k.shape[2], dim=2)
    v = v.repeat_interleave(q.shape[2] // v.shape[2], dim=2)
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[3])
    future = torch.triu(torch.ones(SEQUENCE, SEQUENCE, dtype=torch.bool), 1)
    p = torch.softmax(scores.masked_fill(future, -math.inf), dim=-1)
    return torch.einsum("bhij,bjhd->bihd", p, v).flatten(2)


def rope(x):
    """Pairs of neighbours (2i, 2i + 1)."""
    angle = torch.arange(SEQUENCE, dtype=torch.float64)[:, None] * ROPE_BASE ** (
        -torch.arange(0, HEAD_DIM, 2, dtype=torch.float64) / HEAD_DIM
    )
    c, s = angle.cos()[None, :, None, :], angle.sin()[None, :, None, :]
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * c - b * s, a * s + b * c), dim=-1).flatten(-2)


def rms_norm(x, w):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + EPSILON) * w


def llama(w, ids):
    emb = w.get(VOCAB, EMBD)
    x = emb[ids]
    for _ in range(LAYERS):
        norm = w.get(EMBD, size=0.2, plus=1.0)
        q, k = w.get(HEADS * HEAD_DIM, EMBD), w.get(KV_HEADS * HEAD_DIM, EMBD)
        v, o = w.get(KV_HEADS * HEAD_DIM, EMBD), w.get(EMBD, HEADS * HEAD_DIM)
        n = rms_norm(x, norm)
        heads = lambda y, h: y.unflatten(-1, (h, HEAD_DIM))
        x = x + attention(rope(heads(n @ q.T, HEADS)), rope(heads(n @ k.T, KV_HEADS)),
                          heads(n @ v.T, KV_HEADS)) @ o.T
        norm = w.get(EMBD, size=0.2, plus=1.0)
        gate, up, down = w.get(FF, EMBD), w.get(FF, EMBD), w.get(EMBD, FF)
        n = rms_norm(x, norm)
        x = x + (torch.nn.functional.silu(n @ gate.T) * (n @ up.T)) @ down.T
    return rms_norm(x, w.get(EMBD, size=0.2, plus=1.0)) @ emb.T


def gpt2(w, ids):
    norm = lambda x, g, c: torch.nn.functional.layer_norm(x, (EMBD,), g, c, EPSILON)
    pair = lambda: (w.get(EMBD, size=0.2, plus=1.0), w.get(EMBD, size=0.1))
    emb, position = w.get(VOCAB, EMBD), w.get(CONTEXT, EMBD)
    x = emb[ids] + position[:SEQUENCE]
    for _ in range(LAYERS):
        g, c = pair()
        qkv, qkv_bias = w.get(3 * EMBD, EMBD), w.get(3 * EMBD, size=0.1)
        o, o_bias = w.get(EMBD, EMBD), w.get(EMBD, size=0.1)
        q, k, v = (norm(x, g, c) @ qkv.T + qkv_bias).unflatten(-1, (3, HEADS, HEAD_DIM)).unbind(2)
        x = x + attention(q, k, v) @ o.T + o_bias
        g, c = pair()
        up, up_bias = w.get(FF, EMBD), w.get(FF, size=0.1)
        down, down_bias = w.get(EMBD, FF), w.get(EMBD, size=0.1)
        h = torch.nn.functional.gelu(norm(x, g, c) @ up.T + up_bias, approximate="tanh")
        x = x + h @ down.T + down_bias
    g, c = pair()
    return norm(x, g, c) @ emb.T


for name, model in (("llama", llama), ("gpt2", gpt2)):
    w = Weights()
    logits = model(w, tokens(1 << 32))
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens(1 << 33).flatten())
    loss.backward()
    out = [np.array([loss.item()])] + [p.grad.numpy().ravel() for p in w.list]
    np.concatenate(out).astype(np.float32).tofile(f"{sys.argv[1]}/{name}.f32")
    print(name, "loss", loss.item(), "parameters", w.at)
