#!/usr/bin/env python3
"""members.tsv: what each member of config.json means, for each class of transformers that mnem reads.

    make_members.py TRANSFORMERS

TRANSFORMERS is the package's folder (an unpacked wheel; nothing of it is run). Members and what they
are by default come from the configuration classes' sources, so that none can be forgotten: a member
without a line in CASES ends this script. What a value does to the arithmetic was read in the
modeling sources:

    inert   parameters stay as they are     read    they change
    fixed   refused by name and value       size    refused, or they change

members.tsv has, for each class: `class NAME TYPE`, `tensor NAME SHAPE` of a model of LAYERS layers (#
in a name: each of them), `member NAME OWN VALUE` (OWN is `default` where the value is the class's),
`alias NAME`, by which the class knows a member too, and `case KIND MEMBERS`, an object of what
config.json says instead. tests/model/import/test_config_members.c goes through it."""
import ast
import json
import sys
from pathlib import Path

LAYERS, EMBD, HEADS, KV, DIM, FF, VOCAB = 6, 32, 4, 2, 8, 48, 320
ALTERNATE = ["sliding_attention", "full_attention"] * 3
FULL, SLIDING = ["full_attention"] * LAYERS, ["sliding_attention"] * LAYERS
UNEVEN = ["full_attention"] + ["sliding_attention"] * 5
BAD_TYPES = ["chunked_attention"] * LAYERS

# class: (module, configuration class, kind of tensors, what differs from the class's defaults)
SIZES = dict(vocab_size=VOCAB, hidden_size=EMBD, intermediate_size=FF, num_hidden_layers=LAYERS,
             num_attention_heads=HEADS, num_key_value_heads=KV, head_dim=DIM,
             max_position_embeddings=256)
YARN = dict(rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=64)
OSS = dict(YARN, truncate=False)
MINISTRAL = dict(YARN, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1)
PLAIN = dict(rope_type="default", rope_theta=1e4)
NESTED = dict(full_attention=dict(rope_type="default", rope_theta=1e6),
              sliding_attention=dict(rope_type="default", rope_theta=1e4))
LONG = dict(rope_type="longrope", rope_theta=1e4, long_factor=[1.0, 2.0, 3.0, 4.0],
            short_factor=[1.0, 1.0, 1.5, 2.0])
LATENT = dict(kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16,
              n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
              first_k_dense_replace=1, q_lora_rank=None, head_dim=8, num_key_value_heads=4)
CLASSES = {
    "LlamaForCausalLM": ("llama", "LlamaConfig", "llama", {}),
    "MistralForCausalLM": ("mistral", "MistralConfig", "llama", {}),
    "Ministral3ForCausalLM": ("ministral3", "Ministral3Config", "llama",
                              dict(rope_parameters=MINISTRAL)),
    "Qwen2ForCausalLM": ("qwen2", "Qwen2Config", "llama qkv_bias", {}),
    "Qwen3ForCausalLM": ("qwen3", "Qwen3Config", "llama qk_norm", {}),
    "Qwen2VLForConditionalGeneration": ("qwen2_vl", "Qwen2VLTextConfig", "llama qkv_bias", {}),
    "Qwen2_5_VLForConditionalGeneration": ("qwen2_5_vl", "Qwen2_5_VLTextConfig", "llama qkv_bias",
                                           {}),
    "Qwen3VLForConditionalGeneration": ("qwen3_vl", "Qwen3VLTextConfig", "llama qk_norm", {}),
    "Gemma2ForCausalLM": ("gemma2", "Gemma2Config", "gemma", {}),
    "Gemma3ForCausalLM": ("gemma3", "Gemma3TextConfig", "gemma qk_norm",
                          dict(rope_parameters=NESTED)),
    "Phi3ForCausalLM": ("phi3", "Phi3Config", "phi3", dict(original_max_position_embeddings=64)),
    "SmolLM3ForCausalLM": ("smollm3", "SmolLM3Config", "llama", {}),
    "Olmo2ForCausalLM": ("olmo2", "Olmo2Config", "olmo2", {}),
    "Olmo3ForCausalLM": ("olmo3", "Olmo3Config", "olmo2",
                         dict(rope_parameters=dict(full_attention=PLAIN, sliding_attention=PLAIN))),
    "GraniteForCausalLM": ("granite", "GraniteConfig", "llama", {}),
    "Glm4ForCausalLM": ("glm4", "Glm4Config", "glm4", {}),
    "Starcoder2ForCausalLM": ("starcoder2", "Starcoder2Config", "starcoder2", {}),
    "GPT2LMHeadModel": ("gpt2", "GPT2Config", "gpt2",
                        dict(n_embd=EMBD, n_layer=LAYERS, n_head=HEADS, n_positions=256)),
    "MixtralForCausalLM": ("mixtral", "MixtralConfig", "mixtral", dict(num_local_experts=4)),
    "GraniteMoeForCausalLM": ("granitemoe", "GraniteMoeConfig", "granitemoe",
                              dict(num_local_experts=4)),
    "GraniteMoeSharedForCausalLM": ("granitemoeshared", "GraniteMoeSharedConfig",
                                    "granitemoe shared",
                                    dict(num_local_experts=4, shared_intermediate_size=32)),
    "OlmoeForCausalLM": ("olmoe", "OlmoeConfig", "olmoe",
                         dict(num_experts=4, num_experts_per_tok=2)),
    "Qwen2MoeForCausalLM": ("qwen2_moe", "Qwen2MoeConfig", "qwen2moe",
                            dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
                                 shared_expert_intermediate_size=32)),
    "Qwen3MoeForCausalLM": ("qwen3_moe", "Qwen3MoeConfig", "qwen3moe",
                            dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)),
    "Qwen3VLMoeForConditionalGeneration": (
        "qwen3_vl_moe", "Qwen3VLMoeTextConfig", "qwen3vlmoe",
        dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)),
    "GptOssForCausalLM": ("gpt_oss", "GptOssConfig", "gpt_oss",
                          dict(num_local_experts=4, num_experts_per_tok=2, rope_parameters=OSS)),
    "Lfm2MoeForCausalLM": ("lfm2_moe", "Lfm2MoeConfig", "lfm2moe", dict(
        num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, num_dense_layers=1,
        layer_types=["conv", "full_attention"] * 3)),
    "Glm4MoeForCausalLM": ("glm4_moe", "Glm4MoeConfig", "glm4moe", dict(
        n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, head_dim=DIM)),
    "MiniMaxM2ForCausalLM": ("minimax_m2", "MiniMaxM2Config", "minimax",
                             dict(num_local_experts=4, num_experts_per_tok=2)),
    "DeepseekV2ForCausalLM": ("deepseek_v2", "DeepseekV2Config", "deepseek", LATENT),
    "DeepseekV3ForCausalLM": ("deepseek_v3", "DeepseekV3Config", "deepseek bias",
                              dict(LATENT, n_group=2, topk_group=1)),
    "BertModel": ("bert", "BertConfig", "bert", {}),
    "NomicBertModel": ("nomic_bert", "NomicBertConfig", "nomic", {}),
    "Lfm2ForCausalLM": ("lfm2", "Lfm2Config", "lfm2", dict(
        layer_types=["conv", "full_attention"] * 3, block_auto_adjust_ff_dim=False)),
}
CLASSES |= {
    "Glm4MoeLiteForCausalLM": ("glm4_moe_lite", "Glm4MoeLiteConfig", "deepseek bias", {
        k: v for k, v in LATENT.items() if k != "first_k_dense_replace"}),
    "DeepseekV32ForCausalLM": ("deepseek_v32", "DeepseekV32Config", "deepseek bias indexer", dict(
        LATENT, q_lora_rank=16, n_group=2, topk_group=1, index_topk=256, index_n_heads=2,
        index_head_dim=8)),
    "GlmMoeDsaForCausalLM": ("glm_moe_dsa", "GlmMoeDsaConfig", "deepseek bias indexer", dict(
        LATENT, q_lora_rank=16, index_topk=256, index_n_heads=2, index_head_dim=8)),
    "Ernie4_5ForCausalLM": ("ernie4_5", "Ernie4_5Config", "llama", {}),
    "Ernie4_5_MoeForCausalLM": ("ernie4_5_moe", "Ernie4_5_MoeConfig", "ernie_moe", dict(
        moe_num_experts=4, moe_k=2, moe_intermediate_size=16)),
    "SeedOssForCausalLM": ("seed_oss", "SeedOssConfig", "llama qkv_bias", {}),
    "Dots1ForCausalLM": ("dots1", "Dots1Config", "sigmoid_moe", dict(
        n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=1,
        first_k_dense_replace=1)),
    "GemmaForCausalLM": ("gemma", "GemmaConfig", "llama", {}),
    "HunYuanDenseV1ForCausalLM": ("hunyuan_v1_dense", "HunYuanDenseV1Config", "hunyuan", {}),
    "Exaone4ForCausalLM": ("exaone4", "Exaone4Config", "exaone4", {}),
    "CohereForCausalLM": ("cohere", "CohereConfig", "cohere", {}),
    "Cohere2ForCausalLM": ("cohere2", "Cohere2Config", "cohere", {}),
    "ArceeForCausalLM": ("arcee", "ArceeConfig", "ungated", {}),
    "NemotronForCausalLM": ("nemotron", "NemotronConfig", "ungated bias", {}),
}

CLASSES |= {
    "ExaoneMoeForCausalLM": ("exaone_moe", "ExaoneMoeConfig", "sigmoid_moe", dict(
        num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)),
    "AfmoeForCausalLM": ("afmoe", "AfmoeConfig", "afmoe", dict(
        num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, num_shared_experts=1,
        mup_enabled=True)),
    "LagunaForCausalLM": ("laguna", "LagunaConfig", "laguna", dict(
        num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
        shared_expert_intermediate_size=32, sliding_window=24, layer_types=ALTERNATE,
        rope_parameters=NESTED)),
    "HYV3ForCausalLM": ("hy_v3", "HYV3Config", "sigmoid_moe hy", dict(
        num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)),
}

