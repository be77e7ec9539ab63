/* hf_dense.c: families without experts beside those of hf_families.c: names, what their classes
 * take from config.json, and their rows. */
#include "model/import/families/hf_rows.h"

#define OUT "." /* names outside of layers begin so */

/* ---- names ---- */

static const mnem__hf_name seed_oss[] = {
    {"post_attention_layernorm", "post_attention_norm", MNEM__HF_AS_IS}, {0}};
static const mnem__hf_name hunyuan[] = {
    {"self_attn.query_layernorm", "attn_q_norm", MNEM__HF_AS_IS},
    {"self_attn.key_layernorm", "attn_k_norm", MNEM__HF_AS_IS},
    {0}};
static const mnem__hf_name exaone4[] = {
    {"post_attention_layernorm", "post_attention_norm", MNEM__HF_AS_IS},
    {"post_feedforward_layernorm", "post_ffw_norm", MNEM__HF_AS_IS},
    {0}};

/* Of layers, and beside each feed-forward experts with norms of their own (26B-A4B). */
static const mnem__hf_name gemma4[] = {
    {OUT "embed_tokens_per_layer", "per_layer_token_embd", MNEM__HF_AS_IS},
    {OUT "per_layer_model_projection", "per_layer_model_proj", MNEM__HF_AS_IS},
    {OUT "per_layer_projection_norm", "per_layer_proj_norm", MNEM__HF_AS_IS},
    {"post_attention_layernorm", "post_attention_norm", MNEM__HF_AS_IS},
    {"pre_feedforward_layernorm", "ffn_norm", MNEM__HF_AS_IS},
    {"post_feedforward_layernorm", "post_ffw_norm", MNEM__HF_AS_IS},
    {"post_feedforward_layernorm_1", "post_ffw_norm_1", MNEM__HF_AS_IS},
    {"post_feedforward_layernorm_2", "post_ffw_norm_2", MNEM__HF_AS_IS},
    {"pre_feedforward_layernorm_2", "pre_ffw_norm_2", MNEM__HF_AS_IS},
    {"per_layer_input_gate", "inp_gate", MNEM__HF_AS_IS},
    {"per_layer_projection", "proj", MNEM__HF_AS_IS},
    {"post_per_layer_input_norm", "post_norm", MNEM__HF_AS_IS},
    {"layer_scalar", "layer_output_scale.weight", MNEM__HF_AS_IS},
    {"router.proj", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"router.scale", "ffn_gate_inp.scale", MNEM__HF_AS_IS},
    {"router.per_expert_scale", "ffn_down_exps.scale", MNEM__HF_AS_IS},
    {"experts.gate_up_proj", "ffn_gate_up_exps.weight", MNEM__HF_AS_IS},
    {"experts.down_proj", "ffn_down_exps.weight", MNEM__HF_AS_IS},
    {0}};

/* The table of layers may have fewer rows than there are tokens: those of images and sounds have
 * none. */
static const mnem__hf_name gemma3n[] = {
    {OUT "embed_tokens_per_layer", "per_layer_token_embd", MNEM__HF_PAD_VOCAB},
    {OUT "per_layer_model_projection", "per_layer_model_proj", MNEM__HF_AS_IS},
    {OUT "per_layer_projection_norm", "per_layer_proj_norm", MNEM__HF_AS_IS},
    {OUT "altup_projections.0", "altup_proj", MNEM__HF_SERIES},
    {OUT "altup_projections.1", "", MNEM__HF_DROP},
    {OUT "altup_projections.2", "", MNEM__HF_DROP},
    {OUT "altup_unembed_projections.0", "altup_unembd_proj", MNEM__HF_SERIES},
    {OUT "altup_unembed_projections.1", "", MNEM__HF_DROP},
    {OUT "altup_unembed_projections.2", "", MNEM__HF_DROP},
    {"post_attention_layernorm", "post_attention_norm", MNEM__HF_AS_IS},
    {"pre_feedforward_layernorm", "ffn_norm", MNEM__HF_AS_IS},
    {"post_feedforward_layernorm", "post_ffw_norm", MNEM__HF_AS_IS},
    {"per_layer_input_gate", "inp_gate", MNEM__HF_AS_IS},
    {"per_layer_projection", "proj", MNEM__HF_AS_IS},
    {"post_per_layer_input_norm", "post_norm", MNEM__HF_AS_IS},
    {"altup.correct_output_scale", "altup_correct_scale.weight", MNEM__HF_AS_IS},
    {"altup.correction_coefs", "altup_correct_coef", MNEM__HF_AS_IS},
    {"altup.prediction_coefs", "altup_predict_coef", MNEM__HF_AS_IS},
    {"altup.modality_router", "altup_router", MNEM__HF_AS_IS},
    {"altup.router_norm", "altup_router_norm", MNEM__HF_AS_IS},
    {"laurel.linear_left", "laurel_l", MNEM__HF_AS_IS},
    {"laurel.linear_right", "laurel_r", MNEM__HF_AS_IS},
    {"laurel.post_laurel_norm", "laurel_post_norm", MNEM__HF_AS_IS},
    {0}};

