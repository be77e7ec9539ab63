#!/usr/bin/env python3
"""Writes adamw.txt: steps of PyTorch's AdamW in f64, for tests/train/test_optimizer.c.

    python3 make_adamw.py > adamw.txt

Made with PyTorch 1.13 (Debian's python3-torch). A matrix that decays and a vector that doesn't;
gradients of very different sizes, clipped by global norm; warm-up, then cosine down to a floor,
by the two schedulers of torch.optim. Numbers are exact in f32 where they are inputs.
"""
import torch

STEPS, WARMUP, PEAK, FLOOR = 12, 3, 0.02, 0.002

torch.manual_seed(20221)
matrix = torch.randn(12, 7).float().double().requires_grad_()
vector = (1 + 0.1 * torch.randn(13)).float().double().requires_grad_()
adam = torch.optim.AdamW(
    [{"params": [matrix], "weight_decay": 0.1}, {"params": [vector], "weight_decay": 0.0}],
    lr=PEAK, betas=(0.9, 0.95), eps=1e-8)
up = torch.optim.lr_scheduler.LinearLR(adam, 1.0 / WARMUP, 1.0, total_iters=WARMUP - 1)
down = torch.optim.lr_scheduler.CosineAnnealingLR(adam, STEPS - WARMUP, eta_min=FLOOR)


def put(name, values):
    values = [float(v) for v in values]
    print(name, len(values), *("%.17g" % v for v in values))


put("schedule", [PEAK, FLOOR, WARMUP, STEPS])
put("start", torch.cat([matrix.flatten(), vector]).tolist())
for step in range(1, STEPS + 1):
    size = 10.0 ** ((step * 5) % 7 - 4)
    spread = 10.0 ** (torch.arange(7) % 4 - 2.0)
    matrix.grad = (torch.randn(12, 7) * spread * size).float().double()
    vector.grad = (torch.randn(13) * size).float().double()
    put("gradient", torch.cat([matrix.grad.flatten(), vector.grad]).tolist())
    norm = torch.nn.utils.clip_grad_norm_([matrix, vector], 1.0)
    put("rate_norm", [adam.param_groups[0]["lr"], norm])
    adam.step()
    put("weights", torch.cat([matrix.detach().flatten(), vector.detach()]).tolist())
    if step < WARMUP:
        up.step()
    else:
        down.step()
