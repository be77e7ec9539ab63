/* hf_latents.c: families whose attention goes through a latent, as DeepSeek-V2's, beside those of
 * hf_families.c. */
#include "model/import/families/hf_rows.h"

/* ---- names ---- */

#define INDEXER                                                                                    \
    {"self_attn.indexer.wq_b", "indexer.attn_q_b", MNEM__HF_AS_IS},                                \
        {"self_attn.indexer.wk", "indexer.attn_k", MNEM__HF_AS_IS},                                \
        {"self_attn.indexer.k_norm", "indexer.k_norm", MNEM__HF_AS_IS}, {                          \
        "self_attn.indexer.weights_proj", "indexer.proj", MNEM__HF_AS_IS                           \
    }
static const mnem__hf_name indexed[] = {
    {"self_attn.q_a_proj", "attn_q_a", MNEM__HF_AS_IS},
    {"self_attn.q_a_layernorm", "attn_q_a_norm", MNEM__HF_AS_IS},
    {"self_attn.q_b_proj", "attn_q_b", MNEM__HF_AS_IS},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", MNEM__HF_AS_IS},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm", MNEM__HF_AS_IS},
    {"self_attn.kv_b_proj", "attn_k_b", MNEM__HF_HEAD_KEYS},
    {"self_attn.kv_b_proj", "attn_v_b", MNEM__HF_HEAD_VALUES},
    INDEXER,
    {"mlp.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias", MNEM__HF_AS_IS},
    STACKED,
    SHARED,
    {0}};

/* Gates and ups stay in one. */
static const mnem__hf_name mistral4[] = {
    {"self_attn.q_a_proj", "attn_q_a", MNEM__HF_AS_IS},
    {"self_attn.q_a_layernorm", "attn_q_a_norm", MNEM__HF_AS_IS},
    {"self_attn.q_b_proj", "attn_q_b", MNEM__HF_AS_IS},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", MNEM__HF_AS_IS},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm", MNEM__HF_AS_IS},
    {"self_attn.kv_b_proj", "attn_k_b", MNEM__HF_HEAD_KEYS},
    {"self_attn.kv_b_proj", "attn_v_b", MNEM__HF_HEAD_VALUES},
    {"mlp.gate", "ffn_gate_inp", MNEM__HF_AS_IS},
    {"mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight", MNEM__HF_AS_IS},
    {"mlp.experts.down_proj", "ffn_down_exps.weight", MNEM__HF_AS_IS},
    SHARED,
    {0}};

/* ---- families ---- */

#define MISTRAL4_FAMILY                                                                            \
    {                                                                                              \
        .classes = "Mistral4ForCausalLM", .architecture = "mistral4", .names = mistral4,           \
        .keys = MNEM__HF_DEEPSEEK_KEYS | MNEM__HF_TEMPERATURE,                                     \
        .traits =                                                                                  \
            MNEM__HF_NO_HEAD_DIM | MNEM__HF_SAYS_PREFIX | MNEM__HF_SCALED | MNEM__HF_GROUPED,      \
        .pre = "tekken"                                                                            \
    }
const mnem__hf_family mnem__hf_mistral4 = MISTRAL4_FAMILY;

static const mnem__hf_family families[] = {
    MISTRAL4_FAMILY,
    {.classes = "Glm4MoeLiteForCausalLM",
     .architecture = "deepseek2",
     .names = mnem__hf_deepseek_names,
     .keys = MNEM__HF_DEEPSEEK_KEYS,
     .traits =
         MNEM__HF_LAYERS_BEHIND | MNEM__HF_NO_HEAD_DIM | MNEM__HF_SIGMOID | MNEM__HF_GLM_MASK_ENDS,
     .pre = "glm4"},
    {.classes = "DeepseekV32ForCausalLM",
     .architecture = "deepseek32",
     .names = indexed,
     .keys = MNEM__HF_DEEPSEEK_KEYS,
     .traits = MNEM__HF_INDEXER | MNEM__HF_LAYERS_BEHIND | MNEM__HF_NO_HEAD_DIM | MNEM__HF_SIGMOID,
     .pre = "deepseek-v3"},
    {.classes = "GlmMoeDsaForCausalLM",
     .architecture = "glm-dsa",
     .names = indexed,
     .keys = MNEM__HF_DEEPSEEK_KEYS,
     .traits = MNEM__HF_INDEXER | MNEM__HF_LAYERS_BEHIND | MNEM__HF_NO_HEAD_DIM | MNEM__HF_SIGMOID |
               MNEM__HF_GLM_MASK_ENDS,
     .pre = "glm4"},
};

/* ---- what classes take ---- */

static const mnem__hf_fixed glm4_lite_fixed[] = {
    {"hidden_act", "silu swish"}, {"attention_bias", "false"}, {"rope_interleave", "true"}, {0}};
static const mnem__hf_fixed indexed_fixed[] = {
    {"hidden_act", "silu swish"}, {"attention_bias", "false"}, {"mlp_bias", "false"}, {0}};