static const mnem__hf_name granite_swa[] = {
    {"self_attn.q_proj", "attn_q", MNEM__HF_TURN_Q},
    {"self_attn.k_proj", "attn_k", MNEM__HF_TURN_K},
    {"self_attn.sinks", "attn_sinks.weight", MNEM__HF_AS_IS},
    {0}};

/* What xIELU was trained to are numbers of each layer, which become keys. */
static const mnem__hf_name apertus[] = {{"attention_layernorm", "attn_norm", MNEM__HF_AS_IS},
                                        {"feedforward_layernorm", "ffn_norm", MNEM__HF_AS_IS},
                                        {"mlp.act_fn", "", MNEM__HF_DROP}, /* .beta */
                                        {"mlp.act_fn.alpha_p", "", MNEM__HF_DROP},
                                        {"mlp.act_fn.alpha_n", "", MNEM__HF_DROP},
                                        {"mlp.act_fn.eps", "", MNEM__HF_DROP},
                                        {0}};

/* ---- families ---- */

/* Norms with a mean. */
enum { MEAN_KEYS = (MNEM__HF_USUAL & ~MNEM__HF_RMS_EPSILON) | MNEM__HF_EPSILON };

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
    {.classes = "HunYuanDenseV1ForCausalLM",
     .architecture = "hunyuan-dense",
     .names = hunyuan,
     .keys = MNEM__HF_USUAL,
     .traits = MNEM__HF_HUNYUAN,
     .pre = "hunyuan-dense"},
    {.classes = "Exaone4ForCausalLM",
     .architecture = "exaone4",
     .names = exaone4,
     .keys = MNEM__HF_USUAL | MNEM__HF_VOCAB,
     .traits = MNEM__HF_LLAMA3_FACTORS,
     .pre = "exaone4"},
    {.classes = "CohereForCausalLM",
     .architecture = "command-r",
     .keys = MEAN_KEYS | MNEM__HF_LOGIT_FACTOR,
     .pre = "command-r"},
    {.classes = "Cohere2ForCausalLM",
     .architecture = "cohere2",
     .keys =
         MEAN_KEYS | MNEM__HF_LOGIT_FACTOR | MNEM__HF_VOCAB | MNEM__HF_ROPE_DIMS | MNEM__HF_WINDOW,
     .pre = "command-r"},
    {.classes = "ArceeForCausalLM",
     .architecture = "arcee",
     .names = mnem__hf_turned_names,
     .keys = MNEM__HF_LLAMA_KEYS,
     .traits = MNEM__HF_LLAMA3_FACTORS | MNEM__HF_MAKES_HEAD_DIM,
     .pre = "llama-bpe"},
    {.classes = "ApertusForCausalLM",
     .architecture = "apertus",
     .names = apertus,
     .keys = MNEM__HF_LLAMA_KEYS,
     .traits = MNEM__HF_LLAMA3_FACTORS | MNEM__HF_SCALED,
     .pre = "tekken"},
    {.classes = "GraniteSWAForCausalLM",
     .architecture = "granite_swa",
     .names = granite_swa,
     .keys = MNEM__HF_LLAMA_KEYS | MNEM__HF_SCALES | MNEM__HF_WINDOW | MNEM__HF_PATTERN,
     .traits = MNEM__HF_NO_HEAD_DIM | MNEM__HF_SAYS_PREFIX,
     .pre = "refact dbrx"},
    {.classes = "NemotronForCausalLM",
     .architecture = "nemotron",
     .keys = MEAN_KEYS | MNEM__HF_VOCAB | MNEM__HF_ROPE_DIMS,
     .traits = MNEM__HF_NORM_PLUS_1},
    {.classes = "Gemma4ForConditionalGeneration Gemma4ForCausalLM",
     .architecture = "gemma4",
     .names = gemma4,
     .keys = (MNEM__HF_USUAL & ~(unsigned)MNEM__HF_HEAD_DIM) | MNEM__HF_WINDOW | MNEM__HF_PATTERN |
             MNEM__HF_LOGIT_CAP,
     .traits = MNEM__HF_KINDS | MNEM__HF_TWO_BASES | MNEM__HF_MERGED | MNEM__HF_NO_SPACE_PREFIX},
    {.classes = "Gemma3nForConditionalGeneration Gemma3nForCausalLM",
     .architecture = "gemma3n",
     .names = gemma3n,
     .keys = (MNEM__HF_USUAL & ~(unsigned)MNEM__HF_WIDTHS) | MNEM__HF_WINDOW | MNEM__HF_PATTERN |
             MNEM__HF_LOGIT_CAP,
     .traits = MNEM__HF_STREAMS | MNEM__HF_TWO_BASES | MNEM__HF_NO_SPACE_PREFIX},
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

