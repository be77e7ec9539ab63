"""The matrix products of training by PyTorch: gemm_torch.py THREADS TOKENS ROWS K

Prints the best time in ms of x w^T, dy w and dy^T x (added to a gradient), f32 and bf16 activations
with their weights in the same type."""
import sys
import time

import torch

threads, tokens, rows, k = map(int, sys.argv[1:5])
torch.set_num_threads(threads)


def best(function, repeats=15):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


for name, kind in (("F32", torch.float32), ("BF16", torch.bfloat16)):
    x = torch.rand(tokens, k).to(kind) - 0.5
    w = torch.rand(rows, k).to(kind) - 0.5
    dy = torch.rand(tokens, rows).to(kind) - 0.5
    out, dx, dw = torch.empty_like(dy), torch.empty_like(x), torch.zeros_like(w)
    repeats = 15 if kind is torch.float32 else 3
    print(f"linear {name} {best(lambda: torch.mm(x, w.t(), out=out), repeats):.3f}")
    print(f"linear_grad_input {name} {best(lambda: torch.mm(dy, w, out=dx), repeats):.3f}")
    print(f"linear_grad_weight {name} {best(lambda: dw.addmm_(dy.t(), x), repeats):.3f}")
