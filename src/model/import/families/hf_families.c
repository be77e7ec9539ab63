/* hf_families.c: the families, one row each, and the names that most of them share. */
#include <string.h>

#include "model/import/families/hf_rows.h"

#define OUT "." /* names outside of layers begin so */

static const mnem__hf_name common[] = {{OUT "embed_tokens", "token_embd", MNEM__HF_AS_IS},
                                       {OUT "norm", "output_norm", MNEM__HF_AS_IS},
                                       {OUT "lm_head", "output", MNEM__HF_AS_IS},
                                       {"input_layernorm", "attn_norm", MNEM__HF_AS_IS},
                                       {"post_attention_layernorm", "ffn_norm", MNEM__HF_AS_IS},
                                       {"self_attn.q_proj", "attn_q", MNEM__HF_AS_IS},
                                       {"self_attn.k_proj", "attn_k", MNEM__HF_AS_IS},
                                       {"self_attn.v_proj", "attn_v", MNEM__HF_AS_IS},
                                       {"self_attn.qkv_proj", "attn_qkv", MNEM__HF_AS_IS},
                                       {"self_attn.o_proj", "attn_output", MNEM__HF_AS_IS},
                                       {"self_attn.q_norm", "attn_q_norm", MNEM__HF_AS_IS},
                                       {"self_attn.k_norm", "attn_k_norm", MNEM__HF_AS_IS},
                                       {"self_attn.rotary_emb.inv_freq", "", MNEM__HF_DROP},
                                       {"self_attn.masked_bias", "", MNEM__HF_DROP},
                                       {"mlp.gate_proj", "ffn_gate", MNEM__HF_AS_IS},
                                       {"mlp.up_proj", "ffn_up", MNEM__HF_AS_IS},
                                       {"mlp.down_proj", "ffn_down", MNEM__HF_AS_IS},
                                       {"mlp.gate_up_proj", "ffn_up", MNEM__HF_AS_IS},
                                       {0}};

/* Heads that are turned by neighbours. */
const mnem__hf_name mnem__hf_turned_names[] = {{"self_attn.q_proj", "attn_q", MNEM__HF_TURN_Q},
                                               {"self_attn.k_proj", "attn_k", MNEM__HF_TURN_K},
                                               {0}};

/* Norms behind the parts, and with Gemma before them too. */
static const mnem__hf_name post_norms[] = {
    {"post_attention_layernorm", "post_attention_norm", MNEM__HF_AS_IS},
    {"pre_feedforward_layernorm", "ffn_norm", MNEM__HF_AS_IS},
    {"post_feedforward_layernorm", "post_ffw_norm", MNEM__HF_AS_IS},
    {OUT "lm_head", "output", MNEM__HF_AS_IS},
    {0}};
static const mnem__hf_name gemma2[] = {
    {"post_attention_layernorm", "post_attention_norm", MNEM__HF_AS_IS},
    {"pre_feedforward_layernorm", "ffn_norm", MNEM__HF_AS_IS},
    {"post_feedforward_layernorm", "post_ffw_norm", MNEM__HF_AS_IS},
    {OUT "lm_head", "", MNEM__HF_DROP},
    {0}};
static const mnem__hf_name gemma3[] = {
    {OUT "embed_tokens", "token_embd", MNEM__HF_CUT_VOCAB},
    {"post_attention_layernorm", "post_attention_norm", MNEM__HF_AS_IS},
    {"pre_feedforward_layernorm", "ffn_norm", MNEM__HF_AS_IS},
    {"post_feedforward_layernorm", "post_ffw_norm", MNEM__HF_AS_IS},
    {0}};
static const mnem__hf_name glm4[] = {
    {"post_self_attn_layernorm", "post_attention_norm", MNEM__HF_AS_IS},
    {"post_mlp_layernorm", "post_ffw_norm", MNEM__HF_AS_IS},
    {0}};
static const mnem__hf_name starcoder2[] = {
    {"mlp.c_fc", "ffn_up", MNEM__HF_AS_IS}, {"mlp.c_proj", "ffn_down", MNEM__HF_AS_IS}, {0}};