static const mnem__hf_fixed gemma4_fixed[] = {{"hidden_activation", "gelu_pytorch_tanh"},
                                              {"use_bidirectional_attention", "vision false null"},
                                              {"attention_bias", "false"},
                                              {"tie_word_embeddings", "true"},
                                              {0}};
static const mnem__hf_fixed gemma3n_fixed[] = {{"hidden_activation", "gelu_pytorch_tanh"},
                                               {"attention_bias", "false"},
                                               {"tie_word_embeddings", "true"},
                                               {"altup_num_inputs", "4"},
                                               {"altup_active_idx", "0"},
                                               {"altup_correct_scale", "true"},
                                               {0}};
static const mnem__hf_fixed silu[] = {{"hidden_act", "silu swish"}, {0}};
static const mnem__hf_fixed cohere_fixed[] = {
    {"hidden_act", "silu swish"}, {"use_qk_norm", "false"}, {"tie_word_embeddings", "true"}, {0}};
static const mnem__hf_fixed cohere2_fixed[] = {
    {"hidden_act", "silu swish"}, {"tie_word_embeddings", "true"}, {0}};
static const mnem__hf_fixed xielu[] = {{"hidden_act", "xielu"}, {0}};
static const mnem__hf_fixed relu2[] = {{"hidden_act", "relu2"}, {0}};

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

static const mnem__hf_default gemma4_defaults[] = {{"vocab_size", 262144},
                                                   {"hidden_size", 2304},
                                                   {"intermediate_size", 9216},
                                                   {"num_hidden_layers", 30},
                                                   {"num_attention_heads", 8},
                                                   {"num_key_value_heads", 4},
                                                   {"head_dim", 256},
                                                   {"global_head_dim", 512},
                                                   {"max_position_embeddings", 131072},
                                                   {"rms_norm_eps", 1e-6},
                                                   {"rope_theta", 1e6},
                                                   {"rope_local_base_freq", 1e4},
                                                   {"sliding_window", 512},
                                                   {"hidden_size_per_layer_input", 256},
                                                   {"num_kv_shared_layers", 0},
                                                   {0}};
static const mnem__hf_default gemma3n_defaults[] = {{"vocab_size", 262400},
                                                    {"hidden_size", 2048},
                                                    {"intermediate_size", 16384},
                                                    {"num_hidden_layers", 35},
                                                    {"num_attention_heads", 8},
                                                    {"num_key_value_heads", 2},
                                                    {"head_dim", 256},
                                                    {"max_position_embeddings", 32768},
                                                    {"rms_norm_eps", 1e-6},
                                                    {"rope_theta", 1e6},
                                                    {"rope_local_base_freq", 1e4},
                                                    {"sliding_window", 512},
                                                    {"final_logit_softcapping", 30},
                                                    {"hidden_size_per_layer_input", 256},
                                                    {"num_kv_shared_layers", 15},
                                                    {0}};
static const mnem__hf_default llama_defaults[] = {{"rms_norm_eps", 1e-5}, {"rope_theta", 1e4}, {0}};
static const mnem__hf_default apertus_defaults[] = {
    {"rms_norm_eps", 1e-5}, {"rope_theta", 1.2e7}, {0}};
static const mnem__hf_default exaone4_defaults[] = {{"rms_norm_eps", 1e-5},
                                                    {"rope_theta", 1e4},
                                                    {"num_key_value_heads", 32},
                                                    {"sliding_window", 4096},
                                                    {0}};
