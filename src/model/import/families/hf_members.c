/* hf_members.c: see hf_members.h. Names, defaults and what they mean are those of the configuration
 * and modeling sources of transformers 5; names of older files stand behind them. */
#include "model/import/families/hf_members.h"

#include <string.h>

#include "model/import/families/hf_rows.h"

/* ---- values that are computed ---- */

static const mnem__hf_fixed silu[] = {{"hidden_act", "silu swish"}, {0}};
static const mnem__hf_fixed smollm3_fixed[] = {
    {"hidden_act", "silu swish"}, {"use_sliding_window", "false"}, {0}};
static const mnem__hf_fixed gemma2_fixed[] = {{"hidden_activation", "gelu_pytorch_tanh"},
                                              {"use_bidirectional_attention", "false"},
                                              {"tie_word_embeddings", "true"},
                                              {0}};
/* Gemma 3 has no cap of scores; its class has the member, and ignores it. */
static const mnem__hf_fixed gemma3_fixed[] = {{"hidden_activation", "gelu_pytorch_tanh"},
                                              {"use_bidirectional_attention", "false"},
                                              {"attn_logit_softcapping", "null"},
                                              {0}};
static const mnem__hf_fixed starcoder2_fixed[] = {{"hidden_act", "gelu_pytorch_tanh gelu_new"},
                                                  {0}};
static const mnem__hf_fixed gpt2_fixed[] = {{"activation_function", "gelu_new gelu_pytorch_tanh"},
                                            {"scale_attn_by_inverse_layer_idx", "false"},
                                            {"scale_attn_weights", "true"},
                                            {"add_cross_attention", "false"},
                                            {0}};
static const mnem__hf_fixed olmoe_fixed[] = {
    {"hidden_act", "silu swish"}, {"clip_qkv", "null"}, {0}};
static const mnem__hf_fixed qwen2moe_fixed[] = {{"hidden_act", "silu swish"},
                                                {"mlp_only_layers", "[]"},
                                                {"decoder_sparse_step", "1"},
                                                {"use_sliding_window", "false"},
                                                {0}};
static const mnem__hf_fixed qwen3moe_fixed[] = {
    {"hidden_act", "silu swish"}, {"mlp_only_layers", "[]"}, {"decoder_sparse_step", "1"}, {0}};
static const mnem__hf_fixed gpt_oss_fixed[] = {
    {"hidden_act", "silu"}, {"swiglu_limit", "7"}, {"swiglu_alpha", "1.702"}, {0}};
/* The class of DeepSeek-V2 weighs experts by their softmax, and does not make the sum 1. */
static const mnem__hf_fixed deepseek2_fixed[] = {
    {"hidden_act", "silu swish"}, {"topk_method", "greedy group_limited_greedy"},
    {"scoring_func", "softmax"},  {"norm_topk_prob", "false"},
    {"moe_layer_freq", "1"},      {"attention_bias", "false"},
    {"mlp_bias", "false"},        {0}};
static const mnem__hf_fixed deepseek3_fixed[] = {{"hidden_act", "silu swish"},
                                                 {"topk_method", "noaux_tc"},
                                                 {"scoring_func", "sigmoid"},
                                                 {"moe_layer_freq", "1"},
                                                 {"attention_bias", "false"},
                                                 {"rope_interleave", "true"},
                                                 {0}};
static const mnem__hf_fixed bert_fixed[] = {{"hidden_act", "gelu"},
                                            {"position_embedding_type", "absolute"},
                                            {"is_decoder", "false"},
                                            {"add_cross_attention", "false"},
                                            {0}};
static const mnem__hf_fixed nomic_fixed[] = {{"activation_function", "swiglu"},
                                             {"hidden_act", "silu"},
                                             {"prenorm", "false"},
                                             {"parallel_block", "false"},
                                             {"use_rms_norm", "false"},
                                             {"causal", "false"},
                                             {"qkv_proj_bias", "false"},
                                             {"mlp_fc1_bias", "false"},
                                             {"mlp_fc2_bias", "false"},
                                             {"moe_every_n_layers", "0"},
                                             {"scale_attn_weights", "true"},
                                             {"scale_attn_by_inverse_layer_idx", "false"},
                                             {"rotary_emb_fraction", "1"},
                                             {"rotary_emb_interleaved", "false"},
                                             {"rotary_emb_scale_base", "null"},
                                             {"rotary_scaling_factor", "null"},
                                             {0}};