static const mnem__hf_name gpt2[] = {{OUT "wte", "token_embd", MNEM__HF_AS_IS},
                                     {OUT "wpe", "position_embd", MNEM__HF_AS_IS},
                                     {OUT "ln_f", "output_norm", MNEM__HF_AS_IS},
                                     {"ln_1", "attn_norm", MNEM__HF_AS_IS},
                                     {"attn.c_attn", "attn_qkv", MNEM__HF_TRANSPOSE},
                                     {"attn.c_proj", "attn_output", MNEM__HF_TRANSPOSE},
                                     {"attn", "", MNEM__HF_DROP}, /* attn.bias: a mask */
                                     {"attn.masked_bias", "", MNEM__HF_DROP},
                                     {"ln_2", "ffn_norm", MNEM__HF_AS_IS},
                                     {"mlp.c_fc", "ffn_up", MNEM__HF_TRANSPOSE},
                                     {"mlp.c_proj", "ffn_down", MNEM__HF_TRANSPOSE},
                                     {0}};

static const mnem__hf_name experts[] = {
    {"mlp.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"mlp.experts.*.down_proj", "ffn_down_exps", MNEM__HF_STACK},
    {"mlp.experts.*.gate_proj", "ffn_gate_exps", MNEM__HF_STACK},
    {"mlp.experts.*.up_proj", "ffn_up_exps", MNEM__HF_STACK},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp", MNEM__HF_AS_IS},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp", MNEM__HF_AS_IS},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp", MNEM__HF_AS_IS},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp", MNEM__HF_AS_IS},
    {0}};
