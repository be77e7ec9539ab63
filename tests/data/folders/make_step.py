#!/usr/bin/env python3
"""A tiny folder of Step 3.5 as they are published (a layer that predicts further tokens is behind the
others), and what `transformers` makes of a text with its class for Step 3.7. Needs torch and
transformers. Beside this script: step35/ with the files that make_scalar.py names."""
import json
import struct
import sys
from pathlib import Path

import safetensors.torch
import torch
import transformers

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "architectures"))
import step_folders

VOCAB, TOKENS, EVERY = 96, 200, 5
SIGHT = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=8, patch_size=4)
TEXT = dict(
    vocab_size=VOCAB, hidden_size=32, intermediate_size=40, num_hidden_layers=4,
    num_attention_heads=4, num_key_value_heads=2, num_sliding_attention_heads=6, head_dim=16,
    max_position_embeddings=256, sliding_window=24, n_routed_experts=8, num_experts_per_tok=3,
    moe_intermediate_size=16, share_expert_dim=24, moe_router_scaling_factor=2.5,
    layer_types=["full_attention"] + ["sliding_attention"] * 2 + ["full_attention"],
    mlp_layer_types=["dense", "dense", "sparse", "sparse"], swiglu_limits=[0.0, 0.0, 0.5, 0.25],
    swiglu_limits_shared=[0.5, 0.0, 0.0, 0.75], rope_parameters=dict(
        full_attention=dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
                            high_freq_factor=4.0, original_max_position_embeddings=64,
                            partial_rotary_factor=0.5),
        sliding_attention=dict(rope_type="default", rope_theta=5000.0, partial_rotary_factor=1.0)))


def main():
    torch.manual_seed(35)
    config = transformers.Step3p7Config(text_config=TEXT, vision_config=SIGHT,
                                        attn_implementation="eager")
    model = transformers.AutoModelForImageTextToText.from_config(config).float().eval()
    for name, p in model.named_parameters():
        scale = 1.0 if "embed" in name else 1.5 / p.shape[-1] ** 0.5 if p.dim() > 1 else 0.2
        p.data = (torch.randn_like(p) * scale).bfloat16().float()
    for name, b in model.named_buffers():
        if "correction_bias" in name:
            b.data = (torch.randn_like(b) * 0.2).bfloat16().float()
    ids = torch.tensor([[(7 * i * i + 13 * i + 5) % VOCAB for i in range(TOKENS)]])
    with torch.no_grad():
        logits = model(ids).logits[0][EVERY - 1::EVERY].float()
    folder = HERE / "step35"
    model.save_pretrained(folder)
    step_folders.describe(folder, True)
    (folder / "generation_config.json").unlink(missing_ok=True)
    path = folder / "model.safetensors"
    tensors = {n: t.bfloat16() for n, t in safetensors.torch.load_file(path).items()}
    safetensors.torch.save_file(tensors, path, metadata=dict(format="pt"))
    config = dict(json.loads((folder / "config.json").read_text()), model_type="step3p5",
                  dtype="bfloat16")
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "tokenizer.json").write_text(
        json.dumps(dict(model=dict(type="BPE", vocab=dict(a=0), merges=[]))))
    (folder / "logits.f32").write_bytes(struct.pack("<ii", *logits.shape)
                                        + logits.numpy().tobytes())


main()
