/* hf_states.c: names and members of families whose layers are selective scans. */
#include "model/import/families/hf_rows.h"

#define OUT "." /* names outside of layers begin so */
#define OUTSIDE                                                                                    \
    {OUT "embeddings", "token_embd", MNEM__HF_AS_IS},                                              \
        {OUT "norm_f", "output_norm", MNEM__HF_AS_IS}, {                                           \
        "norm", "attn_norm", MNEM__HF_AS_IS                                                        \
    }
#define MIXER                                                                                      \
    {"mixer.in_proj", "ssm_in", MNEM__HF_AS_IS}, {"mixer.conv1d", "ssm_conv1d", MNEM__HF_SQUEEZE}, \
        {"mixer.A_log", "ssm_a", MNEM__HF_DECAY}, {                                                \
        "mixer.out_proj", "ssm_out", MNEM__HF_AS_IS                                                \
    }

static const mnem__hf_name mamba[] = {OUTSIDE,
                                      MIXER,
                                      {"mixer.x_proj", "ssm_x", MNEM__HF_AS_IS},
                                      {"mixer.dt_proj", "ssm_dt", MNEM__HF_AS_IS},
                                      {"mixer.D", "ssm_d", MNEM__HF_AS_IS},
                                      {0}};
static const mnem__hf_name mamba2[] = {OUTSIDE,
                                       MIXER,
                                       {"mixer.dt_bias", "ssm_dt.bias", MNEM__HF_AS_IS},
                                       {"mixer.D", "ssm_d", MNEM__HF_COLUMN},
                                       {"mixer.norm", "ssm_norm", MNEM__HF_GROUPS},
                                       {0}};

#define HYBRID                                                                                     \
    {"self_attn.q_proj", "attn_q", MNEM__HF_TURN_Q},                                               \
        {"self_attn.k_proj", "attn_k", MNEM__HF_TURN_K},                                           \
        {"mamba.in_proj", "ssm_in", MNEM__HF_AS_IS},                                               \
        {"mamba.conv1d", "ssm_conv1d", MNEM__HF_SQUEEZE},                                          \
        {"mamba.A_log", "ssm_a", MNEM__HF_DECAY}, {"mamba.D", "ssm_d", MNEM__HF_COLUMN},           \
        {"mamba.dt_bias", "ssm_dt.bias", MNEM__HF_AS_IS},                                          \
        {"mamba.norm", "ssm_norm", MNEM__HF_GROUPS}, {                                             \
        "mamba.out_proj", "ssm_out", MNEM__HF_AS_IS                                                \
    }

static const mnem__hf_name granitehybrid[] = {
    HYBRID,
    {"block_sparse_moe.router.layer", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"block_sparse_moe.input_linear", "ffn_gate_exps", MNEM__HF_HALF_1},
    {"block_sparse_moe.input_linear", "ffn_up_exps", MNEM__HF_HALF_2},
    {"block_sparse_moe.output_linear", "ffn_down_exps", MNEM__HF_AS_IS},
    {"shared_mlp.input_linear", "ffn_gate_shexp", MNEM__HF_HALF_1},
    {"shared_mlp.input_linear", "ffn_up_shexp", MNEM__HF_HALF_2},
    {"shared_mlp.output_linear", "ffn_down_shexp", MNEM__HF_AS_IS},
    {0}};
/* What every token uses is the feed-forward. */
static const mnem__hf_name granitehybrid_dense[] = {
    HYBRID,
    {"shared_mlp.input_linear", "ffn_gate", MNEM__HF_HALF_1},
    {"shared_mlp.input_linear", "ffn_up", MNEM__HF_HALF_2},
    {"shared_mlp.output_linear", "ffn_down", MNEM__HF_AS_IS},
    {0}};

