/* stored_families.h: the models of decoders in tests/data/architectures that have logits. */
#ifndef MNEM_TESTS_ENGINE_STORED_FAMILIES_H
#define MNEM_TESTS_ENGINE_STORED_FAMILIES_H

/* clang-format off */
#define STORED_FAMILIES \
    "llama", "llama_tied", "llama_bias", "llama_linear", "llama_llama3", "llama_yarn", \
    "mistral", "granite", "smollm3", "mistral3", "qwen2", "qwen3", "olmo2", "olmo3", \
    "starcoder2", "phi3", "phi3_long", "phi3_window", "gemma2", "gemma3", "glm4", "lfm2", \
    "lfm2_ends", "olmoe", "mixtral", "qwen2moe", "qwen3moe", "gpt_oss", "deepseek2", \
    "deepseek2_groups", "deepseek3", "qwen2vl", "qwen2vl_25", "qwen3vl", "qwen3vl_tied", \
    "qwen3vlmoe", "qwen3vlmoe_one", "granitemoe", "granitemoe_shared", "lfm2moe", \
    "lfm2moe_ends", "glm4moe", "glm4moe_norms", "minimax_m2", "minimax_m2_one", "glm47", \
    "glm47_group", "ernie4_5", "ernie4_5_one", "ernie4_5_moe", "ernie4_5_moe_late", "seed_oss", \
    "seed_oss_bias", "dots1", "dots1_groups", "gemma", "gemma_all", "hunyuan_dense", \
    "hunyuan_dense_ntk", "exaone4", "exaone4_full", "hunyuan_moe", "hunyuan_moe_one", \
    "command_r", "command_r_bias", "cohere2", "cohere2_all", "arcee", "arcee_bias", "nemotron", \
    "nemotron_bias", "qwen35", "qwen35_ends", "qwen35moe", "qwen35moe_one", "qwen3next", \
    "qwen3next_one", "mamba", "mamba_untied", "falcon_mamba", "mamba2", "mamba2_one", \
    "deepseek32", "granitehybrid", "granitehybrid_ends", "granitehybrid_moe", \
    "granitehybrid_moe_one", "deepseek32_groups", "deepseek32_few", "glm_dsa", \
    "glm_dsa_shared", "glm_dsa_last", \
    "falcon_h1", "falcon_h1_norm", \
    "gemma4", "gemma4_plain", "gemma4_rows", "gemma4_wide", \
    "nemotron_h", "nemotron_h_ends", \
    "bailingmoe", "bailingmoe_one", "bailingmoe2", "bailingmoe2_one", \
    "exaone_moe", "exaone_moe_late", \
    "hy_v3", "hy_v3_one", "afmoe", "afmoe_late", \
    "cohere2moe", "cohere2moe_shared", \
    "gemma4_moe", "gemma4_moe_one", \
    "jamba", "jamba_ends", "jamba_dense", \
    "mimo2", "mimo2_same", "step35", "step35_ahead", "laguna", "laguna_wide", \
    "kimi_linear", "kimi_linear_ends", \
    "nemotron_h_moe", "nemotron_h_moe_groups", "nemotron_h_latent", "nemotron_h_latent_one", \
    "mistral4", "mistral4_dense", \
    "llama4", "llama4_two", "phimoe", "phimoe_bias", "apertus", "apertus_wide", \
    "granite_swa", "granite_swa_own", "smallthinker", "smallthinker_all", \
    "gemma3n", "gemma3n_two", "qwen3next_qkvz", "qwen3next_one_qkvz", \
    "mimo2_qkv", "mimo2_same_qkv", "granite_swa_moe", "granite_swa_shared", \
    "granite_swa_shared_one", "bamba", "bamba_ends", "bamba_whole"
/* clang-format on */

#endif
