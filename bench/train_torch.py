#!/usr/bin/env python3
"""A training step of the shapes of bench_train in PyTorch, as its users write it: seconds of the
fastest step after the first, and the process's peak (VmHWM).

    python3 train_torch.py SHAPE f32|bf16 [STEPS [THREADS]]

As one of several processes (RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the environment, as
torchrun sets them) it is DistributedDataParallel over gloo; each runs the shape's batch.
"""
import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

SHAPES = {  # layers, embd, heads, vocab, batch, sequence
    "gpt2-6x384": (6, 384, 6, 256, 8, 256),
    "gpt2-124m": (12, 768, 12, 50257, 4, 64),
    "gpt2-24x768": (24, 768, 12, 2048, 4, 1024),
}


class Block(nn.Module):
    def __init__(self, embd, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(embd), nn.LayerNorm(embd)
        self.qkv, self.out = nn.Linear(embd, 3 * embd), nn.Linear(embd, embd)
        self.up, self.down = nn.Linear(embd, 4 * embd), nn.Linear(4 * embd, embd)

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, s, 3, self.heads, d // self.heads).unbind(2)
        a = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
        )
        x = x + self.out(a.transpose(1, 2).reshape(b, s, d))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, layers, embd, heads, vocab, sequence):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, embd), nn.Embedding(sequence, embd)
        self.blocks = nn.ModuleList(Block(embd, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(embd)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def peak_mib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def main():
    shape, kind = sys.argv[1:3]
    imported = peak_mib()
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 4
    torch.set_num_threads(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    layers, embd, heads, vocab, batch, sequence = SHAPES[shape]
    model = Model(layers, embd, heads, vocab, sequence)
    if "WORLD_SIZE" in os.environ:
        torch.distributed.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4)
    best = float("inf")
    for step in range(steps):
        ids = torch.randint(vocab, (batch, sequence))
        targets = torch.randint(vocab, (batch, sequence))
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=kind == "bf16"):
            loss = model(ids, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        adam.zero_grad(set_to_none=True)
        if step:
            best = min(best, time.perf_counter() - start)
    print(f"step {best * 1e3:.0f} ms  peak {peak_mib():.1f} MiB  imported {imported:.1f} MiB")
    if "WORLD_SIZE" in os.environ:
        torch.distributed.destroy_process_group()


main()