static const mnem__hf_name bamba[] = {HYBRID,
                                      {OUT "final_layernorm", "output_norm", MNEM__HF_AS_IS},
                                      {"pre_ff_layernorm", "ffn_norm", MNEM__HF_AS_IS},
                                      {"feed_forward.gate_proj", "ffn_gate", MNEM__HF_AS_IS},
                                      {"feed_forward.up_proj", "ffn_up", MNEM__HF_AS_IS},
                                      {"feed_forward.down_proj", "ffn_down", MNEM__HF_AS_IS},
                                      {0}};

/* Factors of the class go into the weights. */
static const mnem__hf_name falcon_h1[] = {{OUT "embed_tokens", "token_embd", MNEM__HF_AS_IS},
                                          {OUT "embed_tokens", "output", MNEM__HF_TIED_OUTPUT},
                                          {OUT "final_layernorm", "output_norm", MNEM__HF_AS_IS},
                                          {"pre_ff_layernorm", "ffn_norm", MNEM__HF_BARE},
                                          {"feed_forward.gate_proj", "ffn_gate", MNEM__HF_AS_IS},
                                          {"feed_forward.up_proj", "ffn_up", MNEM__HF_AS_IS},
                                          {"feed_forward.down_proj", "ffn_down", MNEM__HF_AS_IS},
                                          {"self_attn.q_proj", "attn_q", MNEM__HF_AS_IS},
                                          {"self_attn.k_proj", "attn_k", MNEM__HF_AS_IS},
                                          HYBRID,
                                          {0}};
static const mnem__hf_factor falcon_h1_factors[] = {
    {"token_embd", "embedding_multiplier", NULL, -1},
    {"output", "lm_head_multiplier", NULL, -1},
    {"attn_q", "attention_in_multiplier", NULL, -1},
    {"attn_k", "key_multiplier", "attention_in_multiplier", -1},
    {"attn_v", "attention_in_multiplier", NULL, -1},
    {"attn_output", "attention_out_multiplier", NULL, -1},
    {"ssm_in", "ssm_in_multiplier", "ssm_multipliers", -1},
    {"ssm_out", "ssm_out_multiplier", NULL, -1},
    {"ffn_gate", "mlp_multipliers", NULL, 0},
    {"ffn_down", "mlp_multipliers", NULL, 1},
    {0}};

static const mnem__hf_name jamba[] = {
    {OUT "final_layernorm", "output_norm", MNEM__HF_AS_IS},
    {"pre_ff_layernorm", "ffn_norm", MNEM__HF_AS_IS},
    {"mamba.in_proj", "ssm_in", MNEM__HF_AS_IS},
    {"mamba.conv1d", "ssm_conv1d", MNEM__HF_SQUEEZE},
    {"mamba.x_proj", "ssm_x", MNEM__HF_AS_IS},
    {"mamba.dt_layernorm", "ssm_dt_norm", MNEM__HF_AS_IS},
    {"mamba.b_layernorm", "ssm_b_norm", MNEM__HF_AS_IS},
    {"mamba.c_layernorm", "ssm_c_norm", MNEM__HF_AS_IS},
    {"mamba.dt_proj", "ssm_dt", MNEM__HF_AS_IS},
    {"mamba.A_log", "ssm_a", MNEM__HF_DECAY},
    {"mamba.D", "ssm_d", MNEM__HF_AS_IS},
    {"mamba.out_proj", "ssm_out", MNEM__HF_AS_IS},
    {"feed_forward.gate_proj", "ffn_gate", MNEM__HF_AS_IS},
    {"feed_forward.up_proj", "ffn_up", MNEM__HF_AS_IS},
    {"feed_forward.down_proj", "ffn_down", MNEM__HF_AS_IS},
    {"feed_forward.router", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"feed_forward.experts.*.down_proj", "ffn_down_exps", MNEM__HF_STACK},
    {"feed_forward.experts.*.gate_proj", "ffn_gate_exps", MNEM__HF_STACK},
    {"feed_forward.experts.*.up_proj", "ffn_up_exps", MNEM__HF_STACK},
    {0}};

