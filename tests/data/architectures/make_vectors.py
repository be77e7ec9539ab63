#!/usr/bin/env python3
"""Tiny random models of every family, and what `transformers` makes of a text.

    make_vectors.py LLAMA_CPP [NAME ...]

Needs torch and transformers, and a source tree of llama.cpp, whose converter writes the files; its
check of known tokenizers is overridden, since the vocabulary means nothing here. For each model,
beside this script: NAME.gguf (F32) and NAME.logits: two int32 (rows, vocabulary), then for every
fifth of 200 tokens the logits in f32. Token i is (7 i i + 13 i + 5) mod 96. For
encoders and a few others NAME.pooled: the same of two rows, the mean of the last hidden rows
(of NAME_cls the first of them) and the last of them.

Weights are rounded to bf16 (they are stored as f32), which halves what they take in archives."""
import json
import struct
import sys
import tempfile
from pathlib import Path

import bailing_folders
import safetensors.torch
import step_folders
import torch
import transformers

HERE = Path(__file__).resolve().parent
VOCAB, TOKENS, EVERY = 96, 200, 5
SHAPE = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=40, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
             bos_token_id=0, eos_token_id=0, pad_token_id=0, attn_implementation="eager")
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64)
LONG = dict(rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=64,
            long_factor=[1.0, 1.5, 2.5, 4.0], short_factor=[1.0, 1.1, 1.2, 1.3])
GLM = dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)
MINISTRAL = dict(YARN, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1, beta_fast=32.0,
                 beta_slow=1.0, original_max_position_embeddings=64, max_position_embeddings=256)
LFM2 = dict(num_hidden_layers=3, block_auto_adjust_ff_dim=False, tie_word_embeddings=True)
GEMMA3 = dict(full_attention=dict(rope_type="default", rope_theta=1000000.0),
              sliding_attention=dict(rope_type="default", rope_theta=10000.0))
OSS = dict(YARN, beta_fast=32.0, beta_slow=1.0, truncate=False)
MIXED = dict(intermediate_size=16)
MIXTURE = dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=16)
LATENT = dict(kv_lora_rank=32, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=16,
              n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=2,
              first_k_dense_replace=1, num_key_value_heads=4, routed_scaling_factor=1.5)

SIGHT = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, patch_size=4,
             out_hidden_size=32, num_position_embeddings=4, deepstack_visual_indexes=[0])
SIGHT_2 = dict(depth=1, embed_dim=16, hidden_size=32, num_heads=2, patch_size=4)
SIGHT_25 = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, patch_size=4,
                out_hidden_size=32, fullatt_block_indexes=[0])
SECTIONS = dict(rope_type="default", rope_theta=10000.0, mrope_section=[1, 1, 2])
SECTIONS_3 = dict(rope_type="default", rope_theta=10000.0, mrope_section=[4, 2, 2],
                  mrope_interleaved=True)

DENSE_FIRST = dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=16,
                   num_hidden_layers=4)
GLM_MOE = dict(head_dim=16, n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=16,
               rope_parameters=GLM, num_hidden_layers=3, num_mtp_layers=0)

DELTA = dict(head_dim=16, linear_conv_kernel_dim=4, linear_key_head_dim=16,
             linear_value_head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4,
             num_hidden_layers=3, layer_types=["linear_attention", "full_attention",
                                               "linear_attention"])
SECTIONS_35 = dict(rope_type="default", rope_theta=10000.0, mrope_section=[2, 1, 1],
                   mrope_interleaved=True, partial_rotary_factor=0.5)

NOT_THERE = object()
SCAN = dict(state_size=16, conv_kernel=4, num_attention_heads=NOT_THERE,
            num_key_value_heads=NOT_THERE, intermediate_size=NOT_THERE,
            max_position_embeddings=NOT_THERE)
ERNIE_MOE = dict(moe_num_experts=8, moe_k=3, moe_intermediate_size=16, moe_num_shared_experts=2,
                 moe_layer_start_index=1, moe_layer_interval=1, num_hidden_layers=3)
DOTS = dict(n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=16, head_dim=8,
            n_shared_experts=2, first_k_dense_replace=1, num_key_value_heads=4,
            num_hidden_layers=3, sliding_window=None, scoring_func="sigmoid")
HUNYUAN = dict(num_experts=8, head_dim=8, intermediate_size=48)
COHERE2 = dict(num_hidden_layers=4, rotary_pct=1.0)
INDEXED = dict(LATENT, q_lora_rank=24, moe_intermediate_size=16, num_hidden_layers=3,
               index_topk=256, index_head_dim=16, index_n_heads=14, scoring_func="sigmoid",
               max_position_embeddings=512, num_nextn_predict_layers=0)

HYBRID = dict(num_hidden_layers=3, layer_types=["mamba", "attention", "mamba"], mamba_n_heads=4,
              mamba_d_head=16, mamba_d_state=16, mamba_d_conv=4, mamba_expand=2,
              shared_intermediate_size=40, position_embedding_type="nope")

NO_EXPERTS = dict(num_local_experts=0, num_experts_per_tok=0)