static const mnem__hf_default glm4_lite_defaults[] = {{"rms_norm_eps", 1e-5},
                                                      {"rope_theta", 1e4},
                                                      {"kv_lora_rank", 512},
                                                      {"q_lora_rank", 768},
                                                      {"n_shared_experts", 1},
                                                      {"moe_intermediate_size", 1536},
                                                      {"first_k_dense_replace", 1},
                                                      {"routed_scaling_factor", 1.8},
                                                      {"n_group", 1},
                                                      {"topk_group", 1},
                                                      {"norm_topk_prob", 1},
                                                      {"n_routed_experts", 64},
                                                      {"num_experts_per_tok", 4},
                                                      {0}};
static const mnem__hf_default deepseek32_defaults[] = {{"rms_norm_eps", 1e-6},
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
                                                       {"index_topk", 2048},
                                                       {"index_head_dim", 128},
                                                       {"index_n_heads", 64},
                                                       {0}};
static const mnem__hf_default glm_dsa_defaults[] = {{"rms_norm_eps", 1e-5},
                                                    {"rope_theta", 1e4},
                                                    {"kv_lora_rank", 512},
                                                    {"q_lora_rank", 2048},
                                                    {"n_shared_experts", 1},
                                                    {"moe_intermediate_size", 2048},
                                                    {"first_k_dense_replace", 3},
                                                    {"routed_scaling_factor", 2.5},
                                                    {"n_group", 1},
                                                    {"topk_group", 1},
                                                    {"norm_topk_prob", 1},
                                                    {"n_routed_experts", 256},
                                                    {"num_experts_per_tok", 8},
                                                    {"index_topk", 2048},
                                                    {"index_head_dim", 128},
                                                    {"index_n_heads", 32},
                                                    {0}};

#define INDEXED                                                                                    \
    OF_ALL ROPE EXPERTS                                                                            \
        "intermediate_size num_hidden_layers num_attention_heads max_position_embeddings "         \
        "rms_norm_eps n_routed_experts num_local_experts moe_intermediate_size "                   \
        "first_k_dense_replace kv_lora_rank q_lora_rank qk_nope_head_dim qk_rope_head_dim "        \
        "v_head_dim n_shared_experts n_group topk_group routed_scaling_factor norm_topk_prob "     \
        "mlp_layer_types index_topk index_head_dim index_n_heads "

const mnem__hf_fixed mnem__hf_mistral4_fixed[] = {
    {"hidden_act", "silu swish"}, {"attention_bias", "false"}, {"rope_interleave", "true"}, {0}};
const mnem__hf_default mnem__hf_mistral4_defaults[] = {{"vocab_size", 131072},
                                                       {"hidden_size", 4096},
                                                       {"intermediate_size", 12288},
                                                       {"num_hidden_layers", 36},
                                                       {"num_attention_heads", 32},
                                                       {"max_position_embeddings", 1048576},
                                                       {"rms_norm_eps", 1e-6},
                                                       {"rope_theta", 1e4},
                                                       {"kv_lora_rank", 256},
                                                       {"q_lora_rank", 1024},
                                                       {"qk_rope_head_dim", 64},
                                                       {"qk_nope_head_dim", 64},
                                                       {"v_head_dim", 128},
                                                       {"n_shared_experts", 1},
                                                       {"moe_intermediate_size", 2048},
                                                       {"first_k_dense_replace", 0},
                                                       {"routed_scaling_factor", 1},
                                                       {"n_group", 1},
                                                       {"topk_group", 1},
                                                       {"norm_topk_prob", 1},
                                                       {"n_routed_experts", 128},
                                                       {"num_experts_per_tok", 4},
                                                       {0}};

static const mnem__hf_members members[] = {
    {.classes = "Mistral4ForCausalLM",
     .names = MISTRAL4,
     .defaults = mnem__hf_mistral4_defaults,
     .fixed = mnem__hf_mistral4_fixed},
    {.classes = "Glm4MoeLiteForCausalLM",
     .names = OF_ALL ROPE EXPERTS
     "intermediate_size num_hidden_layers num_attention_heads max_position_embeddings "
     "rms_norm_eps n_routed_experts num_local_experts moe_intermediate_size kv_lora_rank "
     "q_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim n_shared_experts n_group "
     "topk_group routed_scaling_factor norm_topk_prob mlp_layer_types ",
     .defaults = glm4_lite_defaults,
     .fixed = glm4_lite_fixed},
    {.classes = "DeepseekV32ForCausalLM",
     .names = INDEXED,
     .defaults = deepseek32_defaults,
     .fixed = indexed_fixed},
    {.classes = "GlmMoeDsaForCausalLM",
     .names = INDEXED "indexer_types ",
     .defaults = glm_dsa_defaults,
     .fixed = indexed_fixed},
};

const mnem__hf_table mnem__hf_latents = {families, members, sizeof families / sizeof *families,
                                         sizeof members / sizeof *members};