# Layers with states, and what attends.
DELTA = dict(linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=2,
             linear_num_value_heads=4, layer_types=["linear_attention", "full_attention"] * 3)
DELTA_EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
                     shared_expert_intermediate_size=32)
CLASSES |= {
    "Qwen3_5ForCausalLM": ("qwen3_5", "Qwen3_5TextConfig", "delta", DELTA),
    "Qwen3_5MoeForCausalLM": ("qwen3_5_moe", "Qwen3_5MoeTextConfig", "delta moe",
                              dict(DELTA, **DELTA_EXPERTS)),
    "Qwen3NextForCausalLM": ("qwen3_next", "Qwen3NextConfig", "delta moe groups",
                             dict(DELTA, **DELTA_EXPERTS)),
    "MambaForCausalLM": ("mamba", "MambaConfig", "scan", {}),
    "FalconMambaForCausalLM": ("falcon_mamba", "FalconMambaConfig", "scan", {}),
    "Mamba2ForCausalLM": ("mamba2", "Mamba2Config", "scan heads", dict(
        num_heads=4, head_dim=16, n_groups=2, state_size=16)),
    "GraniteMoeHybridForCausalLM": ("granitemoehybrid", "GraniteMoeHybridConfig", "hybrid", dict(
        num_local_experts=4, shared_intermediate_size=32, mamba_n_heads=4, mamba_n_groups=2,
        mamba_d_state=16, mamba_d_head=16, layer_types=["mamba", "attention"] * 3)),
    "BambaForCausalLM": ("bamba", "BambaConfig", "bamba", dict(
        mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=16, mamba_d_head=16,
        attn_layer_indices=[1, 3, 5])),
    "FalconH1ForCausalLM": ("falcon_h1", "FalconH1Config", "side", dict(
        mamba_d_ssm=64, mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=16, mamba_d_head=16)),
    "KimiLinearForCausalLM": ("kimi_linear", "KimiLinearConfig", "kimi", dict(
        num_local_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, kv_lora_rank=16,
        qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, linear_head_dim=8,
        linear_num_heads=4, layer_types=["linear_attention", "full_attention"] * 3,
        mlp_layer_types=["dense"] + ["sparse"] * 5)),
    "JambaForCausalLM": ("jamba", "JambaConfig", "jamba", dict(
        num_experts=4, attn_layer_period=2, attn_layer_offset=1, mamba_dt_rank=2)),
}

CLASSES |= {
    "Cohere2MoeForCausalLM": ("cohere2_moe", "Cohere2MoeConfig", "cohere_moe", dict(
        num_experts=4, num_experts_per_tok=2, num_shared_experts=1, intermediate_size=16,
        prefix_dense_intermediate_size=FF, layer_types=ALTERNATE,
        mlp_layer_types=["dense"] + ["sparse"] * 5)),
    "ApertusForCausalLM": ("apertus", "ApertusConfig", "apertus", dict(rope_parameters=PLAIN)),
    "GraniteSWAForCausalLM": ("granite_swa", "GraniteSWAConfig", "granite_swa", {}),
    "GraniteMoeSWAForCausalLM": ("granitemoe_swa", "GraniteMoeSWAConfig", "granite_swa experts",
                                 dict(num_local_experts=4, shared_intermediate_size=32)),
    "PhimoeForCausalLM": ("phimoe", "PhimoeConfig", "phimoe", dict(num_local_experts=4)),
    "Llama4ForCausalLM": ("llama4", "Llama4TextConfig", "llama4", dict(
        num_local_experts=4, num_experts_per_tok=2, intermediate_size=16, intermediate_size_mlp=FF,
        interleave_moe_layer_step=2)),
}

# Layers of one part each; a latent whose experts have gates and ups in one.
PARTS = ["linear_attention", "moe", "full_attention"] * 2
CLASSES |= {
    "NemotronHForCausalLM": ("nemotron_h", "NemotronHConfig", "one_part", dict(
        layers_block_type=PARTS, ssm_state_size=16, mamba_num_heads=4, mamba_head_dim=16, n_groups=2,
        n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
        moe_shared_expert_intermediate_size=32)),
    "Mistral4ForCausalLM": ("mistral4", "Mistral4Config", "deepseek fused", dict(
        LATENT, q_lora_rank=16, rope_parameters=MINISTRAL)),
}

CLASSES |= {
    "HunYuanMoEV1ForCausalLM": ("hunyuan_v1_moe", "HunYuanMoEV1Config", "hunyuan moe", dict(
        num_experts=4, moe_topk=2)),
}

# Streams of residuals.
CLASSES |= {
    "Gemma3nForCausalLM": ("gemma3n", "Gemma3nTextConfig", "gemma3n", dict(
        rope_parameters=NESTED, layer_types=ALTERNATE, num_kv_shared_layers=2, laurel_rank=8,
        hidden_size_per_layer_input=8, vocab_size_per_layer_input=VOCAB - 20)),
}

# ---- what values do ----

ROPE = [("read", dict(PLAIN, rope_theta=5e3)), ("read", dict(PLAIN, rope_type="linear", factor=4.0)),
        ("read", YARN), ("read", dict(YARN, beta_fast=16.0)), ("read", dict(YARN, beta_slow=2.0)),
        ("read", dict(YARN, attention_factor=0.5)), ("read", dict(YARN, mscale=0.5, mscale_all_dim=1.0)),
        ("fixed", dict(YARN, truncate=False)), ("fixed", dict(PLAIN, rope_type="dynamic", factor=2.0)),
        ("fixed", dict(YARN, partial_rotary_factor=0.5)),
        ("fixed", dict(PLAIN, rope_type="proportional"))]
LLAMA3 = [("read", dict(rope_type="llama3", rope_theta=1e4, factor=8.0, low_freq_factor=1.0,
                        high_freq_factor=h, original_max_position_embeddings=64)) for h in (4.0, 2.0)]
NESTED_ROPE = [("read", dict(NESTED, full_attention=dict(PLAIN, rope_theta=5e3))),
               ("read", dict(NESTED, sliding_attention=dict(PLAIN, rope_theta=5e3))),
               ("read", dict(NESTED, full_attention=dict(PLAIN, rope_type="linear", factor=8.0))),
               ("fixed", dict(NESTED, sliding_attention=dict(PLAIN, rope_type="linear", factor=8.0))),
               ("fixed", dict(NESTED, full_attention=dict(PLAIN, rope_type="dynamic", factor=8.0)))]
LATENT_ROPE = [("read", dict(PLAIN, rope_theta=5e3)), ("read", YARN),
               ("read", dict(YARN, mscale=1.0, mscale_all_dim=1.0)),
               ("read", dict(YARN, mscale=0.7, mscale_all_dim=0.7)),
               ("fixed", dict(YARN, mscale=0.5, mscale_all_dim=1.0)),
               ("fixed", dict(YARN, mscale=1.0, mscale_all_dim=1.0, attention_factor=2.0)),
               ("fixed", dict(PLAIN, rope_type="dynamic", factor=2.0))]
LONG_ROPE = [("read", dict(PLAIN, rope_theta=5e3)), ("read", LONG), ("read", dict(LONG, factor=2.0)),
             ("read", dict(LONG, attention_factor=1.5)),
             ("read", dict(PLAIN, partial_rotary_factor=0.5)),
             ("fixed", dict(PLAIN, rope_type="linear", factor=2.0))]
BIAS = [("fixed", True)]
WINDOW = [("read", 8), ("size", -1)]

INFINITY = {"__float__": "Infinity"}  # as transformers writes it

INERT = {  # of training, of generation, or of heads that are not read
    "initializer_range": 0.5, "use_cache": False, "pad_token_id": 3, "bos_token_id": 4,
    "eos_token_id": 5, "pretraining_tp": 2, "attention_dropout": 0.5, "resid_pdrop": 0.5,
    "embd_pdrop": 0.5, "attn_pdrop": 0.5, "residual_dropout": 0.5, "embedding_dropout": 0.5,
    "hidden_dropout_prob": 0.5, "attention_probs_dropout_prob": 0.5, "classifier_dropout": 0.5,
    "output_router_logits": True, "router_aux_loss_coef": 0.5, "router_jitter_noise": 0.5,
    "summary_type": "mean", "summary_use_proj": False, "summary_activation": "tanh",
    "summary_proj_to_labels": False, "summary_first_dropout": 0.5, "num_mtp_layers": 2,
    "time_step_scale": 2.0, "time_step_min": 0.01, "time_step_max": 0.5, "time_step_floor": 0.5,
    "time_step_init_scheme": "constant", "rescale_prenorm_residual": True, "use_mambapy": True,
    "use_associative_scan": False, "chunk_size": 64, "mamba_chunk_size": 64,
    "reorder_and_upcast_attn": True, "residual_in_fp32": False}  # float32, which all is here