# name: (config's class, what differs from SHAPE); of one with a vision_config its text's members
MODELS = {
    "llama": ("LlamaConfig", dict(tie_word_embeddings=False)),
    "llama_tied": ("LlamaConfig", dict(tie_word_embeddings=True, head_dim=16,
                                       num_key_value_heads=1)),
    "llama_bias": ("LlamaConfig", dict(attention_bias=True, num_key_value_heads=4)),
    "llama_linear": ("LlamaConfig", dict(rope_parameters=dict(
        rope_type="linear", rope_theta=10000.0, factor=4.0))),
    "llama_llama3": ("LlamaConfig", dict(rope_parameters=LLAMA3)),
    "llama_yarn": ("LlamaConfig", dict(rope_parameters=YARN)),
    "mistral": ("MistralConfig", dict(head_dim=16, sliding_window=None)),
    "qwen2vl": ("Qwen2VLConfig", dict(vision_config=SIGHT_2, rope_parameters=SECTIONS,
                                      tie_word_embeddings=True)),
    "qwen2vl_25": ("Qwen2_5_VLConfig", dict(vision_config=SIGHT_25, rope_parameters=SECTIONS,
                                            num_key_value_heads=1)),
    "qwen3vl": ("Qwen3VLConfig", dict(vision_config=SIGHT, rope_parameters=SECTIONS_3,
                                      head_dim=16)),
    "qwen3vl_tied": ("Qwen3VLConfig", dict(vision_config=SIGHT, rope_parameters=SECTIONS_3,
                                           head_dim=16, num_key_value_heads=4,
                                           tie_word_embeddings=True)),
    "qwen3vlmoe": ("Qwen3VLMoeConfig", dict(MIXTURE, vision_config=SIGHT, head_dim=16,
                                            moe_intermediate_size=48,
                                            rope_parameters=SECTIONS_3)),
    "qwen3vlmoe_one": ("Qwen3VLMoeConfig", dict(MIXTURE, vision_config=SIGHT, head_dim=16,
                                                moe_intermediate_size=48,
                                                num_experts=4, num_experts_per_tok=1,
                                                num_key_value_heads=1, tie_word_embeddings=True,
                                                rope_parameters=SECTIONS_3)),
    "granite": ("GraniteConfig", dict(embedding_multiplier=6.0, residual_multiplier=0.4,
                                      attention_multiplier=0.25, logits_scaling=3.0)),
    "granitemoe": ("GraniteMoeConfig", dict(MIXED, num_local_experts=6, num_experts_per_tok=2,
                                            embedding_multiplier=6.0, residual_multiplier=0.4,
                                            attention_multiplier=0.25, logits_scaling=3.0)),
    "granitemoe_shared": ("GraniteMoeSharedConfig", dict(
        intermediate_size=48, num_local_experts=8, num_experts_per_tok=3, tie_word_embeddings=True,
        shared_intermediate_size=24, residual_multiplier=0.7, num_key_value_heads=4)),
    "smollm3": ("SmolLM3Config", dict(num_hidden_layers=4, tie_word_embeddings=True)),
    "mistral3": ("Ministral3Config", dict(head_dim=16, rope_parameters=MINISTRAL)),
    "qwen2": ("Qwen2Config", dict(tie_word_embeddings=True)),
    "qwen3": ("Qwen3Config", dict(head_dim=16)),
    "olmo2": ("Olmo2Config", dict()),
    "olmo3": ("Olmo3Config", dict(num_hidden_layers=4, sliding_window=24, rope_parameters=YARN)),
    "starcoder2": ("Starcoder2Config", dict(use_bias=True, sliding_window=None)),
    "phi3": ("Phi3Config", dict(sliding_window=None)),
    "phi3_long": ("Phi3Config", dict(original_max_position_embeddings=64, rope_parameters=LONG)),
    "phi3_window": ("Phi3Config", dict(sliding_window=24, num_key_value_heads=4)),
    "gemma2": ("Gemma2Config", dict(head_dim=16, sliding_window=24, query_pre_attn_scalar=16,
                                    attn_logit_softcapping=5.0, final_logit_softcapping=3.0)),
    "gemma3": ("Gemma3TextConfig", dict(head_dim=8, sliding_window=24, query_pre_attn_scalar=8,
                                        num_hidden_layers=6, rope_parameters=GEMMA3)),
    "mixtral": ("MixtralConfig", dict(MIXED, num_local_experts=6, num_experts_per_tok=2)),
    "qwen2moe": ("Qwen2MoeConfig", dict(MIXTURE, shared_expert_intermediate_size=48)),
    "qwen3moe": ("Qwen3MoeConfig", dict(MIXTURE, head_dim=16, norm_topk_prob=True)),
    "gpt_oss": ("GptOssConfig", dict(MIXED, head_dim=16, num_local_experts=6,
                                     num_experts_per_tok=2, sliding_window=24,
                                     rope_parameters=OSS)),
    "deepseek2": ("DeepseekV2Config", dict(LATENT, q_lora_rank=None, moe_intermediate_size=16,
                                           rope_parameters=dict(YARN, mscale=0.7,
                                                                mscale_all_dim=0.7))),
    "deepseek2_groups": ("DeepseekV2Config", dict(LATENT, q_lora_rank=24, moe_intermediate_size=16,
                                                  topk_method="group_limited_greedy", n_group=4,
                                                  topk_group=2)),
    "deepseek3": ("DeepseekV3Config", dict(LATENT, q_lora_rank=24, moe_intermediate_size=16,
                                           n_group=4, topk_group=2,
                                           scoring_func="sigmoid")),
    "olmoe": ("OlmoeConfig", dict(MIXTURE, intermediate_size=16, num_key_value_heads=4)),
    "lfm2": ("Lfm2Config", dict(LFM2, layer_types=["conv", "full_attention", "conv"])),
    "lfm2_ends": ("Lfm2Config", dict(LFM2, conv_L_cache=4, head_dim=16, num_key_value_heads=1,
                                     tie_word_embeddings=False,
                                     layer_types=["full_attention", "conv", "full_attention"])),
    "bert": ("BertConfig", dict(num_key_value_heads=4)),
    "bert_cls": ("BertConfig", dict(hidden_size=24, num_attention_heads=3,
                                      num_key_value_heads=3)),
    "nomic_bert": ("NomicBertConfig", dict(num_key_value_heads=4)),
    "lfm2moe": ("Lfm2MoeConfig", dict(DENSE_FIRST, num_dense_layers=1, layer_types=[
        "conv", "full_attention", "conv", "full_attention"])),
    "lfm2moe_ends": ("Lfm2MoeConfig", dict(DENSE_FIRST, num_dense_layers=2, conv_L_cache=4,
                                           num_key_value_heads=1, use_expert_bias=False,
                                           layer_types=[
        "full_attention", "conv", "conv", "full_attention"])),
    "glm4moe": ("Glm4MoeConfig", dict(GLM_MOE, attention_bias=True, routed_scaling_factor=1.5)),
    "glm4moe_norms": ("Glm4MoeConfig", dict(GLM_MOE, use_qk_norm=True, n_shared_experts=2,
                                            first_k_dense_replace=2, num_key_value_heads=1,
                                            num_mtp_layers=1)),
    "minimax_m2": ("MiniMaxM2Config", dict(MIXED, head_dim=16, rotary_dim=8, num_local_experts=8,
                                           num_experts_per_tok=3)),
    "minimax_m2_one": ("MiniMaxM2Config", dict(MIXED, head_dim=8, rotary_dim=8,
                                               num_local_experts=6, num_experts_per_tok=1,
                                               num_key_value_heads=1)),
    "qwen35": ("Qwen3_5Config", dict(DELTA, vision_config=SIGHT, rope_parameters=SECTIONS_35)),
    "qwen35_ends": ("Qwen3_5TextConfig", dict(
        DELTA, linear_conv_kernel_dim=3, linear_num_key_heads=3, linear_num_value_heads=3,
        linear_key_head_dim=8, linear_value_head_dim=12, tie_word_embeddings=True,
        num_key_value_heads=1, layer_types=["full_attention", "linear_attention",
                                            "full_attention"],
        rope_parameters=SECTIONS_35)),
    "qwen35moe": ("Qwen3_5MoeConfig", dict(
        DELTA, **MIXTURE, vision_config=SIGHT, rope_parameters=SECTIONS_35,
        shared_expert_intermediate_size=32)),
    "qwen35moe_one": ("Qwen3_5MoeTextConfig", dict(
        DELTA, num_experts=4, num_experts_per_tok=1, moe_intermediate_size=48,
        shared_expert_intermediate_size=16, linear_num_key_heads=1, num_key_value_heads=1,
        layer_types=["linear_attention", "linear_attention", "full_attention"],
        rope_parameters=SECTIONS_35, tie_word_embeddings=True)),
    "qwen3next": ("Qwen3NextConfig", dict(
        DELTA, **MIXTURE, rope_parameters=GLM, shared_expert_intermediate_size=32)),
    "qwen3next_one": ("Qwen3NextConfig", dict(
        DELTA, num_experts=4, num_experts_per_tok=1, moe_intermediate_size=48,
        shared_expert_intermediate_size=16, linear_num_key_heads=4, linear_key_head_dim=8,
        linear_value_head_dim=12, num_key_value_heads=1,
        layer_types=["full_attention", "linear_attention", "full_attention"],
        rope_parameters=GLM)),
    "mamba2": ("Mamba2Config", dict(SCAN, num_heads=4, head_dim=16, n_groups=2)),
    "mamba2_one": ("Mamba2Config", dict(SCAN, num_heads=3, head_dim=22, n_groups=1, state_size=5,
                                        conv_kernel=3, hidden_size=33, num_hidden_layers=3,
                                        tie_word_embeddings=True)),
    "mamba": ("MambaConfig", dict(SCAN, time_step_rank=3)),
    "mamba_untied": ("MambaConfig", dict(SCAN, time_step_rank=8, state_size=7, conv_kernel=3,
                                         hidden_size=36, tie_word_embeddings=False)),
    "falcon_mamba": ("FalconMambaConfig", dict(SCAN, time_step_rank=3, mixer_rms_eps=1e-5)),
    "granitehybrid": ("GraniteMoeHybridConfig", dict(
        HYBRID, **NO_EXPERTS, mamba_n_groups=2, embedding_multiplier=6.0,
        residual_multiplier=0.4, attention_multiplier=0.25, logits_scaling=3.0)),
    "granitehybrid_ends": ("GraniteMoeHybridConfig", dict(
        HYBRID, **NO_EXPERTS, mamba_n_groups=1, mamba_d_conv=3, mamba_d_state=5,
        num_key_value_heads=1, tie_word_embeddings=True,
        layer_types=["attention", "mamba", "attention"])),
    "granitehybrid_moe": ("GraniteMoeHybridConfig", dict(
        HYBRID, num_local_experts=6, num_experts_per_tok=2, intermediate_size=16,
        mamba_n_groups=1, residual_multiplier=0.4, logits_scaling=3.0)),
    "granitehybrid_moe_one": ("GraniteMoeHybridConfig", dict(
        HYBRID, num_local_experts=4, num_experts_per_tok=1, intermediate_size=48,
        mamba_n_groups=4, num_key_value_heads=4, layer_types=["mamba", "mamba", "attention"])),
    "glm4": ("Glm4Config", dict(head_dim=16, rope_parameters=GLM, attention_bias=True)),
}