static const mnem__hf_default cohere_defaults[] = {
    {"layer_norm_eps", 1e-5}, {"rope_theta", 1e4}, {"logit_scale", 0.0625}, {0}};
static const mnem__hf_default cohere2_defaults[] = {{"layer_norm_eps", 1e-5},
                                                    {"rope_theta", 1e4},
                                                    {"logit_scale", 0.0625},
                                                    {"sliding_window", 4096},
                                                    {0}};
static const mnem__hf_default nemotron_defaults[] = {
    {"norm_eps", 1e-5}, {"rope_theta", 1e4}, {"partial_rotary_factor", 0.5}, {0}};

static const mnem__hf_default granite_swa_defaults[] = {{"rms_norm_eps", 1e-5},
                                                        {"rope_theta", 1e4},
                                                        {"num_key_value_heads", 4},
                                                        {"sliding_window", 128},
                                                        {"max_position_embeddings", 8192},
                                                        {"attention_multiplier", 1},
                                                        {"embedding_multiplier", 1},
                                                        {"residual_multiplier", 1},
                                                        {"logits_scaling", 1},
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
    {.classes = "HunYuanDenseV1ForCausalLM",
     .names = USUAL "attention_bias eod_token_id ",
     .defaults = llama_defaults,
     .fixed = silu},
    {.classes = "Exaone4ForCausalLM",
     .names = USUAL "sliding_window sliding_window_pattern layer_types ",
     .defaults = exaone4_defaults,
     .fixed = silu,
     .windows = MNEM__HF_WINDOWS_PERIOD,
     .window_period = 4},
    {.classes = "CohereForCausalLM",
     .names = DECODER ROPE "layer_norm_eps logit_scale attention_bias model_max_length ",
     .defaults = cohere_defaults,
     .fixed = cohere_fixed},
    {.classes = "Cohere2ForCausalLM",
     .names = DECODER ROPE "layer_norm_eps logit_scale attention_bias sliding_window layer_types "
                           "sliding_window_pattern _sliding_window_pattern ",
     .defaults = cohere2_defaults,
     .fixed = cohere2_fixed,
     .windows = MNEM__HF_WINDOWS_PERIOD,
     .window_period = 4},
    {.classes = "ArceeForCausalLM",
     .names = USUAL "attention_bias mlp_bias ",
     .defaults = llama_defaults,
     .fixed = relu2},
    {.classes = "ApertusForCausalLM",
     .names = USUAL "attention_bias hidden_act ",
     .defaults = apertus_defaults,
     .fixed = xielu},
    {.classes = "GraniteSWAForCausalLM",
     .names = USUAL "embedding_multiplier logits_scaling residual_multiplier attention_multiplier "
                    "attention_bias mlp_bias sliding_window layer_types layer_rope_theta ",
     .defaults = granite_swa_defaults,
     .fixed = silu,
     .windows = MNEM__HF_WINDOWS_AFTER,
     .window_period = 4},
    {.classes = "NemotronForCausalLM",
     .names = DECODER ROPE "norm_eps attention_bias mlp_bias partial_rotary_factor ",
     .defaults = nemotron_defaults,
     .fixed = relu2},
    {.classes = "Gemma4ForConditionalGeneration Gemma4ForCausalLM",
     .names = USUAL
     "final_logit_softcapping sliding_window layer_types global_head_dim per_layer_config "
     "num_global_key_value_heads attention_k_eq_v num_kv_shared_layers use_double_wide_mlp "
     "hidden_size_per_layer_input enable_moe_block num_experts top_k_experts "
     "moe_intermediate_size ",
     .defaults = gemma4_defaults,
     .fixed = gemma4_fixed,
     .windows = MNEM__HF_WINDOWS_PERIOD,
     .window_period = 6},
    {.classes = "Gemma3nForConditionalGeneration Gemma3nForCausalLM",
     .names = USUAL "final_logit_softcapping sliding_window layer_types num_kv_shared_layers "
                    "hidden_size_per_layer_input activation_sparsity_pattern rope_local_base_freq ",
     .defaults = gemma3n_defaults,
     .fixed = gemma3n_fixed,
     .windows = MNEM__HF_WINDOWS_PERIOD,
     .window_period = 5},
};

const mnem__hf_table mnem__hf_dense = {families, members, sizeof families / sizeof *families,
                                       sizeof members / sizeof *members};