static const mnem__hf_name qwen3vlmoe[] = {
    {"mlp.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"mlp.experts.gate_up_proj", "ffn_gate_exps.weight", MNEM__HF_HALF_1},
    {"mlp.experts.gate_up_proj", "ffn_up_exps.weight", MNEM__HF_HALF_2},
    {"mlp.experts.down_proj", "ffn_down_exps.weight", MNEM__HF_HALVES},
    {0}};
static const mnem__hf_name granitemoe[] = {
    {"self_attn.q_proj", "attn_q", MNEM__HF_TURN_Q},
    {"self_attn.k_proj", "attn_k", MNEM__HF_TURN_K},
    {"block_sparse_moe.router.layer", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"block_sparse_moe.input_linear", "ffn_gate_exps", MNEM__HF_HALF_1},
    {"block_sparse_moe.input_linear", "ffn_up_exps", MNEM__HF_HALF_2},
    {"block_sparse_moe.output_linear", "ffn_down_exps", MNEM__HF_AS_IS},
    {"shared_mlp.input_linear", "ffn_gate_shexp", MNEM__HF_HALF_1},
    {"shared_mlp.input_linear", "ffn_up_shexp", MNEM__HF_HALF_2},
    {"shared_mlp.output_linear", "ffn_down_shexp", MNEM__HF_AS_IS},
    {0}};
static const mnem__hf_name mixtral[] = {
    {"self_attn.q_proj", "attn_q", MNEM__HF_TURN_Q},
    {"self_attn.k_proj", "attn_k", MNEM__HF_TURN_K},
    {"block_sparse_moe.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"block_sparse_moe.experts.*.w1", "ffn_gate_exps", MNEM__HF_STACK},
    {"block_sparse_moe.experts.*.w2", "ffn_down_exps", MNEM__HF_STACK},
    {"block_sparse_moe.experts.*.w3", "ffn_up_exps", MNEM__HF_STACK},
    {0}};
static const mnem__hf_name lfm2[] = {{OUT "embedding_norm", "token_embd_norm", MNEM__HF_AS_IS},
                                     {"operator_norm", "attn_norm", MNEM__HF_AS_IS},
                                     {"ffn_norm", "ffn_norm", MNEM__HF_AS_IS},
                                     {"self_attn.q_layernorm", "attn_q_norm", MNEM__HF_AS_IS},
                                     {"self_attn.k_layernorm", "attn_k_norm", MNEM__HF_AS_IS},
                                     {"self_attn.out_proj", "attn_output", MNEM__HF_AS_IS},
                                     {"conv.conv", "shortconv.conv", MNEM__HF_SQUEEZE},
                                     {"conv.in_proj", "shortconv.in_proj", MNEM__HF_AS_IS},
                                     {"conv.out_proj", "shortconv.out_proj", MNEM__HF_AS_IS},
                                     {"feed_forward.w1", "ffn_gate", MNEM__HF_AS_IS},
                                     {"feed_forward.w2", "ffn_down", MNEM__HF_AS_IS},
                                     {"feed_forward.w3", "ffn_up", MNEM__HF_AS_IS},
                                     {0}};

static const mnem__hf_name lfm2moe[] = {
    {OUT "embedding_norm", "token_embd_norm", MNEM__HF_AS_IS},
    {"operator_norm", "attn_norm", MNEM__HF_AS_IS},
    {"ffn_norm", "ffn_norm", MNEM__HF_AS_IS},
    {"self_attn.q_layernorm", "attn_q_norm", MNEM__HF_AS_IS},
    {"self_attn.k_layernorm", "attn_k_norm", MNEM__HF_AS_IS},
    {"self_attn.out_proj", "attn_output", MNEM__HF_AS_IS},
    {"conv.conv", "shortconv.conv", MNEM__HF_SQUEEZE},
    {"conv.in_proj", "shortconv.in_proj", MNEM__HF_AS_IS},
    {"conv.out_proj", "shortconv.out_proj", MNEM__HF_AS_IS},
    {"feed_forward.w1", "ffn_gate", MNEM__HF_AS_IS},
    {"feed_forward.w2", "ffn_down", MNEM__HF_AS_IS},
    {"feed_forward.w3", "ffn_up", MNEM__HF_AS_IS},
    {"feed_forward.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"feed_forward.expert_bias", "exp_probs_b.bias", MNEM__HF_AS_IS},
    {"feed_forward.experts.*.w1", "ffn_gate_exps", MNEM__HF_STACK},
    {"feed_forward.experts.*.w2", "ffn_down_exps", MNEM__HF_STACK},
    {"feed_forward.experts.*.w3", "ffn_up_exps", MNEM__HF_STACK},
    {0}};
static const mnem__hf_name glm4moe[] = {
    {"post_attention_layernorm", "post_attention_norm", MNEM__HF_AS_IS},
    {"mlp.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias", MNEM__HF_AS_IS},
    {"mlp.experts.*.down_proj", "ffn_down_exps", MNEM__HF_STACK},
    {"mlp.experts.*.gate_proj", "ffn_gate_exps", MNEM__HF_STACK},
    {"mlp.experts.*.up_proj", "ffn_up_exps", MNEM__HF_STACK},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp", MNEM__HF_AS_IS},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp", MNEM__HF_AS_IS},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp", MNEM__HF_AS_IS},
    {0}};
static const mnem__hf_name minimax_m2[] = {
    {"block_sparse_moe.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias", MNEM__HF_AS_IS},
    {"block_sparse_moe.experts.*.w1", "ffn_gate_exps", MNEM__HF_STACK},
    {"block_sparse_moe.experts.*.w2", "ffn_down_exps", MNEM__HF_STACK},
    {"block_sparse_moe.experts.*.w3", "ffn_up_exps", MNEM__HF_STACK},
    {0}};

static const mnem__hf_name gpt_oss[] = {
    {"post_attention_layernorm", "post_attention_norm", MNEM__HF_AS_IS},
    {"self_attn.sinks", "attn_sinks.weight", MNEM__HF_AS_IS},
    {"mlp.router", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"mlp.experts.gate_up_proj", "ffn_gate_exps.weight", MNEM__HF_EVEN_TRANSPOSED},
    {"mlp.experts.gate_up_proj", "ffn_up_exps.weight", MNEM__HF_ODD_TRANSPOSED},
    {"mlp.experts.gate_up_proj_blocks", "ffn_gate_exps.weight", MNEM__HF_BLOCKS_EVEN},
    {"mlp.experts.gate_up_proj_blocks", "ffn_up_exps.weight", MNEM__HF_BLOCKS_ODD},
    {"mlp.experts.gate_up_proj_scales", "", MNEM__HF_DROP}, /* read with the blocks */
    {"mlp.experts.gate_up_proj_bias", "ffn_gate_exps.bias", MNEM__HF_EVEN},
    {"mlp.experts.gate_up_proj_bias", "ffn_up_exps.bias", MNEM__HF_ODD},
    {"mlp.experts.down_proj", "ffn_down_exps.weight", MNEM__HF_EACH_TRANSPOSED},
    {"mlp.experts.down_proj_blocks", "ffn_down_exps.weight", MNEM__HF_BLOCKS_ALL},
    {"mlp.experts.down_proj_scales", "", MNEM__HF_DROP},
    {"mlp.experts.down_proj_bias", "ffn_down_exps.bias", MNEM__HF_AS_IS},
    {0}};
const mnem__hf_name mnem__hf_deepseek_names[] = {
    {"self_attn.q_a_proj", "attn_q_a", MNEM__HF_AS_IS},
    {"self_attn.q_a_layernorm", "attn_q_a_norm", MNEM__HF_AS_IS},
    {"self_attn.q_b_proj", "attn_q_b", MNEM__HF_AS_IS},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", MNEM__HF_AS_IS},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm", MNEM__HF_AS_IS},
    {"self_attn.kv_b_proj", "attn_k_b", MNEM__HF_HEAD_KEYS},
    {"self_attn.kv_b_proj", "attn_v_b", MNEM__HF_HEAD_VALUES},
    {"mlp.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias", MNEM__HF_AS_IS},
    {"mlp.experts.*.down_proj", "ffn_down_exps", MNEM__HF_STACK},
    {"mlp.experts.*.gate_proj", "ffn_gate_exps", MNEM__HF_STACK},
    {"mlp.experts.*.up_proj", "ffn_up_exps", MNEM__HF_STACK},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp", MNEM__HF_AS_IS},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp", MNEM__HF_AS_IS},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp", MNEM__HF_AS_IS},
    {0}};
