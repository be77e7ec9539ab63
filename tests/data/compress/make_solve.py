#!/usr/bin/env python3
"""GPTQ and SparseGPT as their papers have them, in NumPy and f64: the inverse Hessian's Cholesky factor, a column
at a time. tests/compress/solve/solve_case.c makes the same inputs and weights: number i of all is a hash of i.

    python3 make_solve.py FOLDER    writes gptq_TYPE.bin: rows of that type with scales and codes of zero, then the
                                    weights that GPTQ gives them (f32); sparsegpt.f32: the weights of SparseGPT;
                                    scaled_q4_0.bin: rows, scales of columns and of rows, weights, of which all
                                    but the rows are f32; refined_q4_0.bin: rows as of gptq_q4_0.bin, and the
                                    weights that two turns of coordinate descent make of GPTQ's
"""
import sys

import numpy as np

ROWS, TOKENS, DAMPING = 6, 400, 0.01
F = np.float32


def units(first, n):
    """splitmix64 of first .. first + n - 1, as f32 in [-1, 1)."""
    with np.errstate(over="ignore"):
        z = (np.arange(first, first + n, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return ((z >> np.uint64(40)).astype(np.float64) / 2.0**23 - 1.0).astype(F)


def problem(k):
    """Inputs whose columns hang together, some of them large; weights."""
    u = units(0, TOKENS * k).reshape(TOKENS, k)
    x = np.zeros((TOKENS, k), dtype=F)
    for j in range(k):
        gain = F(2.5) if j % 7 == 3 else F(0.5)
        x[:, j] = gain * u[:, j] + (F(0.7) * x[:, j - 1] if j else F(0))
    w = F(0.1) * units(TOKENS * k, ROWS * k).reshape(ROWS, k)
    return x.astype(np.float64), w.astype(np.float64)


def inverse_factor(h):
    """U with U^T U = (h + damping)^-1, upper triangular."""
    h = h + DAMPING * np.mean(np.diag(h)) * np.eye(len(h))
    return np.linalg.cholesky(np.linalg.inv(h)).T


def gptq(x, w, quantize):
    """quantize(column, want [rows]) -> the nearest weights that the column may have."""
    h = x.T @ x
    order = np.argsort(-np.diag(h), kind="stable")
    u = inverse_factor(h[np.ix_(order, order)])
    w, out = w[:, order].copy(), np.zeros_like(w)
    for i in range(len(order)):
        out[:, order[i]] = quantize(order[i], w[:, i])
        w[:, i:] -= np.outer((w[:, i] - out[:, order[i]]) / u[i, i], u[i, i:])
    return out


def sparsegpt(x, w):
    u = inverse_factor(x.T @ x)
    w, mask = w.copy(), np.zeros(w.shape, dtype=bool)
    for i in range(w.shape[1]):
        if i % 4 == 0:
            price = w[:, i : i + 4] ** 2 / np.diag(u)[i : i + 4] ** 2
            for row, two in enumerate(np.argsort(price, axis=1)[:, :2]):
                mask[row, i + two] = True
        chosen = np.where(mask[:, i], 0, w[:, i])
        w[:, i + 1 :] -= np.outer((w[:, i] - chosen) / u[i, i], u[i, i + 1 :])
        w[:, i] = chosen
    return w


def half(x):
    return np.asarray(x).astype(np.float16).astype(np.float64)


def blocks(w):
    return w.reshape(ROWS, -1, 32)


def pair(w, top, low, high, minimum, code_bytes):
    """Blocks of 32: a scale, maybe a minimum, codes that are zero. Returns bytes, scale, min, low, high."""
    b = blocks(w)
    if minimum:
        m = half(b.min(axis=2))
        d = half((b.max(axis=2) - b.min(axis=2)) / high)
    else:
        m, d = np.zeros(b.shape[:2]), half(np.abs(b).max(axis=2) / top)
    raw = b""
    for dd, mm in zip(d.ravel(), m.ravel()):
        raw += np.float16(dd).tobytes() + (np.float16(mm).tobytes() if minimum else b"") + bytes(code_bytes)
    return raw, d, m, low, high


def q4_k(w):
    """Superblocks of 256: eight scales and minimums of 6 bits, each times an f16."""
    b = blocks(w).reshape(ROWS, -1, 8, 32)
    least = np.minimum(b.min(axis=3), 0)
    scale, low = (b.max(axis=3) - least) / 15, -least
    d, dmin = half(scale.max(axis=2) / 63), half(low.max(axis=2) / 63)
    s = np.clip(np.rint(scale / d[..., None]), 0, 63).astype(int)
    m = np.clip(np.rint(low / dmin[..., None]), 0, 63).astype(int)
    raw = b""
    for at in np.ndindex(d.shape):
        packed, ss, mm = [0] * 12, s[at], m[at]
        for i in range(4):
            packed[i] = ss[i] | (ss[i + 4] >> 4) << 6
            packed[i + 4] = mm[i] | (mm[i + 4] >> 4) << 6
            packed[i + 8] = (ss[i + 4] & 15) | (mm[i + 4] & 15) << 4
        raw += np.float16(d[at]).tobytes() + np.float16(dmin[at]).tobytes() + bytes(packed) + bytes(128)
    scales = (d[..., None] * s).reshape(ROWS, -1)
    return raw, scales, -(dmin[..., None] * m).reshape(ROWS, -1), 0, 15


def q6_k(w):
    """Superblocks of 256: 16 scales of 8 bits times an f16; codes of zero are -32."""
    b = w.reshape(ROWS, -1, 16, 16)
    scale = np.abs(b).max(axis=3) / 31
    d = half(scale.max(axis=2) / 127)
    s = np.clip(np.rint(scale / d[..., None]), 0, 127).astype(int)
    raw = b""
    for at in np.ndindex(d.shape):
        raw += bytes(192) + bytes(int(i) for i in s[at]) + np.float16(d[at]).tobytes()
    scales = (d[..., None] * s).reshape(ROWS, -1)
    return raw, scales, np.zeros_like(scales), -32, 31


def write_gptq(folder, name, k, make):
    x, w = problem(k)
    raw, scale, least, low, high = make(w)
    per = k // scale.shape[1]

    def quantize(column, want):
        d, m = scale[:, column // per], least[:, column // per]
        return d * np.clip(np.rint((want - m) / d), low, high) + m

    with open(f"{folder}/gptq_{name}.bin", "wb") as f:
        f.write(raw + gptq(x, w, quantize).astype(F).tobytes())


def write_scaled(folder, k):
    """GPTQ of weights whose columns and rows are scaled: the whole problem is, inputs and damping too."""
    x, w = problem(k)
    rms = np.sqrt(np.mean(x * x, axis=0))
    s = np.exp(0.5 * (np.log(rms) - np.mean(np.log(rms)))).astype(F).astype(np.float64)
    down = (1.0 + 0.25 * np.arange(ROWS)).astype(F).astype(np.float64)
    h = x.T @ x
    order = np.argsort(-np.diag(h), kind="stable")
    h = (h + DAMPING * np.mean(np.diag(h)) * np.eye(k)) / np.outer(s, s)
    u = np.linalg.cholesky(np.linalg.inv(h[np.ix_(order, order)])).T
    w = w * s * down[:, None]
    raw, d, _, low, high = pair(w, 7.5, -8, 7, False, 16)
    w, out = w[:, order].copy(), np.zeros_like(w)
    for i, column in enumerate(order):
        scale = d[:, column // 32]
        out[:, column] = scale * np.clip(np.rint(w[:, i] / scale), low, high)
        w[:, i:] -= np.outer((w[:, i] - out[:, column]) / u[i, i], u[i, i:])
    out /= s * down[:, None]
    with open(f"{folder}/scaled_q4_0.bin", "wb") as f:
        f.write(raw + s.astype(F).tobytes() + down.astype(F).tobytes() + out.astype(F).tobytes())


def write_refined(folder, k, turns=2):
    """Block by block: codes where all others are given, the block's scale where its codes are, codes again."""
    x, w = problem(k)
    raw, d, _, low, high = pair(w, 7.5, -8, 7, False, 16)
    h = x.T @ x
    h += DAMPING * np.mean(np.diag(h)) * np.eye(k)
    q = gptq(x, w, lambda column, want: d[:, column // 32] * np.clip(np.rint(want / d[:, column // 32]), low, high))
    for row in range(ROWS):
        for b in list(range(k // 32)) * turns:
            block = slice(32 * b, 32 * b + 32)

            def choose():
                for c in range(32 * b, 32 * b + 32):
                    want = q[row, c] + (w[row] - q[row]) @ h[c] / h[c, c]
                    q[row, c] = d[row, b] * np.clip(np.rint(want / d[row, b]), low, high)

            choose()
            codes = np.rint(q[row, block] / d[row, b])
            gain, curve = (w[row] - q[row]) @ h[:, block] @ codes, codes @ h[block, block] @ codes
            d[row, b] = half(d[row, b] + gain / curve)
            q[row, block] = d[row, b] * codes
            choose()
    with open(f"{folder}/refined_q4_0.bin", "wb") as f:
        f.write(raw + q.astype(F).tobytes())


def main(folder):
    write_refined(folder, 288)
    write_scaled(folder, 288)
    write_gptq(folder, "q4_0", 288, lambda w: pair(w, 7.5, -8, 7, False, 16))
    write_gptq(folder, "q4_1", 288, lambda w: pair(w, 0, 0, 15, True, 16))
    write_gptq(folder, "q5_0", 288, lambda w: pair(w, 15.5, -16, 15, False, 20))
    write_gptq(folder, "q8_0", 288, lambda w: pair(w, 127, -127, 127, False, 32))
    write_gptq(folder, "q4_k", 256, q4_k)
    write_gptq(folder, "q6_k", 256, q6_k)
    x, w = problem(288)
    sparsegpt(x, w).astype(F).tofile(f"{folder}/sparsegpt.f32")


main(sys.argv[1])