static const mnem__hf_name nemotron_h[] = {
    OUTSIDE,
    MIXER,
    {"mixer.dt_bias", "ssm_dt.bias", MNEM__HF_AS_IS},
    {"mixer.D", "ssm_d", MNEM__HF_COLUMN},
    {"mixer.norm", "ssm_norm", MNEM__HF_GROUPS},
    {"mixer.q_proj", "attn_q", MNEM__HF_TURN_Q},
    {"mixer.k_proj", "attn_k", MNEM__HF_TURN_K},
    {"mixer.v_proj", "attn_v", MNEM__HF_AS_IS},
    {"mixer.o_proj", "attn_output", MNEM__HF_AS_IS},
    {"mixer.up_proj", "ffn_up", MNEM__HF_AS_IS},
    {"mixer.down_proj", "ffn_down", MNEM__HF_AS_IS},
    {"mixer.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"mixer.gate.e_score_correction_bias", "exp_probs_b.bias", MNEM__HF_AS_IS},
    {"mixer.experts.*.down_proj", "ffn_down_exps", MNEM__HF_STACK},
    {"mixer.experts.*.up_proj", "ffn_up_exps", MNEM__HF_STACK},
    {"mixer.shared_experts.down_proj", "ffn_down_shexp", MNEM__HF_AS_IS},
    {"mixer.shared_experts.up_proj", "ffn_up_shexp", MNEM__HF_AS_IS},
    {"mixer.fc1_latent_proj", "ffn_latent_down", MNEM__HF_AS_IS},
    {"mixer.fc2_latent_proj", "ffn_latent_up", MNEM__HF_AS_IS},
    {0}};

static const mnem__hf_fixed scan_fixed[] = {
    {"hidden_act", "silu swish"}, {"use_bias", "false"}, {"use_conv_bias", "true"}, {0}};
static const mnem__hf_default mamba_defaults[] = {
    {"vocab_size", 50280},   {"hidden_size", 768},         {"state_size", 16},
    {"conv_kernel", 4},      {"num_hidden_layers", 32},    {"expand", 2},
    {"mixer_rms_eps", 1e-6}, {"layer_norm_epsilon", 1e-5}, {0}};
static const mnem__hf_default mamba2_defaults[] = {{"vocab_size", 32768},
                                                   {"hidden_size", 4096},
                                                   {"state_size", 128},
                                                   {"conv_kernel", 4},
                                                   {"num_hidden_layers", 64},
                                                   {"expand", 2},
                                                   {"n_groups", 8},
                                                   {"num_heads", 128},
                                                   {"head_dim", 64},
                                                   {"layer_norm_epsilon", 1e-5},
                                                   {0}};

static const mnem__hf_fixed granitehybrid_fixed[] = {
    {"hidden_act", "silu swish"}, {"position_embedding_type", "nope"}, {"attention_bias", "false"},
    {"mamba_conv_bias", "true"},  {"mamba_proj_bias", "false"},        {0}};
static const mnem__hf_default granitehybrid_defaults[] = {
    {"vocab_size", 32000},     {"hidden_size", 4096},       {"intermediate_size", 11008},
    {"num_hidden_layers", 32}, {"num_attention_heads", 32}, {"max_position_embeddings", 2048},
    {"rms_norm_eps", 1e-6},    {"rope_theta", 10000},       {"embedding_multiplier", 1},
    {"logits_scaling", 1},     {"residual_multiplier", 1},  {"attention_multiplier", 1},
    {"num_local_experts", 8},  {"num_experts_per_tok", 2},  {"shared_intermediate_size", 1024},
    {"mamba_n_heads", 128},    {"mamba_n_groups", 1},       {"mamba_d_state", 256},
    {"mamba_d_conv", 4},       {"mamba_expand", 2},         {0}};

static const mnem__hf_fixed bamba_fixed[] = {
    {"hidden_act", "silu swish"}, {"attention_bias", "false"},  {"mlp_bias", "false"},
    {"mamba_conv_bias", "true"},  {"mamba_proj_bias", "false"}, {0}};
static const mnem__hf_default bamba_defaults[] = {{"vocab_size", 128000},
                                                  {"hidden_size", 4096},
                                                  {"intermediate_size", 14336},
                                                  {"num_hidden_layers", 32},
                                                  {"num_attention_heads", 32},
                                                  {"num_key_value_heads", 8},
                                                  {"rms_norm_eps", 1e-5},
                                                  {"rope_theta", 10000},
                                                  {"max_position_embeddings", 262144},
                                                  {"partial_rotary_factor", 0.5},
                                                  {"mamba_n_heads", 128},
                                                  {"mamba_n_groups", 1},
                                                  {"mamba_d_state", 256},
                                                  {"mamba_d_conv", 4},
                                                  {"mamba_expand", 2},
                                                  {0}};

static const mnem__hf_fixed falcon_h1_fixed[] = {{"hidden_act", "silu swish"},
                                                 {"attention_bias", "false"},
                                                 {"mlp_bias", "false"},
                                                 {"projectors_bias", "false"},
                                                 {"mamba_conv_bias", "true"},
                                                 {"mamba_proj_bias", "false"},
                                                 {0}};
static const mnem__hf_default falcon_h1_defaults[] = {
    {"vocab_size", 128000},    {"hidden_size", 4096},       {"intermediate_size", 14336},
    {"num_hidden_layers", 32}, {"num_attention_heads", 32}, {"num_key_value_heads", 8},
    {"rms_norm_eps", 1e-5},    {"rope_theta", 10000},       {"max_position_embeddings", 8192},
    {"mamba_d_ssm", 1024},     {"mamba_n_heads", 128},      {"mamba_n_groups", 1},
    {"mamba_d_state", 256},    {"mamba_d_conv", 4},         {0}};

static const mnem__hf_fixed jamba_fixed[] = {
    {"hidden_act", "silu swish"}, {"mamba_conv_bias", "true"}, {"mamba_proj_bias", "false"}, {0}};
static const mnem__hf_default jamba_defaults[] = {
    {"vocab_size", 65536},      {"hidden_size", 4096},       {"intermediate_size", 14336},
    {"num_hidden_layers", 32},  {"num_attention_heads", 32}, {"num_key_value_heads", 8},
    {"rms_norm_eps", 1e-6},     {"num_experts_per_tok", 2},  {"max_position_embeddings", 262144},
    {"num_experts", 16},        {"attn_layer_period", 8},    {"attn_layer_offset", 4},
    {"expert_layer_period", 2}, {"expert_layer_offset", 1},  {"mamba_d_state", 16},
    {"mamba_d_conv", 4},        {"mamba_expand", 2},         {0}};

static const mnem__hf_fixed nemotron_h_fixed[] = {{"mlp_hidden_act", "relu2"},
                                                  {"mamba_hidden_act", "silu swish"},
                                                  {"attention_bias", "false"},
                                                  {"mlp_bias", "false"},
                                                  {"use_bias", "false"},
                                                  {"mamba_proj_bias", "false"},
                                                  {"mamba_conv_bias", "true"},
                                                  {"use_conv_bias", "true"},
                                                  {0}};
static const mnem__hf_default nemotron_h_defaults[] = {
    {"vocab_size", 131072},
    {"hidden_size", 4096},
    {"num_attention_heads", 32},
    {"num_key_value_heads", 8},
    {"head_dim", 128},
    {"intermediate_size", 21504},
    {"layer_norm_epsilon", 1e-5},
    {"ssm_state_size", 128},
    {"mamba_num_heads", 128},
    {"mamba_head_dim", 64},
    {"n_groups", 8},
    {"conv_kernel", 4},
    {"n_routed_experts", 8},
    {"num_experts_per_tok", 2},
    {"n_shared_experts", 1},
    {"moe_intermediate_size", 7688},
    {"moe_shared_expert_intermediate_size", 7688},
    {"routed_scaling_factor", 1},
    {"n_group", 1},
    {"topk_group", 1},
    {"norm_topk_prob", 1},
    {0}};

/* ---- rows ---- */

enum {
    HYBRID_KEYS = MNEM__HF_BLOCKS | MNEM__HF_WIDTHS | MNEM__HF_HEADS | MNEM__HF_BASE |
                  MNEM__HF_RMS_EPSILON | MNEM__HF_VOCAB | MNEM__HF_ROPE_DIMS | MNEM__HF_SCALES
};

static const mnem__hf_family granitehybrid_alone = {.architecture = "granitehybrid",
                                                    .names = granitehybrid_dense,
                                                    .keys = HYBRID_KEYS,
                                                    .traits = MNEM__HF_NO_HEAD_DIM |
                                                              MNEM__HF_SAYS_PREFIX | MNEM__HF_SCAN,
                                                    .pre = "refact dbrx"};

enum {
    ONE_PART_KEYS =
        MNEM__HF_BLOCKS | MNEM__HF_HEADS | MNEM__HF_HEAD_DIM | MNEM__HF_VOCAB | MNEM__HF_EPSILON
};

static const mnem__hf_family nemotron_h_alone = {.architecture = "nemotron_h",
                                                 .names = nemotron_h,
                                                 .keys = ONE_PART_KEYS,
                                                 .traits = MNEM__HF_SCAN | MNEM__HF_ONE_PART,
                                                 .pre = "pixtral tekken"};

static const mnem__hf_family families[] = {
    {.classes = "MambaForCausalLM FalconMambaForCausalLM",
     .architecture = "mamba",
     .names = mamba,
     .keys = MNEM__HF_BLOCKS,
     .traits = MNEM__HF_SCAN,
     .pre = "olmo gpt-2"},
    {.classes = "Mamba2ForCausalLM",
     .architecture = "mamba2",
     .names = mamba2,
     .keys = MNEM__HF_BLOCKS,
     .traits = MNEM__HF_SCAN,
     .pre = "olmo gpt-2"},
    {.classes = "GraniteMoeHybridForCausalLM",
     .architecture = "granitehybrid",
     .names = granitehybrid,
     .keys = HYBRID_KEYS | MNEM__HF_EXPERTS,
     .traits = MNEM__HF_NO_HEAD_DIM | MNEM__HF_SAYS_PREFIX | MNEM__HF_SCAN,
     .dense = &granitehybrid_alone,
     .pre = "refact dbrx"},
    {.classes = "BambaForCausalLM",
     .architecture = "granitehybrid",
     .names = bamba,
     .keys = MNEM__HF_USUAL | MNEM__HF_VOCAB | MNEM__HF_ROPE_DIMS,
     .traits = MNEM__HF_NO_HEAD_DIM | MNEM__HF_SCAN,
     .pre = "llama-bpe"},
    {.classes = "FalconH1ForCausalLM",
     .architecture = "falcon-h1",
     .names = falcon_h1,
     .keys = MNEM__HF_USUAL | MNEM__HF_VOCAB,
     .traits = MNEM__HF_SCAN | MNEM__HF_MAKES_HEAD_DIM,
     .factors = falcon_h1_factors,
     .pre = "falcon-h1 llama-bpe"},
    {.classes = "JambaForCausalLM",
     .architecture = "jamba",
     .names = jamba,
     .keys = MNEM__HF_BLOCKS | MNEM__HF_CONTEXT | MNEM__HF_WIDTHS | MNEM__HF_HEADS |
             MNEM__HF_RMS_EPSILON | MNEM__HF_EXPERTS,
     .traits = MNEM__HF_SCAN | MNEM__HF_NO_HEAD_DIM},
    {.classes = "NemotronHForCausalLM",
     .architecture = "nemotron_h_moe",
     .names = nemotron_h,
     .keys = ONE_PART_KEYS | MNEM__HF_EXPERTS,
     .traits = MNEM__HF_SCAN | MNEM__HF_ONE_PART | MNEM__HF_NORMALIZED,
     .dense = &nemotron_h_alone,
     .pre = "pixtral tekken"},
};

#define SCAN "num_hidden_layers state_size conv_kernel expand layer_norm_epsilon "
static const mnem__hf_members members[] = {
    {.classes = "MambaForCausalLM",
     .names = OF_ALL SCAN "time_step_rank ",
     .defaults = mamba_defaults,
     .fixed = scan_fixed},
    {.classes = "FalconMambaForCausalLM",
     .names = OF_ALL SCAN "time_step_rank mixer_rms_eps ",
     .defaults = mamba_defaults,
     .fixed = scan_fixed},
    {.classes = "Mamba2ForCausalLM",
     .names = OF_ALL SCAN "n_groups num_heads head_dim time_step_limit ",
     .defaults = mamba2_defaults,
     .fixed = scan_fixed},
    {.classes = "GraniteMoeHybridForCausalLM",
     .names = USUAL EXPERTS
     "num_local_experts shared_intermediate_size embedding_multiplier logits_scaling "
     "residual_multiplier attention_multiplier layer_types layers_block_type mamba_n_heads "
     "mamba_n_groups mamba_d_state mamba_d_head mamba_d_conv mamba_expand time_step_limit ",
     .defaults = granitehybrid_defaults,
     .fixed = granitehybrid_fixed},
    {.classes = "BambaForCausalLM",
     .names = USUAL "attn_layer_indices partial_rotary_factor mamba_n_heads mamba_n_groups "
                    "mamba_d_state mamba_d_head mamba_d_conv mamba_expand time_step_limit ",
     .defaults = bamba_defaults,
     .fixed = bamba_fixed},
    {.classes = "FalconH1ForCausalLM",
     .names = USUAL "mamba_d_ssm mamba_n_heads mamba_n_groups mamba_d_state mamba_d_head "
                    "mamba_d_conv mamba_rms_norm mamba_norm_before_gate time_step_limit "
                    "embedding_multiplier lm_head_multiplier key_multiplier mlp_multipliers "
                    "attention_in_multiplier attention_out_multiplier ssm_in_multiplier "
                    "ssm_out_multiplier ssm_multipliers attention_bias mlp_bias ",
     .defaults = falcon_h1_defaults,
     .fixed = falcon_h1_fixed},
    {.classes = "JambaForCausalLM",
     .names = OF_ALL EXPERTS
     "intermediate_size num_hidden_layers num_attention_heads num_key_value_heads "
     "max_position_embeddings rms_norm_eps num_experts num_local_experts attn_layer_period "
     "attn_layer_offset expert_layer_period expert_layer_offset mamba_d_state mamba_d_conv "
     "mamba_expand mamba_dt_rank ",
     .defaults = jamba_defaults,
     .fixed = jamba_fixed},
    {.classes = "NemotronHForCausalLM",
     .names = OF_ALL EXPERTS
     "hybrid_override_pattern layers_block_type num_attention_heads "
     "num_key_value_heads head_dim intermediate_size layer_norm_epsilon "
     "ssm_state_size mamba_num_heads mamba_head_dim mamba_n_groups n_groups mamba_d_conv "
     "conv_kernel time_step_limit n_routed_experts n_shared_experts moe_intermediate_size "
     "moe_shared_expert_intermediate_size moe_latent_size n_group topk_group norm_topk_prob "
     "routed_scaling_factor ",
     .defaults = nemotron_h_defaults,
     .fixed = nemotron_h_fixed},
};

const mnem__hf_table mnem__hf_stateful = {families, members, sizeof families / sizeof *families,
                                          sizeof members / sizeof *members};