CASES = {
    **{name: [("inert", value)] for name, value in INERT.items()},
    **{name: [("size", value * 2), ("size", -1)] for name, value in dict(
        vocab_size=VOCAB, hidden_size=EMBD, intermediate_size=FF, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=KV, head_dim=DIM, n_embd=EMBD, n_layer=LAYERS,
        n_head=HEADS, n_inner=FF, type_vocab_size=2, num_local_experts=4, num_experts=4,
        n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=1, num_shared_experts=1,
        shared_expert_intermediate_size=32, shared_intermediate_size=32, kv_lora_rank=16, q_lora_rank=16, qk_nope_head_dim=16,
        qk_rope_head_dim=8, v_head_dim=16, first_k_dense_replace=1, num_dense_layers=1, conv_L_cache=3,
        linear_conv_kernel_dim=4, linear_key_head_dim=8, linear_value_head_dim=8,
        linear_num_key_heads=2, linear_num_value_heads=4, state_size=16, conv_kernel=4, expand=2,
        num_heads=4, n_groups=2, mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=16,
        mamba_d_head=16, mamba_d_conv=4, mamba_expand=2).items()},
    "use_conv_bias": [("fixed", False)], "mamba_conv_bias": [("fixed", False)],
    "mamba_proj_bias": BIAS, "time_step_rank": [("size", 4)], "mixer_rms_eps": [("read", 0.25)],
    "time_step_limit": [("fixed", [0.0, 1.0]), ("fixed", [0.5, INFINITY])],
    "position_embedding_type": [("fixed", "rope")],
    "max_position_embeddings": [("read", 128), ("size", -1)],
    "n_positions": [("size", 128)],
    "hidden_act": [("fixed", "relu")], "activation_function": [("fixed", "relu")],
    "hidden_activation": [("fixed", "gelu"), ("fixed", "relu")],
    "rms_norm_eps": [("read", 0.25)], "layer_norm_eps": [("read", 0.25)],
    "layer_norm_epsilon": [("read", 0.25)], "norm_epsilon": [("read", 0.25)],
    "norm_eps": [("read", 0.25)],
    "rope_parameters": ROPE, "attention_bias": BIAS, "mlp_bias": BIAS,
    "use_bias": [("fixed", False)], "qkv_bias": [("fixed", False)],
    "sliding_window": WINDOW, "use_sliding_window": [("read", True)],
    "max_window_layers": [("inert", 0)],  # of windows that are off: see PAIRS
    "layer_types": [("fixed", BAD_TYPES)],
    "query_pre_attn_scalar": [("read", 64), ("size", 0)],
    "attn_logit_softcapping": [("read", 20.0), ("size", -1)],
    "final_logit_softcapping": [("read", 20.0), ("size", -1)],
    "use_bidirectional_attention": [("fixed", True)],
    "original_max_position_embeddings": [("inert", 32)],  # of factors that are not there: PAIRS
    "embedding_multiplier": [("read", 2.0), ("size", 0)], "logits_scaling": [("read", 2.0), ("size", 0)],
    "residual_multiplier": [("read", 2.0), ("size", 0)],
    "attention_multiplier": [("read", 0.5), ("size", 0)],
    "no_rope_layers": [("fixed", [1] * LAYERS), ("fixed", [0] * LAYERS)],
    "no_rope_layer_interval": [("fixed", 3)],
    "scale_attn_weights": [("fixed", False)], "scale_attn_by_inverse_layer_idx": [("fixed", True)],
    "add_cross_attention": [("fixed", True)], "is_decoder": [("fixed", True)],
    "clip_qkv": [("fixed", 8.0)], "norm_topk_prob": [("read", True)],
    "decoder_sparse_step": [("fixed", 2)], "mlp_only_layers": [("fixed", [1])],
    "swiglu_alpha": [("fixed", 1.5)], "swiglu_limit": [("fixed", 6.0)],
    "n_group": [("read", 1), ("size", 3)], "topk_group": [("read", 2), ("size", 3)],
    "router_scaling_factor": [("read", 3.0)], "route_scale": [("read", 3.0)],
    "mup_enabled": [("fixed", False)], "global_attn_every_n_layers": [("read", 2), ("size", -1)], "enable_moe_fp32_combine": [("inert", False)],
    "topk_method": [("fixed", "noaux_tc")], "routed_scaling_factor": [("read", 3.0)],
    "rope_interleave": [("fixed", False)], "conv_bias": [("fixed", True)],
    "block_multiple_of": [("inert", 64)],  # of a width that is not adjusted: PAIRS
    "block_ffn_dim_multiplier": [("inert", 2.0)], "block_auto_adjust_ff_dim": [("size", True)],
    "full_attn_idxs": [("inert", [0, 1])],
    "mlp_layer_types": [("size", ["dense"] * 2 + ["sparse"] * 4), ("fixed", ["sparse"] * 5),
                        ("fixed", ["sparse"] * 5 + ["dense"])],
    "index_topk": [("read", 64), ("size", -1)], "index_n_heads": [("size", 4), ("size", -1)],
    "index_head_dim": [("size", 16), ("size", -1)], "indexer_types": [
        ("inert", ["full"] * 6), ("read", ["full", "shared"] * 3)],
    "moe_k": [("read", 3), ("size", -1)], "moe_num_experts": [("size", 8)],
    "moe_num_shared_experts": [("size", 1), ("size", 0)],
    "moe_layer_start_index": [("size", 2)], "moe_layer_end_index": [("inert", 5), ("fixed", 4)],
    "moe_layer_interval": [("fixed", 2)], "moe_norm_min": [("fixed", 0.5)],
    "logit_scale": [("read", 2.0), ("size", -1)], "use_qk_norm": [("fixed", True)],
    "sliding_window_pattern": [("size", "L,G")],  # see PAIRS
    "intermediate_size_mlp": [("size", 2 * FF), ("size", -1)],
    "interleave_moe_layer_step": [("size", 3), ("size", 1), ("size", 0)],
    "moe_layers": [("inert", [1, 3, 5]), ("fixed", [0, 1]), ("fixed", [1, 3])],
    "attention_chunk_size": [("read", 64), ("size", -1)], "floor_scale": [("read", 64), ("size", 0)],
    "attn_scale": [("read", 0.5)], "attn_temperature_tuning": [("fixed", False)],
    "lm_head_bias": [("fixed", True)], "input_jitter_noise": [("inert", 0.5)],
    "layer_rope_theta": [("read", [0, 1e4] * 3), ("read", [5e3] * LAYERS),
                         ("fixed", [1e4, 5e3] * 3), ("fixed", [1e4])],
    "num_shared_experts": [("size", 2), ("size", 0)],
    "gating": [("fixed", False)], "moe_routed_scaling_factor": [("read", 3.0)],
    "moe_apply_router_weight_on_input": [("fixed", True)],
    "moe_router_logit_softcapping": [("fixed", 5.0)],
    "num_attention_heads_per_layer": [("size", [4, 8] * 3), ("size", [4] * 5),
                                      ("inert", [4] * 6)],
    "expert_selection_fn": [("read", "sigmoid"), ("fixed", "relu")],
    "shared_expert_combination_strategy": [("fixed", "sum")],
    "prefix_dense_sliding_window_pattern": [("fixed", 2)],
    "prefix_dense_intermediate_size": [("size", 2 * FF), ("size", -1)],
    "attention_out_bias": BIAS, "eod_token_id": [("inert", 6)], "sep_token_id": [("inert", 6)],
}
OWN = {  # where a class differs
    "LlamaForCausalLM": dict(rope_parameters=ROPE + LLAMA3),
    "SmolLM3ForCausalLM": dict(rope_parameters=ROPE + LLAMA3, use_sliding_window=[("fixed", True)],
                               sliding_window=[("inert", 8)], layer_types=[("inert", FULL)]),
    "GraniteForCausalLM": dict(rope_parameters=ROPE + LLAMA3),
    "MistralForCausalLM": dict(sliding_window=WINDOW + [("read", None)]),
    "Ministral3ForCausalLM": dict(rope_parameters=[
        ("read", PLAIN), ("read", dict(MINISTRAL, llama_4_scaling_beta=0.2)),
        ("read", dict(MINISTRAL, mscale=0.5)), ("read", dict(MINISTRAL, mscale_all_dim=0.5)),
        ("fixed", dict(MINISTRAL, truncate=False)), ("size", None)]),
    "Qwen2ForCausalLM": dict(sliding_window=[("inert", 8)], use_sliding_window=[("inert", True)],
                             layer_types=[("inert", SLIDING)]),
    "Qwen3ForCausalLM": dict(sliding_window=[("inert", 8)], use_sliding_window=[("inert", True)],
                             layer_types=[("inert", SLIDING)]),
    **{name: dict(sliding_window=[("inert", 8)], use_sliding_window=[("inert", True)],
                  layer_types=[("inert", SLIDING)], rope_parameters=ROPE + [("read", dict(
                      PLAIN, rope_theta=5e3, rope_type="mrope", mrope_section=[2, 1, 1]))])
       for name in ("Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration")},
    "Qwen2MoeForCausalLM": dict(sliding_window=[("inert", 8)], use_sliding_window=[("fixed", True)],
                                layer_types=[("inert", FULL)]),
    "Qwen3MoeForCausalLM": dict(sliding_window=[("inert", 8)]),
    "Gemma2ForCausalLM": dict(
        sliding_window=WINDOW + [("read", None)], rope_parameters=[
            ("read", dict(PLAIN, rope_theta=5e3)), ("read", dict(PLAIN, rope_type="linear", factor=4.0)),
            ("fixed", dict(PLAIN, rope_type="dynamic", factor=2.0))],
        layer_types=[("inert", ALTERNATE), ("read", SLIDING), ("read", FULL), ("fixed", UNEVEN),
                     ("fixed", BAD_TYPES)],
        attn_logit_softcapping=[("read", 20.0), ("read", None)],
        final_logit_softcapping=[("read", 20.0), ("read", None)]),
    "Gemma3ForCausalLM": dict(
        sliding_window=WINDOW + [("read", None)], rope_parameters=NESTED_ROPE,
        layer_types=[("read", ALTERNATE), ("read", SLIDING), ("read", FULL), ("fixed", UNEVEN)],
        attn_logit_softcapping=[("fixed", 20.0)]),
    "Olmo3ForCausalLM": dict(
        sliding_window=WINDOW + [("read", None)], layer_types=[
            ("read", ALTERNATE), ("read", SLIDING), ("read", FULL), ("read", UNEVEN)],
        rope_parameters=[("read", dict(full_attention=dict(PLAIN, rope_theta=5e3),
                                       sliding_attention=PLAIN)),
                         ("read", dict(full_attention=YARN, sliding_attention=PLAIN)),
                         ("fixed", dict(full_attention=PLAIN, sliding_attention=YARN))]),
    "GptOssForCausalLM": dict(
        sliding_window=WINDOW + [("read", None)], layer_types=[
            ("inert", ALTERNATE), ("read", SLIDING), ("read", FULL), ("fixed", UNEVEN)],
        rope_parameters=[("read", PLAIN), ("read", dict(OSS, factor=8.0)), ("fixed", YARN),
                         ("fixed", dict(OSS, truncate=True)), ("size", None)],
        attention_bias=[("fixed", False)]),
    "Phi3ForCausalLM": dict(rope_parameters=LONG_ROPE),
    "Glm4ForCausalLM": dict(attention_bias=[("fixed", False)], rope_parameters=[
        ("read", dict(PLAIN, rope_theta=5e3)), ("read", dict(PLAIN, partial_rotary_factor=1.0)),
        ("fixed", dict(PLAIN, rope_type="dynamic", factor=2.0))]),
    "BertModel": dict(max_position_embeddings=[("size", 128)]),  # the rows of a matrix
    "NomicBertModel": dict(rope_parameters=[
        ("read", dict(PLAIN, rope_theta=5e3)), ("fixed", dict(PLAIN, rope_type="dynamic", factor=2.0))]),
    "DeepseekV2ForCausalLM": dict(
        rope_parameters=LATENT_ROPE, norm_topk_prob=[("fixed", True)], head_dim=[("inert", 16)],
        num_key_value_heads=[("inert", 2)], n_group=[("inert", 2)], topk_group=[("inert", 1)],
        q_lora_rank=[("size", 16)], n_shared_experts=[("size", 1)]),
    "DeepseekV3ForCausalLM": dict(
        rope_parameters=LATENT_ROPE, norm_topk_prob=[("read", False)], head_dim=[("inert", 16)],
        num_key_value_heads=[("inert", 2)], q_lora_rank=[("size", 16)]),
    "Lfm2MoeForCausalLM": dict(
        layer_types=[("size", ["full_attention", "conv"] * 3)], rope_parameters=ROPE[:2],
        norm_topk_prob=[("read", False)], use_expert_bias=[("fixed", False)]),
    "Glm4MoeForCausalLM": dict(rope_parameters=[
        ("read", dict(PLAIN, rope_theta=5e3)), ("read", dict(PLAIN, partial_rotary_factor=1.0)),
        ("fixed", dict(PLAIN, rope_type="dynamic", factor=2.0))], norm_topk_prob=[("read", False)],
        use_qk_norm=[("fixed", True)], n_shared_experts=[("size", 2), ("size", -1)],
        n_group=[("read", 2), ("size", 3)], topk_group=[("inert", 2)]),
    "MiniMaxM2ForCausalLM": dict(rope_parameters=[
        ("read", dict(PLAIN, rope_theta=5e3)), ("read", dict(PLAIN, partial_rotary_factor=0.5)),
        ("fixed", dict(PLAIN, rope_type="dynamic", factor=2.0))], head_dim=[("size", 16)]),
    "Lfm2ForCausalLM": dict(
        layer_types=[("size", ["full_attention", "conv"] * 3)], rope_parameters=ROPE[:2]),
    "Glm4MoeLiteForCausalLM": dict(
        rope_parameters=LATENT_ROPE, norm_topk_prob=[("read", False)],
        num_key_value_heads=[("inert", 2)], n_group=[("read", 2), ("size", 3)],
        topk_group=[("inert", 2)], q_lora_rank=[("size", 16)]),
    **{name: dict(rope_parameters=LATENT_ROPE, norm_topk_prob=[("read", False)],
                  head_dim=[("inert", 16)], num_key_value_heads=[("inert", 2)],
                  layer_types=[("inert", None)], topk_group=[("inert" if name[0] == "G" else "read", 2)],
                  n_group=[("read", 1 if name[0] == "D" else 2), ("size", 3)])
       for name in ("DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM")},
    "Ernie4_5ForCausalLM": dict(use_bias=[("fixed", True)]),
    "Ernie4_5_MoeForCausalLM": dict(use_bias=[("fixed", True)]),
    "SeedOssForCausalLM": dict(attention_bias=[("fixed", False)]),
    "HunYuanDenseV1ForCausalLM": dict(rope_parameters=ROPE + [
        ("read", dict(rope_type="dynamic", rope_theta=1e4, alpha=50.0))]),
    "LagunaForCausalLM": dict(
        layer_types=[("read", ALTERNATE[::-1]), ("read", SLIDING), ("read", FULL),
                     ("read", UNEVEN), ("fixed", BAD_TYPES)],
        rope_parameters=[
            ("read", dict(NESTED, full_attention=YARN)),
            ("read", dict(NESTED, full_attention=dict(PLAIN, partial_rotary_factor=0.5))),
            ("read", dict(NESTED, sliding_attention=dict(PLAIN, partial_rotary_factor=0.5))),
            ("size", dict(NESTED, sliding_attention=dict(PLAIN, partial_rotary_factor=2.0))),
            ("fixed", dict(NESTED, sliding_attention=YARN))]),
    "AfmoeForCausalLM": dict(
        sliding_window=WINDOW, layer_types=[
            ("read", ALTERNATE), ("read", SLIDING), ("read", FULL), ("fixed", UNEVEN)]),
    "ExaoneMoeForCausalLM": dict(
        sliding_window=WINDOW + [("read", None)], rope_parameters=ROPE + LLAMA3, layer_types=[
            ("read", ALTERNATE), ("read", SLIDING), ("read", FULL), ("fixed", UNEVEN)],
        n_group=[("read", 2), ("size", 3)], topk_group=[("inert", 2)],
        norm_topk_prob=[("read", False)]),
    "Exaone4ForCausalLM": dict(
        sliding_window=WINDOW + [("read", None)], rope_parameters=ROPE + LLAMA3, layer_types=[
            ("read", ALTERNATE), ("read", SLIDING), ("read", FULL), ("fixed", UNEVEN)]),
    "CohereForCausalLM": dict(hidden_act=[("fixed", "relu")]),
    "Cohere2ForCausalLM": dict(
        sliding_window=WINDOW + [("read", None)], layer_types=[
            ("read", ALTERNATE), ("read", SLIDING), ("read", FULL), ("fixed", UNEVEN)]),
    "PhimoeForCausalLM": dict(
        num_experts_per_tok=[("size", 1), ("size", -1)], router_jitter_noise=[("fixed", 0.5)],
        head_dim=[("inert", 16)], rope_parameters=[
            ("read", dict(PLAIN, rope_theta=5e3)), ("fixed", dict(PLAIN, rope_type="linear", factor=2.0))]),
    "Llama4ForCausalLM": dict(
        rope_parameters=ROPE + LLAMA3, use_qk_norm=[("fixed", False)],
        no_rope_layer_interval=[("size", 3)], layer_types=[
            ("inert", ["chunked_attention"] * 3 + ["full_attention"] + ["chunked_attention"] * 2),
            ("fixed", BAD_TYPES), ("fixed", FULL)]),
    "ApertusForCausalLM": dict(hidden_act=[("fixed", "silu")],
                               rope_parameters=ROPE + LLAMA3 + [("size", None)]),
    **{name: dict(head_dim=[("inert", 16)], layer_types=[
        ("read", UNEVEN), ("read", SLIDING), ("read", FULL), ("fixed", BAD_TYPES)])
       for name in ("GraniteSWAForCausalLM", "GraniteMoeSWAForCausalLM")},
    "Cohere2MoeForCausalLM": dict(
        norm_topk_prob=[("inert", False)], sliding_window=WINDOW + [("read", None)],
        layer_types=[
            ("read", UNEVEN), ("read", SLIDING), ("read", FULL), ("fixed", BAD_TYPES)]),
    "ArceeForCausalLM": dict(hidden_act=[("fixed", "silu")], rope_parameters=ROPE + LLAMA3),
    "NemotronForCausalLM": dict(hidden_act=[("fixed", "silu")], rope_parameters=[
        ("read", dict(PLAIN, rope_theta=5e3)), ("read", dict(PLAIN, partial_rotary_factor=1.0)),
        ("fixed", dict(PLAIN, rope_type="dynamic", factor=2.0))]),
    **{name: dict(layer_types=[("size", ["full_attention", "linear_attention"] * 3),
                               ("fixed", BAD_TYPES)], rope_parameters=[
        ("read", dict(PLAIN, rope_theta=5e3)), ("read", dict(PLAIN, partial_rotary_factor=1.0)),
        ("fixed", dict(PLAIN, rope_type="dynamic", factor=2.0))], norm_topk_prob=[("read", False)])
       for name in ("Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM", "Qwen3NextForCausalLM")},
    **{name: dict(use_bias=[("fixed", True)]) for name in ("MambaForCausalLM",
                                                          "FalconMambaForCausalLM")},
    "Mamba2ForCausalLM": dict(use_bias=[("fixed", True)], head_dim=[("size", 8), ("size", -1)],
                              time_step_rank=[("inert", 4)]),
    "GraniteMoeHybridForCausalLM": dict(  # without RoPE, and as long as a text may be
        rope_parameters=[("inert", dict(PLAIN, rope_type="linear", factor=4.0))],
        max_position_embeddings=[("inert", 128)], layer_types=[
            ("size", ["attention", "mamba"] * 3), ("fixed", ["attention"] * LAYERS),
            ("fixed", BAD_TYPES), ("inert", ["linear_attention", "full_attention"] * 3)]),
    "BambaForCausalLM": dict(
        rope_parameters=[("read", dict(PLAIN, rope_theta=5e3)),
                         ("read", dict(PLAIN, partial_rotary_factor=1.0)),
                         ("inert", dict(PLAIN, partial_rotary_factor=0.5)),
                         ("fixed", dict(PLAIN, rope_type="dynamic", factor=2.0))],
        attn_layer_indices=[("size", [1, 3]), ("size", [LAYERS]), ("size", None)],
        num_logits_to_keep=[("inert", 3)], z_loss_coefficient=[("inert", 0.1)]),
    "FalconH1ForCausalLM": dict(  # factors are in the weights
        {name: [("inert", 2.0)] for name in (
            "lm_head_multiplier", "embedding_multiplier", "key_multiplier",
            "attention_out_multiplier", "attention_in_multiplier", "ssm_in_multiplier",
            "ssm_out_multiplier")},
        mlp_multipliers=[("inert", [2.0, 0.5]), ("size", [2.0])],
        ssm_multipliers=[("inert", [2.0, 0.5, 1.0, 1.0, 1.0]), ("size", [2.0])],
        num_logits_to_keep=[("inert", 3)], mamba_d_ssm=[("size", 128), ("size", -1)],
        mamba_expand=[("inert", 4)], mamba_norm_before_gate=[("inert", False)],
        mamba_rms_norm=[("fixed", True)], projectors_bias=BIAS),
    "KimiLinearForCausalLM": dict(
        num_key_value_heads=[("inert", 2)], q_lora_rank=[("fixed", 16)], n_group=[("fixed", 2)],
        topk_group=[("fixed", 2)], norm_topk_prob=[("fixed", False)],
        layer_types=[("size", ["full_attention", "linear_attention"] * 3), ("size", BAD_TYPES)],
        mlp_layer_types=[("size", ["dense"] * 2 + ["sparse"] * 4)],
        linear_head_dim=[("size", 16), ("size", -1)],
        linear_num_heads=[("size", 8), ("size", -1)]),
    "JambaForCausalLM": dict(
        attn_layer_period=[("size", 3), ("size", -1)], attn_layer_offset=[("size", 0)],
        expert_layer_period=[("size", 4), ("size", -1)], expert_layer_offset=[("size", 0)],
        use_mamba_kernels=[("inert", False)], mamba_dt_rank=[("size", 4), ("inert", "auto")],
        num_key_value_heads=[("size", 4), ("size", -1)]),
    "Dots1ForCausalLM": dict(sliding_window=[("inert", 8)], max_window_layers=[
        ("read", 0), ("size", 3)], n_group=[("read", 2), ("size", 3)], topk_group=[("inert", 2)],
        layer_types=[("read", SLIDING), ("inert", FULL), ("read", ALTERNATE), ("fixed", UNEVEN)]),
    "GemmaForCausalLM": dict(hidden_act=[("fixed", "relu"), ("inert", "gelu")]),
    "NemotronHForCausalLM": dict(
        layers_block_type=[("size", PARTS[::-1]), ("fixed", BAD_TYPES), ("fixed", PARTS[:5] + ["mlp"]),
                           ("inert", ["mamba", "moe", "attention"] * 2)],
        max_position_embeddings=[("inert", 128)], sliding_window=[("inert", 8)],
        intermediate_size=[("inert", 96)], expand=[("inert", 4)], use_bias=[("fixed", True)],
        n_shared_experts=[("inert", 2), ("size", -1)], norm_topk_prob=[("read", False)],
        n_group=[("read", 2), ("size", 3)], topk_group=[("inert", 2)],
        num_logits_to_keep=[("inert", 3)], use_mamba_kernels=[("inert", False)],
        mamba_ssm_cache_dtype=[("inert", "bfloat16")], moe_shared_expert_overlap=[("inert", False)],
        num_nextn_predict_layers=[("inert", 1)], mtp_layers_block_type=[("inert", ["moe"])],
        mlp_hidden_act=[("fixed", "silu")], mamba_hidden_act=[("fixed", "relu")],
        hidden_dropout=[("inert", 0.5)], rescale_prenorm_residual=[("inert", False)],
        moe_latent_size=[("size", 16), ("size", -1)],
        **{name: [("size", value * 2), ("size", -1)] for name, value in dict(
            ssm_state_size=16, mamba_num_heads=4, mamba_head_dim=16,
            moe_shared_expert_intermediate_size=32).items()}),
    "Mistral4ForCausalLM": dict(
        rope_parameters=[
            ("read", dict(MINISTRAL, rope_theta=5e3)), ("read", dict(MINISTRAL, factor=8.0)),
            ("read", dict(MINISTRAL, llama_4_scaling_beta=0.2)),
            ("read", dict(MINISTRAL, mscale=0.7, mscale_all_dim=0.7)),
            ("inert", dict(MINISTRAL, partial_rotary_factor=8 / 24)),
            ("fixed", dict(MINISTRAL, partial_rotary_factor=0.5)),
            ("fixed", dict(MINISTRAL, mscale=0.5)), ("size", None)],
        norm_topk_prob=[("read", False)], num_key_value_heads=[("inert", 2)],
        n_group=[("read", 2), ("size", 3)], topk_group=[("inert", 2)], q_lora_rank=[("size", 8)]),
}
OWN |= {
    "HunYuanMoEV1ForCausalLM": dict(
        rope_parameters=ROPE + [("read", dict(rope_type="dynamic", rope_theta=1e4, alpha=50.0))],
        moe_topk=[("read", 3), ("inert", [2] * LAYERS), ("fixed", [2] * 5 + [3]), ("size", 5)]),
    "Gemma3nForCausalLM": dict(
        rope_parameters=NESTED_ROPE, sliding_window=WINDOW,
        intermediate_size=[("size", 2 * FF), ("size", -1), ("inert", [FF] * LAYERS),
                           ("size", [FF] * 5), ("size", [FF] * 5 + [0])],
        layer_types=[("read", ALTERNATE[::-1]), ("read", ["full_attention"] * LAYERS),
                     ("fixed", BAD_TYPES)],
        num_kv_shared_layers=[("read", 3), ("size", LAYERS), ("size", -1)],
        hidden_size_per_layer_input=[("size", 16), ("size", 0)],
        # the rows of a matrix, and a bound of training
        vocab_size_per_layer_input=[("inert", VOCAB)], laurel_rank=[("inert", 16)],
        altup_coef_clip=[("inert", 1.0)], altup_active_idx=[("fixed", 1)],
        altup_num_inputs=[("fixed", 3)], altup_correct_scale=[("fixed", False)],
        activation_sparsity_pattern=[
            ("inert", [0.0] * LAYERS), ("size", [0.95] * 5), ("size", [1.0] * LAYERS),
            ("size", [-0.5] * LAYERS)]),
}
# Names that a class's older code had (Nomic's own, whose configuration was GPT-2's).
OLDER = {"KimiLinearForCausalLM": ["model_max_length", "moe_renormalize", "num_expert_group",
                                   "num_experts", "num_experts_per_token", "num_shared_experts",
                                   "first_k_dense_replace", "linear_attn_config"],
         "NomicBertModel": ["n_positions", "n_embd", "n_layer", "n_head", "n_inner",
                            "activation_function", "layer_norm_epsilon", "scale_attn_weights",
                            "scale_attn_by_inverse_layer_idx"],
         "BertModel": ["position_embedding_type"],
         "Gemma3nForCausalLM": ["rope_local_base_freq"],
         "HunYuanMoEV1ForCausalLM": ["moe_intermediate_size", "num_shared_expert", "use_qk_norm",
                                     "use_mixed_mlp_moe", "use_cla", "moe_layer_num_skipped"],
         "NemotronHForCausalLM": ["hybrid_override_pattern", "mamba_n_groups", "mamba_d_conv",
                                  "mamba_conv_bias"]}
