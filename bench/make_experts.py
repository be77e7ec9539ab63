#!/usr/bin/env python3
"""make_experts.py OUT [--shape olmoe|qwen3moe|qwen35moe] [--layers N] [--seed N] ...: a mixture of
experts of random weights in Q4_0 whose routing behaves like that of real ones.

Shapes: olmoe, OLMoE-1B-7B's (64 experts, 8 used, 16 layers; 6.9 B, 3.9 GB); qwen3moe,
Qwen3-30B-A3B's (128 experts, 8 used) cut to 12 layers; and qwen35moe, Qwen3.5-35B-A3B's (256
experts, 8 used, and a shared one; gated delta nets in three of four layers) cut to 12 layers, with
the output in Q6_K.

Random routers would use all experts alike. Here a few dimensions of the stream say the same of
every token, and a router reads of them how popular each expert is; the others say which token it
is, and what tokens just before it were: queries and keys are nearly constant, and turned so that
attention looks a few tokens back, as delta nets do. So the busiest quarter of a layer's experts gets
about half of the uses (qwen35moe: two thirds), and about a third of a token's experts come again
with the next one (qwen35moe: a fifth); bench_experts says how many. Written as it is made; memory:
some pools of random blocks.
"""
import argparse
import array
import math
import random
import struct

BLOCK, BLOCK_BYTES = 32, 18  # Q4_0
POOL_BLOCKS = 1 << 20
TYPE_F32, TYPE_Q4_0, TYPE_Q6_K = 0, 2, 14
Q6_K_BLOCK, Q6_K_BYTES = 256, 210
U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5
COMMON = 32  # dimensions that say the same of every token: one block of a row

SHAPES = {
    "olmoe": dict(experts=64, used=8, layers=16, embd=2048, ff=1024, heads=16, kv_heads=16,
                  head_dim=128, vocab=50304, base=10000.0, context=4096,
                  near=1.1, slowest=0.1, look=0.98, change=0.3),
    "qwen3moe": dict(experts=128, used=8, layers=12, embd=2048, ff=768, heads=32, kv_heads=4,
                     head_dim=128, vocab=151936, base=1000000.0, context=40960,
                     near=1.22, slowest=0.01, look=2.5, change=0.1),
    "qwen35moe": dict(experts=256, used=8, layers=12, embd=2048, ff=512, heads=16, kv_heads=2,
                      head_dim=256, turned=64, vocab=248320, base=10000000.0, context=262144,
                      near=1.22, slowest=0.01, look=2.5, change=0.1,
                      states=dict(every=4, heads=32, groups=16, size=128, taps=4, seldom=0.5,
                                  decay=0.3, carry=0.4)),
}


# Numbers -7 to 7, so that their mean is 0: a mean adds up to what all tokens share.
NO_EIGHT = bytes((b & 15 or 8) | (b >> 4 or 8) << 4 for b in range(256))