MODELS |= {
    "glm47": ("Glm4MoeLiteConfig", dict(LATENT, q_lora_rank=24, moe_intermediate_size=16,
                                        num_hidden_layers=3, num_nextn_predict_layers=0)),
    "glm47_group": ("Glm4MoeLiteConfig", dict(LATENT, q_lora_rank=24, moe_intermediate_size=16,
                                              num_hidden_layers=3, first_k_dense_replace=2,
                                              mlp_layer_types=["dense", "dense", "sparse"],
                                              n_group=2, topk_group=1, num_nextn_predict_layers=0,
                                              norm_topk_prob=False, n_shared_experts=1,
                                              scoring_func="sigmoid")),
    "ernie4_5": ("Ernie4_5Config", dict(head_dim=16, tie_word_embeddings=True)),
    "ernie4_5_one": ("Ernie4_5Config", dict(head_dim=8, num_key_value_heads=1,
                                            tie_word_embeddings=False)),
    "ernie4_5_moe": ("Ernie4_5_MoeConfig", dict(ERNIE_MOE, intermediate_size=64,
                                                tie_word_embeddings=True)),
    "ernie4_5_moe_late": ("Ernie4_5_MoeConfig", dict(
        ERNIE_MOE, intermediate_size=48, num_key_value_heads=1, moe_num_shared_experts=0, moe_k=1,
        moe_layer_start_index=2, tie_word_embeddings=False)),
    "seed_oss": ("SeedOssConfig", dict(head_dim=16)),
    "seed_oss_bias": ("SeedOssConfig", dict(head_dim=8, attention_out_bias=True,
                                            num_key_value_heads=1, tie_word_embeddings=True)),
    "dots1": ("Dots1Config", dict(DOTS, routed_scaling_factor=2.5, norm_topk_prob=True)),
    "dots1_groups": ("Dots1Config", dict(DOTS, n_group=4, topk_group=2, n_shared_experts=1,
                                         first_k_dense_replace=0)),
    "gemma": ("GemmaConfig", dict(head_dim=16, num_key_value_heads=1)),
    "gemma_all": ("GemmaConfig", dict(head_dim=8, num_key_value_heads=4)),
}

