#!/usr/bin/env python3
"""Losses and gradients of two tiny transformers, computed by PyTorch in f64 from the same weights and
tokens that tests/train/test_trainer.c makes: number i of all weights and tokens is a hash of i.

    python3 make_gradients.py FOLDER     writes llama.f32 and gpt2.f32: the mean loss in nats, then the
                                    gradients of all parameters in the order of train_shape.h;
                                    and llama_answers.f32: the same where labels that aren't of an answer
                                    are -100 (two of three, and the whole of sequence 1), and behind the
                                    gradients the weights after a step of AdamW (rate 1e-2, decay 0.1,
                                    betas 0.9 and 0.95, clipping at norm 1);
                                    and llama_taught.f32: loss and gradients where half of the loss is a
                                    teacher's, the gpt2 above, at temperature 2;
                                    and llama_both.f32: the same with the states behind its layers beside
                                    its logits
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
        self.at, self.list, self.states = 0, [], []

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
        w.states.append(x)
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
        w.states.append(x)
    g, c = pair()
    return norm(x, g, c) @ emb.T


def answers(labels):
    """What the test counts: every third token, and none of sequence 1."""
    at = torch.arange(labels.numel()).reshape(labels.shape)
    return labels.masked_fill((at % 3 != 0) | (at // SEQUENCE == 1), -100)


def taught(logits, labels, weight=0.5, temperature=2.0):
    """(1 - weight) cross-entropy + weight T^2 KL(teacher | student), means over tokens."""
    f = torch.nn.functional
    teacher = gpt2(Weights(), tokens(1 << 32)).detach().flatten(0, 1)
    divergence = f.kl_div(f.log_softmax(logits.flatten(0, 1) / temperature, -1),
                          f.log_softmax(teacher / temperature, -1), log_target=True, reduction="batchmean")
    hard = f.cross_entropy(logits.flatten(0, 1), labels.flatten())
    return (1 - weight) * hard + weight * temperature**2 * divergence


def states(ours, weight=0.5):
    """weight |x - y|^2 / |y|^2 of each token and layer, means over both; layers are as many."""
    teacher = Weights()
    gpt2(teacher, tokens(1 << 32))
    apart = 0
    for x, y in zip(ours, teacher.states):
        y = y.detach()
        apart = apart + (((x - y) ** 2).mean(-1) / ((y**2).mean(-1) + EPSILON)).mean()
    return weight * apart / LAYERS


for name, model in (("llama", llama), ("gpt2", gpt2), ("llama_answers", llama), ("llama_taught", llama),
                    ("llama_both", llama)):
    w = Weights()
    logits = model(w, tokens(1 << 32))
    labels = tokens(1 << 33)
    if name == "llama_answers":
        labels = answers(labels)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    if name in ("llama_taught", "llama_both"):
        loss = taught(logits, labels)
    if name == "llama_both":
        loss = loss + states(w.states)
    loss.backward()
    out = [np.array([loss.item()])] + [p.grad.numpy().ravel().copy() for p in w.list]
    if name == "llama_answers":
        torch.nn.utils.clip_grad_norm_(w.list, 1.0)
        decayed = [{"params": [p for p in w.list if p.dim() > 1], "weight_decay": 0.1},
                   {"params": [p for p in w.list if p.dim() == 1], "weight_decay": 0.0}]
        torch.optim.AdamW(decayed, lr=1e-2, betas=(0.9, 0.95), eps=1e-8).step()
        out += [p.detach().numpy().ravel() for p in w.list]
    np.concatenate(out).astype(np.float32).tofile(f"{sys.argv[1]}/{name}.f32")
    print(name, "loss", loss.item(), "parameters", w.at)