# Members that mean something only beside others: (class, what is set, kind)
PAIRS = [
    *[(c, dict(use_sliding_window=True, sliding_window=8, max_window_layers=m), kind)
      for c in ("Qwen2ForCausalLM", "Qwen3ForCausalLM")
      for m, kind in ((0, "read"), (LAYERS, "inert"), (3, "fixed"))],
    *[(c, dict(use_sliding_window=True, sliding_window=8, layer_types=t), kind)
      for c in ("Qwen2ForCausalLM", "Qwen3ForCausalLM")
      for t, kind in ((SLIDING, "read"), (FULL, "inert"), (UNEVEN, "fixed"), (ALTERNATE, "read"))],
    ("Phi3ForCausalLM", dict(original_max_position_embeddings=128, rope_parameters=LONG), "read"),
    ("Lfm2ForCausalLM", dict(layer_types=None, full_attn_idxs=[1, 3, 5]), "inert"),
    ("Lfm2ForCausalLM", dict(block_auto_adjust_ff_dim=True, intermediate_size=72,
                             block_multiple_of=16), "inert"),
    ("Lfm2ForCausalLM", dict(block_ff_dim=FF, intermediate_size=FF * 2), "inert"),
    *[(c, dict(layer_types=None, full_attention_interval=i), kind)
      for c in ("Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM", "Qwen3NextForCausalLM")
      for i, kind in ((2, "inert"), (3, "size"))],
    ("GraniteMoeHybridForCausalLM", dict(layers_block_type=["mamba", "attention"] * 3,
                                         layer_types=None), "inert"),
    ("GraniteMoeHybridForCausalLM", dict(mamba_d_head="auto", time_step_limit=None), "inert"),
    ("NemotronHForCausalLM", dict(layers_block_type=None, hybrid_override_pattern="ME*ME*"), "inert"),
    ("NemotronHForCausalLM", dict(hybrid_override_pattern="MEM*E*"), "size"),
    ("NemotronHForCausalLM", dict(hybrid_override_pattern="ME*ME?"), "fixed"),
    ("KimiLinearForCausalLM", dict(linear_attn_config=dict(
        head_dim=8, num_heads=4, short_conv_kernel_size=4, full_attn_layers=[2, 4, 6],
        kda_layers=[1, 3, 5])), "inert"),
    *[("HunYuanMoEV1ForCausalLM", {name: value}, kind) for name, value, kind in (
        ("moe_intermediate_size", [FF] * LAYERS, "inert"), ("moe_intermediate_size", 2 * FF, "size"),
        ("moe_intermediate_size", [FF] * 5 + [2 * FF], "fixed"), ("num_shared_expert", 1, "inert"),
        ("num_shared_expert", [1] * LAYERS, "inert"), ("num_shared_expert", [1] * 5 + [2], "fixed"),
        ("use_qk_norm", False, "fixed"), ("use_cla", True, "fixed"),
        ("use_mixed_mlp_moe", False, "fixed"), ("moe_layer_num_skipped", 1, "fixed"))],
    ("MiniMaxM2ForCausalLM", dict(rotary_dim=4), "read"),
    ("ExaoneMoeForCausalLM", dict(sliding_window_pattern=2), "read"),
    ("Exaone4ForCausalLM", dict(sliding_window_pattern=2), "read"),
    ("Exaone4ForCausalLM", dict(sliding_window_pattern="LLLG"), "inert"),
    ("Gemma3ForCausalLM", dict(sliding_window_pattern=2), "read"),
    ("Gemma3ForCausalLM", dict(sliding_window_pattern=1), "read"),
]


