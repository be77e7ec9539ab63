/* hf_delta_nets.c: names and members of families whose layers are gated delta rules. */
#include "model/import/families/hf_rows.h"

#define DELTA_MIXTURE                                                                              \
    {"mlp.gate", "ffn_gate_inp", MNEM__HF_AS_IS},                                                  \
        {"mlp.experts.gate_up_proj", "ffn_gate_exps.weight", MNEM__HF_HALF_1},                     \
        {"mlp.experts.gate_up_proj", "ffn_up_exps.weight", MNEM__HF_HALF_2},                       \
        {"mlp.experts.down_proj", "ffn_down_exps.weight", MNEM__HF_HALVES},                        \
        {"mlp.experts.*.down_proj", "ffn_down_exps", MNEM__HF_STACK},                              \
        {"mlp.experts.*.gate_proj", "ffn_gate_exps", MNEM__HF_STACK},                              \
        {"mlp.experts.*.up_proj", "ffn_up_exps", MNEM__HF_STACK},                                  \
        {"mlp.shared_expert.down_proj", "ffn_down_shexp", MNEM__HF_AS_IS},                         \
        {"mlp.shared_expert.gate_proj", "ffn_gate_shexp", MNEM__HF_AS_IS},                         \
        {"mlp.shared_expert.up_proj", "ffn_up_shexp", MNEM__HF_AS_IS}, {                           \
        "mlp.shared_expert_gate", "ffn_gate_inp_shexp", MNEM__HF_AS_IS                             \
    }

/* Rows of value heads are tiled over groups. */
static const mnem__hf_name qwen35[] = {
    {"post_attention_layernorm", "post_attention_norm", MNEM__HF_AS_IS},
    {"linear_attn.in_proj_qkv", "attn_qkv", MNEM__HF_TILE_BEHIND_KEYS},
    {"linear_attn.in_proj_z", "attn_gate", MNEM__HF_TILE},
    {"linear_attn.in_proj_b", "ssm_beta", MNEM__HF_TILE},
    {"linear_attn.in_proj_a", "ssm_alpha", MNEM__HF_TILE},
    {"linear_attn.conv1d", "ssm_conv1d", MNEM__HF_TILE_BEHIND_KEYS},
    {"linear_attn.A_log", "ssm_a", MNEM__HF_TILE_DECAY},
    {"linear_attn.dt_bias", "ssm_dt.bias", MNEM__HF_TILE},
    {"linear_attn.norm", "ssm_norm", MNEM__HF_AS_IS},
    {"linear_attn.out_proj", "ssm_out", MNEM__HF_TILE_COLUMNS},
    DELTA_MIXTURE,
    {0}};

/* They stay group by group. */
static const mnem__hf_name qwen3next[] = {
    {"post_attention_layernorm", "post_attention_norm", MNEM__HF_AS_IS},
    {"linear_attn.in_proj_qkvz", "attn_qkv", MNEM__HF_GROUP_QKV},
    {"linear_attn.in_proj_qkvz", "attn_gate", MNEM__HF_GROUP_GATES},
    {"linear_attn.in_proj_ba", "ssm_ba", MNEM__HF_AS_IS},
    {"linear_attn.conv1d", "ssm_conv1d", MNEM__HF_SQUEEZE},
    {"linear_attn.A_log", "ssm_a", MNEM__HF_GROUP_DECAY},
    {"linear_attn.dt_bias", "ssm_dt.bias", MNEM__HF_AS_IS},
    {"linear_attn.norm", "ssm_norm", MNEM__HF_AS_IS},
    {"linear_attn.out_proj", "ssm_out", MNEM__HF_AS_IS},
    DELTA_MIXTURE,
    {0}};

/* The class of transformers saves dense layers by the name of the others. */
static const mnem__hf_name kimi_linear[] = {
    {"self_attn.q_conv1d", "ssm_conv1d_q", MNEM__HF_KDA_CONV},
    {"self_attn.k_conv1d", "ssm_conv1d_k", MNEM__HF_KDA_CONV},
    {"self_attn.v_conv1d", "ssm_conv1d_v", MNEM__HF_KDA_CONV},
    {"self_attn.f_a_proj", "ssm_f_a", MNEM__HF_AS_IS},
    {"self_attn.f_b_proj", "ssm_f_b", MNEM__HF_AS_IS},
    {"self_attn.g_a_proj", "ssm_g_a", MNEM__HF_AS_IS},
    {"self_attn.g_b_proj", "ssm_g_b", MNEM__HF_AS_IS},
    {"self_attn.b_proj", "ssm_beta", MNEM__HF_AS_IS},
    {"self_attn.A_log", "ssm_a", MNEM__HF_DECAY},
    {"self_attn.dt_bias", "ssm_dt.bias", MNEM__HF_AS_IS},
    {"self_attn.o_norm", "ssm_norm", MNEM__HF_AS_IS},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", MNEM__HF_AS_IS},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm", MNEM__HF_AS_IS},
    {"self_attn.kv_b_proj", "attn_k_b", MNEM__HF_HEAD_KEYS},
    {"self_attn.kv_b_proj", "attn_v_b", MNEM__HF_HEAD_VALUES},
    {"block_sparse_moe.gate_proj", "ffn_gate", MNEM__HF_AS_IS},
    {"block_sparse_moe.up_proj", "ffn_up", MNEM__HF_AS_IS},
    {"block_sparse_moe.down_proj", "ffn_down", MNEM__HF_AS_IS},
    {"block_sparse_moe.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"block_sparse_moe.gate.e_score_correction_bias", "exp_probs_b.bias", MNEM__HF_AS_IS},
    {"block_sparse_moe.experts.*.w1", "ffn_gate_exps", MNEM__HF_STACK},
    {"block_sparse_moe.experts.*.w2", "ffn_down_exps", MNEM__HF_STACK},
    {"block_sparse_moe.experts.*.w3", "ffn_up_exps", MNEM__HF_STACK},
    {"block_sparse_moe.shared_experts.gate_proj", "ffn_gate_shexp", MNEM__HF_AS_IS},
    {"block_sparse_moe.shared_experts.up_proj", "ffn_up_shexp", MNEM__HF_AS_IS},
    {"block_sparse_moe.shared_experts.down_proj", "ffn_down_shexp", MNEM__HF_AS_IS},
    {0}};

