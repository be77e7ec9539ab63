/* hf_leading.c: families with experts whose first layers, or every second, have none: names, what
 * their classes take. */
#include "model/import/families/hf_rows.h"

/* ---- names ---- */

static const mnem__hf_name exaone_moe[] = {
    {"mlp.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"mlp.e_score_correction_bias", "exp_probs_b.bias", MNEM__HF_AS_IS},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias", MNEM__HF_AS_IS},
    STACKED,
    SHARED,
    {0}};
/* Published folders say the first of two. */
static const mnem__hf_name hy_v3[] = {
    {"mlp.router.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"mlp.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"mlp.expert_bias", "exp_probs_b", MNEM__HF_AS_IS},
    {"mlp.e_score_correction_bias", "exp_probs_b", MNEM__HF_AS_IS},
    {"mlp.shared_mlp.down_proj", "ffn_down_shexp", MNEM__HF_AS_IS},
    {"mlp.shared_mlp.gate_proj", "ffn_gate_shexp", MNEM__HF_AS_IS},
    {"mlp.shared_mlp.up_proj", "ffn_up_shexp", MNEM__HF_AS_IS},
    STACKED,
    SHARED,
    {0}};
static const mnem__hf_name afmoe[] = {
    {"post_attention_layernorm", "post_attention_norm", MNEM__HF_AS_IS},
    {"pre_mlp_layernorm", "ffn_norm", MNEM__HF_AS_IS},
    {"post_mlp_layernorm", "post_ffw_norm", MNEM__HF_AS_IS},
    {"self_attn.gate_proj", "attn_gate", MNEM__HF_AS_IS},
    {"mlp.router.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"mlp.expert_bias", "exp_probs_b.bias", MNEM__HF_AS_IS},
    {"mlp.experts.*.gate_proj", "ffn_gate_exps", MNEM__HF_STACK},
    {"mlp.experts.*.up_proj", "ffn_up_exps", MNEM__HF_STACK},
    {"mlp.experts.*.down_proj", "ffn_down_exps", MNEM__HF_STACK},
    SHARED,
    {0}};
static const mnem__hf_name step35[] = {{"self_attn.g_proj", "attn_gate", MNEM__HF_AS_IS},
                                       {"moe.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
                                       {"moe.router_bias", "exp_probs_b.bias", MNEM__HF_AS_IS},
                                       {"moe.gate_proj", "ffn_gate_exps", MNEM__HF_AS_IS},
                                       {"moe.up_proj", "ffn_up_exps", MNEM__HF_AS_IS},
                                       {"moe.down_proj", "ffn_down_exps", MNEM__HF_AS_IS},
                                       {"share_expert.gate_proj", "ffn_gate_shexp", MNEM__HF_AS_IS},
                                       {"share_expert.up_proj", "ffn_up_shexp", MNEM__HF_AS_IS},
                                       {"share_expert.down_proj", "ffn_down_shexp", MNEM__HF_AS_IS},
                                       {0}};
static const mnem__hf_name laguna[] = {
    {"self_attn.g_proj", "attn_gate", MNEM__HF_AS_IS},
    {"mlp.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"mlp.experts.e_score_correction_bias", "exp_probs_b.bias", MNEM__HF_AS_IS},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias", MNEM__HF_AS_IS},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp", MNEM__HF_AS_IS},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp", MNEM__HF_AS_IS},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp", MNEM__HF_AS_IS},
    {"mlp.experts.*.gate_proj", "ffn_gate_exps", MNEM__HF_STACK},
    {"mlp.experts.*.up_proj", "ffn_up_exps", MNEM__HF_STACK},
    {"mlp.experts.*.down_proj", "ffn_down_exps", MNEM__HF_STACK},
    SHARED,
    {0}};
static const mnem__hf_name bailing_2[] = {
    {".word_embeddings", "token_embd", MNEM__HF_AS_IS},
    {"attention.query_key_value", "attn_qkv", MNEM__HF_AS_IS},
    {"attention.query_layernorm", "attn_q_norm", MNEM__HF_AS_IS},
    {"attention.key_layernorm", "attn_k_norm", MNEM__HF_AS_IS},
    {"attention.dense", "attn_output", MNEM__HF_AS_IS},
    {"mlp.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"mlp.gate.expert_bias", "exp_probs_b.bias", MNEM__HF_AS_IS},
    STACKED,
    SHARED,
    {0}};
static const mnem__hf_name llama4[] = {
    {"feed_forward.router", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"feed_forward.experts.gate_up_proj", "ffn_gate_exps.weight", MNEM__HF_HALF_1},
    {"feed_forward.experts.gate_up_proj", "ffn_up_exps.weight", MNEM__HF_HALF_2},
    {"feed_forward.experts.down_proj", "ffn_down_exps.weight", MNEM__HF_EACH_TRANSPOSED},
    {"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp", MNEM__HF_AS_IS},
    {"feed_forward.shared_expert.up_proj", "ffn_up_shexp", MNEM__HF_AS_IS},
    {"feed_forward.shared_expert.down_proj", "ffn_down_shexp", MNEM__HF_AS_IS},
    {"feed_forward.gate_proj", "ffn_gate", MNEM__HF_AS_IS},
    {"feed_forward.up_proj", "ffn_up", MNEM__HF_AS_IS},
    {"feed_forward.down_proj", "ffn_down", MNEM__HF_AS_IS},
    {0}};
/* Published folders say the first of the sinks' two names. */
static const mnem__hf_name mimo[] = {
    {"self_attn.attention_sink_bias", "attn_sinks.weight", MNEM__HF_AS_IS},
    {"self_attn.sinks", "attn_sinks.weight", MNEM__HF_AS_IS},
    {"mlp.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias", MNEM__HF_AS_IS},
    {"mlp.experts.*.gate_proj", "ffn_gate_exps", MNEM__HF_STACK},
    {"mlp.experts.*.up_proj", "ffn_up_exps", MNEM__HF_STACK},
    {"mlp.experts.*.down_proj", "ffn_down_exps", MNEM__HF_STACK},
    {0}};

/* ---- families ---- */

static const mnem__hf_family families[] = {
    {.classes = "ExaoneMoeForCausalLM ExaoneMoEForCausalLM",
     .architecture = "exaone-moe",
     .names = exaone_moe,
     .keys =
         MNEM__HF_USUAL | MNEM__HF_VOCAB | MNEM__HF_EXPERTS | MNEM__HF_GATING | MNEM__HF_LEADING,
     .traits = MNEM__HF_SIGMOID | MNEM__HF_LLAMA3_FACTORS | MNEM__HF_LAYERS_BEHIND,
     .pre = "exaone-moe"},
    {.classes = "HYV3ForCausalLM",
     .architecture = "hy_v3",
     .names = hy_v3,
     .keys = MNEM__HF_USUAL | MNEM__HF_EXPERTS | MNEM__HF_GATING | MNEM__HF_LEADING,
     .traits = MNEM__HF_SIGMOID | MNEM__HF_NORMALIZED | MNEM__HF_LAYERS_BEHIND,
     .pre = "hunyuan"},
    {.classes = "AfmoeForCausalLM",
     .architecture = "afmoe",
     .names = afmoe,
     .keys = MNEM__HF_USUAL | MNEM__HF_VOCAB | MNEM__HF_ROPE_DIMS | MNEM__HF_EXPERTS |
             MNEM__HF_GATING | MNEM__HF_LEADING,
     .traits = MNEM__HF_SIGMOID,
     .pre = "afmoe"},
    {.classes = "LagunaForCausalLM",
     .architecture = "laguna",
     .names = laguna,
     .keys = MNEM__HF_USUAL | MNEM__HF_VOCAB | MNEM__HF_ROPE_DIMS | MNEM__HF_PATTERN |
             MNEM__HF_EXPERTS | MNEM__HF_GATING | MNEM__HF_LEADING,
     .traits = MNEM__HF_SIGMOID | MNEM__HF_TWO_BASES | MNEM__HF_SCALED | MNEM__HF_HEAD_KINDS,
     .pre = "laguna"},
    {.classes = "Step3p5ForCausalLM",
     .architecture = "step35",
     .names = step35,
     .keys = MNEM__HF_BLOCKS | MNEM__HF_CONTEXT | MNEM__HF_WIDTHS | MNEM__HF_SCALING |
             MNEM__HF_RMS_EPSILON | MNEM__HF_HEAD_DIM,
     .traits =
         MNEM__HF_LLAMA3_FACTORS | MNEM__HF_NORM_PLUS_1 | MNEM__HF_LAYERS_BEHIND | MNEM__HF_STEP},
    {.classes = "BailingMoeV2ForCausalLM",
     .architecture = "bailingmoe2",
     .names = bailing_2,
     .keys = MNEM__HF_USUAL | MNEM__HF_VOCAB | MNEM__HF_ROPE_DIMS | MNEM__HF_EXPERTS |
             MNEM__HF_GATING | MNEM__HF_LEADING,
     .traits = MNEM__HF_SIGMOID | MNEM__HF_LAYERS_BEHIND,
     .pre = "bailingmoe2"},
    {.classes = "Llama4ForConditionalGeneration Llama4ForCausalLM",
     .architecture = "llama4",
     .names = llama4,
     .keys = MNEM__HF_LLAMA_KEYS | MNEM__HF_EXPERTS | MNEM__HF_FF_EXPERTS,
     .traits = MNEM__HF_LLAMA4 | MNEM__HF_LLAMA3_FACTORS,
     .pre = "llama4"},
    {.classes = "MiMoV2FlashForCausalLM MiMoV2ForCausalLM",
     .architecture = "mimo2",
     .names = mimo,
     .keys = MNEM__HF_USUAL | MNEM__HF_ROPE_DIMS | MNEM__HF_EXPERTS | MNEM__HF_GATING,
     .traits = MNEM__HF_SIGMOID | MNEM__HF_NORMALIZED | MNEM__HF_TWO_BASES,
     .pre = "qwen2"},
};

/* ---- what classes take ---- */

static const mnem__hf_fixed exaone_moe_fixed[] = {{"hidden_act", "silu swish"}, {0}};
static const mnem__hf_fixed hy_v3_fixed[] = {
    {"hidden_act", "silu swish"}, {"attention_bias", "false"}, {"mlp_bias", "false"}, {0}};
static const mnem__hf_fixed afmoe_fixed[] = {
    {"hidden_act", "silu swish"}, {"attention_bias", "false"}, {"mup_enabled", "true"}, {0}};
static const mnem__hf_fixed step35_fixed[] = {{"hidden_act", "silu swish"},
                                              {"attention_bias", "false"},
                                              {"moe_router_activation", "sigmoid"},
                                              {"norm_expert_weight", "true"},
                                              {"use_moe_router_bias", "true"},
                                              {"use_head_wise_attn_gate", "true"},
                                              {"use_qk_norm", "true"},
                                              {"moe_every_n_layer", "1"},
                                              {"sink", "false"},
                                              {0}};
static const mnem__hf_fixed laguna_fixed[] = {{"hidden_act", "silu swish"},
                                              {"attention_bias", "false"},
                                              {"gating", "true per-head per-element"},
                                              {"moe_apply_router_weight_on_input", "false"},
                                              {"moe_router_logit_softcapping", "0"},
                                              {0}};
static const mnem__hf_fixed bailing_2_fixed[] = {
    {"hidden_act", "silu swish"},       {"use_bias", "false"},
    {"use_qkv_bias", "false"},          {"use_qk_norm", "true null"},
    {"score_function", "sigmoid null"}, {0}};
static const mnem__hf_fixed llama4_fixed[] = {
    {"hidden_act", "silu swish"}, {"attn_temperature_tuning", "true 4"}, {0}};
static const mnem__hf_fixed mimo_fixed[] = {{"hidden_act", "silu swish"},
                                            {"attention_bias", "false"},
                                            {"topk_method", "noaux_tc"},
                                            {"add_swa_attention_sink_bias", "true"},
                                            {"add_full_attention_sink_bias", "false"},
                                            {0}};

static const mnem__hf_default exaone_moe_defaults[] = {{"rms_norm_eps", 1e-5},
                                                       {"rope_theta", 1e4},
                                                       {"num_key_value_heads", 32},
                                                       {"sliding_window", 4096},
                                                       {"first_k_dense_replace", 1},
                                                       {"moe_intermediate_size", 1024},
                                                       {"num_experts", 64},
                                                       {"num_experts_per_tok", 8},
                                                       {"num_shared_experts", 1},
                                                       {"norm_topk_prob", 1},
                                                       {"routed_scaling_factor", 2.5},
                                                       {"n_group", 1},
                                                       {"topk_group", 1},
                                                       {0}};
static const mnem__hf_default hy_v3_defaults[] = {{"rms_norm_eps", 1e-5},
                                                  {"rope_theta", 11158840},
                                                  {"num_key_value_heads", 8},
                                                  {"head_dim", 128},
                                                  {"first_k_dense_replace", 1},
                                                  {"moe_intermediate_size", 1536},
                                                  {"num_experts", 192},
                                                  {"num_experts_per_tok", 8},
                                                  {"num_shared_experts", 1},
                                                  {"router_scaling_factor", 2.826},
                                                  {0}};
static const mnem__hf_default afmoe_defaults[] = {{"rms_norm_eps", 1e-5},
                                                  {"rope_theta", 1e4},
                                                  {"head_dim", 128},
                                                  {"sliding_window", 1024},
                                                  {"mup_enabled", 0},
                                                  {"num_dense_layers", 1},
                                                  {"moe_intermediate_size", 1408},
                                                  {"num_experts", 64},
                                                  {"num_experts_per_tok", 6},
                                                  {"num_shared_experts", 2},
                                                  {"route_norm", 1},
                                                  {"route_scale", 1},
                                                  {0}};
static const mnem__hf_default step35_defaults[] = {{"rms_norm_eps", 1e-5},
                                                   {"head_dim", 128},
                                                   {"num_attention_groups", 8},
                                                   {"moe_num_experts", 288},
                                                   {"moe_top_k", 8},
                                                   {"moe_intermediate_size", 1280},
                                                   {"share_expert_dim", 1280},
                                                   {"moe_router_scaling_factor", 1},
                                                   {"max_position_embeddings", 128000},
                                                   {0}};
static const mnem__hf_default laguna_defaults[] = {{"rms_norm_eps", 1e-6},
                                                   {"rope_theta", 5e5},
                                                   {"head_dim", 128},
                                                   {"num_key_value_heads", 8},
                                                   {"sliding_window", 512},
                                                   {"first_k_dense_replace", 1},
                                                   {"num_experts", 256},
                                                   {"num_experts_per_tok", 8},
                                                   {"moe_intermediate_size", 512},
                                                   {"shared_expert_intermediate_size", 512},
                                                   {"moe_routed_scaling_factor", 1},
                                                   {0}};
static const mnem__hf_default bailing_2_defaults[] = {{"rms_norm_eps", 1e-6},
                                                      {"rope_theta", 6e5},
                                                      {"partial_rotary_factor", 0.5},
                                                      {"first_k_dense_replace", 0},
                                                      {"num_shared_experts", 0},
                                                      {"norm_topk_prob", 1},
                                                      {"routed_scaling_factor", 1},
                                                      {"n_group", 8},
                                                      {"topk_group", 4},
                                                      {0}};
static const mnem__hf_default llama4_defaults[] = {{"rms_norm_eps", 1e-5},
                                                   {"rope_theta", 5e5},
                                                   {"head_dim", 128},
                                                   {"num_key_value_heads", 8},
                                                   {"num_local_experts", 16},
                                                   {"num_experts_per_tok", 1},
                                                   {"intermediate_size_mlp", 16384},
                                                   {"interleave_moe_layer_step", 1},
                                                   {"attention_chunk_size", 8192},
                                                   {"floor_scale", 8192},
                                                   {"attn_scale", 0.1},
                                                   {"max_position_embeddings", 131072},
                                                   {0}};
static const mnem__hf_default mimo_defaults[] = {{"head_dim", 192},
                                                 {"v_head_dim", 128},
                                                 {"num_key_value_heads", 4},
                                                 {"sliding_window", 129},
                                                 {"rms_norm_eps", 1e-5},
                                                 {"rope_theta", 5e6},
                                                 {"swa_rope_theta", 1e4},
                                                 {"partial_rotary_factor", 0.334},
                                                 {"moe_intermediate_size", 2048},
                                                 {"n_routed_experts", 256},
                                                 {"num_experts_per_tok", 8},
                                                 {"norm_topk_prob", 1},
                                                 {"attention_value_scale", 0.707},
                                                 {0}};

static const mnem__hf_members members[] = {
    {.classes = "ExaoneMoeForCausalLM ExaoneMoEForCausalLM",
     .names = USUAL EXPERTS
     "num_experts num_local_experts moe_intermediate_size first_k_dense_replace mlp_layer_types "
     "num_shared_experts n_group topk_group norm_topk_prob routed_scaling_factor sliding_window "
     "sliding_window_pattern layer_types ",
     .defaults = exaone_moe_defaults,
     .fixed = exaone_moe_fixed,
     .windows = MNEM__HF_WINDOWS_PERIOD,
     .window_period = 4},
    {.classes = "HYV3ForCausalLM",
     .names = USUAL EXPERTS "num_experts num_local_experts moe_intermediate_size mlp_layer_types "
                            "num_shared_experts router_scaling_factor ",
     .defaults = hy_v3_defaults,
     .fixed = hy_v3_fixed},
    {.classes = "AfmoeForCausalLM",
     .names = USUAL EXPERTS "num_experts num_local_experts moe_intermediate_size num_dense_layers "
                            "num_shared_experts route_norm route_scale sliding_window layer_types "
                            "global_attn_every_n_layers ",
     .defaults = afmoe_defaults,
     .fixed = afmoe_fixed,
     .windows = MNEM__HF_WINDOWS_PERIOD,
     .window_period = 4},
    {.classes = "Step3p5ForCausalLM",
     .names = USUAL "moe_num_experts moe_top_k moe_intermediate_size share_expert_dim "
                    "num_attention_groups attention_other_setting moe_layers_enum layer_types "
                    "partial_rotary_factors sliding_window moe_router_scaling_factor "
                    "swiglu_limits swiglu_limits_shared ",
     .defaults = step35_defaults,
     .fixed = step35_fixed},
    {.classes = "LagunaForCausalLM",
     .names = USUAL EXPERTS "num_experts moe_intermediate_size shared_expert_intermediate_size "
                            "moe_routed_scaling_factor mlp_layer_types sliding_window layer_types "
                            "num_attention_heads_per_layer partial_rotary_factor ",
     .defaults = laguna_defaults,
     .fixed = laguna_fixed,
     .windows = MNEM__HF_WINDOWS_BEHIND},
    {.classes = "BailingMoeV2ForCausalLM",
     .names = USUAL EXPERTS "num_experts moe_intermediate_size first_k_dense_replace "
                            "num_shared_experts n_group topk_group norm_topk_prob "
                            "routed_scaling_factor partial_rotary_factor ",
     .defaults = bailing_2_defaults,
     .fixed = bailing_2_fixed},
    {.classes = "Llama4ForConditionalGeneration Llama4ForCausalLM",
     .names = USUAL EXPERTS "intermediate_size_mlp num_local_experts moe_layers use_qk_norm "
                            "interleave_moe_layer_step no_rope_layers no_rope_layer_interval "
                            "attention_chunk_size layer_types floor_scale attn_scale "
                            "attention_bias ",
     .defaults = llama4_defaults,
     .fixed = llama4_fixed},
    {.classes = "MiMoV2FlashForCausalLM MiMoV2ForCausalLM",
     .names = USUAL EXPERTS "layernorm_epsilon n_routed_experts num_local_experts "
                            "moe_intermediate_size n_group topk_group norm_topk_prob "
                            "routed_scaling_factor scoring_func sliding_window layer_types "
                            "hybrid_layer_pattern v_head_dim attention_value_scale "
                            "swa_num_key_value_heads swa_num_attention_heads swa_head_dim "
                            "swa_v_head_dim swa_rope_theta partial_rotary_factor ",
     .defaults = mimo_defaults,
     .fixed = mimo_fixed},
};

const mnem__hf_table mnem__hf_leading = {families, members, sizeof families / sizeof *families,
                                         sizeof members / sizeof *members};