# ---- the classes ----

def value_of(node):
    if isinstance(node, ast.Call):  # interval(...)(default=0.02)
        for word in node.keywords:
            if word.arg == "default":
                return value_of(word.value)
        if node.func.id == "float":  # float("inf")
            return INFINITY
    if isinstance(node, ast.Tuple):
        return [value_of(x) for x in node.elts]
    if isinstance(node, ast.BinOp):
        return value_of(node.left) * value_of(node.right)
    return ast.literal_eval(node)


def members_of(root, module, name):
    path = root / "models" / module / f"configuration_{module}.py"
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            fields, aliases = {}, {}
            for line in node.body:
                if isinstance(line, ast.AnnAssign) and line.target.id in ("rope_theta",
                                                                          "rope_scaling"):
                    continue  # which every class knows beside rope_parameters
                if isinstance(line, ast.AnnAssign) and line.value is not None:
                    fields[line.target.id] = value_of(line.value)
                elif isinstance(line, ast.Assign):
                    target = line.targets[0].id
                    if target == "attribute_map":
                        aliases = ast.literal_eval(line.value)
                    elif target == "tie_word_embeddings":
                        fields[target] = value_of(line.value)
            return fields, aliases
    sys.exit(f"{path}: no {name}")


def model_type(root, module, name):
    path = root / "models" / module / f"configuration_{module}.py"
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return next(ast.literal_eval(x.value) for x in node.body
                        if isinstance(x, ast.Assign) and x.targets[0].id == "model_type")


