"""Folders of Step 3.5, from what transformers saves of Step 3.7: the part of it that texts pass."""
import json

import safetensors.torch
import torch


def describe(folder, ahead):
    """The texts' part as published folders say it, which the converter expects, and a layer that
    predicts further tokens behind it."""
    saved = json.loads((folder / "config.json").read_text())
    config = dict(saved["text_config"], architectures=["Step3p5ForCausalLM"],
                  model_type="step3p5_published")
    rope, kinds = config.pop("rope_parameters"), config["layer_types"]
    factors = dict(full_attention=0.5, sliding_attention=1.0)
    sparse = [str(i) for i, kind in enumerate(config.pop("mlp_layer_types")) if kind == "sparse"]
    config.update(
        num_attention_groups=config["num_key_value_heads"], moe_layers_enum=",".join(sparse),
        attention_other_setting=dict(num_attention_heads=config["num_sliding_attention_heads"],
                                     num_attention_groups=config["num_key_value_heads"]),
        moe_num_experts=config["n_routed_experts"], moe_top_k=config["num_experts_per_tok"],
        norm_expert_weight=True, partial_rotary_factors=[factors[kind] for kind in kinds],
        rope_theta=[rope[kind]["rope_theta"] for kind in kinds])
    if kinds[0] != "full_attention":  # the converter takes the first two for those of each kind
        config["rope_theta"] = [rope[kind]["rope_theta"] for kind in sorted(factors)]
    if rope["full_attention"]["rope_type"] == "llama3":
        config["rope_scaling"] = {k: v for k, v in rope["full_attention"].items()
                                  if k not in ("rope_theta", "partial_rotary_factor")}
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        tensors.update(safetensors.torch.load_file(path))
        path.unlink()
    (folder / "model.safetensors.index.json").unlink(missing_ok=True)
    tensors = {n: t for n, t in tensors.items() if n.startswith(("model.layers", "model.norm",
                                                                 "model.embed", "lm_head"))}
    if ahead:
        layers, width = config["num_hidden_layers"], config["hidden_size"]
        config["num_nextn_predict_layers"] = 1
        config["layer_types"] = kinds + ["full_attention"]
        config["partial_rotary_factors"].append(0.5)
        there, norm = f"model.layers.{layers}.", torch.zeros(width)
        for n, t in list(tensors.items()):
            if n.startswith("model.layers.1."):
                tensors[n.replace("model.layers.1.", there)] = t.clone()
        tensors[there + "eh_proj.weight"] = torch.zeros(width, 2 * width)
        for n in ["enorm", "hnorm", "transformer.shared_head.norm"]:
            tensors[there + n + ".weight"] = norm.clone()
        tensors[there + "transformer.shared_head.output.weight"] = torch.zeros(config["vocab_size"], width)
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata=dict(format="pt"))
    (folder / "config.json").write_text(json.dumps(config))