MODELS |= {
    "hunyuan_dense": ("HunYuanDenseV1Config", dict(head_dim=16)),
    "hunyuan_dense_ntk": ("HunYuanDenseV1Config", dict(
        head_dim=8, num_key_value_heads=1, tie_word_embeddings=True, max_position_embeddings=32768,
        rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, alpha=50.0, factor=1.0))),
    "hunyuan_moe": ("HunYuanMoEV1Config", dict(
        HUNYUAN, moe_topk=[3, 3], num_shared_expert=[1, 1], moe_intermediate_size=[48, 48])),
    "hunyuan_moe_one": ("HunYuanMoEV1Config", dict(
        HUNYUAN, num_experts=6, moe_topk=[1, 1], num_shared_expert=[1, 1],
        moe_intermediate_size=[48, 48], num_key_value_heads=1, head_dim=16,
        tie_word_embeddings=True)),
    "exaone4": ("Exaone4Config", dict(num_hidden_layers=4, sliding_window=24)),
    "exaone4_full": ("Exaone4Config", dict(sliding_window=None, num_key_value_heads=1,
                                           layer_types=["full_attention"] * 2,
                                           tie_word_embeddings=True, rope_parameters=LLAMA3)),
    "command_r": ("CohereConfig", dict(logit_scale=0.25)),
    "command_r_bias": ("CohereConfig", dict(attention_bias=True, num_key_value_heads=4,
                                            logit_scale=2.0)),
    "cohere2": ("Cohere2Config", dict(COHERE2, sliding_window=24, logit_scale=0.25)),
    "cohere2_all": ("Cohere2Config", dict(COHERE2, sliding_window=16, num_key_value_heads=1,
                                          logit_scale=1.0)),
    "arcee": ("ArceeConfig", dict()),
    "arcee_bias": ("ArceeConfig", dict(attention_bias=True, head_dim=16, num_key_value_heads=1,
                                       tie_word_embeddings=True, rope_parameters=YARN)),
    "nemotron": ("NemotronConfig", dict(rope_parameters=dict(
        rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    "nemotron_bias": ("NemotronConfig", dict(
        attention_bias=True, mlp_bias=True, num_key_value_heads=4, rope_parameters=dict(
            rope_type="default", rope_theta=10000.0, partial_rotary_factor=1.0))),
}

# Tops such that the last chosen and the first that is not differ by 2e-5 of the largest or more.
MODELS |= {
    "deepseek32": ("DeepseekV32Config", dict(INDEXED, n_group=1, topk_group=1)),
    "deepseek32_groups": ("DeepseekV32Config", dict(
        INDEXED, n_group=4, topk_group=2, first_k_dense_replace=2, n_shared_experts=1, index_topk=21,
        norm_topk_prob=False, rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=1.0))),
    "deepseek32_few": ("DeepseekV32Config", dict(INDEXED, n_group=1, topk_group=1, index_topk=7)),
    "glm_dsa": ("GlmMoeDsaConfig", dict(INDEXED, indexer_types=["full"] * 3, index_topk=65)),
    "glm_dsa_shared": ("GlmMoeDsaConfig", dict(INDEXED, indexer_types=["full", "shared", "full"],
                                               n_shared_experts=1, num_experts_per_tok=1,
                                               index_topk=14)),
    "glm_dsa_last": ("GlmMoeDsaConfig", dict(INDEXED, indexer_types=["full", "full", "shared"],
                                             index_topk=20)),
}

FALCON_H1 = dict(num_hidden_layers=3, mamba_n_heads=4, mamba_d_head=16, mamba_d_ssm=64,
                 mamba_d_state=16, mamba_d_conv=4, mamba_norm_before_gate=False, head_dim=8,
                 embedding_multiplier=1.5, lm_head_multiplier=0.5, mlp_multipliers=[0.8, 0.7],
                 key_multiplier=0.9, attention_in_multiplier=1.2, attention_out_multiplier=0.6,
                 ssm_in_multiplier=1.1, ssm_out_multiplier=0.7,
                 ssm_multipliers=[0.9, 1.2, 0.8, 1.1, 0.7])

MODELS |= {
    "falcon_h1": ("FalconH1Config", dict(FALCON_H1, mamba_n_groups=2)),
    "falcon_h1_norm": ("FalconH1Config", dict(
        FALCON_H1, mamba_n_groups=1, mamba_rms_norm=True, mamba_d_conv=3, mamba_d_state=5,
        mamba_n_heads=2, mamba_d_head=24, mamba_d_ssm=48, head_dim=16, num_key_value_heads=1)),
}

GEMMA4 = dict(head_dim=8, global_head_dim=16, sliding_window=24, hidden_size_per_layer_input=0,
              num_hidden_layers=6, vocab_size_per_layer_input=VOCAB, tie_word_embeddings=True,
              layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2)
PER_LAYER = dict(GEMMA4, hidden_size_per_layer_input=16, num_kv_shared_layers=3,
                 num_key_value_heads=1, final_logit_softcapping=3.0)
GEMMA4_MOE = dict(GEMMA4, enable_moe_block=True, num_experts=8, top_k_experts=3,
                  moe_intermediate_size=16, num_hidden_layers=3, num_global_key_value_heads=1,
                  attention_k_eq_v=True, final_logit_softcapping=3.0,
                  layer_types=["sliding_attention", "sliding_attention", "full_attention"])

GEMMA3N = dict(head_dim=8, sliding_window=24, hidden_size_per_layer_input=16, laurel_rank=8,
               num_hidden_layers=6, vocab_size_per_layer_input=VOCAB, tie_word_embeddings=True,
               num_kv_shared_layers=3, final_logit_softcapping=3.0,
               activation_sparsity_pattern=[0.95, 0.7, 0.3] + [0.0] * 3,
               layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2)

MODELS |= {
    "gemma3n": ("Gemma3nTextConfig", GEMMA3N),
    "gemma3n_two": ("Gemma3nTextConfig", dict(
        GEMMA3N, num_hidden_layers=4, num_kv_shared_layers=1, num_key_value_heads=1,
        hidden_size_per_layer_input=8, laurel_rank=16, activation_sparsity_pattern=[0.0] * 4,
        final_logit_softcapping=20.0, head_dim=16, intermediate_size=48,
        layer_types=["full_attention", "sliding_attention"] * 2)),
    "gemma4": ("Gemma4TextConfig", dict(GEMMA4, attention_k_eq_v=True,
                                        num_global_key_value_heads=1,
                                        final_logit_softcapping=3.0)),
    "gemma4_plain": ("Gemma4TextConfig", dict(GEMMA4, head_dim=16, global_head_dim=8,
                                              sliding_window=16, num_key_value_heads=4)),
    "gemma4_rows": ("Gemma4TextConfig", PER_LAYER),
    "gemma4_wide": ("Gemma4TextConfig", dict(PER_LAYER, use_double_wide_mlp=True,
                                             num_kv_shared_layers=2, num_key_value_heads=2,
                                             hidden_size_per_layer_input=8,
                                             layer_types=["full_attention",
                                                          "sliding_attention"] * 3)),
    "gemma4_moe": ("Gemma4TextConfig", GEMMA4_MOE),
    "gemma4_moe_one": ("Gemma4TextConfig", dict(GEMMA4_MOE, attention_k_eq_v=False, num_experts=4,
                                                top_k_experts=1, moe_intermediate_size=48,
                                                num_key_value_heads=4)),
}

# Layers of one part each.
ONE_PART = dict(head_dim=16, ssm_state_size=16, mamba_num_heads=4, mamba_head_dim=16,
                num_hidden_layers=NOT_THERE)

MODELS |= {
    "nemotron_h": ("NemotronHConfig", dict(
        ONE_PART, n_groups=2, layers_block_type=["mamba", "mlp", "attention", "mlp"])),
    "nemotron_h_ends": ("NemotronHConfig", dict(
        ONE_PART, n_groups=1, ssm_state_size=5, conv_kernel=3, num_key_value_heads=1, head_dim=8,
        layers_block_type=["mlp", "attention", "mamba"])),
}

# Folders of classes that transformers has not, whose layers are those of another that it has.
BAILING = dict(head_dim=16, n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=16,
               rope_parameters=GLM, num_hidden_layers=3, num_mtp_layers=0, use_qk_norm=True,
               routed_scaling_factor=2.5, norm_topk_prob=True)
LING = dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=16, qkv_bias=False)
K_EXAONE = dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=16, head_dim=16,
                num_hidden_layers=4, sliding_window=24)
HY = dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=16, head_dim=16,
          num_hidden_layers=3)
MODELS |= {
    "bailingmoe2": ("Glm4MoeConfig", dict(BAILING, n_group=4, topk_group=2)),
    "bailingmoe2_one": ("Glm4MoeConfig", dict(
        BAILING, head_dim=8, num_experts_per_tok=1, num_key_value_heads=1, n_group=1, topk_group=1,
        first_k_dense_replace=2, rope_parameters=dict(GLM, partial_rotary_factor=1.0))),
    "bailingmoe": ("Qwen2MoeConfig", dict(LING, norm_topk_prob=True,
                                          shared_expert_intermediate_size=32)),
    "bailingmoe_one": ("Qwen2MoeConfig", dict(
        LING, head_dim=16, norm_topk_prob=False, shared_expert_intermediate_size=16,
        num_key_value_heads=1)),
    "exaone_moe": ("ExaoneMoeConfig", dict(K_EXAONE, n_group=4, topk_group=2)),
    "exaone_moe_late": ("ExaoneMoeConfig", dict(
        K_EXAONE, head_dim=8, num_experts_per_tok=1, first_k_dense_replace=2, num_key_value_heads=1,
        num_shared_experts=2, norm_topk_prob=False, routed_scaling_factor=1.0)),
    "hy_v3": ("HYV3Config", dict(HY)),
    "hy_v3_one": ("HYV3Config", dict(HY, head_dim=8, num_experts_per_tok=1, num_key_value_heads=1,
                                     num_shared_experts=2, tie_word_embeddings=True,
                                     router_scaling_factor=1.0,
                                     mlp_layer_types=["dense", "dense", "sparse"])),
}

TRINITY = dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=16, head_dim=16,
               num_hidden_layers=4, sliding_window=24, mup_enabled=True, route_norm=True)
MODELS |= {
    "afmoe": ("AfmoeConfig", dict(TRINITY, num_shared_experts=1, route_scale=2.5)),
    "afmoe_late": ("AfmoeConfig", dict(
        TRINITY, num_shared_experts=2, num_dense_layers=2, head_dim=8, num_key_value_heads=1,
        num_experts_per_tok=1, tie_word_embeddings=True)),
}

COHERE_MOE = dict(num_experts=8, num_experts_per_tok=3, head_dim=8, intermediate_size=16,
                  prefix_dense_intermediate_size=40, num_hidden_layers=4, first_k_dense_replace=1,
                  sliding_window_pattern=3)
MODELS |= {
    "cohere2moe": ("Cohere2MoeConfig", dict(COHERE_MOE, sliding_window=24, logit_scale=0.25)),
    "cohere2moe_shared": ("Cohere2MoeConfig", dict(
        COHERE_MOE, sliding_window=16, num_shared_experts=2, rms_norm_eps=1e-6,
        expert_selection_fn="sigmoid", norm_topk_prob=False, num_key_value_heads=1,
        logit_scale=2.0)),
}

JAMBA = dict(num_hidden_layers=4, intermediate_size=48, use_mamba_kernels=False,
             attn_layer_offset=1, attn_layer_period=3, expert_layer_offset=1,
             expert_layer_period=2, num_experts=6, num_experts_per_tok=2, mamba_d_state=16,
             mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=3)