static const mnem__hf_fixed lfm2_fixed[] = {
    {"conv_bias", "false"}, {"block_use_swiglu", "true"}, {0}};

static const mnem__hf_fixed lfm2moe_fixed[] = {{"conv_bias", "false"}, {0}};
static const mnem__hf_fixed minimax_fixed[] = {
    {"hidden_act", "silu swish"}, {"scoring_func", "sigmoid"}, {0}};

/* ---- defaults ---- */

static const mnem__hf_default gpt_oss_defaults[] = {
    {"head_dim", 64},           {"num_key_value_heads", 8},
    {"rms_norm_eps", 1e-5},     {"rope_theta", 15e4},
    {"sliding_window", 128},    {"num_local_experts", 128},
    {"num_experts_per_tok", 4}, {0}};
static const mnem__hf_default deepseek2_defaults[] = {
    {"rms_norm_eps", 1e-6},       {"rope_theta", 1e4},
    {"kv_lora_rank", 512},        {"q_lora_rank", 1536},
    {"n_shared_experts", 2},      {"moe_intermediate_size", 1407},
    {"first_k_dense_replace", 0}, {"routed_scaling_factor", 1},
    {"n_routed_experts", 64},     {0}};
static const mnem__hf_default deepseek3_defaults[] = {{"rms_norm_eps", 1e-6},
                                                      {"rope_theta", 1e4},
                                                      {"kv_lora_rank", 512},
                                                      {"q_lora_rank", 1536},
                                                      {"n_shared_experts", 1},
                                                      {"moe_intermediate_size", 2048},
                                                      {"first_k_dense_replace", 3},
                                                      {"routed_scaling_factor", 2.5},
                                                      {"n_group", 8},
                                                      {"topk_group", 4},
                                                      {"norm_topk_prob", 1},
                                                      {"n_routed_experts", 256},
                                                      {"num_experts_per_tok", 8},
                                                      {0}};
static const mnem__hf_default bert_defaults[] = {
    {"layer_norm_eps", 1e-12}, {"max_position_embeddings", 512}, {"type_vocab_size", 2}, {0}};
static const mnem__hf_default nomic_defaults[] = {
    {"layer_norm_eps", 1e-12}, {"rope_theta", 1e3}, {"type_vocab_size", 2}, {0}};
static const mnem__hf_default lfm2_defaults[] = {{"norm_eps", 1e-5},
                                                 {"rope_theta", 1e6},
                                                 {"num_key_value_heads", 8},
                                                 {"conv_L_cache", 3},
                                                 {"block_multiple_of", 256},
                                                 {"block_ffn_dim_multiplier", 1},
                                                 {0}};
static const mnem__hf_default lfm2moe_defaults[] = {{"norm_eps", 1e-5},
                                                    {"rope_theta", 1e6},
                                                    {"num_key_value_heads", 8},
                                                    {"conv_L_cache", 3},
                                                    {"moe_intermediate_size", 1792},
                                                    {"num_dense_layers", 2},
                                                    {"num_experts", 32},
                                                    {"num_experts_per_tok", 4},
                                                    {"norm_topk_prob", 1},
                                                    {"routed_scaling_factor", 1},
                                                    {0}};
static const mnem__hf_default glm4moe_defaults[] = {{"rms_norm_eps", 1e-5},
                                                    {"rope_theta", 1e4},
                                                    {"num_key_value_heads", 8},
                                                    {"partial_rotary_factor", 0.5},
                                                    {"moe_intermediate_size", 1408},
                                                    {"first_k_dense_replace", 1},
                                                    {"n_routed_experts", 128},
                                                    {"num_experts_per_tok", 8},
                                                    {"n_shared_experts", 1},
                                                    {"n_group", 1},
                                                    {"topk_group", 1},
                                                    {"norm_topk_prob", 1},
                                                    {"routed_scaling_factor", 1},
                                                    {0}};
static const mnem__hf_default minimax_defaults[] = {{"head_dim", 128},
                                                    {"rms_norm_eps", 1e-6},
                                                    {"rope_theta", 5e6},
                                                    {"num_key_value_heads", 8},
                                                    {"num_local_experts", 256},
                                                    {"num_experts_per_tok", 8},
                                                    {0}};