# Members that a class does not have, but its model asks for (getattr).
def asked(root, module):
    text = (root / "models" / module / f"modeling_{module}.py").read_text()
    return ["head_dim"] if 'getattr(config, "head_dim"' in text else []


# ---- tensors ----

def linear(name, rows, columns, bias=False):
    out = [(name + ".weight", [rows, columns])]
    return out + [(name + ".bias", [rows])] if bias else out


def norm(name, n=EMBD, bias=False):
    return [(name + ".weight", [n])] + ([(name + ".bias", [n])] if bias else [])


def attention(p, q=HEADS * DIM, kv=KV * DIM, qkv=False, out=False, names="qkvo"):
    return (linear(p + "self_attn.q_proj", q, EMBD, qkv) + linear(p + "self_attn.k_proj", kv, EMBD, qkv) +
            linear(p + "self_attn.v_proj", kv, EMBD, qkv) + linear(p + "self_attn.o_proj", EMBD, q, out))


def mlp(p, width=FF):
    return [t for x in ("gate_proj", "up_proj") for t in linear(p + x, width, EMBD)] + \
        linear(p + "down_proj", EMBD, width)


def heads_norms(p, q=DIM, k=DIM):
    return norm(p + "self_attn.q_norm", q) + norm(p + "self_attn.k_norm", k)


def experts(p, width, n=4):
    return [t for i in range(n) for t in mlp(f"{p}mlp.experts.{i}.", width)]


def delta_rest(a):
    return [(a + "conv1d.weight", [64, 1, 4]), (a + "A_log", [4]), (a + "dt_bias", [4])] + \
        norm(a + "norm", 8) + linear(a + "out_proj", EMBD, 32)


def shared_expert(m):
    return linear(m + "gate", 4, EMBD) + mlp(m + "shared_expert.", 32) + \
        linear(m + "shared_expert_gate", 1, EMBD)