MODELS |= {
    "jamba": ("JambaConfig", dict(JAMBA)),
    "jamba_ends": ("JambaConfig", dict(
        JAMBA, attn_layer_offset=0, attn_layer_period=3, expert_layer_offset=0,
        num_experts_per_tok=1, mamba_d_state=5, mamba_d_conv=3, mamba_dt_rank=8,
        num_key_value_heads=1, tie_word_embeddings=True)),
    "jamba_dense": ("JambaConfig", dict(JAMBA, num_experts=1, num_experts_per_tok=2,
                                        num_hidden_layers=3, num_key_value_heads=4)),
}

MIMO = dict(n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=16, head_dim=24,
            v_head_dim=16, num_hidden_layers=4, sliding_window=24, num_key_value_heads=1,
            layer_types=["full_attention", "sliding_attention", "sliding_attention",
                         "full_attention"],
            mlp_layer_types=["dense"] + ["sparse"] * 3)
MODELS |= {
    "mimo2": ("MiMoV2FlashConfig", dict(MIMO, attention_value_scale=0.7)),
    "mimo2_same": ("MiMoV2FlashConfig", dict(
        MIMO, v_head_dim=24, num_key_value_heads=2, num_experts_per_tok=1,
        mlp_layer_types=["dense", "dense", "sparse", "sparse"])),
}

KIMI = dict(num_hidden_layers=3, num_key_value_heads=4, linear_head_dim=16, linear_num_heads=4,
            linear_conv_kernel_dim=4, kv_lora_rank=32, qk_nope_head_dim=8, qk_rope_head_dim=8,
            v_head_dim=16, num_local_experts=8, num_experts_per_tok=3, moe_intermediate_size=16,
            layer_types=["linear_attention", "full_attention", "linear_attention"])

MODELS |= {
    "kimi_linear": ("KimiLinearConfig", dict(KIMI)),
    "kimi_linear_ends": ("KimiLinearConfig", dict(
        KIMI, linear_head_dim=12, linear_conv_kernel_dim=3, v_head_dim=32, num_experts_per_tok=1,
        n_shared_experts=2, mlp_layer_types=["dense", "dense", "sparse"],
        layer_types=["full_attention", "linear_attention", "full_attention"])),
}

NEMOTRON_MOE = dict(ONE_PART, n_groups=2, n_routed_experts=8, num_experts_per_tok=3,
                    moe_intermediate_size=16, moe_shared_expert_intermediate_size=24,
                    routed_scaling_factor=2.5)
MODELS |= {
    "nemotron_h_moe": ("NemotronHConfig", dict(
        NEMOTRON_MOE, layers_block_type=["mamba", "moe", "attention", "moe"])),
    "nemotron_h_moe_groups": ("NemotronHConfig", dict(
        NEMOTRON_MOE, n_group=4, topk_group=2, norm_topk_prob=False, num_key_value_heads=1,
        layers_block_type=["moe", "mamba", "moe", "attention"])),
    "nemotron_h_latent": ("NemotronHConfig", dict(
        NEMOTRON_MOE, moe_latent_size=16, layers_block_type=["mamba", "moe", "attention", "moe"])),
    "nemotron_h_latent_one": ("NemotronHConfig", dict(
        NEMOTRON_MOE, moe_latent_size=48, num_experts_per_tok=1, routed_scaling_factor=1.0,
        layers_block_type=["moe", "attention", "mamba"])),
    "mistral4": ("Mistral4Config", dict(
        LATENT, q_lora_rank=24, moe_intermediate_size=16, n_shared_experts=1, n_group=1,
        topk_group=1, first_k_dense_replace=0, rope_parameters=MINISTRAL)),
    "mistral4_dense": ("Mistral4Config", dict(
        LATENT, q_lora_rank=16, moe_intermediate_size=32, num_hidden_layers=3, n_group=4,
        topk_group=2, norm_topk_prob=False, num_experts_per_tok=2, rope_parameters=dict(
            MINISTRAL, mscale=0.7, mscale_all_dim=0.7, llama_4_scaling_beta=0.3))),
}

LLAMA4_TEXT = dict(num_local_experts=6, head_dim=8, intermediate_size=16, intermediate_size_mlp=40,
                   num_hidden_layers=4, interleave_moe_layer_step=2)
APERTUS_ROPE = dict(LLAMA3, factor=4.0)
GRANITE_SWA = dict(num_hidden_layers=4, sliding_window=24, embedding_multiplier=6.0,
                   residual_multiplier=0.4, attention_multiplier=0.25, logits_scaling=3.0)
MODELS |= {
    "llama4": ("Llama4TextConfig", dict(
        LLAMA4_TEXT, num_experts_per_tok=1, attention_chunk_size=48, floor_scale=32,
        attn_scale=0.3)),
    "llama4_two": ("Llama4TextConfig", dict(
        LLAMA4_TEXT, num_local_experts=4, num_experts_per_tok=2, head_dim=16,
        num_key_value_heads=1, interleave_moe_layer_step=1, num_hidden_layers=5,
        attention_chunk_size=64, floor_scale=50, attn_scale=0.1, rope_parameters=LLAMA3)),
    "phimoe": ("PhimoeConfig", dict(MIXED, num_local_experts=6, num_experts_per_tok=2)),
    "phimoe_bias": ("PhimoeConfig", dict(
        intermediate_size=48, num_local_experts=4, num_experts_per_tok=2, attention_bias=True,
        lm_head_bias=True, num_key_value_heads=4, router_jitter_noise=0.01)),
    "apertus": ("ApertusConfig", dict(rope_parameters=APERTUS_ROPE, num_hidden_layers=3)),
    "apertus_wide": ("ApertusConfig", dict(rope_parameters=dict(
        rope_type="default", rope_theta=10000.0), head_dim=16, num_key_value_heads=1)),
    "granite_swa": ("GraniteSWAConfig", dict(
        GRANITE_SWA, layer_rope_theta=[0, 10000.0, 10000.0, 0])),
    "granite_swa_own": ("GraniteSWAConfig", dict(
        GRANITE_SWA, sliding_window=16, num_key_value_heads=4, tie_word_embeddings=False,
        layer_types=["sliding_attention", "full_attention", "full_attention",
                     "sliding_attention"])),
}

MODELS |= {
    "smallthinker": ("SmallThinker", dict(
        moe_num_primary_experts=6, moe_num_active_primary_experts=2, moe_ffn_hidden_size=16,
        num_hidden_layers=5, sliding_window_layout=[0, 1, 1, 1, 0], sliding_window_size=24)),
    "smallthinker_all": ("SmallThinker", dict(
        moe_num_primary_experts=4, moe_num_active_primary_experts=3, moe_ffn_hidden_size=48,
        num_hidden_layers=2, sliding_window_layout=[0, 0], num_key_value_heads=1, head_dim=16,
        moe_primary_router_apply_softmax=True, tie_word_embeddings=True)),
}

STEP_SIGHT = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
                  image_size=8, patch_size=4)
STEP_FULL = dict(LLAMA3, partial_rotary_factor=0.5)
STEP_WINDOW = dict(rope_type="default", rope_theta=5000.0, partial_rotary_factor=1.0)
STEP = dict(vision_config=STEP_SIGHT, n_routed_experts=8, num_experts_per_tok=3,
            moe_intermediate_size=16, share_expert_dim=24, head_dim=16, num_hidden_layers=4,
            sliding_window=24, moe_router_scaling_factor=2.5,
            rope_parameters=dict(full_attention=STEP_FULL, sliding_attention=STEP_WINDOW))