static const mnem__hf_default mixtral_defaults[] = {
    {"rms_norm_eps", 1e-5},   {"rope_theta", 1e6},        {"num_key_value_heads", 8},
    {"num_local_experts", 8}, {"num_experts_per_tok", 2}, {0}};
static const mnem__hf_default llama_defaults[] = {{"rms_norm_eps", 1e-6}, {"rope_theta", 1e4}, {0}};
static const mnem__hf_default mistral_defaults[] = {{"rms_norm_eps", 1e-6},
                                                    {"rope_theta", 1e4},
                                                    {"num_key_value_heads", 8},
                                                    {"sliding_window", 4096},
                                                    {0}};
static const mnem__hf_default mistral3_defaults[] = {{"head_dim", 128},
                                                     {"num_key_value_heads", 8},
                                                     {"rms_norm_eps", 1e-5},
                                                     {"rope_theta", 1e6},
                                                     {0}};
static const mnem__hf_default qwen2_defaults[] = {
    {"rms_norm_eps", 1e-6},   {"rope_theta", 1e4},       {"num_key_value_heads", 32},
    {"sliding_window", 4096}, {"max_window_layers", 28}, {0}};
static const mnem__hf_default qwen2moe_defaults[] = {{"rms_norm_eps", 1e-6},
                                                     {"rope_theta", 1e4},
                                                     {"num_key_value_heads", 16},
                                                     {"moe_intermediate_size", 1408},
                                                     {"shared_expert_intermediate_size", 5632},
                                                     {"num_experts", 60},
                                                     {"num_experts_per_tok", 4},
                                                     {0}};
static const mnem__hf_default qwen3_defaults[] = {{"head_dim", 128},
                                                  {"rms_norm_eps", 1e-6},
                                                  {"rope_theta", 1e4},
                                                  {"num_key_value_heads", 32},
                                                  {"sliding_window", 4096},
                                                  {"max_window_layers", 28},
                                                  {0}};
static const mnem__hf_default qwen3moe_defaults[] = {
    {"rms_norm_eps", 1e-6},         {"rope_theta", 1e4},
    {"num_key_value_heads", 4},     {"sliding_window", 4096},
    {"moe_intermediate_size", 768}, {"num_experts", 128},
    {"num_experts_per_tok", 8},     {0}};
static const mnem__hf_default qwen2vl_defaults[] = {
    {"rms_norm_eps", 1e-5},   {"rope_theta", 1e6},       {"num_key_value_heads", 8},
    {"sliding_window", 4096}, {"max_window_layers", 80}, {0}};
static const mnem__hf_default qwen3vl_defaults[] = {{"head_dim", 128},
                                                    {"rms_norm_eps", 1e-6},
                                                    {"rope_theta", 5e5},
                                                    {"num_key_value_heads", 32},
                                                    {0}};
static const mnem__hf_default qwen3vlmoe_defaults[] = {{"rms_norm_eps", 1e-6},
                                                       {"rope_theta", 5e5},
                                                       {"num_key_value_heads", 16},
                                                       {"moe_intermediate_size", 1408},
                                                       {"num_experts", 60},
                                                       {"num_experts_per_tok", 4},
                                                       {0}};
static const mnem__hf_default gemma2_defaults[] = {{"head_dim", 256},
                                                   {"rms_norm_eps", 1e-6},
                                                   {"rope_theta", 1e4},
                                                   {"num_key_value_heads", 4},
                                                   {"sliding_window", 4096},
                                                   {"query_pre_attn_scalar", 256},
                                                   {"attn_logit_softcapping", 50},
                                                   {"final_logit_softcapping", 30},
                                                   {"max_position_embeddings", 8192},
                                                   {0}};
static const mnem__hf_default gemma3_defaults[] = {{"head_dim", 256},
                                                   {"rms_norm_eps", 1e-6},
                                                   {"sliding_window", 4096},
                                                   {"query_pre_attn_scalar", 256},
                                                   {"rope_theta", 1e6},
                                                   {"rope_local_base_freq", 1e4},
                                                   {"num_attention_heads", 8},
                                                   {"num_key_value_heads", 4},
                                                   {"hidden_size", 2304},
                                                   {"intermediate_size", 9216},
                                                   {"num_hidden_layers", 26},
                                                   {"vocab_size", 262208},
                                                   {"max_position_embeddings", 131072},
                                                   {0}};
