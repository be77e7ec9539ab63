"""attention_torch.py [BENCH]: scaled_dot_product_attention of PyTorch, forward and backward, one
thread, at the shapes of bench_causal_attention; BENCH, that program, is run first.

    chrt -f 10 taskset -c 1 PYTHON bench/attention_torch.py build/release/bench/bench_causal_attention
"""
import subprocess
import sys
import time

import torch
from torch.nn.functional import scaled_dot_product_attention

SHAPES = ((8, 256, 6, 64), (4, 1024, 12, 64))  # sequences, tokens, heads, head_dim


def best(kind, sequences, tokens, heads, n, repeats):
    x = torch.randn(sequences, tokens, 3, heads, n, dtype=kind)
    q, k, v = (x[:, :, i].transpose(1, 2).detach().requires_grad_() for i in range(3))
    dout = torch.randn(sequences, heads, tokens, n, dtype=kind)
    forward = backward = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        out = scaled_dot_product_attention(q, k, v, is_causal=True)
        middle = time.perf_counter()
        out.backward(dout)
        end = time.perf_counter()
        q.grad = k.grad = v.grad = None
        forward, backward = min(forward, middle - start), min(backward, end - middle)
    return forward, backward


torch.set_num_threads(1)
if len(sys.argv) > 1:
    subprocess.run(sys.argv[1:2], check=True)
for kind in (torch.float32, torch.bfloat16):
    for shape in SHAPES:
        forward, backward = best(kind, *shape, 12 if shape[1] == 256 else 4)
        print(f"PyTorch {torch.__version__} {kind} {shape}: "
              f"forward {forward * 1e3:.2f} ms, backward {backward * 1e3:.2f} ms", flush=True)
