#!/usr/bin/env python3
"""Tiny folders as transformers saves them, and what llama.cpp's converter makes of them.

    make_folders.py LLAMA_CPP [NAME ...]

Beside this script, for each of a few kinds of folders (parts, rows that are turned, a transposed
model, norms that count from 1, SentencePiece and tokenizer.json alone, experts one by one and as
blocks of MXFP4, heads' parts, decays of a scan, factors of the class,
value heads of a delta net, layers of two
kinds with merged pieces, matrices in series and padded rows, WordPiece): NAME/ and NAME/expected.txt,
the keys of its file, and for each type the tensors with their shapes and the CRC-32 of their bytes.
What it needs, and which keys aren't compared, says ../../../bench/compare_convert.py."""
import shutil
import struct
import sys
import tempfile
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent.parent / "bench"))
import compare_convert as compare  # noqa: E402

compare.SHAPE.update(hidden_size=32, intermediate_size=32)
compare.SHARD = "20KB"
NAMES = ["llama_3", "llama_pieces", "gemma3", "gpt2", "phi3_long", "qwen3moe", "gpt_oss_mxfp4",
         "deepseek2", "deepseek3", "bert", "mamba2", "qwen35moe", "granitehybrid", "qwen3next",
         "falcon_h1", "gemma4_rows", "nemotron_h_latent", "mistral4", "gemma3n"]
compare.MODELS["mamba2"][1].update(head_dim=8)
SMALL = dict(head_dim=16, linear_key_head_dim=8, linear_value_head_dim=8, num_experts=4,
             num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=32,
             num_hidden_layers=2, layer_types=["linear_attention", "full_attention"])
for name in ("qwen35moe", "qwen3next"):
    compare.MODELS[name][1].update(SMALL)
    compare.MODELS[name] = compare.MODELS[name][:4] + (1,)
compare.MODELS["qwen35moe"][1]["rope_parameters"]["mrope_section"] = [2, 1, 1]
compare.MODELS["granitehybrid"][1].update(
    num_local_experts=4, mamba_n_heads=4, shared_intermediate_size=32, num_hidden_layers=2,
    layer_types=["mamba", "attention"])
compare.MODELS["granitehybrid"] = compare.MODELS["granitehybrid"][:4] + (1,)
compare.MODELS["falcon_h1"][1].update(num_hidden_layers=1)
compare.MODELS["falcon_h1"] = compare.MODELS["falcon_h1"][:4] + (1,)
compare.MODELS["gemma4_rows"][1].update(
    head_dim=8, global_head_dim=16, num_hidden_layers=4, num_kv_shared_layers=2,
    attention_k_eq_v=True, num_global_key_value_heads=1, hidden_size_per_layer_input=16,
    layer_types=["sliding_attention", "full_attention"] * 2)
compare.MODELS["gemma4_rows"] = compare.MODELS["gemma4_rows"][:4] + (1,)
compare.MODELS["gemma3n"][1].update(
    head_dim=8, num_hidden_layers=4, hidden_size_per_layer_input=16, num_kv_shared_layers=2,
    activation_sparsity_pattern=[0.95, 0.7, 0.0, 0.0],
    layer_types=["sliding_attention", "full_attention"] * 2)
compare.MODELS["gemma3n"] = compare.MODELS["gemma3n"][:4] + (1,)
compare.MODELS["nemotron_h_latent"][1].update(
    n_routed_experts=4, moe_intermediate_size=16, moe_shared_expert_intermediate_size=32, head_dim=16,
    mamba_num_heads=4, mamba_head_dim=16, moe_latent_size=16)
compare.MODELS["mistral4"][1].update(n_routed_experts=4, moe_intermediate_size=16)
compare.MODELS["mistral4"] = compare.MODELS["mistral4"][:4] + (1,)
compare.MODELS["gemma3"][1].update(head_dim=16, num_hidden_layers=2)
for name in ("deepseek2", "deepseek3"):
    compare.MODELS[name][1].update(n_routed_experts=4, moe_intermediate_size=16)
    compare.MODELS[name] = compare.MODELS[name][:4] + (1,)