LAGUNA_ROPE = dict(full_attention=dict(YARN, partial_rotary_factor=0.5),
                   sliding_attention=dict(rope_type="default", rope_theta=5000.0,
                                          partial_rotary_factor=1.0))
LAGUNA = dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=16, num_hidden_layers=4,
              shared_expert_intermediate_size=24)
MODELS |= {
    "step35": ("Step3p7Config", dict(
        STEP, num_sliding_attention_heads=6, swiglu_limits=[0.0, 0.0, 0.5, 0.25],
        layer_types=["full_attention"] + ["sliding_attention"] * 3,
        swiglu_limits_shared=[0.5, 0.0, 0.0, 0.75],
        mlp_layer_types=["dense", "dense", "sparse", "sparse"])),
    "step35_ahead": ("Step3p7Config", dict(
        STEP, num_sliding_attention_heads=8, num_key_value_heads=4, num_experts_per_tok=1,
        num_hidden_layers=3, layer_types=["sliding_attention", "full_attention",
                                          "sliding_attention"],
        mlp_layer_types=["dense", "sparse", "sparse"], rope_parameters=dict(
            full_attention=dict(GLM), sliding_attention=dict(STEP_WINDOW, rope_theta=1000.0)))),
    "laguna": ("LagunaConfig", dict(
        LAGUNA, head_dim=16, num_attention_heads_per_layer=[4, 6, 6, 6, 4], sliding_window=24,
        layer_types=["full_attention"] + ["sliding_attention"] * 3 + ["full_attention"],
        num_hidden_layers=5,
        moe_routed_scaling_factor=2.5, rope_parameters=LAGUNA_ROPE)),
    "laguna_wide": ("LagunaConfig", dict(
        LAGUNA, head_dim=8, gating="per-element", sliding_window=0, num_experts_per_tok=1,
        layer_types=["full_attention"] * 4, mlp_layer_types=["dense"] * 2 + ["sparse"] * 2,
        rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=10000.0,
                                                 partial_rotary_factor=1.0)))),
}

MODELS |= {
    "granite_swa_moe": ("GraniteMoeSWAConfig", dict(
        GRANITE_SWA, **MIXED, num_local_experts=6, num_experts_per_tok=2,
        layer_rope_theta=[0, 10000.0, 10000.0, 0])),
    "granite_swa_shared": ("GraniteMoeSWAConfig", dict(
        GRANITE_SWA, **MIXED, num_local_experts=6, num_experts_per_tok=3,
        shared_intermediate_size=24, tie_word_embeddings=False,
        layer_rope_theta=[10000.0, 0, 10000.0, 10000.0])),
    "granite_swa_shared_one": ("GraniteMoeSWAConfig", dict(
        GRANITE_SWA, intermediate_size=48, num_local_experts=4, num_experts_per_tok=1,
        shared_intermediate_size=16, sliding_window=16, num_key_value_heads=4,
        layer_types=["sliding_attention", "full_attention", "full_attention",
                     "sliding_attention"])),
}
BAMBA = dict(num_hidden_layers=3, attn_layer_indices=[1], mamba_n_heads=4, mamba_d_head=16,
             mamba_n_groups=1, mamba_d_state=16, mamba_d_conv=4, mamba_expand=2)
MODELS |= {
    "bamba": ("BambaConfig", dict(BAMBA, rope_parameters=GLM)),
    "bamba_ends": ("BambaConfig", dict(
        BAMBA, attn_layer_indices=[0, 2], mamba_n_groups=2, num_attention_heads=2,
        num_key_value_heads=1, tie_word_embeddings=True, rope_parameters=GLM)),
    "bamba_whole": ("BambaConfig", dict(BAMBA, num_key_value_heads=4, rope_parameters=dict(
        GLM, partial_rotary_factor=1.0))),
}
MODELS |= {n + "_qkvz": MODELS[n] for n in ("qwen3next", "qwen3next_one")}
MODELS |= {n + "_qkv": MODELS[n] for n in ("mimo2", "mimo2_same")}

POOLED = ["llama_tied", "lfm2"]


def randomize(model, zero):
    """Weights that make attention sharp and every tensor matter."""
    for name, p in model.named_parameters():
        centred = zero and not name.endswith("linear_attn.norm.weight")
        if name.endswith("A_log"):
            p.data = torch.randn_like(p) - 1.0  # states decay by 0.1 to 0.9 a token
        elif p.dim() >= 2:
            scale = 1.0 if "embed" in name else 1.5 / p.shape[-1] ** 0.5
            p.data = torch.randn_like(p) * scale
        elif "bias" in name:
            p.data = torch.randn_like(p) * 0.3
        else:
            p.data = torch.randn_like(p) * 0.2 + (0.0 if centred else 1.0)
        p.data = p.data.bfloat16().float()
    for name, b in model.named_buffers():
        if "correction_bias" in name or "expert_bias" in name:
            b.data = (torch.randn_like(b) * 0.2).bfloat16().float()
        if name.endswith("layer_scalar"):
            b.data = (0.9 + torch.rand_like(b) * 0.2).bfloat16().float()


def token_by_token(model):
    """Delta nets by their recurrent function: that by chunks sums in another order."""
    package = sys.modules[type(model).__module__]
    if hasattr(package, "chunk_kimi_delta_attention"):
        package.chunk_kimi_delta_attention = package.recurrent_kimi_delta_attention
    if hasattr(package, "torch_chunk_gated_delta_rule"):
        package.torch_chunk_gated_delta_rule = package.torch_recurrent_gated_delta_rule


def write_vocabulary(self):
    tokens = [chr(33 + i) for i in range(94)] + ["\u0120", "\u010a"]
    self.gguf_writer.add_tokenizer_model("gpt2")
    self.gguf_writer.add_tokenizer_pre("gpt-2")
    self.gguf_writer.add_token_list(tokens)
    self.gguf_writer.add_token_types([1] * VOCAB)
    self.gguf_writer.add_token_merges(["! !"])
    self.gguf_writer.add_bos_token_id(0)
    self.gguf_writer.add_eos_token_id(0)
    if "attention_chunk_size" in self.hparams:  # readers take these as 8192, 8192 and 0.1
        self.gguf_writer.add_sliding_window(self.hparams["attention_chunk_size"])
        self.gguf_writer.add_uint32("llama4.attention.temperature_length",
                                    self.hparams["floor_scale"])
        self.gguf_writer.add_float32("llama4.attention.temperature_scale",
                                     self.hparams["attn_scale"])
    if "type_vocab_size" in self.hparams:
        self.gguf_writer.add_token_type_count(self.hparams["type_vocab_size"])


def write_temperature(self):
    """llama.cpp's converter leaves it out for folders of Mistral 4."""
    super(type(self), self).set_gguf_parameters()
    self.gguf_writer.add_attn_temperature_scale(self.rope_parameters["llama_4_scaling_beta"])


def describe_encoder(folder, cls):
    """What the converter asks of Nomic's own configurations, and how sentence-transformers pool."""
    config = json.loads((folder / "config.json").read_text())
    config.update(n_positions=8192, activation_function="swiglu", causal=False, prenorm=False,
                  qkv_proj_bias=False, mlp_fc1_bias=False, mlp_fc2_bias=False,
                  rotary_emb_fraction=1.0, rotary_emb_interleaved=False,
                  rotary_emb_scale_base=None)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "modules.json").write_text(json.dumps(
        [dict(type="sentence_transformers.models.Pooling", path="1_Pooling")]))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(
        dict(pooling_mode_mean_tokens=not cls, pooling_mode_cls_token=cls,
             pooling_mode_lasttoken=False)))