static const mnem__hf_default phi3_defaults[] = {
    {"rms_norm_eps", 1e-5}, {"rope_theta", 1e4}, {"original_max_position_embeddings", 4096}, {0}};
static const mnem__hf_default smollm3_defaults[] = {
    {"rms_norm_eps", 1e-6}, {"rope_theta", 2e6}, {"num_key_value_heads", 4}, {0}};
static const mnem__hf_default olmo2_defaults[] = {{"rms_norm_eps", 1e-5}, {"rope_theta", 1e4}, {0}};
static const mnem__hf_default olmoe_defaults[] = {{"rms_norm_eps", 1e-5},
                                                  {"rope_theta", 1e4},
                                                  {"num_experts", 64},
                                                  {"num_experts_per_tok", 8},
                                                  {0}};
static const mnem__hf_default olmo3_defaults[] = {
    {"rms_norm_eps", 1e-5}, {"rope_theta", 5e5}, {"sliding_window", 4096}, {0}};
static const mnem__hf_default granite_defaults[] = {{"rms_norm_eps", 1e-6},
                                                    {"rope_theta", 1e4},
                                                    {"attention_multiplier", 1},
                                                    {"embedding_multiplier", 1},
                                                    {"residual_multiplier", 1},
                                                    {"logits_scaling", 1},
                                                    {0}};
static const mnem__hf_default granitemoe_defaults[] = {
    {"rms_norm_eps", 1e-6},      {"rope_theta", 1e4},        {"attention_multiplier", 1},
    {"embedding_multiplier", 1}, {"residual_multiplier", 1}, {"logits_scaling", 1},
    {"num_local_experts", 8},    {"num_experts_per_tok", 2}, {0}};
static const mnem__hf_default glm4_defaults[] = {
    {"rms_norm_eps", 1.5625e-7},    {"head_dim", 128},
    {"num_key_value_heads", 2},     {"rope_theta", 1e4},
    {"partial_rotary_factor", 0.5}, {0}};
static const mnem__hf_default starcoder2_defaults[] = {
    {"norm_epsilon", 1e-5}, {"rope_theta", 1e4}, {"num_key_value_heads", 2}, {0}};
static const mnem__hf_default gpt2_defaults[] = {{"n_positions", 1024},
                                                 {"n_embd", 768},
                                                 {"n_head", 12},
                                                 {"n_layer", 12},
                                                 {"layer_norm_epsilon", 1e-5},
                                                 {0}};

/* ---- classes ---- */

