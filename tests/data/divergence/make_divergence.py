#!/usr/bin/env python3
"""Writes expected.txt: what NumPy makes of the predictions that test_divergence.c makes up.

Logits are whole numbers over powers of two, so that C has the same ones to the bit.
"""
import numpy as np

ROWS, VOCAB = 200, 64

i, j = np.meshgrid(np.arange(ROWS), np.arange(VOCAB), indexing="ij")
reference = ((i * 7919 + j * 104729 + i * j * 31) % 1009) / 64
model = reference + ((i * 613 + j * 379) % 101 - 50) / 256
token = (np.arange(ROWS) * 37 + 11) % VOCAB


def log_softmax(x):
    x = x - x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def mean_and_error(x):
    return x.mean(), np.sqrt(x.var() / (len(x) - 1))


p, q = log_softmax(reference), log_softmax(model)
kl = (np.exp(p) * (p - q)).sum(axis=1)
nll_p, nll_q = -p[np.arange(ROWS), token], -q[np.arange(ROWS), token]
same = (reference.argmax(axis=1) == model.argmax(axis=1)).astype(float)
values = {
    "perplexity": np.exp(nll_q.mean()),
    "reference_perplexity": np.exp(nll_p.mean()),
    "ratio": np.exp((nll_q - nll_p).mean()),
    "ratio_error": np.exp((nll_q - nll_p).mean()) * mean_and_error(nll_q - nll_p)[1],
    "kl_mean": kl.mean(),
    "kl_error": mean_and_error(kl)[1],
    "kl_median": np.percentile(kl, 50),
    "kl_90": np.percentile(kl, 90),
    "kl_99": np.percentile(kl, 99),
    "kl_max": kl.max(),
    "top1": same.mean(),
    "top1_error": mean_and_error(same)[1],
}
with open("expected.txt", "w", encoding="ascii") as file:
    for name, value in values.items():
        file.write(f"{name} {value:.15g}\n")