def name_layers(folder):
    """As the published folders call them, which the converter expects."""
    config = json.loads((folder / "config.json").read_text())
    config["layer_types"] = ["attention" if "attention" in t and "linear" not in t else "mamba"
                             for t in config["layer_types"]]
    (folder / "config.json").write_text(json.dumps(config))


def describe_bamba(folder):
    """As published folders say it."""
    config = json.loads((folder / "config.json").read_text())
    width = config["hidden_size"] // config["num_attention_heads"]
    config["attn_rotary_emb"] = int(width * config["rope_parameters"]["partial_rotary_factor"])
    for name in ("layer_types", "layers_block_type"):
        config.pop(name, None)
    (folder / "config.json").write_text(json.dumps(config))


def name_class(folder):
    """Published folders hold texts and images, and are of that class."""
    config = json.loads((folder / "config.json").read_text())
    config["architectures"] = ["Mistral3ForConditionalGeneration"]
    (folder / "config.json").write_text(json.dumps(config))


def write_pattern(folder):
    """A letter for each layer, as the published folders have it, which the converter expects."""
    config = json.loads((folder / "config.json").read_text())
    letters = dict(linear_attention="M", full_attention="*", mlp="-", moe="E")
    kinds = config.pop("layers_block_type")
    config["hybrid_override_pattern"] = "".join(letters[kind] for kind in kinds)
    config["num_hidden_layers"] = len(kinds)
    config["model_type"] = "nemotron_h_published"  # or it reads members that have defaults
    if "moe" not in kinds:
        for name in ["num_experts_per_tok", "n_routed_experts", "n_group", "topk_group"]:
            del config[name]
def describe_mimo(folder):
    """The members of published folders, which the converter expects."""
    config = json.loads((folder / "config.json").read_text())
    rope = config["rope_parameters"]
    config.update(
        hybrid_layer_pattern=[int(t != "full_attention") for t in config["layer_types"]],
        swa_head_dim=config["head_dim"], swa_num_attention_heads=config["num_attention_heads"],
        swa_v_head_dim=config["v_head_dim"], topk_method="noaux_tc",
        swa_num_key_value_heads=2 * config["num_key_value_heads"], scoring_func="sigmoid",
        n_routed_experts=config.get("n_routed_experts", config.get("num_local_experts")),
        layernorm_epsilon=config["rms_norm_eps"],
        rope_theta=rope["full_attention"]["rope_theta"],
        swa_rope_theta=rope["sliding_attention"]["rope_theta"],
        partial_rotary_factor=rope["full_attention"].get("partial_rotary_factor", 0.334))
    config["rope_parameters"] = dict(rope, partial_rotary_factor=config["partial_rotary_factor"])
    (folder / "config.json").write_text(json.dumps(config))
def describe_kimi(folder):
    """As the published folder says it, which the converter expects."""
    config = json.loads((folder / "config.json").read_text())
    kinds = config["layer_types"]
    config["linear_attn_config"] = dict(
        head_dim=config["linear_head_dim"], num_heads=config["linear_num_heads"],
        short_conv_kernel_size=config["linear_conv_kernel_dim"],
        full_attn_layers=[i + 1 for i, k in enumerate(kinds) if k == "full_attention"],
        kda_layers=[i + 1 for i, k in enumerate(kinds) if k != "full_attention"])
    config.update(moe_router_activation_func="sigmoid",
                  first_k_dense_replace=config["mlp_layer_types"].count("dense"))
    (folder / "config.json").write_text(json.dumps(config))
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    for name in [n for n in tensors if n.split("block_sparse_moe.")[-1].count(".") == 1]:
        if name.endswith("_proj.weight") and "self_attn" not in name:
            tensors[name.replace("block_sparse_moe", "mlp")] = tensors.pop(name)
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata=dict(format="pt"))
def change_config(folder, kind):
    """What the converter asks of published folders."""
    config = json.loads((folder / "config.json").read_text())
    if kind == "PhimoeConfig":
        config["architectures"] = ["PhiMoEForCausalLM"]
        config.setdefault("original_max_position_embeddings", 256)
    else:
        config["no_rope_layers"] = [int(base != 0) for base in config["layer_rope_theta"]]
    (folder / "config.json").write_text(json.dumps(config))


def transpose_experts(folder):
    """As the published folders have them, which the converter expects."""
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    for name, t in tensors.items():
        if ".experts." in name:
            tensors[name] = t.transpose(1, 2).contiguous()
    safetensors.torch.save_file(tensors, path, metadata=dict(format="pt"))


def joins_qkvz(modify):
    """As the first files of Qwen3-Next: the folder's matrix as it is."""
    def modified(self, data, name, bid):
        if "in_proj_qkvz.weight" in name:
            yield f"blk.{bid}.ssm_in.weight", data
        else:
            yield from modify(self, data, name, bid)
    return modified


def joins_qkv(modify):
    """Queries, keys and values below each other."""
    kept = {}

    def modified(self, data, name, bid):
        part = name.split("self_attn.")[-1].removesuffix("_proj.weight")
        if part in ("q", "k", "v"):
            kept[bid, part] = data
            if all((bid, p) in kept for p in "qkv"):
                yield f"blk.{bid}.attn_qkv.weight", torch.cat([kept[bid, p] for p in "qkv"])
        else:
            yield from modify(self, data, name, bid)
    return modified


# Models whose files have one matrix in the place of several; the same weights without the ending.
JOINED = dict(_qkvz=joins_qkvz, _qkv=joins_qkv)


def unjoined(name):
    for ending in JOINED:
        name = name.removesuffix(ending)
    return name


def convert(converter, folder, out):
    found = converter.get_model_class
    joins = JOINED.get(out.stem.removeprefix(unjoined(out.stem)))

    def patched(*args, **kwargs):
        cls = found(*args, **kwargs)
        for c in cls.__mro__ + tuple(v for v in vars(cls).values() if isinstance(v, type)):
            if "set_vocab" in vars(c) or c is cls:
                c.set_vocab = write_vocabulary
        if hasattr(cls, "opt_num_mtp_layers"):  # transformers drops layers behind the last
            cls.no_mtp = True
        if "Ministral3Model" in vars(cls):
            cls.Ministral3Model.set_vocab = cls.Mistral4Model.set_vocab = write_vocabulary
            cls.set_vocab = lambda self: self.impl.set_vocab()
            cls.Mistral4Model.set_gguf_parameters = write_temperature
        if joins:
            cls = type(cls.__name__, (cls,), dict(model_arch=cls.model_arch,
                                                  modify_tensors=joins(cls.modify_tensors)))
        return cls

    converter.get_model_class = patched
    sys.argv = ["convert", str(folder), "--outtype", "f32", "--outfile", str(out)]
    converter.main()
    converter.get_model_class = found


def write_rows(path, rows):
    rows = rows.float().numpy()
    with open(path, "wb") as f:
        f.write(struct.pack("<ii", *rows.shape))
        f.write(rows.astype("<f4").tobytes())