static const mnem__hf_name bert[] = {
    {OUT "embeddings.word_embeddings", "token_embd", MNEM__HF_AS_IS},
    {OUT "embeddings.token_type_embeddings", "token_types", MNEM__HF_AS_IS},
    {OUT "embeddings.position_embeddings", "position_embd", MNEM__HF_AS_IS},
    {OUT "embeddings.LayerNorm", "token_embd_norm", MNEM__HF_AS_IS},
    {"attention.self.query", "attn_q", MNEM__HF_AS_IS},
    {"attention.self.key", "attn_k", MNEM__HF_AS_IS},
    {"attention.self.value", "attn_v", MNEM__HF_AS_IS},
    {"attention.output.dense", "attn_output", MNEM__HF_AS_IS},
    {"attention.output.LayerNorm", "attn_output_norm", MNEM__HF_AS_IS},
    {"intermediate.dense", "ffn_up", MNEM__HF_AS_IS},
    {"output.dense", "ffn_down", MNEM__HF_AS_IS},
    {"output.LayerNorm", "layer_output_norm", MNEM__HF_AS_IS},
    {0}};
static const mnem__hf_name nomic_bert[] = {
    {OUT "embeddings.word_embeddings", "token_embd", MNEM__HF_AS_IS},
    {OUT "embeddings.token_type_embeddings", "token_types", MNEM__HF_AS_IS},
    {OUT "emb_ln", "token_embd_norm", MNEM__HF_AS_IS},
    {"attn.Wqkv", "attn_qkv", MNEM__HF_AS_IS},
    {"attn.out_proj", "attn_output", MNEM__HF_AS_IS},
    {"norm1", "attn_output_norm", MNEM__HF_AS_IS},
    {"mlp.fc11", "ffn_up", MNEM__HF_AS_IS},
    {"mlp.fc12", "ffn_gate", MNEM__HF_AS_IS},
    {"mlp.fc2", "ffn_down", MNEM__HF_AS_IS},
    {"norm2", "layer_output_norm", MNEM__HF_AS_IS},
    {0}};

enum {
    ENCODER_KEYS = MNEM__HF_BLOCKS | MNEM__HF_CONTEXT | MNEM__HF_WIDTHS | MNEM__HF_HEADS |
                   MNEM__HF_EPSILON | MNEM__HF_ENCODER
};