static const mnem__hf_default qwen35_defaults[] = {{"vocab_size", 248320},
                                                   {"hidden_size", 4096},
                                                   {"intermediate_size", 12288},
                                                   {"num_hidden_layers", 32},
                                                   {"num_attention_heads", 16},
                                                   {"num_key_value_heads", 4},
                                                   {"head_dim", 256},
                                                   {"max_position_embeddings", 32768},
                                                   {"rms_norm_eps", 1e-6},
                                                   {"rope_theta", 10000},
                                                   {"partial_rotary_factor", 0.25},
                                                   {"linear_conv_kernel_dim", 4},
                                                   {"linear_key_head_dim", 128},
                                                   {"linear_value_head_dim", 128},
                                                   {"linear_num_key_heads", 16},
                                                   {"linear_num_value_heads", 32},
                                                   {0}};

static const mnem__hf_default qwen35moe_defaults[] = {{"vocab_size", 248320},
                                                      {"hidden_size", 2048},
                                                      {"num_hidden_layers", 40},
                                                      {"num_attention_heads", 16},
                                                      {"num_key_value_heads", 2},
                                                      {"head_dim", 256},
                                                      {"max_position_embeddings", 32768},
                                                      {"rms_norm_eps", 1e-6},
                                                      {"rope_theta", 10000},
                                                      {"partial_rotary_factor", 0.25},
                                                      {"linear_conv_kernel_dim", 4},
                                                      {"linear_key_head_dim", 128},
                                                      {"linear_value_head_dim", 128},
                                                      {"linear_num_key_heads", 16},
                                                      {"linear_num_value_heads", 32},
                                                      {"moe_intermediate_size", 512},
                                                      {"shared_expert_intermediate_size", 512},
                                                      {"num_experts_per_tok", 8},
                                                      {"num_experts", 256},
                                                      {0}};

static const mnem__hf_default qwen3next_defaults[] = {{"vocab_size", 151936},
                                                      {"hidden_size", 2048},
                                                      {"intermediate_size", 5632},
                                                      {"num_hidden_layers", 48},
                                                      {"num_attention_heads", 16},
                                                      {"num_key_value_heads", 2},
                                                      {"head_dim", 256},
                                                      {"max_position_embeddings", 32768},
                                                      {"rms_norm_eps", 1e-6},
                                                      {"rope_theta", 10000},
                                                      {"partial_rotary_factor", 0.25},
                                                      {"linear_conv_kernel_dim", 4},
                                                      {"linear_key_head_dim", 128},
                                                      {"linear_value_head_dim", 128},
                                                      {"linear_num_key_heads", 16},
                                                      {"linear_num_value_heads", 32},
                                                      {"moe_intermediate_size", 512},
                                                      {"shared_expert_intermediate_size", 512},
                                                      {"num_experts_per_tok", 10},
                                                      {"num_experts", 512},
                                                      {"norm_topk_prob", 1},
                                                      {0}};

static const mnem__hf_fixed kimi_linear_fixed[] = {{"hidden_act", "silu swish"},
                                                   {"attention_bias", "false"},
                                                   {"moe_renormalize", "true"},
                                                   {"norm_topk_prob", "true"},
                                                   {"num_expert_group", "1"},
                                                   {"n_group", "1"},
                                                   {"q_lora_rank", "0"},
                                                   {"topk_group", "1"},
                                                   {"moe_router_activation_func", "sigmoid"},
                                                   {"mla_use_nope", "true"},
                                                   {0}};