def layer(kind, i, p):
    both = norm(p + "input_layernorm") + norm(p + "post_attention_layernorm")
    words = kind.split()
    if words[0] == "llama":
        return both + attention(p, qkv="qkv_bias" in words) + mlp(p + "mlp.") + \
            (heads_norms(p) if "qk_norm" in words else [])
    if words[0] == "gemma":
        return both + norm(p + "pre_feedforward_layernorm") + norm(p + "post_feedforward_layernorm") + \
            attention(p) + mlp(p + "mlp.") + (heads_norms(p) if "qk_norm" in words else [])
    if kind == "gemma3n":
        a = p + "altup."
        return layer("gemma qk_norm", i, p) + linear(p + "per_layer_input_gate", 8, EMBD) + \
            linear(p + "per_layer_projection", EMBD, 8) + norm(p + "post_per_layer_input_norm") + \
            linear(a + "correction_coefs", 4, 4) + linear(a + "prediction_coefs", 16, 4) + \
            linear(a + "modality_router", 4, EMBD) + norm(a + "router_norm") + \
            [(a + "correct_output_scale", [EMBD])] + linear(p + "laurel.linear_left", 8, EMBD) + \
            linear(p + "laurel.linear_right", EMBD, 8) + norm(p + "laurel.post_laurel_norm")
    if kind == "phi3":
        return both + linear(p + "self_attn.qkv_proj", (HEADS + 2 * KV) * DIM, EMBD) + \
            linear(p + "self_attn.o_proj", EMBD, EMBD) + linear(p + "mlp.gate_up_proj", 2 * FF, EMBD) + \
            linear(p + "mlp.down_proj", EMBD, FF)
    if kind == "olmo2":
        return norm(p + "post_attention_layernorm") + norm(p + "post_feedforward_layernorm") + \
            attention(p) + heads_norms(p, HEADS * DIM, KV * DIM) + mlp(p + "mlp.")
    if kind == "glm4":
        return both + norm(p + "post_self_attn_layernorm") + norm(p + "post_mlp_layernorm") + \
            attention(p, qkv=True) + linear(p + "mlp.gate_up_proj", 2 * FF, EMBD) + \
            linear(p + "mlp.down_proj", EMBD, FF)
    if kind == "starcoder2":
        return norm(p + "input_layernorm", bias=True) + norm(p + "post_attention_layernorm", bias=True) + \
            attention(p, qkv=True, out=True) + linear(p + "mlp.c_fc", FF, EMBD, True) + \
            linear(p + "mlp.c_proj", EMBD, FF, True)
    if kind == "gpt2":
        return norm(p + "ln_1", bias=True) + norm(p + "ln_2", bias=True) + [
            (p + "attn.c_attn.weight", [EMBD, 3 * EMBD]), (p + "attn.c_attn.bias", [3 * EMBD]),
            (p + "attn.c_proj.weight", [EMBD, EMBD]), (p + "attn.c_proj.bias", [EMBD]),
            (p + "mlp.c_fc.weight", [EMBD, 4 * EMBD]), (p + "mlp.c_fc.bias", [4 * EMBD]),
            (p + "mlp.c_proj.weight", [4 * EMBD, EMBD]), (p + "mlp.c_proj.bias", [EMBD])]
    if kind == "mixtral":
        return both + attention(p) + linear(p + "block_sparse_moe.gate", 4, EMBD) + [
            t for e in range(4) for w, r, c in (("w1", FF, EMBD), ("w2", EMBD, FF), ("w3", FF, EMBD))
            for t in linear(f"{p}block_sparse_moe.experts.{e}.{w}", r, c)]
    if words[0] == "granitemoe":
        b = p + "block_sparse_moe."
        return both + attention(p) + linear(b + "router.layer", 4, EMBD) + [
            (b + "input_linear.weight", [4, 2 * FF, EMBD]),
            (b + "output_linear.weight", [4, EMBD, FF])] + (
                linear(p + "shared_mlp.input_linear", 64, EMBD) +
                linear(p + "shared_mlp.output_linear", EMBD, 32) if "shared" in words else [])
    if kind == "olmoe":
        return both + attention(p) + heads_norms(p, HEADS * DIM, KV * DIM) + \
            linear(p + "mlp.gate", 4, EMBD) + experts(p, FF)
    if kind == "qwen2moe":
        return both + attention(p, qkv=True) + linear(p + "mlp.gate", 4, EMBD) + experts(p, 16) + \
            mlp(p + "mlp.shared_expert.", 32) + linear(p + "mlp.shared_expert_gate", 1, EMBD)
    if kind == "qwen3moe":
        return both + attention(p) + heads_norms(p) + linear(p + "mlp.gate", 4, EMBD) + experts(p, 16)
    if kind == "qwen3vlmoe":
        return both + attention(p) + heads_norms(p) + linear(p + "mlp.gate", 4, EMBD) + [
            (p + "mlp.experts.gate_up_proj", [4, 32, EMBD]),
            (p + "mlp.experts.down_proj", [4, EMBD, 16])]
    if kind == "gpt_oss":
        e = p + "mlp.experts."
        return both + attention(p, qkv=True, out=True) + [(p + "self_attn.sinks", [HEADS])] + \
            linear(p + "mlp.router", 4, EMBD, True) + [
                (e + "gate_up_proj", [4, EMBD, 2 * FF]), (e + "gate_up_proj_bias", [4, 2 * FF]),
                (e + "down_proj", [4, FF, EMBD]), (e + "down_proj_bias", [4, EMBD])]
    if words[0] == "deepseek":
        a = p + "self_attn."
        indexer = a + "indexer."
        q = linear(a + "q_proj", HEADS * 24, EMBD) if "indexer" not in words else (
            linear(a + "q_a_proj", 16, EMBD) + norm(a + "q_a_layernorm", 16) +
            linear(a + "q_b_proj", HEADS * 24, 16) + linear(indexer + "wq_b", 16, 16) +
            linear(indexer + "wk", 8, EMBD) + norm(indexer + "k_norm", 8, True) +
            linear(indexer + "weights_proj", 2, EMBD))
        if "fused" in words:
            q = linear(a + "q_a_proj", 16, EMBD) + norm(a + "q_a_layernorm", 16) + \
                linear(a + "q_b_proj", HEADS * 24, 16)
        out = both + q + \
            linear(a + "kv_a_proj_with_mqa", 16 + 8, EMBD) + norm(a + "kv_a_layernorm", 16) + \
            linear(a + "kv_b_proj", HEADS * 32, 16) + linear(a + "o_proj", EMBD, HEADS * 16)
        if i == 0:
            return out + mlp(p + "mlp.")
        shared = 16 if "bias" in words or "fused" in words else 32
        if "fused" in words:
            return out + linear(p + "mlp.gate", 4, EMBD) + mlp(p + "mlp.shared_experts.", shared) + [
                (p + "mlp.experts.gate_up_proj", [4, 32, EMBD]),
                (p + "mlp.experts.down_proj", [4, EMBD, 16])]
        return out + linear(p + "mlp.gate", 4, EMBD) + experts(p, 16) + \
            mlp(p + "mlp.shared_experts.", shared) + \
            ([(p + "mlp.gate.e_score_correction_bias", [4])] if "bias" in words else [])
    if kind == "bert":
        return [t for x in ("attention.self.query", "attention.self.key", "attention.self.value",
                            "attention.output.dense") for t in linear(p + x, EMBD, EMBD, True)] + \
            norm(p + "attention.output.LayerNorm", bias=True) + norm(p + "output.LayerNorm", bias=True) + \
            linear(p + "intermediate.dense", FF, EMBD, True) + linear(p + "output.dense", EMBD, FF, True)
    if kind == "nomic":
        return linear(p + "attn.Wqkv", 3 * EMBD, EMBD) + linear(p + "attn.out_proj", EMBD, EMBD) + \
            norm(p + "norm1", bias=True) + norm(p + "norm2", bias=True) + \
            linear(p + "mlp.fc11", FF, EMBD) + linear(p + "mlp.fc12", FF, EMBD) + \
            linear(p + "mlp.fc2", EMBD, FF)
    if kind == "glm4moe":
        return both + attention(p) + (mlp(p + "mlp.") if i == 0 else (
            linear(p + "mlp.gate", 4, EMBD) + experts(p, 16) + mlp(p + "mlp.shared_experts.", 16) +
            [(p + "mlp.gate.e_score_correction_bias", [4])]))
    if words[0] == "hunyuan":
        m = p + "mlp."
        return both + attention(p) + (mlp(m) if "moe" not in words else (
            linear(m + "gate.wg", 4, EMBD) + experts(p, FF) + mlp(m + "shared_mlp."))) + norm(p + "self_attn.query_layernorm", DIM) + \
            norm(p + "self_attn.key_layernorm", DIM)
    if kind == "exaone4":
        return norm(p + "post_attention_layernorm") + norm(p + "post_feedforward_layernorm") + \
            attention(p) + heads_norms(p) + mlp(p + "mlp.")
    if kind == "cohere":
        return norm(p + "input_layernorm") + attention(p) + mlp(p + "mlp.")
    if kind == "phimoe":
        return norm(p + "input_layernorm", bias=True) + \
            norm(p + "post_attention_layernorm", bias=True) + \
            [t for t in layer("mixtral", i, p) if "layernorm" not in t[0]]
    if kind == "llama4":
        f = p + "feed_forward."
        return both + attention(p) + (mlp(f) if i % 2 == 0 else (
            linear(f + "router", 4, EMBD) + mlp(f + "shared_expert.", 16) + [
                (f + "experts.gate_up_proj", [4, EMBD, 32]),
                (f + "experts.down_proj", [4, 16, EMBD])]))
    if kind == "apertus":
        return norm(p + "attention_layernorm") + norm(p + "feedforward_layernorm") + \
            attention(p) + heads_norms(p) + linear(p + "mlp.up_proj", FF, EMBD) + \
            linear(p + "mlp.down_proj", EMBD, FF) + [
                (f"{p}mlp.act_fn.{w}", [1]) for w in ("alpha_n", "alpha_p", "beta", "eps")]
    if kind == "granite_swa experts":
        b = p + "block_sparse_moe."
        return both + attention(p) + [(p + "self_attn.sinks", [HEADS])] + \
            linear(b + "router", 4, EMBD) + [
                (b + "experts.gate_up_proj", [4, 2 * FF, EMBD]),
                (b + "experts.down_proj", [4, EMBD, FF])] + \
            linear(p + "shared_mlp.input_linear", 64, EMBD) + \
            linear(p + "shared_mlp.output_linear", EMBD, 32)
    if kind == "granite_swa":
        return layer("llama", i, p) + [(p + "self_attn.sinks", [HEADS])]
    if kind == "cohere_moe":
        return norm(p + "input_layernorm") + attention(p) + (mlp(p + "mlp.") if i == 0 else (
            linear(p + "mlp.gate", 4, EMBD) + experts(p, 16) + mlp(p + "mlp.shared_experts.", 16)))
    if words[0] == "ungated":
        bias = "bias" in words
        return norm(p + "input_layernorm", bias=bias) + attention(p) + \
            norm(p + "post_attention_layernorm", bias=bias) + \
            linear(p + "mlp.up_proj", FF, EMBD) + linear(p + "mlp.down_proj", EMBD, FF)
    if kind == "laguna":
        return both + attention(p) + heads_norms(p) + \
            linear(p + "self_attn.g_proj", HEADS, EMBD) + (mlp(p + "mlp.") if i == 0 else (
                linear(p + "mlp.gate", 4, EMBD) + experts(p, 16) + mlp(p + "mlp.shared_expert.", 32)
                + [(p + "mlp.experts.e_score_correction_bias", [4])]))
    if kind == "afmoe":
        return both + norm(p + "pre_mlp_layernorm") + norm(p + "post_mlp_layernorm") + \
            attention(p) + heads_norms(p) + linear(p + "self_attn.gate_proj", HEADS * DIM, EMBD) + \
            (mlp(p + "mlp.") if i == 0 else (
                linear(p + "mlp.router.gate", 4, EMBD) + experts(p, 16) +
                mlp(p + "mlp.shared_experts.", 16) + [(p + "mlp.expert_bias", [4])]))
    if words[0] == "sigmoid_moe":
        return both + attention(p) + heads_norms(p) + (mlp(p + "mlp.") if i == 0 else (
            linear(p + "mlp.gate", 4, EMBD) + experts(p, 16) + mlp(p + "mlp.shared_experts.", 16) +
            [(p + ("mlp.expert_bias" if "hy" in words else "mlp.gate.e_score_correction_bias"),
              [4])]))
    if kind == "ernie_moe":
        return both + attention(p) + (mlp(p + "mlp.") if i == 0 else (
            linear(p + "mlp.gate", 4, EMBD) + experts(p, 16) + mlp(p + "mlp.shared_experts.", 32) +
            [(p + "mlp.moe_statics.e_score_correction_bias", [1, 4])]))
    if kind == "minimax":
        b = p + "block_sparse_moe."
        return both + attention(p) + heads_norms(p, HEADS * DIM, KV * DIM) + \
            linear(b + "gate", 4, EMBD) + [(b + "e_score_correction_bias", [4])] + [
            t for e in range(4) for w, r, c in (("w1", FF, EMBD), ("w2", EMBD, FF), ("w3", FF, EMBD))
            for t in linear(f"{b}experts.{e}.{w}", r, c)]
    if kind in ("lfm2", "lfm2moe"):
        mixer = linear(p + "conv.in_proj", 3 * EMBD, EMBD) + linear(p + "conv.out_proj", EMBD, EMBD) + \
            [(p + "conv.conv.weight", [EMBD, 1, 3])]
        if i % 2 == 1:
            mixer = linear(p + "self_attn.q_proj", EMBD, EMBD) + \
                linear(p + "self_attn.k_proj", KV * DIM, EMBD) + \
                linear(p + "self_attn.v_proj", KV * DIM, EMBD) + \
                linear(p + "self_attn.out_proj", EMBD, EMBD) + \
                norm(p + "self_attn.q_layernorm", DIM) + norm(p + "self_attn.k_layernorm", DIM)
        if kind == "lfm2moe" and i > 0:
            f = p + "feed_forward."
            return norm(p + "operator_norm") + norm(p + "ffn_norm") + mixer + \
                linear(f + "gate", 4, EMBD) + [(f + "expert_bias", [4])] + [
                t for e in range(4) for w, r, c in (("w1", 16, EMBD), ("w2", EMBD, 16), ("w3", 16, EMBD))
                for t in linear(f"{f}experts.{e}.{w}", r, c)]
        return norm(p + "operator_norm") + norm(p + "ffn_norm") + mixer + \
            linear(p + "feed_forward.w1", FF, EMBD) + linear(p + "feed_forward.w2", EMBD, FF) + \
            linear(p + "feed_forward.w3", FF, EMBD)
    if words[0] == "delta":
        a, m = p + "linear_attn.", p + "mlp."
        mixer = attention(p, q=2 * HEADS * DIM) if i % 2 else (
            linear(a + "in_proj_qkvz", 96, EMBD) + linear(a + "in_proj_ba", 8, EMBD)
            if "groups" in words else
            linear(a + "in_proj_qkv", 64, EMBD) + linear(a + "in_proj_z", 32, EMBD) +
            linear(a + "in_proj_b", 4, EMBD) + linear(a + "in_proj_a", 4, EMBD)) + delta_rest(a)
        if i % 2:
            mixer[-1] = (p + "self_attn.o_proj.weight", [EMBD, HEADS * DIM])
            mixer += heads_norms(p)
        if "groups" in words:
            return both + mixer + experts(p, 16) + shared_expert(m)
        return both + mixer + (mlp(m) if "moe" not in words else [
            (m + "experts.gate_up_proj", [4, 32, EMBD]),
            (m + "experts.down_proj", [4, EMBD, 16])] + shared_expert(m))
    if words[0] == "scan":
        m, heads = p + "mixer.", "heads" in words
        wide = 128 if heads else 64
        return norm(p + "norm") + linear(m + "in_proj", 196 if heads else 128, EMBD) + \
            [(m + "conv1d.weight", [wide, 1, 4]), (m + "conv1d.bias", [wide])] + \
            linear(m + "out_proj", EMBD, 64) + (
                [(m + x, [4]) for x in ("A_log", "D", "dt_bias")] + norm(m + "norm", 64)
                if heads else [(m + "A_log", [64, 16]), (m + "D", [64])] +
                linear(m + "x_proj", 34, 64) + linear(m + "dt_proj", 64, 2, True))
    if kind == "hybrid":
        m = p + "mamba."
        mixer = attention(p) if i % 2 else (
            linear(m + "in_proj", 196, EMBD) + linear(m + "out_proj", EMBD, 64) +
            [(m + "conv1d.weight", [128, 1, 4]), (m + "conv1d.bias", [128])] +
            [(m + x, [4]) for x in ("A_log", "D", "dt_bias")] + norm(m + "norm", 64))
        return [t for t in layer("granitemoe shared", i, p) if ".self_attn." not in t[0]] + mixer
    if kind == "bamba":
        mixed = [t for t in layer("hybrid", i, p) if ".mamba." in t[0] or ".self_attn." in t[0]]
        return norm(p + "input_layernorm") + norm(p + "pre_ff_layernorm") + mixed + \
            mlp(p + "feed_forward.")
    if kind == "one_part":
        m = p + "mixer."
        mixer = [linear(m + "in_proj", 196, EMBD) + linear(m + "out_proj", EMBD, 64) +
                 [(m + "conv1d.weight", [128, 1, 4]), (m + "conv1d.bias", [128])] +
                 [(m + x, [4]) for x in ("A_log", "D", "dt_bias")] + norm(m + "norm", 64),
                 linear(m + "gate", 4, EMBD) + [(m + "gate.e_score_correction_bias", [4])] +
                 [t for x, n in [(f"experts.{e}.", 16) for e in range(4)] + [("shared_experts.", 32)]
                  for t in linear(m + x + "up_proj", n, EMBD) + linear(m + x + "down_proj", EMBD, n)],
                 linear(m + "q_proj", HEADS * DIM, EMBD) + linear(m + "k_proj", KV * DIM, EMBD) +
                 linear(m + "v_proj", KV * DIM, EMBD) + linear(m + "o_proj", EMBD, HEADS * DIM)]
        return norm(p + "norm") + mixer[i % 3]
    if kind in ("side", "jamba"):
        m, f = p + "mamba.", p + "feed_forward."
        norms = norm(p + "input_layernorm") + norm(p + "pre_ff_layernorm")
        out = linear(m + "out_proj", EMBD, 64)
        if kind == "side":
            return norms + attention(p) + mlp(f) + out + linear(m + "in_proj", 196, EMBD) + \
                [(m + "conv1d.weight", [128, 1, 4]), (m + "conv1d.bias", [128])] + \
                [(m + x, [4]) for x in ("A_log", "D", "dt_bias")]
        mixer = attention(p) if i % 2 else (
            out + linear(m + "in_proj", 128, EMBD) + linear(m + "x_proj", 34, 64) +
            [(m + "conv1d.weight", [64, 1, 4]), (m + "conv1d.bias", [64])] +
            linear(m + "dt_proj", 64, 2, True) + norm(m + "dt_layernorm", 2) +
            norm(m + "b_layernorm", 16) + norm(m + "c_layernorm", 16) +
            [(m + "A_log", [64, 16]), (m + "D", [64])])
        return norms + mixer + (mlp(f) if i % 2 == 0 else linear(f + "router", 4, EMBD) + [
            t for e in range(4) for t in mlp(f"{f}experts.{e}.")])
    if kind == "kimi":
        a, b = p + "self_attn.", p + "block_sparse_moe."
        mixer = (linear(a + "q_proj", HEADS * 24, EMBD) +
                 linear(a + "kv_a_proj_with_mqa", 16 + 8, EMBD) + norm(a + "kv_a_layernorm", 16) +
                 linear(a + "kv_b_proj", HEADS * 32, 16) + linear(a + "o_proj", EMBD, HEADS * 16)
                 ) if i % 2 else (
            [t for x in "qkv" for t in linear(a + x + "_proj", 32, EMBD)] +
            [(f"{a}{x}_conv1d.weight", [32, 1, 4]) for x in "qkv"] +
            [t for x in "fg" for t in linear(f"{a}{x}_a_proj", 8, EMBD) +
             linear(f"{a}{x}_b_proj", 32, 8)] + linear(a + "b_proj", 4, EMBD) +
            [(a + "A_log", [1, 1, 4, 1]), (a + "dt_bias", [32])] + norm(a + "o_norm", 8) +
            linear(a + "o_proj", EMBD, 32))
        return both + mixer + (mlp(p + "mlp.") if i == 0 else linear(b + "gate", 4, EMBD) + [
            (b + "gate.e_score_correction_bias", [4])] + mlp(b + "shared_experts.", 16) + [
            t for e in range(4) for w, r, c in (("w1", 16, EMBD), ("w2", EMBD, 16), ("w3", 16, EMBD))
            for t in linear(f"{b}experts.{e}.{w}", r, c)])
    sys.exit(f"no tensors of {kind}")