static const mnem__hf_family families[] = {
    {.classes = "LlamaForCausalLM LLaMAForCausalLM MistralForCausalLM",
     .architecture = "llama",
     .names = mnem__hf_turned_names,
     .keys = MNEM__HF_LLAMA_KEYS,
     .traits = MNEM__HF_LLAMA3_FACTORS | MNEM__HF_MAKES_HEAD_DIM | MNEM__HF_SAYS_PREFIX,
     .pre = "llama-bpe smollm tekken"},
    {.classes = "Mistral3ForConditionalGeneration Ministral3ForCausalLM",
     .architecture = "mistral3",
     .names = mnem__hf_turned_names,
     .keys = MNEM__HF_LLAMA_KEYS | MNEM__HF_TEMPERATURE,
     .traits = MNEM__HF_LLAMA3_FACTORS | MNEM__HF_SAYS_PREFIX,
     .other_type = "mistral4",
     .other = &mnem__hf_mistral4,
     .pre = "tekken"},
    {.classes = "Qwen2ForCausalLM",
     .architecture = "qwen2",
     .keys = MNEM__HF_USUAL,
     .pre = "qwen2"},
    {.classes = "Qwen3ForCausalLM",
     .architecture = "qwen3",
     .keys = MNEM__HF_USUAL,
     .pre = "qwen2"},
    {.classes = "Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration",
     .architecture = "qwen2vl",
     .keys = MNEM__HF_USUAL | MNEM__HF_SECTIONS,
     .pre = "qwen2"},
    {.classes = "Qwen3VLForConditionalGeneration",
     .architecture = "qwen3vl",
     .keys = MNEM__HF_USUAL | MNEM__HF_SECTIONS,
     .pre = "qwen2"},
    {.classes = "Gemma2ForCausalLM",
     .architecture = "gemma2",
     .names = gemma2,
     .keys = MNEM__HF_BLOCKS | MNEM__HF_CONTEXT | MNEM__HF_WIDTHS | MNEM__HF_HEADS |
             MNEM__HF_KV_HEADS | MNEM__HF_SCALING | MNEM__HF_BASE | MNEM__HF_RMS_EPSILON |
             MNEM__HF_HEAD_DIM | MNEM__HF_WINDOW | MNEM__HF_ATTENTION_CAP | MNEM__HF_LOGIT_CAP |
             MNEM__HF_SCORE_SCALE,
     .traits = MNEM__HF_NORM_PLUS_1 | MNEM__HF_NO_SPACE_PREFIX},
    {.classes = "Gemma3ForCausalLM Gemma3ForConditionalGeneration",
     .architecture = "gemma3",
     .names = gemma3,
     .keys = MNEM__HF_USUAL | MNEM__HF_WINDOW | MNEM__HF_LOGIT_CAP | MNEM__HF_SCORE_SCALE,
     .traits = MNEM__HF_NORM_PLUS_1 | MNEM__HF_NO_SPACE_PREFIX | MNEM__HF_TWO_BASES},
    {.classes = "Phi3ForCausalLM",
     .architecture = "phi3",
     .keys = (MNEM__HF_USUAL & ~(unsigned)MNEM__HF_HEAD_DIM) | MNEM__HF_ROPE_DIMS |
             MNEM__HF_WINDOW | MNEM__HF_ORIGINAL,
     .traits = MNEM__HF_LONG_FACTORS | MNEM__HF_NO_HEAD_DIM,
     .pre = "dbrx"},
    {.classes = "SmolLM3ForCausalLM",
     .architecture = "smollm3",
     .names = mnem__hf_turned_names,
     .keys = MNEM__HF_LLAMA_KEYS,
     .traits = MNEM__HF_LLAMA3_FACTORS | MNEM__HF_SAYS_PREFIX,
     .pre = "llama-bpe"},
    {.classes = "Olmo2ForCausalLM",
     .architecture = "olmo2",
     .names = post_norms,
     .keys = MNEM__HF_USUAL,
     .pre = "dbrx"},
    {.classes = "Olmo3ForCausalLM",
     .architecture = "olmo2",
     .names = post_norms,
     .keys = MNEM__HF_USUAL | MNEM__HF_PATTERN,
     .traits = MNEM__HF_TWO_BASES,
     .pre = "dbrx"},
    {.classes = "GraniteForCausalLM",
     .architecture = "granite",
     .names = mnem__hf_turned_names,
     .keys = MNEM__HF_LLAMA_KEYS | MNEM__HF_SCALES,
     .traits = MNEM__HF_LLAMA3_FACTORS | MNEM__HF_NO_HEAD_DIM | MNEM__HF_SAYS_PREFIX,
     .pre = "refact dbrx"},
    {.classes = "Glm4ForCausalLM",
     .architecture = "glm4",
     .names = glm4,
     .keys = MNEM__HF_USUAL | MNEM__HF_ROPE_DIMS,
     .traits = MNEM__HF_GLM_ENDS,
     .pre = "glm4"},
    {.classes = "Starcoder2ForCausalLM",
     .architecture = "starcoder2",
     .names = starcoder2,
     .keys = MNEM__HF_USUAL,
     .pre = "starcoder"},
    {.classes = "GPT2LMHeadModel",
     .architecture = "gpt2",
     .names = gpt2,
     .keys = MNEM__HF_BLOCKS | MNEM__HF_CONTEXT | MNEM__HF_WIDTHS | MNEM__HF_HEADS |
             MNEM__HF_EPSILON | MNEM__HF_FF_OF_EMBD,
     .pre = "gpt-2"},
    {.classes = "MixtralForCausalLM",
     .architecture = "llama",
     .names = mixtral,
     .keys = MNEM__HF_LLAMA_KEYS | MNEM__HF_EXPERTS,
     .traits = MNEM__HF_SAYS_PREFIX,
     .pre = "tekken"},
    {.classes = "GraniteMoeForCausalLM GraniteMoeSharedForCausalLM",
     .architecture = "granitemoe",
     .names = granitemoe,
     .keys = MNEM__HF_LLAMA_KEYS | MNEM__HF_SCALES | MNEM__HF_EXPERTS,
     .traits = MNEM__HF_NO_HEAD_DIM | MNEM__HF_SAYS_PREFIX,
     .pre = "refact dbrx"},
    {.classes = "OlmoeForCausalLM",
     .architecture = "olmoe",
     .names = experts,
     .keys = MNEM__HF_USUAL | MNEM__HF_EXPERTS,
     .pre = "olmo gpt-2"},
    {.classes = "Qwen2MoeForCausalLM",
     .architecture = "qwen2moe",
     .names = experts,
     .keys = MNEM__HF_USUAL | MNEM__HF_EXPERTS,
     .pre = "qwen2"},
    {.classes = "Qwen3MoeForCausalLM",
     .architecture = "qwen3moe",
     .names = experts,
     .keys = MNEM__HF_USUAL | MNEM__HF_EXPERTS,
     .traits = MNEM__HF_NORMALIZED,
     .pre = "qwen2"},
    {.classes = "Qwen3VLMoeForConditionalGeneration",
     .architecture = "qwen3vlmoe",
     .names = qwen3vlmoe,
     .keys = MNEM__HF_USUAL | MNEM__HF_SECTIONS | MNEM__HF_EXPERTS,
     .pre = "qwen2"},
    {.classes = "GptOssForCausalLM",
     .architecture = "gpt-oss",
     .names = gpt_oss,
     .keys = MNEM__HF_USUAL | MNEM__HF_WINDOW | MNEM__HF_EXPERTS | MNEM__HF_FF_EXPERTS,
     .traits = MNEM__HF_MXFP4 | MNEM__HF_YARN_UNROUNDED | MNEM__HF_SCALED,
     .pre = "gpt-4o"},
    {.classes = "DeepseekV2ForCausalLM",
     .architecture = "deepseek2",
     .names = mnem__hf_deepseek_names,
     .keys = MNEM__HF_DEEPSEEK_KEYS,
     .traits = MNEM__HF_LAYERS_BEHIND | MNEM__HF_NO_HEAD_DIM,
     .pre = "deepseek-llm deepseek-coder"},
    {.classes = "DeepseekV3ForCausalLM",
     .architecture = "deepseek2",
     .names = mnem__hf_deepseek_names,
     .keys = MNEM__HF_DEEPSEEK_KEYS,
     .traits = MNEM__HF_LAYERS_BEHIND | MNEM__HF_NO_HEAD_DIM | MNEM__HF_SIGMOID,
     .pre = "deepseek-v3"},
    {.classes = "BertModel BertForMaskedLM",
     .architecture = "bert",
     .names = bert,
     .keys = ENCODER_KEYS},
    {.classes = "NomicBertModel",
     .architecture = "nomic-bert",
     .names = nomic_bert,
     .keys = ENCODER_KEYS | MNEM__HF_SCALING | MNEM__HF_BASE | MNEM__HF_HEAD_DIM},
    {.classes = "Lfm2ForCausalLM LFM2ForCausalLM",
     .architecture = "lfm2",
     .names = lfm2,
     .keys = MNEM__HF_USUAL | MNEM__HF_VOCAB | MNEM__HF_SHORT_CONV,
     .pre = "lfm2"},
    {.classes = "Lfm2MoeForCausalLM",
     .architecture = "lfm2moe",
     .names = lfm2moe,
     .keys = MNEM__HF_USUAL | MNEM__HF_VOCAB | MNEM__HF_SHORT_CONV | MNEM__HF_EXPERTS |
             MNEM__HF_GATING | MNEM__HF_LEADING,
     .traits = MNEM__HF_SIGMOID | MNEM__HF_NORMALIZED,
     .pre = "lfm2"},
    {.classes = "Glm4MoeForCausalLM",
     .architecture = "glm4moe",
     .names = glm4moe,
     .keys = MNEM__HF_USUAL | MNEM__HF_ROPE_DIMS | MNEM__HF_EXPERTS | MNEM__HF_GATING |
             MNEM__HF_LEADING,
     .traits = MNEM__HF_GLM_MASK_ENDS | MNEM__HF_LAYERS_BEHIND | MNEM__HF_SIGMOID,
     .pre = "glm4"},
    {.classes = "MiniMaxM2ForCausalLM",
     .architecture = "minimax-m2",
     .names = minimax_m2,
     .keys = MNEM__HF_USUAL | MNEM__HF_ROPE_DIMS | MNEM__HF_EXPERTS | MNEM__HF_FF_EXPERTS,
     .pre = "minimax-m2"},
};