static const mnem__hf_members rows[] = {
    {.classes = "LlamaForCausalLM LLaMAForCausalLM",
     .names = USUAL "attention_bias mlp_bias ",
     .defaults = llama_defaults,
     .fixed = silu},
    {.classes = "MistralForCausalLM",
     .names = USUAL "sliding_window ",
     .defaults = mistral_defaults,
     .fixed = silu,
     .windows = MNEM__HF_WINDOWS_ALL},
    {.classes = "Mistral3ForConditionalGeneration",
     .text_type = "mistral",
     .names = USUAL "sliding_window ",
     .defaults = mistral_defaults,
     .fixed = silu,
     .windows = MNEM__HF_WINDOWS_ALL},
    {.classes = "Mistral3ForConditionalGeneration Ministral3ForCausalLM",
     .text_type = "mistral4",
     .names = MISTRAL4,
     .defaults = mnem__hf_mistral4_defaults,
     .fixed = mnem__hf_mistral4_fixed},
    {.classes = "Mistral3ForConditionalGeneration Ministral3ForCausalLM",
     .names = USUAL "sliding_window ",
     .defaults = mistral3_defaults,
     .fixed = silu,
     .windows = MNEM__HF_WINDOWS_ALL},
    {.classes = "Qwen2ForCausalLM",
     .names = USUAL "use_sliding_window sliding_window max_window_layers layer_types ",
     .defaults = qwen2_defaults,
     .fixed = silu,
     .windows = MNEM__HF_WINDOWS_BEHIND},
    {.classes = "Qwen3ForCausalLM",
     .names =
         USUAL "use_sliding_window sliding_window max_window_layers layer_types attention_bias ",
     .defaults = qwen3_defaults,
     .fixed = silu,
     .windows = MNEM__HF_WINDOWS_BEHIND},
    {.classes = "Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration",
     .names = USUAL "use_sliding_window sliding_window max_window_layers layer_types ",
     .defaults = qwen2vl_defaults,
     .fixed = silu,
     .windows = MNEM__HF_WINDOWS_BEHIND},
    {.classes = "Qwen3VLForConditionalGeneration",
     .names = USUAL "attention_bias ",
     .defaults = qwen3vl_defaults,
     .fixed = silu},
    {.classes = "Gemma2ForCausalLM",
     .names = USUAL GEMMA "attn_logit_softcapping attention_bias ",
     .defaults = gemma2_defaults,
     .fixed = gemma2_fixed,
     .windows = MNEM__HF_WINDOWS_PERIOD,
     .window_period = 2},
    {.classes = "Gemma3ForCausalLM Gemma3ForConditionalGeneration",
     .names = USUAL GEMMA "rope_local_base_freq sliding_window_pattern _sliding_window_pattern "
                          "attention_bias ",
     .defaults = gemma3_defaults,
     .fixed = gemma3_fixed,
     .windows = MNEM__HF_WINDOWS_PERIOD,
     .window_period = 6},
    {.classes = "Phi3ForCausalLM",
     .names = USUAL "sliding_window partial_rotary_factor ",
     .defaults = phi3_defaults,
     .fixed = silu,
     .windows = MNEM__HF_WINDOWS_ALL},
    {.classes = "SmolLM3ForCausalLM",
     .names = USUAL "no_rope_layers no_rope_layer_interval attention_bias mlp_bias ",
     .defaults = smollm3_defaults,
     .fixed = smollm3_fixed},
    {.classes = "Olmo2ForCausalLM",
     .names = USUAL "attention_bias ",
     .defaults = olmo2_defaults,
     .fixed = silu},
    {.classes = "Olmo3ForCausalLM",
     .names = USUAL "sliding_window layer_types attention_bias ",
     .defaults = olmo3_defaults,
     .fixed = silu,
     .windows = MNEM__HF_WINDOWS_PERIOD,
     .window_period = 4},
    {.classes = "GraniteForCausalLM",
     .names = USUAL "embedding_multiplier logits_scaling residual_multiplier "
                    "attention_multiplier attention_bias mlp_bias ",
     .defaults = granite_defaults,
     .fixed = silu},
    {.classes = "Glm4ForCausalLM",
     .names = USUAL "partial_rotary_factor attention_bias ",
     .defaults = glm4_defaults,
     .fixed = silu},
    {.classes = "Starcoder2ForCausalLM",
     .names = DECODER ROPE "norm_epsilon sliding_window use_bias ",
     .defaults = starcoder2_defaults,
     .fixed = starcoder2_fixed,
     .windows = MNEM__HF_WINDOWS_ALL},
    {.classes = "GPT2LMHeadModel",
     .names = " model_type tie_word_embeddings quantization_config vocab_size n_positions n_embd "
              "n_layer n_head n_inner layer_norm_epsilon hidden_size max_position_embeddings "
              "num_attention_heads num_hidden_layers n_ctx ",
     .defaults = gpt2_defaults,
     .fixed = gpt2_fixed},
    {.classes = "MixtralForCausalLM",
     .names = USUAL EXPERTS "num_local_experts num_experts sliding_window ",
     .defaults = mixtral_defaults,
     .fixed = silu,
     .windows = MNEM__HF_WINDOWS_ALL},
    {.classes = "GraniteMoeForCausalLM",
     .names = USUAL EXPERTS "num_local_experts embedding_multiplier logits_scaling "
                            "residual_multiplier attention_multiplier attention_bias ",
     .defaults = granitemoe_defaults,
     .fixed = silu},
    {.classes = "GraniteMoeSharedForCausalLM",
     .names = USUAL EXPERTS "num_local_experts embedding_multiplier logits_scaling "
                            "residual_multiplier attention_multiplier attention_bias "
                            "shared_intermediate_size ",
     .defaults = granitemoe_defaults,
     .fixed = silu},
    {.classes = "OlmoeForCausalLM",
     .names = USUAL EXPERTS "num_experts num_local_experts norm_topk_prob attention_bias ",
     .defaults = olmoe_defaults,
     .fixed = olmoe_fixed},
    {.classes = "Qwen2MoeForCausalLM",
     .names = USUAL EXPERTS "num_experts moe_intermediate_size shared_expert_intermediate_size "
                            "norm_topk_prob qkv_bias ",
     .defaults = qwen2moe_defaults,
     .fixed = qwen2moe_fixed},
    {.classes = "Qwen3MoeForCausalLM",
     .names = USUAL EXPERTS "num_experts num_local_experts moe_intermediate_size norm_topk_prob "
                            "use_sliding_window sliding_window attention_bias ",
     .defaults = qwen3moe_defaults,
     .fixed = qwen3moe_fixed,
     .windows = MNEM__HF_WINDOWS_ALL},
    {.classes = "Qwen3VLMoeForConditionalGeneration",
     .names = USUAL EXPERTS "num_experts num_local_experts moe_intermediate_size attention_bias ",
     .defaults = qwen3vlmoe_defaults,
     .fixed = qwen3moe_fixed},
    {.classes = "GptOssForCausalLM",
     .names =
         USUAL EXPERTS "num_local_experts num_experts sliding_window layer_types attention_bias ",
     .defaults = gpt_oss_defaults,
     .fixed = gpt_oss_fixed,
     .windows = MNEM__HF_WINDOWS_PERIOD,
     .window_period = 2},
    {.classes = "DeepseekV2ForCausalLM",
     .names = DEEPSEEK,
     .defaults = deepseek2_defaults,
     .fixed = deepseek2_fixed},
    {.classes = "DeepseekV3ForCausalLM",
     .names = DEEPSEEK "num_local_experts ",
     .defaults = deepseek3_defaults,
     .fixed = deepseek3_fixed},
    {.classes = "BertModel BertForMaskedLM",
     .names = OF_ALL "intermediate_size num_hidden_layers num_attention_heads "
                     "max_position_embeddings layer_norm_eps type_vocab_size ",
     .defaults = bert_defaults,
     .fixed = bert_fixed},
    {.classes = "NomicBertModel",
     .names = DECODER ROPE "layer_norm_eps type_vocab_size n_embd n_layer n_head n_inner "
                           "n_positions layer_norm_epsilon rotary_emb_base ",
     .defaults = nomic_defaults,
     .fixed = nomic_fixed},
    {.classes = "Lfm2ForCausalLM LFM2ForCausalLM",
     .names = " block_ff_dim" DECODER ROPE "tie_embedding norm_eps conv_L_cache block_multiple_of "
              "block_ffn_dim_multiplier block_auto_adjust_ff_dim full_attn_idxs "
              "layer_types ",
     .defaults = lfm2_defaults,
     .fixed = lfm2_fixed},
    {.classes = "Lfm2MoeForCausalLM",
     .names = DECODER ROPE EXPERTS
     "tie_embedding norm_eps conv_L_cache layer_types num_experts "
     "moe_intermediate_size num_dense_layers norm_topk_prob routed_scaling_factor "
     "use_expert_bias ",
     .defaults = lfm2moe_defaults,
     .fixed = lfm2moe_fixed},
    {.classes = "Glm4MoeForCausalLM",
     .names = USUAL EXPERTS
     "partial_rotary_factor attention_bias n_routed_experts "
     "num_local_experts moe_intermediate_size first_k_dense_replace n_shared_experts "
     "n_group topk_group norm_topk_prob routed_scaling_factor use_qk_norm ",
     .defaults = glm4moe_defaults,
     .fixed = silu},
    {.classes = "MiniMaxM2ForCausalLM",
     .names = USUAL EXPERTS "partial_rotary_factor num_local_experts num_experts rotary_dim ",
     .defaults = minimax_defaults,
     .fixed = minimax_fixed},
};

static const mnem__hf_members *find_in(const mnem__hf_members *in, int count,
                                       const char *class_name, const char *text_type) {
    for (const mnem__hf_members *m = in; m < in + count; m++)
        if (mnem__hf_has_word(m->classes, class_name) &&
            (!m->text_type || (text_type && strcmp(m->text_type, text_type) == 0)))
            return m;
    return NULL;
}

const mnem__hf_members *mnem__hf_members_find(const char *class_name, const char *text_type) {
    const mnem__hf_members *found =
        find_in(rows, sizeof rows / sizeof *rows, class_name, text_type);
    for (const mnem__hf_table *const *t = mnem__hf_tables; *t && !found; t++)
        found = find_in((*t)->members, (*t)->members_count, class_name, text_type);
    return found;
}