class Blocks:
    """Random Q4_0 bytes of a standard deviation, cut from a pool at random places."""

    def __init__(self, rng):
        self.rng, self.pools = rng, {}

    def get(self, count, deviation):
        pool = self.pools.get(deviation)
        if pool is None:
            pool = bytearray(self.rng.randbytes(POOL_BLOCKS * BLOCK_BYTES).translate(NO_EIGHT))
            scale = struct.pack("<e", deviation / math.sqrt(17.5))
            pool[0::BLOCK_BYTES] = scale[:1] * POOL_BLOCKS
            pool[1::BLOCK_BYTES] = scale[1:] * POOL_BLOCKS
            self.pools[deviation] = pool
        out = bytearray()
        while count:
            n = min(count, POOL_BLOCKS // 2)
            at = self.rng.randrange(POOL_BLOCKS - n) * BLOCK_BYTES
            out += pool[at:at + n * BLOCK_BYTES]
            count -= n
        return out

    def matrix(self, rows, k, deviation):
        return self.get(rows * k // BLOCK, deviation)

    def q6_k(self, rows, k, deviation):
        """Numbers -32 to 31 with one scale: 4 and 2 bits of each, 16 scales, the scale of those."""
        scales = bytes([8]) * 16 + struct.pack("<e", deviation / (8 * math.sqrt(341.25)))
        low = self.rng.randbytes(POOL_BLOCKS)
        for _ in range(rows):
            yield b"".join(low[i:i + 192] + scales for i in (
                self.rng.randrange(POOL_BLOCKS - 192) for _ in range(k // Q6_K_BLOCK)))


def constant_block(value):
    return struct.pack("<e", value / 7) + b"\xff" * 16


def embedding(a, s, blocks):
    rest = s["embd"] // BLOCK - 1
    for _ in range(s["vocab"]):
        yield constant_block(a.common) + blocks.get(rest, 1.0)


def apart(s, blocks, rows):
    """A matrix that doesn't read what all tokens share: a part that is always the same would grow
    from layer to layer."""
    rest = s["embd"] // BLOCK - 1
    made = blocks.get(rows * rest, s["embd"] ** -0.5)
    size = rest * BLOCK_BYTES
    return b"".join(bytes(BLOCK_BYTES) + made[i:i + size] for i in range(0, rows * size, size))


def floats(values):
    return array.array("f", values).tobytes()


def attention_norm(a, s):
    return floats([a.steady] * COMMON + [1.0] * (s["embd"] - COMMON))


def head_norm(a, s, heads):
    """Only fast angles are left: what is a few tokens back is near, all else far."""
    turned = s.get("turned", s["head_dim"])
    half = turned // 2
    fast = [s["base"] ** (-i / half) > a.slowest for i in range(half)]
    one = [a.near if f else 0.0 for f in fast] * 2 + [0.0] * (s["head_dim"] - turned)
    return floats(one * (heads if s["wide"] else 1))


def router(a, s, rng):
    """Popularity has a long tail: few experts are asked for most."""
    out = array.array("f")
    steady = a.common * COMMON
    popular = [rng.expovariate(1.0) - 1 for _ in range(s["experts"])]
    for expert in range(s["experts"]):
        out.extend([a.skew * popular[expert] / steady] * COMMON)
        out.extend(rng.gauss(0, a.sharp / math.sqrt(s["embd"])) for _ in range(s["embd"] - COMMON))
    return out.tobytes()


def queries_and_keys(s, blocks):
    """Each group of query heads is its head of keys; a gate follows each head."""
    rows = s["head_dim"] * (s["embd"] // BLOCK) * BLOCK_BYTES
    keys = bytes(blocks.matrix(s["kv_heads"] * s["head_dim"], s["embd"], s["embd"] ** -0.5))
    group = s["heads"] // s["kv_heads"]
    gate = apart(s, blocks, s["head_dim"]) if "states" in s else b""
    queries = b"".join((keys[i * rows:(i + 1) * rows] + gate) * group
                       for i in range(s["kv_heads"]))
    return queries, keys


def attention_tensors(a, s, blocks):
    """(name, type, dimensions as the file has them, what makes the bytes)."""
    embd, width, kv = s["embd"], s["heads"] * s["head_dim"], s["kv_heads"] * s["head_dim"]
    pair = {}

    def query(which):
        if not pair:
            pair["q"], pair["k"] = queries_and_keys(s, blocks)
        return pair.pop(which)

    q_norm, k_norm = (width, kv) if s["wide"] else (s["head_dim"],) * 2
    return [
        ("attn_q.weight", TYPE_Q4_0, [embd, width * (2 if "states" in s else 1)],
         lambda: query("q")),
        ("attn_k.weight", TYPE_Q4_0, [embd, kv], lambda: query("k")),
        ("attn_v.weight", TYPE_Q4_0, [embd, kv], lambda: apart(s, blocks, kv)),
        ("attn_output.weight", TYPE_Q4_0, [width, embd],
         lambda: blocks.matrix(embd, width, a.look * width ** -0.5)),
        ("attn_q_norm.weight", TYPE_F32, [q_norm], lambda: head_norm(a, s, s["heads"])),
        ("attn_k_norm.weight", TYPE_F32, [k_norm], lambda: head_norm(a, s, s["kv_heads"])),
    ]


def delta_tensors(a, s, blocks):
    """A gated delta net of nearly constant queries, keys and gates: each head's state is a mean of
    what its values were, of the last few tokens most."""
    embd, state = s["embd"], s["states"]
    heads, values = state["heads"], state["heads"] * state["size"]
    keys = state["groups"] * state["size"]

    def inputs():
        both = blocks.matrix(keys, embd, embd ** -0.5)
        return both + both + apart(s, blocks, values)

    def seldom():
        """Few of the values are taken, so that older ones last."""
        rest = blocks.get(heads * (embd // BLOCK - 1), embd ** -0.5)
        size = (embd // BLOCK - 1) * BLOCK_BYTES
        one = constant_block(-state["seldom"] / (a.steady * a.common * COMMON))
        return b"".join(one + rest[i:i + size] for i in range(0, heads * size, size))

    return [
        ("attn_qkv.weight", TYPE_Q4_0, [embd, 2 * keys + values], inputs),
        ("attn_gate.weight", TYPE_Q4_0, [embd, values],
         lambda: blocks.matrix(values, embd, embd ** -0.5)),
        ("ssm_conv1d.weight", TYPE_F32, [state["taps"], 2 * keys + values],
         lambda: floats([0.0] * (state["taps"] - 1) + [1.0]) * (2 * keys + values)),
        ("ssm_dt.bias", TYPE_F32, [heads], lambda: floats([0.0] * heads)),
        ("ssm_a", TYPE_F32, [heads], lambda: floats([-state["decay"]] * heads)),
        ("ssm_beta.weight", TYPE_Q4_0, [embd, heads], seldom),
        ("ssm_alpha.weight", TYPE_Q4_0, [embd, heads], lambda: apart(s, blocks, heads)),
        ("ssm_norm.weight", TYPE_F32, [state["size"]], lambda: floats([1.0] * state["size"])),
        ("ssm_out.weight", TYPE_Q4_0, [values, embd],
         lambda: blocks.matrix(embd, values, a.look * state["carry"] * values ** -0.5)),
    ]


def expert_tensors(a, s, rng, blocks):
    embd, ff, experts = s["embd"], s["ff"], s["experts"]

    def inputs():
        return (apart(s, blocks, ff) for _ in range(experts))

    def outputs():
        return (blocks.matrix(embd, ff, a.change * ff ** -0.5) for _ in range(experts))

    made = [
        ("ffn_gate_inp.weight", TYPE_F32, [embd, experts], lambda: router(a, s, rng)),
        ("ffn_gate_exps.weight", TYPE_Q4_0, [embd, ff, experts], inputs),
        ("ffn_down_exps.weight", TYPE_Q4_0, [ff, embd, experts], outputs),
        ("ffn_up_exps.weight", TYPE_Q4_0, [embd, ff, experts], inputs),
    ]
    if "states" not in s:
        return made
    return made + [  # one that every token uses, with a gate of 1/2
        ("ffn_gate_inp_shexp.weight", TYPE_F32, [embd], lambda: floats([0.0] * embd)),
        ("ffn_gate_shexp.weight", TYPE_Q4_0, [embd, ff], lambda: apart(s, blocks, ff)),
        ("ffn_up_shexp.weight", TYPE_Q4_0, [embd, ff], lambda: apart(s, blocks, ff)),
        ("ffn_down_shexp.weight", TYPE_Q4_0, [ff, embd],
         lambda: blocks.matrix(embd, ff, a.change * ff ** -0.5)),
    ]


def layer_tensors(a, s, rng, blocks, layer):
    """The tensors of a layer, in the file's order."""
    embd = s["embd"]
    recurrent = "states" in s and (layer + 1) % s["states"]["every"]
    second = "post_attention_norm.weight" if "states" in s else "ffn_norm.weight"
    one = [("attn_norm.weight", TYPE_F32, [embd], lambda: attention_norm(a, s)),
           *(delta_tensors if recurrent else attention_tensors)(a, s, blocks),
           (second, TYPE_F32, [embd], lambda: floats([1.0] * embd)),
           *expert_tensors(a, s, rng, blocks)]
    return [(f"blk.{layer}.{name}", *rest) for name, *rest in one]


def all_tensors(a, s, rng, blocks):
    embd, vocab = s["embd"], s["vocab"]
    yield "token_embd.weight", TYPE_Q4_0, [embd, vocab], lambda: embedding(a, s, blocks)
    for layer in range(s["layers"]):
        yield from layer_tensors(a, s, rng, blocks, layer)
    yield "output_norm.weight", TYPE_F32, [embd], lambda: floats([1.0] * embd)
    kind, make = (TYPE_Q6_K, blocks.q6_k) if "states" in s else (TYPE_Q4_0, blocks.matrix)
    yield "output.weight", kind, [embd, vocab], lambda: make(vocab, embd, 3 * embd ** -0.5)


# ---- the file ----


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def key(name, kind, value):
    pack = {U32: "<I", F32: "<f", BOOL: "<?"}
    out = text(name) + struct.pack("<I", kind)
    if kind == STRING:
        return out + text(value)
    if kind != ARRAY:
        return out + struct.pack(pack[kind], value)
    element, values = value
    out += struct.pack("<IQ", element, len(values))
    if element == STRING:
        return out + b"".join(text(v) for v in values)
    return out + array.array("i", values).tobytes()


def byte_letters():
    """GPT-2's letter for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(other)) for b in range(256)]


def vocabulary(count):
    """Bytes, then pairs of them with their merges, then names that no text has; one that ends."""
    letters = byte_letters()
    tokens, merges = list(letters), []
    for left in letters:
        for right in letters:
            if len(tokens) < count - 1:
                tokens.append(left + right)
                merges.append(left + " " + right)
    while len(tokens) < count - 1:
        tokens.append(f"word{len(tokens)}")
    return tokens + ["<|endoftext|>"], merges


def keys(shape, s):
    tokens, merges = vocabulary(s["vocab"])
    numbers = [("context_length", U32, s["context"]), ("embedding_length", U32, s["embd"]),
               ("block_count", U32, s["layers"]), ("feed_forward_length", U32, s["ff"]),
               ("attention.head_count", U32, s["heads"]),
               ("attention.head_count_kv", U32, s["kv_heads"]),
               ("attention.layer_norm_rms_epsilon", F32, 1e-5), ("rope.freq_base", F32, s["base"]),
               ("expert_count", U32, s["experts"]), ("expert_used_count", U32, s["used"])]
    if not s["wide"]:
        numbers += [("attention.key_length", U32, s["head_dim"]),
                    ("attention.value_length", U32, s["head_dim"]),
                    ("expert_feed_forward_length", U32, s["ff"])]
    if "states" in s:
        state = s["states"]
        numbers += [("ssm.conv_kernel", U32, state["taps"]), ("ssm.state_size", U32, state["size"]),
                    ("ssm.group_count", U32, state["groups"]),
                    ("ssm.time_step_rank", U32, state["heads"]),
                    ("ssm.inner_size", U32, state["heads"] * state["size"]),
                    ("full_attention_interval", U32, state["every"]),
                    ("rope.dimension_count", U32, s["turned"]),
                    ("expert_shared_feed_forward_length", U32, s["ff"]),
                    ("rope.dimension_sections", ARRAY, (I32, [11, 11, 10, 0]))]
    out = [key("general.architecture", STRING, shape), key("general.name", STRING, "random experts"),
           key("general.file_type", U32, 2), key("general.quantization_version", U32, 2)]
    out += [key(f"{shape}.{name}", kind, value) for name, kind, value in numbers]
    kinds = [1] * (len(tokens) - 1) + [3]
    return out + [key("tokenizer.ggml.model", STRING, "gpt2"),
                  key("tokenizer.ggml.pre", STRING, "gpt-2"),
                  key("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
                  key("tokenizer.ggml.token_type", ARRAY, (I32, kinds)),
                  key("tokenizer.ggml.merges", ARRAY, (STRING, merges)),
                  key("tokenizer.ggml.eos_token_id", U32, len(tokens) - 1),
                  key("tokenizer.ggml.add_bos_token", BOOL, False)]


def tensor_bytes(kind, shape):
    count = math.prod(shape)
    if kind == TYPE_Q6_K:
        return count // Q6_K_BLOCK * Q6_K_BYTES
    return count * 4 if kind == TYPE_F32 else count // BLOCK * BLOCK_BYTES


def write(out, shape, a, s):
    rng = random.Random(a.seed)
    tensors = list(all_tensors(a, s, rng, Blocks(rng)))
    pairs, table, offset = keys(shape, s), b"", 0
    for name, kind, dims, _ in tensors:
        table += text(name) + struct.pack("<I", len(dims))
        table += struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", kind, offset)
        offset += -(-tensor_bytes(kind, dims) // 32) * 32
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(pairs)) + b"".join(pairs) + table
    out.write(head + bytes(-len(head) % 32))
    for name, kind, dims, make in tensors:
        made, written = make(), 0
        for piece in [made] if isinstance(made, (bytes, bytearray)) else made:
            written += out.write(piece)
        assert written == tensor_bytes(kind, dims), name
        out.write(bytes(-written % 32))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("out")
    p.add_argument("--shape", choices=SHAPES, default="olmoe")
    p.add_argument("--layers", type=int, help="fewer layers than the shape has")
    p.add_argument("--ff", type=int, help="narrower experts, for a small file")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--common", type=float, default=3.0, help="what all tokens share")
    p.add_argument("--skew", type=float, default=0.05, help="how far popularities differ")
    p.add_argument("--sharp", type=float, default=1.0, help="how far a token's choices differ")
    p.add_argument("--steady", type=float, default=8.0, help="how alike queries are")
    p.add_argument("--near", type=float, help="how steeply attention falls off")
    p.add_argument("--slowest", type=float, help="angle a token, of heads")
    p.add_argument("--look", type=float, help="what attention adds")
    p.add_argument("--change", type=float, help="what experts add")
    a = p.parse_args()
    for name in ("near", "slowest", "look", "change"):  # found by trying, for each shape
        if getattr(a, name) is None:
            setattr(a, name, SHAPES[a.shape][name])
    s = dict(SHAPES[a.shape], wide=a.shape == "olmoe")
    s["layers"] = a.layers or s["layers"]
    s["ff"] = a.ff or s["ff"]
    with open(a.out, "wb") as out:
        write(out, a.shape, a, s)


if __name__ == "__main__":
    main()