compare.MODELS["deepseek3"][1].update(n_group=2, topk_group=1, num_experts_per_tok=2)
for name in ("qwen3moe", "gpt_oss_mxfp4"):
    compare.MODELS[name] = compare.MODELS[name][:4] + (1,)
compare.MODELS["gpt2"] = compare.MODELS["gpt2"][:3] + ("bfloat16", 1)
compare.MODELS["phi3_long"][1]["rope_parameters"].update(
    long_factor=[1.0, 1.5, 2.5, 4.0], short_factor=[1.0, 1.1, 1.2, 1.3])
# Keys that llama.cpp's converter leaves out: query_pre_attn_scalar ** -0.5, of 256.
ADDED = {"gemma3": ["gemma3.attention.scale: 0.0625"],
         "mistral4": ["mistral4.attention.temperature_scale: 0.100000001"]}
TYPES = ["f32", "f16", "bf16", "q8_0"]


def value_text(gguf, field):
    kinds, value = field.types, field.contents()
    if kinds[0] == gguf.GGUFValueType.ARRAY:
        if kinds[1] == gguf.GGUFValueType.STRING:
            data = b"".join(x.encode() + b"\n" for x in value)
        else:
            letter = {"INT32": "i", "UINT32": "I", "FLOAT32": "f", "BOOL": "?"}[kinds[1].name]
            data = struct.pack(f"<{len(value)}{letter}", *value)
        return f"{len(value)} elements {zlib.crc32(data):08x}"
    if kinds[0] == gguf.GGUFValueType.STRING:
        plain = len(value) < 60 and value.isprintable()
        return value if plain else f"text {zlib.crc32(value.encode()):08x}"
    if kinds[0] == gguf.GGUFValueType.BOOL:
        return "true" if value else "false"
    return format(value, ".9g")


def keep_half(lines, half):
    """In place of lines of tensors that mnem does not quantize those of the F16 file."""
    same = {line.split()[0]: line for line in half if any(k in line for k in compare.KEPT)}
    return [same.get(line.split()[0], line) for line in lines]


def expected(gguf, path, keys, added):
    reader = gguf.GGUFReader(path)
    lines = []
    skip = set(compare.MAY_DIFFER) | {"tokenizer.ggml.scores", "general.size_label"}
    skip -= {f"tokenizer.ggml.{kind}_token_id" for kind in ("padding", "unknown")}  # of Nemotron
    for name in sorted(reader.fields) if keys else []:
        if not name.startswith("GGUF.") and name not in skip:
            lines.append(f"{name}: {value_text(gguf, reader.fields[name])}")
    lines = sorted(lines + added) if keys else []
    for t in reader.tensors:
        shape = ", ".join(str(n) for n in reversed(t.shape))
        lines.append(f"{t.name} {t.tensor_type.name} [{shape}] {zlib.crc32(t.data.tobytes()):08x}")
    return lines


def main():
    llama_cpp = sys.argv[1]
    sys.path[:0] = [llama_cpp, llama_cpp + "/gguf-py"]
    import convert_hf_to_gguf
    import gguf
    for name in sys.argv[2:] or NAMES:
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        compare.make(name, folder)
        lines, half = [], []
        for kind in TYPES:
            with tempfile.TemporaryDirectory() as scratch:
                out = Path(scratch) / "out.gguf"
                compare.run_llama_cpp(convert_hf_to_gguf, folder, out, kind,
                                      compare.pre_of(name))
                own = expected(gguf, out, kind == "f32", ADDED.get(name, []))
                half = own if kind == "f16" else half
                lines += [f"== {kind.upper()}"] + (keep_half(own, half) if kind == "q8_0" else own)
        (folder / "expected.txt").write_text("\n".join(lines) + "\n")


main()
