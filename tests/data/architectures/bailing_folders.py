"""Folders of the two older Bailings (Ling), which transformers has no classes for, of folders of
classes with the same layers: Qwen2Moe, whose shared experts are halved by a gate of 0, and Glm4Moe
with norms of heads."""
import json

import safetensors.torch
import torch

NAMES = {"self_attn.o_proj": "attention.dense", "self_attn.q_norm": "attention.query_layernorm",
         "self_attn.k_norm": "attention.key_layernorm", "embed_tokens": "word_embeddings",
         "e_score_correction_bias": "expert_bias", "shared_expert.": "shared_experts."}


def describe(config, version):
    config.pop("num_nextn_predict_layers", None)
    config.update(architectures=[f"BailingMoe{'V2' if version == 2 else ''}ForCausalLM"],
                  model_type="bailing_moe")
    if version == 2:
        config.update(num_experts=config.pop("n_routed_experts"), score_function="sigmoid",
                      num_shared_experts=config.pop("n_shared_experts"))
        return
    width = config.pop("shared_expert_intermediate_size")
    config.update(first_k_dense_replace=0, norm_head=False,
                  num_shared_experts=width // config["moe_intermediate_size"])


def rename(folder, version):
    path, about = folder / "model.safetensors", folder / "config.json"
    config = json.loads(about.read_text())
    tensors, renamed = safetensors.torch.load_file(path), {}
    describe(config, version)
    for name, t in tensors.items():
        if "shared_expert_gate" in name:
            continue
        if "shared_expert.down_proj" in name:
            t = t / 2
        for there, here in NAMES.items():
            name = name.replace(there, here)
        if "self_attn" not in name:
            renamed[name] = t.contiguous()
    for i in range(config["num_hidden_layers"]):
        at = f"model.layers.{i}."
        renamed[at + "attention.query_key_value.weight"] = torch.cat(
            [tensors[at + f"self_attn.{n}_proj.weight"] for n in "qkv"])
    about.write_text(json.dumps(config))
    safetensors.torch.save_file(renamed, path, metadata=dict(format="pt"))
