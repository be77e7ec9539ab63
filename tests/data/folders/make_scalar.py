#!/usr/bin/env python3
"""Tiny Gemma 2 and 3 folders whose scores are divided by the root of another number than head_dim, and
their logits in float64, by the formulas of the papers (Gemma 2, 2024; Gemma 3, 2025) and the names of
transformers' modeling_gemma2.py and modeling_gemma3.py. Needs numpy alone.

Beside this script: NAME/config.json, NAME/model.safetensors (BF16), NAME/tokenizer.json (of one token)
and NAME/logits.f32: two int32 (rows, vocabulary), then for every fifth of 200 tokens the logits in
f32. Token i is (7 i i + 13 i + 5) mod 96."""
import json
import struct
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
VOCAB, EMBD, HEADS, KV, DIM, FF, TOKENS, EVERY = 96, 32, 4, 2, 16, 40, 200, 5
COMMON = dict(vocab_size=VOCAB, hidden_size=EMBD, intermediate_size=FF, num_attention_heads=HEADS,
              num_key_value_heads=KV, head_dim=DIM, max_position_embeddings=256, rms_norm_eps=1e-6,
              hidden_activation="gelu_pytorch_tanh", attention_bias=False, tie_word_embeddings=True,
              dtype="bfloat16", sliding_window=24)
MODELS = {
    "gemma2_scalar": dict(COMMON, architectures=["Gemma2ForCausalLM"], model_type="gemma2",
                          num_hidden_layers=2, query_pre_attn_scalar=3.0, attn_logit_softcapping=5.0,
                          final_logit_softcapping=3.0, rope_theta=5000.0,
                          layer_types=["sliding_attention", "full_attention"]),
    "gemma3_scalar": dict(COMMON, architectures=["Gemma3ForCausalLM"], model_type="gemma3_text",
                          num_hidden_layers=3, query_pre_attn_scalar=100, sliding_window=20,
                          layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                          rope_parameters=dict(
                              full_attention=dict(rope_type="linear", factor=2.0, rope_theta=1e6),
                              sliding_attention=dict(rope_type="default", rope_theta=1e4))),
}


def shapes_of(config):
    third = config["model_type"] == "gemma3_text"
    yield "model.embed_tokens.weight", (VOCAB, EMBD)
    for i in range(config["num_hidden_layers"]):
        p = f"model.layers.{i}."
        for name in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                     "post_feedforward_layernorm"):
            yield f"{p}{name}.weight", (EMBD,)
        for name in ("q_norm", "k_norm") if third else ():
            yield f"{p}self_attn.{name}.weight", (DIM,)
        for name, heads in (("q", HEADS), ("k", KV), ("v", KV)):
            yield f"{p}self_attn.{name}_proj.weight", (heads * DIM, EMBD)
        yield f"{p}self_attn.o_proj.weight", (EMBD, HEADS * DIM)
        for name in ("gate_proj", "up_proj"):
            yield f"{p}mlp.{name}.weight", (FF, EMBD)
        yield f"{p}mlp.down_proj.weight", (EMBD, FF)
    yield "model.norm.weight", (EMBD,)


def to_bf16(values):
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def make_weights(config, seed):
    """Such that attention is sharp and every tensor matters."""
    random, stored, read = np.random.default_rng(seed), {}, {}
    for name, shape in shapes_of(config):
        scale = 0.3 if len(shape) == 1 else 0.1 if "embed" in name else 1.5 / shape[1] ** 0.5
        stored[name] = to_bf16(random.standard_normal(shape) * scale)
        read[name] = (stored[name].astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return stored, read


def write_weights(path, stored):
    header, at = {}, 0
    for name, values in stored.items():
        header[name] = dict(dtype="BF16", shape=values.shape, data_offsets=[at, at + values.nbytes])
        at += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text +
                     b"".join(v.tobytes() for v in stored.values()))


def norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * (1 + weight)


def rope(x, base, factor):  # [tokens, heads, dim], halves in pairs
    angle = np.arange(len(x))[:, None] / factor * base ** (-np.arange(0, DIM, 2) / DIM)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., :DIM // 2], x[..., DIM // 2:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def cap(x, limit):
    return limit * np.tanh(x / limit) if limit else x


def rope_of(config, windowed):
    if "rope_theta" in config:
        return config["rope_theta"], 1.0
    own = config["rope_parameters"]["sliding_attention" if windowed else "full_attention"]
    return own["rope_theta"], own.get("factor", 1.0)


def attend(config, w, p, x, windowed):
    n = len(x)
    q, k, v = (
        (x @ w[f"{p}self_attn.{name}_proj.weight"].T).reshape(n, -1, DIM) for name in "qkv")
    if f"{p}self_attn.q_norm.weight" in w:
        q, k = norm(q, w[f"{p}self_attn.q_norm.weight"]), norm(k, w[f"{p}self_attn.k_norm.weight"])
    q, k = (rope(t, *rope_of(config, windowed)) for t in (q, k))
    k, v = (np.repeat(t, HEADS // KV, axis=1) for t in (k, v))
    scores = np.einsum("ihd,jhd->hij", q, k) * config["query_pre_attn_scalar"] ** -0.5
    scores = cap(scores, config.get("attn_logit_softcapping"))
    i, j = np.arange(n)[:, None], np.arange(n)[None]
    seen = (j <= i) & (not windowed or j > i - config["sliding_window"])
    scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    out = np.einsum("hij,jhd->ihd", weights, v).reshape(n, -1)
    return out @ w[f"{p}self_attn.o_proj.weight"].T


def feed(w, p, x):
    gate, up = x @ w[p + "mlp.gate_proj.weight"].T, x @ w[p + "mlp.up_proj.weight"].T
    gelu = 0.5 * gate * (1 + np.tanh((2 / np.pi) ** 0.5 * (gate + 0.044715 * gate ** 3)))
    return (gelu * up) @ w[p + "mlp.down_proj.weight"].T


def logits_of(config, w, ids):
    x = w["model.embed_tokens.weight"][ids] * EMBD ** 0.5
    for i, kind in enumerate(config["layer_types"]):
        p = f"model.layers.{i}."
        y = attend(config, w, p, norm(x, w[p + "input_layernorm.weight"]), kind.startswith("sliding"))
        x = x + norm(y, w[p + "post_attention_layernorm.weight"])
        y = feed(w, p, norm(x, w[p + "pre_feedforward_layernorm.weight"]))
        x = x + norm(y, w[p + "post_feedforward_layernorm.weight"])
    x = norm(x, w["model.norm.weight"]) @ w["model.embed_tokens.weight"].T
    return cap(x, config.get("final_logit_softcapping"))


def main():
    ids = [(7 * i * i + 13 * i + 5) % VOCAB for i in range(TOKENS)]
    for seed, (name, config) in enumerate(MODELS.items()):
        folder = HERE / name
        folder.mkdir(exist_ok=True)
        stored, weights = make_weights(config, seed)
        write_weights(folder / "model.safetensors", stored)
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "tokenizer.json").write_text(
            json.dumps(dict(model=dict(type="BPE", vocab={"a": 0}, merges=[]))))
        rows = logits_of(config, weights, ids)[EVERY - 1::EVERY].astype(np.float32)
        (folder / "logits.f32").write_bytes(struct.pack("<2i", *rows.shape) + rows.tobytes())
        plain = dict(config, query_pre_attn_scalar=DIM)
        other = logits_of(plain, weights, ids)[EVERY - 1::EVERY]
        same = (other.argmax(1) == rows.argmax(1)).sum()
        print(f"{name}: {same} of {len(rows)} first choices are those of head_dim's root")


main()