enum { FAMILIES = sizeof families / sizeof *families };

bool mnem__hf_has_word(const char *words, const char *word) {
    const size_t n = strlen(word);
    for (const char *at = words; at; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, word, n) == 0 && (at[n] == 0 || at[n] == ' ')) return n > 0;
    }
    return false;
}

const mnem__hf_table *const mnem__hf_tables[] = {&mnem__hf_dense,
                                                 &mnem__hf_latents,
                                                 &mnem__hf_mixtures,
                                                 &mnem__hf_leading,
                                                 &mnem__hf_delta_nets,
                                                 &mnem__hf_stateful,
                                                 NULL};

static const mnem__hf_family *family_at(int index) {
    if (index < FAMILIES) return &families[index];
    index -= FAMILIES;
    for (const mnem__hf_table *const *t = mnem__hf_tables; *t; index -= (*t++)->families_count)
        if (index < (*t)->families_count) return &(*t)->families[index];
    return NULL;
}

const mnem__hf_family *mnem__hf_family_find(const char *class_name) {
    const mnem__hf_family *family;
    for (int i = 0; (family = family_at(i)); i++)
        if (!strchr(class_name, ' ') && mnem__hf_has_word(family->classes, class_name))
            return family;
    return NULL;
}

const mnem__hf_family *mnem__hf_family_of(const char *architecture) {
    const mnem__hf_family *family;
    for (int i = 0; (family = family_at(i)); i++)
        if (strcmp(family->architecture, architecture) == 0) return family;
    return NULL;
}

const mnem__hf_name *mnem__hf_name_find(const mnem__hf_family *family, bool in_layer,
                                        const char *base, size_t n) {
    const mnem__hf_name *const tables[] = {family->names, common};
    for (int i = 0; i < 2; i++)
        for (const mnem__hf_name *row = tables[i]; row && row->from; row++) {
            const bool outer = row->from[0] == '.';
            const char *from = row->from + outer;
            if (outer != in_layer && strlen(from) == n && memcmp(from, base, n) == 0) return row;
        }
    return NULL;
}
