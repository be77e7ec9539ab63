/* hf_mixtures.c: families with experts beside those of hf_families.c: names, what their classes
 * take from config.json, and their rows. */
#include "model/import/families/hf_rows.h"

/* ---- names ---- */

static const mnem__hf_name ernie_moe[] = {
    {"mlp.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias", MNEM__HF_AS_IS},
    {"mlp.experts.*.gate_proj", "ffn_gate_exps", MNEM__HF_STACK},
    {"mlp.experts.*.up_proj", "ffn_up_exps", MNEM__HF_STACK},
    {"mlp.experts.*.down_proj", "ffn_down_exps", MNEM__HF_STACK},
    SHARED,
    {0}};
static const mnem__hf_name sigmoid_moe[] = {
    {"mlp.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias", MNEM__HF_AS_IS},
    STACKED,
    SHARED,
    {0}};
static const mnem__hf_name bailing[] = {{".word_embeddings", "token_embd", MNEM__HF_AS_IS},
                                        {"attention.query_key_value", "attn_q", MNEM__HF_QKV_Q},
                                        {"attention.query_key_value", "attn_k", MNEM__HF_QKV_K},
                                        {"attention.query_key_value", "attn_v", MNEM__HF_QKV_V},
                                        {"attention.dense", "attn_output", MNEM__HF_AS_IS},
                                        {"mlp.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
                                        STACKED,
                                        SHARED,
                                        {0}};
static const mnem__hf_name cohere_moe[] = {
    {"mlp.gate", "ffn_gate_inp", MNEM__HF_AS_IS}, STACKED, SHARED, {0}};
static const mnem__hf_name phimoe[] = {
    {"block_sparse_moe.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"block_sparse_moe.experts.*.w1", "ffn_gate_exps", MNEM__HF_STACK},
    {"block_sparse_moe.experts.*.w2", "ffn_down_exps", MNEM__HF_STACK},
    {"block_sparse_moe.experts.*.w3", "ffn_up_exps", MNEM__HF_STACK},
    {0}};
static const mnem__hf_name hunyuan_moe[] = {
    {"self_attn.query_layernorm", "attn_q_norm", MNEM__HF_AS_IS},
    {"self_attn.key_layernorm", "attn_k_norm", MNEM__HF_AS_IS},
    {"mlp.gate.wg", "ffn_gate_inp", MNEM__HF_AS_IS},
    STACKED,
    {"mlp.shared_mlp.down_proj", "ffn_down_shexp", MNEM__HF_AS_IS},
    {"mlp.shared_mlp.gate_proj", "ffn_gate_shexp", MNEM__HF_AS_IS},
    {"mlp.shared_mlp.up_proj", "ffn_up_shexp", MNEM__HF_AS_IS},
    {0}};
static const mnem__hf_name smallthinker[] = {
    {"block_sparse_moe.primary_router", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"block_sparse_moe.experts.*.down", "ffn_down_exps", MNEM__HF_STACK},
    {"block_sparse_moe.experts.*.gate", "ffn_gate_exps", MNEM__HF_STACK},
    {"block_sparse_moe.experts.*.up", "ffn_up_exps", MNEM__HF_STACK},
    {0}};
/* Older folders name a router's layer, and experts as Granite without windows does. */
static const mnem__hf_name granite_swa_moe[] = {
    {"self_attn.q_proj", "attn_q", MNEM__HF_TURN_Q},
    {"self_attn.k_proj", "attn_k", MNEM__HF_TURN_K},
    {"self_attn.sinks", "attn_sinks.weight", MNEM__HF_AS_IS},
    {"block_sparse_moe.router", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"block_sparse_moe.router.layer", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"block_sparse_moe.experts.gate_up_proj", "ffn_gate_up_exps.weight", MNEM__HF_AS_IS},
    {"block_sparse_moe.experts.down_proj", "ffn_down_exps.weight", MNEM__HF_AS_IS},
    {"block_sparse_moe.input_linear", "ffn_gate_up_exps", MNEM__HF_AS_IS},
    {"block_sparse_moe.output_linear", "ffn_down_exps", MNEM__HF_AS_IS},
    {"shared_mlp.input_linear", "ffn_up_shexp", MNEM__HF_AS_IS},
    {"shared_mlp.output_linear", "ffn_down_shexp", MNEM__HF_AS_IS},
    {0}};

/* ---- families ---- */

static const mnem__hf_family families[] = {
    {.classes = "Ernie4_5_MoeForCausalLM",
     .architecture = "ernie4_5-moe",
     .names = ernie_moe,
     .keys = MNEM__HF_USUAL | MNEM__HF_EXPERTS | MNEM__HF_LEADING,
     .traits = MNEM__HF_SAYS_PREFIX | MNEM__HF_NORMALIZED},
    {.classes = "Dots1ForCausalLM",
     .architecture = "dots1",
     .names = sigmoid_moe,
     .keys = MNEM__HF_USUAL | MNEM__HF_EXPERTS | MNEM__HF_GATING | MNEM__HF_LEADING,
     .traits = MNEM__HF_SIGMOID,
     .pre = "qwen2"},
    {.classes = "BailingMoeForCausalLM",
     .architecture = "bailingmoe",
     .names = bailing,
     .keys = MNEM__HF_USUAL | MNEM__HF_VOCAB | MNEM__HF_ROPE_DIMS | MNEM__HF_EXPERTS |
             MNEM__HF_GATING | MNEM__HF_LEADING,
     .pre = "bailingmoe"},
    {.classes = "Cohere2MoeForCausalLM",
     .architecture = "cohere2moe",
     .names = cohere_moe,
     .keys = MNEM__HF_USUAL | MNEM__HF_EPSILON | MNEM__HF_LOGIT_FACTOR | MNEM__HF_VOCAB |
             MNEM__HF_ROPE_DIMS | MNEM__HF_WINDOW | MNEM__HF_PATTERN | MNEM__HF_EXPERTS |
             MNEM__HF_FF_EXPERTS | MNEM__HF_LEADING,
     .traits = MNEM__HF_LAYERS_BEHIND,
     .pre = "cohere2moe"},
    {.classes = "PhimoeForCausalLM PhiMoEForCausalLM",
     .architecture = "phimoe",
     .names = phimoe,
     .keys = (MNEM__HF_USUAL & ~(unsigned)MNEM__HF_HEAD_DIM) | MNEM__HF_ROPE_DIMS |
             MNEM__HF_WINDOW | MNEM__HF_EXPERTS,
     .traits = MNEM__HF_LONG_FACTORS | MNEM__HF_NO_HEAD_DIM,
     .pre = "dbrx"},
    {.classes = "HunYuanMoEV1ForCausalLM",
     .architecture = "hunyuan-moe",
     .names = hunyuan_moe,
     .keys = MNEM__HF_USUAL | MNEM__HF_EXPERTS,
     .traits = MNEM__HF_HUNYUAN,
     .pre = "hunyuan"},
    {.classes = "SmallThinkerForCausalLM",
     .architecture = "smallthinker",
     .names = smallthinker,
     .keys = MNEM__HF_USUAL | MNEM__HF_EXPERTS,
     .traits = MNEM__HF_NORMALIZED,
     .pre = "qwen2"},
    {.classes = "GraniteMoeSWAForCausalLM",
     .architecture = "granite_swa",
     .names = granite_swa_moe,
     .keys = MNEM__HF_LLAMA_KEYS | MNEM__HF_SCALES | MNEM__HF_EXPERTS | MNEM__HF_WINDOW |
             MNEM__HF_PATTERN,
     .traits = MNEM__HF_NO_HEAD_DIM | MNEM__HF_SAYS_PREFIX,
     .pre = "refact dbrx"},
};

/* ---- what classes take ---- */

static const mnem__hf_fixed ernie_moe_fixed[] = {{"hidden_act", "silu swish"},
                                                 {"use_bias", "false"},
                                                 {"moe_layer_interval", "1"},
                                                 {"moe_norm_min", "1e-12"},
                                                 {0}};
static const mnem__hf_fixed bailing_fixed[] = {
    {"hidden_act", "silu swish"}, {"use_bias", "false"},          {"use_qkv_bias", "false"},
    {"norm_head", "false"},       {"first_k_dense_replace", "0"}, {0}};
static const mnem__hf_fixed silu[] = {{"hidden_act", "silu swish"}, {0}};
static const mnem__hf_fixed phimoe_fixed[] = {
    {"hidden_act", "silu swish"}, {"router_jitter_noise", "0.01"}, {0}};
static const mnem__hf_fixed cohere_moe_fixed[] = {{"hidden_act", "silu swish"},
                                                  {"attention_bias", "false"},
                                                  {"tie_word_embeddings", "true"},
                                                  {"prefix_dense_sliding_window_pattern", "1"},
                                                  {"shared_expert_combination_strategy", "average"},
                                                  {"expert_selection_fn", "softmax sigmoid"},
                                                  {0}};
/* Those but the first are of published folders, whose class transformers' is made of. */
static const mnem__hf_fixed hunyuan_moe_fixed[] = {{"hidden_act", "silu swish"},
                                                   {"attention_bias", "false"},
                                                   {"use_qk_norm", "true"},
                                                   {"use_mixed_mlp_moe", "true"},
                                                   {"use_cla", "false"},
                                                   {"moe_layer_num_skipped", "0"},
                                                   {0}};
static const mnem__hf_fixed smallthinker_fixed[] = {{"hidden_act", "relu null"},
                                                    {"moe_enable_early_router", "true null"},
                                                    {"moe_enable_secondary_experts", "false null"},
                                                    {"norm_topk_prob", "true null"},
                                                    {0}};

static const mnem__hf_default ernie_moe_defaults[] = {{"rms_norm_eps", 1e-5},
                                                      {"rope_theta", 5e5},
                                                      {"num_key_value_heads", 4},
                                                      {"moe_intermediate_size", 1536},
                                                      {"moe_k", 6},
                                                      {"moe_num_experts", 64},
                                                      {"moe_num_shared_experts", 2},
                                                      {"moe_layer_start_index", 1},
                                                      {0}};
static const mnem__hf_default dots1_defaults[] = {{"rms_norm_eps", 1e-6},
                                                  {"rope_theta", 1e4},
                                                  {"num_key_value_heads", 32},
                                                  {"moe_intermediate_size", 1408},
                                                  {"first_k_dense_replace", 0},
                                                  {"routed_scaling_factor", 1},
                                                  {"n_group", 1},
                                                  {"topk_group", 1},
                                                  {"norm_topk_prob", 0},
                                                  {"sliding_window", 4096},
                                                  {"max_window_layers", 62},
                                                  {0}};
static const mnem__hf_default bailing_defaults[] = {{"rms_norm_eps", 1e-6},
                                                    {"rope_theta", 1e4},
                                                    {"first_k_dense_replace", 0},
                                                    {"num_shared_experts", 0},
                                                    {"norm_topk_prob", 1},
                                                    {"routed_scaling_factor", 1},
                                                    {0}};
static const mnem__hf_default cohere_moe_defaults[] = {{"layer_norm_eps", 1e-5},
                                                       {"rope_theta", 1e4},
                                                       {"logit_scale", 0.0625},
                                                       {"sliding_window", 4096},
                                                       {"head_dim", 128},
                                                       {"num_experts", 8},
                                                       {"num_experts_per_tok", 2},
                                                       {"num_shared_experts", 0},
                                                       {"first_k_dense_replace", 0},
                                                       {"norm_topk_prob", 1},
                                                       {0}};
static const mnem__hf_default phimoe_defaults[] = {{"rms_norm_eps", 1e-5},
                                                   {"rope_theta", 1e6},
                                                   {"num_key_value_heads", 8},
                                                   {"num_local_experts", 16},
                                                   {"num_experts_per_tok", 2},
                                                   {"max_position_embeddings", 131072},
                                                   {0}};
static const mnem__hf_default hunyuan_moe_defaults[] = {
    {"rms_norm_eps", 1e-5}, {"rope_theta", 1e4},      {"num_experts", 1},
    {"moe_topk", 1},        {"num_shared_expert", 1}, {0}};
static const mnem__hf_default smallthinker_defaults[] = {
    {"rms_norm_eps", 1e-6}, {"rope_theta", 1e4}, {0}};

static const mnem__hf_default granite_swa_moe_defaults[] = {{"rms_norm_eps", 1e-6},
                                                            {"rope_theta", 1e4},
                                                            {"sliding_window", 128},
                                                            {"attention_multiplier", 1},
                                                            {"embedding_multiplier", 1},
                                                            {"residual_multiplier", 1},
                                                            {"logits_scaling", 1},
                                                            {"num_local_experts", 8},
                                                            {"num_experts_per_tok", 2},
                                                            {"max_position_embeddings", 2048},
                                                            {0}};

static const mnem__hf_members members[] = {
    {.classes = "Ernie4_5_MoeForCausalLM",
     .names = USUAL EXPERTS "num_experts moe_k moe_num_experts moe_num_shared_experts "
                            "moe_intermediate_size moe_layer_start_index moe_layer_end_index ",
     .defaults = ernie_moe_defaults,
     .fixed = ernie_moe_fixed},
    {.classes = "Dots1ForCausalLM",
     .names = USUAL EXPERTS "n_routed_experts num_local_experts moe_intermediate_size "
                            "first_k_dense_replace n_shared_experts n_group topk_group "
                            "norm_topk_prob routed_scaling_factor attention_bias sliding_window "
                            "max_window_layers layer_types ",
     .defaults = dots1_defaults,
     .fixed = silu,
     .windows = MNEM__HF_WINDOWS_BEHIND},
    {.classes = "BailingMoeForCausalLM",
     .names = USUAL EXPERTS "num_experts moe_intermediate_size num_shared_experts norm_topk_prob "
                            "first_k_dense_replace ",
     .defaults = bailing_defaults,
     .fixed = bailing_fixed},
    {.classes = "Cohere2MoeForCausalLM",
     .names = USUAL EXPERTS "layer_norm_eps logit_scale num_experts num_shared_experts "
                            "sliding_window sliding_window_pattern layer_types mlp_layer_types "
                            "norm_topk_prob first_k_dense_replace expert_selection_fn "
                            "prefix_dense_intermediate_size ",
     .defaults = cohere_moe_defaults,
     .fixed = cohere_moe_fixed,
     .windows = MNEM__HF_WINDOWS_PERIOD,
     .window_period = 4},
    {.classes = "PhimoeForCausalLM PhiMoEForCausalLM",
     .names = USUAL EXPERTS "num_local_experts sliding_window attention_bias lm_head_bias ",
     .defaults = phimoe_defaults,
     .fixed = phimoe_fixed,
     .windows = MNEM__HF_WINDOWS_ALL},
    {.classes = "HunYuanMoEV1ForCausalLM",
     .names = USUAL EXPERTS "num_experts num_local_experts moe_topk moe_intermediate_size "
                            "num_shared_expert ",
     .defaults = hunyuan_moe_defaults,
     .fixed = hunyuan_moe_fixed},
    {.classes = "SmallThinkerForCausalLM",
     .names = OF_ALL ROPE "num_hidden_layers num_attention_heads num_key_value_heads head_dim "
                          "max_position_embeddings rms_norm_eps moe_ffn_hidden_size "
                          "moe_num_primary_experts moe_num_active_primary_experts "
                          "moe_primary_router_apply_softmax sliding_window_layout "
                          "sliding_window_size rope_layout moe_layer_layout ",
     .defaults = smallthinker_defaults,
     .fixed = smallthinker_fixed},
    {.classes = "GraniteMoeSWAForCausalLM",
     .names = USUAL EXPERTS "num_local_experts embedding_multiplier logits_scaling "
                            "residual_multiplier attention_multiplier attention_bias "
                            "shared_intermediate_size sliding_window layer_types "
                            "layer_rope_theta ",
     .defaults = granite_swa_moe_defaults,
     .fixed = silu,
     .windows = MNEM__HF_WINDOWS_AFTER,
     .window_period = 4},
};

const mnem__hf_table mnem__hf_mixtures = {families, members, sizeof families / sizeof *families,
                                          sizeof members / sizeof *members};
