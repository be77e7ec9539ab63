/* hf_dense.c: families without experts beside those of hf_families.c: names, what their classes
 * take from config.json, and their rows. */
#include "model/import/families/hf_rows.h"

/* ---- names ---- */

static const mnem__hf_name seed_oss[] = {
    {"post_attention_layernorm", "post_attention_norm", MNEM__HF_AS_IS}, {0}};

/* ---- families ---- */

static const mnem__hf_family families[] = {
    {.classes = "Ernie4_5ForCausalLM Ernie4_5_ForCausalLM",
     .architecture = "ernie4_5",
     .keys = MNEM__HF_USUAL,
     .traits = MNEM__HF_SAYS_PREFIX},
    {.classes = "SeedOssForCausalLM",
     .architecture = "seed_oss",
     .names = seed_oss,
     .keys = MNEM__HF_USUAL,
     .pre = "seed-coder"},
    {.classes = "GemmaForCausalLM",
     .architecture = "gemma",
     .keys = MNEM__HF_USUAL,
     .traits = MNEM__HF_NORM_PLUS_1 | MNEM__HF_NO_SPACE_PREFIX},
};

/* ---- what classes take ---- */

static const mnem__hf_fixed ernie_fixed[] = {
    {"hidden_act", "silu swish"}, {"use_bias", "false"}, {0}};
static const mnem__hf_fixed seed_oss_fixed[] = {
    {"hidden_act", "silu swish"}, {"mlp_bias", "false"}, {0}};
static const mnem__hf_fixed gemma_fixed[] = {{"hidden_act", "gelu gelu_pytorch_tanh"},
                                             {"use_bidirectional_attention", "false null"},
                                             {"tie_word_embeddings", "true"},
                                             {0}};

static const mnem__hf_default ernie_defaults[] = {{"head_dim", 128},
                                                  {"rms_norm_eps", 1e-5},
                                                  {"rope_theta", 5e5},
                                                  {"num_key_value_heads", 2},
                                                  {0}};
static const mnem__hf_default seed_oss_defaults[] = {{"head_dim", 128},
                                                     {"rms_norm_eps", 1e-6},
                                                     {"rope_theta", 1e4},
                                                     {"num_key_value_heads", 8},
                                                     {0}};
static const mnem__hf_default gemma_defaults[] = {{"head_dim", 256},
                                                  {"rms_norm_eps", 1e-6},
                                                  {"rope_theta", 1e4},
                                                  {"num_key_value_heads", 16},
                                                  {"max_position_embeddings", 8192},
                                                  {0}};

static const mnem__hf_members members[] = {
    {.classes = "Ernie4_5ForCausalLM Ernie4_5_ForCausalLM",
     .names = USUAL,
     .defaults = ernie_defaults,
     .fixed = ernie_fixed},
    {.classes = "SeedOssForCausalLM",
     .names = USUAL "attention_bias attention_out_bias ",
     .defaults = seed_oss_defaults,
     .fixed = seed_oss_fixed},
    {.classes = "GemmaForCausalLM",
     .names = USUAL "attention_bias ",
     .defaults = gemma_defaults,
     .fixed = gemma_fixed},
};

const mnem__hf_table mnem__hf_dense = {families, members, sizeof families / sizeof *families,
                                       sizeof members / sizeof *members};