static const mnem__hf_default kimi_linear_defaults[] = {
    {"vocab_size", 163840},        {"hidden_size", 2304},
    {"intermediate_size", 9216},   {"num_hidden_layers", 27},
    {"num_attention_heads", 32},   {"model_max_length", 1048576},
    {"rms_norm_eps", 1e-5},        {"moe_intermediate_size", 1024},
    {"num_experts", 256},          {"num_experts_per_token", 8},
    {"num_shared_experts", 1},     {"routed_scaling_factor", 2.446},
    {"kv_lora_rank", 512},         {"qk_nope_head_dim", 128},
    {"qk_rope_head_dim", 64},      {"v_head_dim", 128},
    {"linear_head_dim", 128},      {"linear_num_heads", 32},
    {"linear_conv_kernel_dim", 4}, {0}};
static const mnem__hf_fixed qwen3next_fixed[] = {{"hidden_act", "silu swish"},
                                                 {"attention_bias", "false"},
                                                 {"mlp_only_layers", "[]"},
                                                 {"decoder_sparse_step", "1"},
                                                 {0}};
static const mnem__hf_fixed delta_fixed[] = {
    {"hidden_act", "silu swish"}, {"attention_bias", "false"}, {0}};

/* ---- rows ---- */

static const mnem__hf_family families[] = {
    {.classes = "Qwen3_5ForConditionalGeneration Qwen3_5ForCausalLM",
     .architecture = "qwen35",
     .names = qwen35,
     .keys = MNEM__HF_USUAL | MNEM__HF_ROPE_DIMS | MNEM__HF_SECTIONS,
     .traits = MNEM__HF_NORM_PLUS_1 | MNEM__HF_DELTA,
     .pre = "qwen35"},
    {.classes = "Qwen3_5MoeForConditionalGeneration Qwen3_5MoeForCausalLM",
     .architecture = "qwen35moe",
     .names = qwen35,
     .keys = MNEM__HF_USUAL | MNEM__HF_ROPE_DIMS | MNEM__HF_SECTIONS | MNEM__HF_EXPERTS,
     .traits = MNEM__HF_NORM_PLUS_1 | MNEM__HF_DELTA,
     .pre = "qwen35"},
    {.classes = "Qwen3NextForCausalLM",
     .architecture = "qwen3next",
     .names = qwen3next,
     .keys = MNEM__HF_USUAL | MNEM__HF_ROPE_DIMS | MNEM__HF_EXPERTS,
     .traits = MNEM__HF_NORM_PLUS_1 | MNEM__HF_DELTA | MNEM__HF_NORMALIZED,
     .pre = "qwen2"},
    {.classes = "KimiLinearForCausalLM",
     .architecture = "kimi-linear",
     .names = kimi_linear,
     .keys = MNEM__HF_BLOCKS | MNEM__HF_CONTEXT | MNEM__HF_WIDTHS | MNEM__HF_HEADS |
             MNEM__HF_RMS_EPSILON | MNEM__HF_VOCAB | MNEM__HF_EXPERTS,
     .traits = MNEM__HF_DELTA | MNEM__HF_SIGMOID | MNEM__HF_NO_HEAD_DIM,
     .pre = "kimi-k2"},
};

#define DELTA                                                                                      \
    "linear_conv_kernel_dim linear_key_head_dim linear_value_head_dim linear_num_key_heads "       \
    "linear_num_value_heads layer_types full_attention_interval partial_rotary_factor "

static const mnem__hf_members members[] = {
    {.classes = "Qwen3_5ForConditionalGeneration Qwen3_5ForCausalLM",
     .names = USUAL DELTA,
     .defaults = qwen35_defaults,
     .fixed = delta_fixed},
    {.classes = "Qwen3_5MoeForConditionalGeneration Qwen3_5MoeForCausalLM",
     .names = OF_ALL ROPE EXPERTS DELTA
     "num_hidden_layers num_attention_heads num_key_value_heads head_dim max_position_embeddings "
     "rms_norm_eps num_experts moe_intermediate_size "
     "shared_expert_intermediate_size ",
     .defaults = qwen35moe_defaults,
     .fixed = delta_fixed},
    {.classes = "Qwen3NextForCausalLM",
     .names = USUAL EXPERTS DELTA
     "num_experts moe_intermediate_size shared_expert_intermediate_size norm_topk_prob ",
     .defaults = qwen3next_defaults,
     .fixed = qwen3next_fixed},
    {.classes = "KimiLinearForCausalLM",
     .names = OF_ALL
     "intermediate_size num_hidden_layers num_attention_heads model_max_length "
     "max_position_embeddings rms_norm_eps num_experts num_local_experts moe_intermediate_size "
     "num_experts_per_token num_experts_per_tok num_shared_experts n_shared_experts "
     "routed_scaling_factor kv_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim "
     "first_k_dense_replace mlp_layer_types layer_types linear_attn_config linear_head_dim "
     "linear_num_heads linear_conv_kernel_dim topk_group ",
     .defaults = kimi_linear_defaults,
     .fixed = kimi_linear_fixed},
};

const mnem__hf_table mnem__hf_delta_nets = {families, members, sizeof families / sizeof *families,
                                            sizeof members / sizeof *members};