class SmallThinker(torch.nn.Module):
    """As llama.cpp computes it, since transformers has no such class: names are those of published
    folders."""

    def __init__(self, kind, changes):
        super().__init__()
        self.config = dict({**SHAPE, "head_dim": 8, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
                            "moe_primary_router_apply_softmax": False, **changes},
                           architectures=["SmallThinkerForCausalLM"], model_type="smallthinker")
        c = self.config
        linear = lambda n, k: torch.nn.Linear(k, n, bias=False)
        E, D, F = c["hidden_size"], c["head_dim"], c["moe_ffn_hidden_size"]
        self.model = torch.nn.ModuleDict(dict(
            embed_tokens=torch.nn.Embedding(VOCAB, E), norm=torch.nn.RMSNorm(E, 1e-6),
            layers=torch.nn.ModuleList(torch.nn.ModuleDict(dict(
                input_layernorm=torch.nn.RMSNorm(E, 1e-6),
                post_attention_layernorm=torch.nn.RMSNorm(E, 1e-6),
                self_attn=torch.nn.ModuleDict(dict(
                    q_proj=linear(c["num_attention_heads"] * D, E),
                    k_proj=linear(c["num_key_value_heads"] * D, E),
                    v_proj=linear(c["num_key_value_heads"] * D, E),
                    o_proj=linear(E, c["num_attention_heads"] * D))),
                block_sparse_moe=torch.nn.ModuleDict(dict(
                    primary_router=linear(c["moe_num_primary_experts"], E),
                    experts=torch.nn.ModuleList(torch.nn.ModuleDict(dict(
                        gate=linear(F, E), up=linear(F, E), down=linear(E, F)))
                        for _ in range(c["moe_num_primary_experts"])))))
            ) for _ in range(c["num_hidden_layers"]))))
        if not c.get("tie_word_embeddings"):
            self.lm_head = linear(VOCAB, E)

    def tie_weights(self):
        pass

    def save_pretrained(self, folder):
        Path(folder).mkdir()
        safetensors.torch.save_file(self.state_dict(), Path(folder) / "model.safetensors",
                                    metadata=dict(format="pt"))
        (Path(folder) / "config.json").write_text(json.dumps(self.config))

    def attend(self, a, x, window, turns):
        c, T = self.config, len(x)
        D = c["head_dim"]
        q, k, v = (a[n](x).view(T, -1, D).transpose(0, 1) for n in ("q_proj", "k_proj", "v_proj"))
        if turns:
            angles = torch.arange(T)[:, None] * 10000.0 ** (-torch.arange(0, D, 2) / D)
            cos, sin = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)
            turned = lambda z: z * cos + torch.cat((-z[..., D // 2:], z[..., :D // 2]), -1) * sin
            q, k = turned(q), turned(k)
        k, v = (z.repeat_interleave(len(q) // len(k), 0) for z in (k, v))
        age = torch.arange(T)[:, None] - torch.arange(T)
        scores = (q @ k.transpose(1, 2) / D ** 0.5).masked_fill((age < 0) | (age >= window), -1e30)
        return a["o_proj"]((scores.softmax(-1) @ v).transpose(0, 1).reshape(T, -1))

    def forward(self, ids):
        c, x = self.config, self.model["embed_tokens"](ids[0])
        some = any(c["sliding_window_layout"])
        for here, layer in zip(c["sliding_window_layout"], self.model["layers"]):
            moe, scores = layer["block_sparse_moe"], layer["block_sparse_moe"]["primary_router"](x)
            window = c["sliding_window_size"] if here else TOKENS
            x = x + self.attend(layer["self_attn"], layer["input_layernorm"](x), window,
                                bool(here) or not some)
            n, out = layer["post_attention_layernorm"](x), torch.zeros_like(x)
            weights = scores.softmax(-1) if c["moe_primary_router_apply_softmax"] \
                else scores.sigmoid()
            best = weights.topk(c["moe_num_active_primary_experts"], -1)
            for t in range(len(x)):
                for w, e in zip(best.values[t] / best.values[t].sum(), best.indices[t]):
                    expert = moe["experts"][e]
                    out[t] += w * expert["down"](expert["gate"](n[t]).relu() * expert["up"](n[t]))
            x = x + out
        x = self.model["norm"](x)
        head = self.lm_head.weight if hasattr(self, "lm_head") \
            else self.model["embed_tokens"].weight
        return transformers.modeling_outputs.CausalLMOutput(logits=(x @ head.T)[None])


def describe(kind, changes):
    members = {n: v for n, v in {**SHAPE, **changes}.items() if v is not NOT_THERE}
    if "vision_config" not in members:
        return getattr(transformers, kind)(**members)
    outside = dict(vision_config=members.pop("vision_config"),
                   tie_word_embeddings=members.pop("tie_word_embeddings", False))
    return getattr(transformers, kind)(text_config=members, attn_implementation="eager", **outside)


def make(converter, name):
    kind, changes = MODELS[name]
    torch.manual_seed(sum(unjoined(name).encode()))
    own = kind == "SmallThinker"
    config = None if own else describe(kind, changes)
    encoder, sees = "bert" in name, "vision_config" in changes
    auto = transformers.AutoModel if encoder else transformers.AutoModelForImageTextToText \
        if sees else transformers.AutoModelForCausalLM
    if own:
        model = SmallThinker(kind, changes)
    elif kind == "Mistral4Config":  # which has no auto class
        model = transformers.Mistral4ForCausalLM(config)
    else:
        model = auto.from_config(config)
    model = model.float().eval()
    centred = name.startswith(("gemma", "qwen35", "qwen3next", "step35")) or kind == "NemotronConfig"
    randomize(model, centred and not name.startswith(("gemma3n", "gemma4")))
    if name.startswith("bailingmoe"):
        for n, p in model.named_parameters():
            p.data *= 0 if "shared_expert_gate" in n else 1
    model.tie_weights()
    token_by_token(model)
    ids = torch.tensor([[(7 * i * i + 13 * i + 5) % VOCAB for i in range(TOKENS)]])
    with torch.no_grad():
        body = model if encoder or own else model.model if kind == "Llama4TextConfig" else model.base_model
        hidden = torch.zeros(TOKENS, 1) if own else body(ids).last_hidden_state[0]
        pooled = hidden[0] if name.endswith("_cls") else hidden.mean(0)
        if encoder or name in POOLED:
            write_rows(HERE / f"{name}.pooled", torch.stack([pooled, hidden[-1]]))
        if not encoder:
            write_rows(HERE / f"{name}.logits", model(ids).logits[0][EVERY - 1::EVERY])
    with tempfile.TemporaryDirectory() as parent:
        folder = parent + "/tiny"  # the converter makes the model's name of it
        model.save_pretrained(folder)
        vocab = {str(i): i for i in range(VOCAB)}
        (Path(folder) / "tokenizer.json").write_text(
            json.dumps(dict(model=dict(type="WordPiece", vocab=vocab), added_tokens=[])))
        if kind == "Qwen3VLMoeConfig":
            transpose_experts(Path(folder))
        if kind == "KimiLinearConfig":
            describe_kimi(Path(folder))
        if kind in ("PhimoeConfig", "GraniteSWAConfig", "GraniteMoeSWAConfig"):
            change_config(Path(folder), kind)
        if kind == "GraniteMoeHybridConfig":
            name_layers(Path(folder))
        if kind == "NemotronHConfig":
            write_pattern(Path(folder))
        if name.startswith("bailingmoe"):
            bailing_folders.rename(Path(folder), 2 if "2" in name else 1)
        if name.startswith("mimo2"):
            describe_mimo(Path(folder))
        if kind == "BambaConfig":
            describe_bamba(Path(folder))
        if kind == "Mistral4Config":
            name_class(Path(folder))
        if kind == "Step3p7Config":
            step_folders.describe(Path(folder), name.endswith("_ahead"))
        if encoder:
            describe_encoder(Path(folder), name.endswith("_cls"))
        convert(converter, folder, HERE / f"{name}.gguf")


def main():
    llama_cpp, names = sys.argv[1], sys.argv[2:]
    sys.path[:0] = [llama_cpp, llama_cpp + "/gguf-py"]
    import convert_hf_to_gguf
    for name in names or MODELS:
        make(convert_hf_to_gguf, name)


main()