def tensors(kind, tied):
    if kind == "gpt2":
        begin, p = linear("wte", VOCAB, EMBD) + linear("wpe", 256, EMBD) + norm("ln_f", bias=True), "h."
    elif kind in ("bert", "nomic"):
        p = "encoder.layer." if kind == "bert" else "encoder.layers."
        begin = linear("embeddings.word_embeddings", VOCAB, EMBD) + \
            linear("embeddings.token_type_embeddings", 2, EMBD) + \
            norm("embeddings.LayerNorm" if kind == "bert" else "emb_ln", bias=True)
        if kind == "bert":
            begin += linear("embeddings.position_embeddings", 256, EMBD)
    elif kind in ("scan", "scan heads", "one_part"):
        p = "backbone.layers."
        begin = linear("backbone.embeddings", VOCAB, EMBD) + norm("backbone.norm_f") + \
            ([] if tied else linear("lm_head", VOCAB, EMBD))
    else:
        p = "model.layers."
        begin = linear("model.embed_tokens", VOCAB, EMBD) + norm(
            "model.embedding_norm" if kind in ("lfm2", "lfm2moe") else
            "model.final_layernorm" if kind in ("side", "jamba", "bamba") else "model.norm",
            bias=kind in ("starcoder2", "ungated bias", "phimoe"))
        if not tied:
            begin += linear("lm_head", VOCAB, EMBD)
    if kind == "gemma3n":
        begin += linear("model.embed_tokens_per_layer", VOCAB - 20, LAYERS * 8) + \
            linear("model.per_layer_model_projection", LAYERS * 8, EMBD) + \
            norm("model.per_layer_projection_norm", 8) + [
                t for x in ("projections", "unembed_projections") for n in range(3)
                for t in linear(f"model.altup_{x}.{n}", EMBD, EMBD)]
    return begin + [t for i in range(LAYERS) for t in layer(kind, i, f"{p}{i}.")]


# ---- the file ----

def text(value):
    return json.dumps(value, separators=(",", ":"))


# Those that all layers have stand once, with # for the number.
def tensor_lines(all_tensors):
    lines, seen = [], {}
    for name, shape in all_tensors:
        parts = name.split(".")
        at = next((i for i, x in enumerate(parts) if x.isdigit()), None)
        key = name if at is None else ".".join(parts[:at] + ["#"] + parts[at + 1:])
        seen.setdefault((key, tuple(shape)), []).append(name)
    for (key, shape), names in seen.items():
        for name in [key] if len(names) == LAYERS else names:
            lines.append(f"tensor\t{name}\t{','.join(map(str, shape))}")
    return lines


def write_class(out, root, name):
    module, config, kind, other = CLASSES[name]
    fields, aliases = members_of(root, module, config)
    base = {k: v for k, v in SIZES.items() if k in fields}
    base.update(other)
    if kind == "nomic":
        base["num_key_value_heads"] = None
    tied = fields.get("tie_word_embeddings", False)
    out.append(f"class\t{name}\t{model_type(root, module, config)}")
    out.extend(tensor_lines(tensors(kind, tied)))
    for key in fields:
        value = base.get(key, fields[key])
        own = "default" if value == fields[key] else "-"
        out.append(f"member\t{key}\t{own}\t{text(value)}")
        cases = OWN.get(name, {}).get(key, CASES.get(key))
        if key == "tie_word_embeddings":
            encoder = kind in ("bert", "nomic")
            cases = [("fixed", False) if tied and not encoder else ("inert", not tied)]
        if cases is None:
            sys.exit(f"{name}: {key}: say in CASES what it does")
        out.extend(f"case\t{what}\t{text({key: v})}" for what, v in cases)
    older = list(aliases) + asked(root, module) + OLDER.get(name, [])
    out.extend(f"alias\t{old}" for old in older if old not in fields)
    out.extend(f"case\t{what}\t{text(v)}" for who, v, what in PAIRS if who == name)


def main():
    root = Path(sys.argv[1])
    version = next(root.parent.glob("transformers-*.dist-info"), None) or sys.argv[2]
    version = str(version).rsplit("/", 1)[-1].replace("transformers-", "").replace(".dist-info", "")
    out = [f"# transformers {version}, by make_members.py"]
    for name in CLASSES:
        write_class(out, root, name)
    (Path(__file__).parent / "members.tsv").write_text("\n".join(out) + "\n")


main()
