#!/usr/bin/env python3
"""op_numpy.py: random descriptors of the operators for everyone, with NumPy's results.

    op_numpy.py FILE N SEED                    N cases of each kind, small ones: tests/data/ops/numpy.cases (20, seed 1)
    op_numpy.py --run TEST_OP_VIEWS N SEED     N of each kind, type and sort of strides, each run by it

The format is that of op_cases.h. Sums are made in float64, so a tolerance says what f32 may lose."""
import itertools
import os
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ModuleNotFoundError:
    print("no NumPy here: skipped")
    sys.exit(77)

TYPES = {"F32": 0, "F16": 1, "I8": 24, "I16": 25, "I32": 26, "I64": 27, "F64": 28, "BF16": 30}
SIZES = {"F32": 4, "F16": 2, "I8": 1, "I16": 2, "I32": 4, "I64": 8, "F64": 8, "BF16": 2}
PLAIN = {"F32": "<f4", "F16": "<f2", "I8": "<i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "F64": "<f8", "BF16": "<u2"}
REALS = ["F32", "F16", "BF16"]
STRIDES = ["dense", "gaps", "turned", "broadcast", "sliced"]


def to_bf16(x):
    """Bits of the nearest bf16, by way of f32."""
    bits = np.ascontiguousarray(x, "<f4").view("<u4").astype("u8")
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")
    return np.where(np.isnan(x), 0x7FC0, rounded).astype("<u2")


def to_odd(x):
    """f64 to f32, cut off with a last bit that says so: rounding on to 16 bits rounds once."""
    with np.errstate(all="ignore"):
        near = x.astype("<f4")
    bits = near.view("<u4").copy()
    inexact = (near.astype("f8") != x) & ~np.isnan(x)
    above = inexact & (np.abs(near.astype("f8")) > np.abs(x))
    bits[above] -= 1
    bits[inexact] |= 1
    return bits.view("<f4")


def encode(x, kind):
    """Values as the bits of a type."""
    with np.errstate(all="ignore"):
        if kind == "BF16":
            return to_bf16(to_odd(np.asarray(x, "f8")) if np.asarray(x).dtype == np.float64 else np.asarray(x, "f4"))
        return np.asarray(x).astype(PLAIN[kind])


def decode(bits, kind):
    """Bits as values that hold them."""
    if kind == "BF16":
        return (bits.astype("<u4") << 16).view("<f4")
    return bits


class Operand:
    """An array of a shape, at strides of some sort in a larger block of bytes."""

    def __init__(self, rng, shape, kind, sort, output=False, like=None):
        self.shape, self.kind, self.unit = list(shape), kind, SIZES[kind]
        dims = len(self.shape)
        order = list(range(dims))
        gap = [0] * dims
        if sort in ("turned", "sliced"):
            rng.shuffle(order)
        if sort in ("gaps", "sliced"):
            gap = [int(rng.integers(0, 3)) for _ in order]
        steps = 1 if sort != "sliced" else int(rng.integers(1, 4))
        zero = [sort == "broadcast" and not output and rng.random() < 0.4 for _ in order]
        self.stride, step = [0] * dims, steps * self.unit
        for d in reversed(order):
            if zero[d]:
                continue
            self.stride[d] = step
            step *= self.shape[d]
            step += gap[d] * self.unit
        self.offset = int(rng.integers(0, 4)) * self.unit if sort != "dense" else 0
        last = sum((n - 1) * s for n, s in zip(self.shape, self.stride))
        self.bytes = self.offset + last + self.unit
        self.block = rng.integers(0, 256, self.bytes).astype("u1")
        if like is not None:
            self.shape, self.stride, self.offset, self.bytes = like.shape, like.stride, like.offset, like.bytes
            self.block = like.block.copy()

    def view(self, block=None):
        """The elements as they lie, as bits."""
        block = self.block if block is None else block
        flat = np.ndarray(self.shape, PLAIN[self.kind], block.data, self.offset, self.stride)
        return flat

    def fill(self, values):
        self.view()[...] = encode(values, self.kind)

    def values(self):
        """What the elements are, in f64, or as integers."""
        x = decode(np.ascontiguousarray(self.view()), self.kind).reshape(self.shape)
        return x if self.kind.startswith("I") else x.astype("f8")

    def pack(self):
        pad = [0] * (4 - len(self.shape))
        return struct.pack("<12q", TYPES[self.kind], len(self.shape), *self.shape, *pad, *self.stride, *pad, self.offset, self.bytes)


def case(kind, text, ins, out, result, tokens, rng, absolute=0.0, relative=0.0, axis=0, axes=0, reduce=0, accumulate=0, alpha=0.0,
         raw_result=False, scale=0.0):
    """The bytes of one case; result are values in f64 (or ints), to be rounded to out's type."""
    after = out.block.copy()
    out.view(after)[...] = result if raw_result else encode(result, out.kind)
    head = struct.pack("<16s112s7q4d", kind.encode(), text.encode()[:111], tokens, int(rng.integers(1, 4)), axis, axes, reduce,
                       accumulate, 0, alpha, scale, absolute, relative)
    tensors = b"".join(x.pack() for x in ins) + b"\0" * 96 * (7 - len(ins)) + out.pack()
    blocks = b"".join(x.block.tobytes() for x in ins) + out.block.tobytes() + after.tobytes()
    return head + tensors + blocks


def random_shape(rng, dims, most=7):
    shape = [int(rng.integers(1, most + 1)) for _ in range(dims)]
    if rng.random() < 0.2:  # a long row now and then
        shape[int(rng.integers(0, dims))] = int(rng.integers(30, 80))
    if rng.random() < 0.03:
        shape[int(rng.integers(0, dims))] = int(rng.integers(500, 1100))
    return shape


def numbers(rng, shape, size=2.0):
    return (rng.random(shape) * 2 - 1) * size


ULP = {"F32": 2.0**-23, "F16": 2.0**-10, "BF16": 2.0**-7, "F64": 2.0**-52}
TINY = {"F32": 0.0, "F16": 2.0**-24, "BF16": 0.0, "F64": 0.0}


def mixed(rng, kind):
    """The type, or another one of those that may stand beside it."""
    return kind if kind == "F64" or rng.random() < 0.7 else str(rng.choice(REALS))


def make_add(rng, kind, sort):
    shape = random_shape(rng, int(rng.integers(1, 5)))
    out = Operand(rng, shape, mixed(rng, kind), sort, output=True)
    ins = []
    for _ in range(2):
        own = [1 if sort == "broadcast" and rng.random() < 0.4 else n for n in shape]
        if sort == "broadcast" and rng.random() < 0.3:
            own = own[int(rng.integers(0, len(own))):]
        x = Operand(rng, own, kind if not ins else mixed(rng, kind), sort)
        x.fill(numbers(rng, own))
        ins.append(x)
    alpha = 0.0 if rng.random() < 0.5 else float(np.float32(rng.normal()))
    work = "f8" if kind == "F64" else "f4"
    a, b = (x.values().astype(work) for x in ins)
    result = a + b if alpha == 0 else a + (b * np.asarray(alpha, "f4").astype(work)).astype(work)
    result = np.broadcast_to(result.astype(work), shape)
    return case("add", f"{kind} {sort} {shape} alpha {alpha}", ins, out, result, shape[0], rng, alpha=alpha)


def make_copy(rng, kind, sort):
    shape = random_shape(rng, int(rng.integers(1, 5)))
    x, out = Operand(rng, shape, kind, sort), Operand(rng, shape, kind, str(rng.choice(STRIDES)), output=True)
    return case("copy", f"{kind} {sort} {shape}", [x], out, np.ascontiguousarray(x.view()), shape[0], rng, raw_result=True)


def make_concat(rng, kind, sort):
    shape = random_shape(rng, int(rng.integers(1, 5)))
    axis, ins = int(rng.integers(0, len(shape))), []
    for _ in range(int(rng.integers(1, 8))):
        shape[axis] = int(rng.integers(1, 6))
        ins.append(Operand(rng, shape, kind, sort))
    result = np.concatenate([x.view() for x in ins], axis)
    out = Operand(rng, result.shape, kind, str(rng.choice(STRIDES)), output=True)
    return case("concat", f"{kind} {sort} axis {axis} {result.shape}", ins, out, result, result.shape[0], rng, axis=axis, raw_result=True)


def make_softmax(rng, kind, sort):
    shape = random_shape(rng, int(rng.integers(1, 5)))
    axis = int(rng.integers(0, len(shape)))
    x = Operand(rng, shape, kind, sort)
    x.fill(numbers(rng, shape, 10.0))
    out = Operand(rng, shape, mixed(rng, kind), str(rng.choice(STRIDES)), output=True)
    v = x.values()
    e = np.exp(v - v.max(axis, keepdims=True))
    wide = 2.0**-48 if kind == "F64" else 2.0**-19  # of arguments down to -20
    return case("softmax", f"{kind} {sort} axis {axis} {shape}", [x], out, e / e.sum(axis, keepdims=True), shape[0], rng,
                relative=ULP[out.kind] + wide * 2, absolute=TINY[out.kind] + 1e-37, axis=axis)


def make_reduce(rng, kind, sort):
    shape = random_shape(rng, int(rng.integers(1, 5)))
    axes = int(rng.integers(1, 1 << len(shape)))
    over = tuple(d for d in range(len(shape)) if axes >> d & 1)
    x = Operand(rng, shape, kind, sort)
    x.fill(numbers(rng, shape))
    how = int(rng.integers(0, 4))
    v = x.values()
    result = (v.sum, v.mean, v.max, v.min)[how](over, keepdims=True)
    out = Operand(rng, result.shape, mixed(rng, kind), str(rng.choice(STRIDES)), output=True)
    size = np.abs(v).sum(over, keepdims=True).max() * 2.0**-53 * (8 + v.size / result.size)
    return case("reduce", f"{kind} {sort} axes {axes} how {how} {shape}", [x], out, result, shape[0], rng, axes=axes, reduce=how,
                relative=ULP[out.kind] if how < 2 else 0.0, absolute=size if how < 2 else 0.0)


def make_product(rng, kind, sort):
    m, n, k = (int(rng.integers(1, 40)) for _ in range(3))
    if rng.random() < 0.1:
        k = int(rng.integers(500, 1200))
    batch = [int(rng.integers(1, 5)) for _ in range(int(rng.integers(0, 3)))]
    shapes = []
    for matrix in ([m, k], [k, n]):
        own = [1 if sort == "broadcast" and rng.random() < 0.5 else x for x in batch]
        shapes.append((own if rng.random() < 0.8 else []) + matrix)
    a, b = Operand(rng, shapes[0], kind, sort), Operand(rng, shapes[1], mixed(rng, kind), str(rng.choice(STRIDES)))
    a.fill(numbers(rng, shapes[0])), b.fill(numbers(rng, shapes[1]))
    out = Operand(rng, batch + [m, n], mixed(rng, kind), str(rng.choice(STRIDES)), output=True)
    accumulate = int(rng.random() < 0.3)
    out.fill(numbers(rng, batch + [m, n]))
    result = np.broadcast_to(np.matmul(a.values(), b.values()), batch + [m, n])
    loss = np.matmul(np.abs(a.values()), np.abs(b.values())).max() * (2.0**-52 if kind == "F64" else 2.0**-24) * (2 + k)
    result = result + (out.values() if accumulate else 0)
    return case("product", f"{kind} {sort} {batch} {m} {k} {n} acc {accumulate} strides {a.stride} {b.stride} {out.stride}", [a, b], out,
                result, out.shape[0], rng, accumulate=accumulate, absolute=loss + TINY[out.kind], relative=ULP[out.kind])


def saturated(v, kind):
    """Values as a type of integers."""
    info = np.iinfo(PLAIN[kind])
    if v.dtype.kind == "i":
        return np.clip(v.astype("i8"), info.min, info.max).astype(PLAIN[kind])
    out = np.zeros(v.shape, "i8")
    with np.errstate(all="ignore"):
        inside = np.abs(v) < 2.0**63
        out[inside] = v[inside].astype("i8")
    out[v >= 2.0**63], out[v <= -(2.0**63)] = 2**63 - 1, -(2**63)
    return np.clip(out, info.min, info.max).astype(PLAIN[kind])


def make_cast(rng, kind, sort):
    shape = random_shape(rng, int(rng.integers(1, 5)))
    into = str(rng.choice(list(TYPES)))
    x = Operand(rng, shape, kind, sort)
    if not kind.startswith("I"):  # of every size, and what isn't finite
        v = numbers(rng, shape) * 2.0 ** rng.integers(-30, 70, shape)
        v = np.where(rng.random(shape) < 0.05, np.nan, np.where(rng.random(shape) < 0.05, np.inf, v))
        x.fill(v)
    elif rng.random() < 0.5:
        x.fill(rng.integers(-100, 100, shape))
    v = x.values()
    out = Operand(rng, shape, into, str(rng.choice(STRIDES)), output=True)
    if into.startswith("I"):
        result = saturated(np.asarray(v), into)
    elif kind.startswith("I") and into != "F64":
        result = encode(v.astype("<f4"), into)
    else:
        result = encode(v, into)
    return case("cast", f"{kind} to {into} {sort} {shape}", [x], out, result, shape[0], rng, raw_result=True)


def gelu(x):
    return x / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def make_elementwise(rng, kind, sort):
    """An operator that does one thing to each element of [T, n]."""
    name = str(rng.choice(["silu_mul", "gelu_mul", "gelu", "scale", "soft_cap"]))
    kind = "F32" if name in ("soft_cap", "gelu_mul") and kind == "F64" else kind
    shape = random_shape(rng, 2)
    ins = [Operand(rng, shape, kind, sort)]
    if name.endswith("_mul"):
        ins.append(Operand(rng, shape, mixed(rng, kind), str(rng.choice(STRIDES))))
    for x in ins:
        x.fill(numbers(rng, x.shape, 4.0))
    out = Operand(rng, shape, mixed(rng, kind), str(rng.choice(STRIDES)), output=True)
    x, up, scale = ins[0].values(), ins[-1].values(), float(np.float32(1.5))
    result = {"silu_mul": x / (1 + np.exp(-x)) * up, "gelu_mul": gelu(x) * up, "gelu": gelu(x), "scale": x * scale,
              "soft_cap": scale * np.tanh(x / scale)}[name]
    wide = 2.0**-48 if kind == "F64" else 2.0**-17
    return case(name, f"{kind} {sort} {shape} to {out.kind} {out.stride}", ins, out, result, shape[0], rng, scale=scale,
                relative=ULP[out.kind], absolute=wide + TINY[out.kind])


def make_int4(rng, kind, sort):
    """x times weights of 4 bits with scales and zeros; the input is rounded to 8 bits on the way."""
    rows, k, tokens = int(rng.integers(1, 70)), 32 * int(rng.integers(1, 9)), int(rng.integers(1, 6))
    group = k if rng.random() < 0.4 else 32 * int(rng.choice([d for d in range(1, k // 32 + 1) if k // 32 % d == 0]))
    blocks, with_zeros = int(rng.random() < 0.5), rng.random() < 0.7
    q = rng.integers(0, 16, (rows, k))
    scales = (rng.random((rows, k // group)) * 0.1 + 0.01).astype("<f4")
    zeros = rng.integers(0, 16, (rows, k // group)).astype("<f4")
    if blocks:  # 16 rows by 16 columns after another
        full = np.zeros((-(-rows // 16) * 16, k), "i8")
        full[:rows] = q
        stored = full.reshape(-1, 16, k // 16, 16).transpose(0, 2, 1, 3)
    else:
        stored = q
    stored = stored.reshape(-1, 2)
    x = Operand(rng, [tokens, k], "F32", "dense")
    x.fill(numbers(rng, [tokens, k]))
    ins = [x, Operand(rng, [stored.shape[0]], "I8", "dense"), Operand(rng, scales.shape, "F32", "dense")]
    ins[1].block[:] = (stored[:, 0] | stored[:, 1] << 4).astype("u1")
    ins[2].fill(scales)
    if with_zeros:
        ins.append(Operand(rng, zeros.shape, "F32", "dense"))
        ins[3].fill(zeros)
    zero = zeros if with_zeros else np.full_like(zeros, 8)
    s, z = (np.repeat(v.astype("f8"), group, 1) for v in (scales, zero))
    w, v = (q - z) * s, x.values()
    out = Operand(rng, [tokens, rows], "F32", "dense", output=True)
    # an element of x is half a step off: a 254th of the largest of its 32; s and s z have 11 bits
    step = np.repeat(np.abs(v).reshape(tokens, -1, 32).max(2), 32, 1) / 254
    loss = (step @ np.abs(w).T + np.abs(v) @ (np.abs(q * s) + np.abs(z * s)).T * 2.0**-11).max() + 1e-5
    return case("int4", f"{rows} x {k} group {group} blocks {blocks} zeros {with_zeros}", ins, out, v @ w.T, tokens, rng,
                axes=group, axis=blocks, absolute=loss)


MAKERS = {
    "add": (make_add, REALS + ["F64"]), "copy": (make_copy, list(TYPES)), "concat": (make_concat, list(TYPES)),
    "softmax": (make_softmax, REALS + ["F64"]), "reduce": (make_reduce, REALS + ["F64"]),
    "product": (make_product, REALS + ["F64"]), "cast": (make_cast, list(TYPES)),
    "elementwise": (make_elementwise, REALS + ["F64"]), "int4": (make_int4, ["F32"]),
}


def main():
    if sys.argv[1] != "--run":
        path, count, rng = sys.argv[1], int(sys.argv[2]), np.random.default_rng(int(sys.argv[3]))
        with open(path, "wb") as f:
            for make, kinds in MAKERS.values():
                for _, (kind, sort) in zip(range(count), itertools.cycle(itertools.product(kinds, STRIDES))):
                    made = make(rng, kind, sort)
                    while len(made) > 3000:
                        made = make(rng, kind, sort)
                    f.write(made)
        return
    program, count, seed = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    only = sys.argv[5:] or list(MAKERS)
    total = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in only:
            make, kinds = MAKERS[name]
            for kind, sort in itertools.product(kinds, STRIDES if name != "int4" else ["dense"]):
                rng = np.random.default_rng([seed, total])
                path = os.path.join(folder, "cases")
                with open(path, "wb") as f:
                    for _ in range(count):
                        f.write(make(rng, kind, sort))
                done = subprocess.run([program, path], capture_output=True, text=True)
                if done.returncode:
                    sys.exit(f"{name} {kind} {sort}, seed {seed}: failed\n{done.stdout}{done.stderr}")
                total += count
            print(f"{name}: equal to NumPy, {total} cases so far", flush=True)


main()
