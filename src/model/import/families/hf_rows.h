/* hf_rows.h: macros for rows of members, and the tables of rows besides those of hf_families.c and
 * hf_members.c. */
#ifndef MNEM_SRC_MODEL_IMPORT_FAMILIES_HF_ROWS_H
#define MNEM_SRC_MODEL_IMPORT_FAMILIES_HF_ROWS_H

#include "model/import/families/hf_family.h"
#include "model/import/families/hf_members.h"

/* ---- members that several classes have ---- */

#define OF_ALL " model_type tie_word_embeddings quantization_config vocab_size hidden_size "
#define DECODER                                                                                    \
    OF_ALL "intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim " \
           "max_position_embeddings "
#define ROPE    "rope_parameters rope_scaling rope_theta original_max_position_embeddings "
#define USUAL   DECODER ROPE "rms_norm_eps "
#define EXPERTS "num_experts_per_tok "
#define GEMMA   "query_pre_attn_scalar final_logit_softcapping sliding_window layer_types "
#define DEEPSEEK                                                                                   \
    OF_ALL ROPE EXPERTS                                                                            \
        "intermediate_size num_hidden_layers num_attention_heads max_position_embeddings "         \
        "rms_norm_eps n_routed_experts num_experts moe_intermediate_size first_k_dense_replace "   \
        "kv_lora_rank q_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim n_shared_experts "  \
        "n_group topk_group topk_method scoring_func routed_scaling_factor norm_topk_prob "

#define MISTRAL4                                                                                   \
    OF_ALL ROPE EXPERTS                                                                            \
        "intermediate_size num_hidden_layers num_attention_heads max_position_embeddings "         \
        "rms_norm_eps n_routed_experts num_local_experts moe_intermediate_size "                   \
        "first_k_dense_replace kv_lora_rank q_lora_rank qk_nope_head_dim qk_rope_head_dim "        \
        "v_head_dim n_shared_experts n_group topk_group routed_scaling_factor norm_topk_prob "

/* ---- names that several families have ---- */

/* Numbered experts, and shared ones. */
#define STACKED                                                                                    \
    {"mlp.experts.*.down_proj", "ffn_down_exps", MNEM__HF_STACK},                                  \
        {"mlp.experts.*.gate_proj", "ffn_gate_exps", MNEM__HF_STACK}, {                            \
        "mlp.experts.*.up_proj", "ffn_up_exps", MNEM__HF_STACK                                     \
    }
#define SHARED                                                                                     \
    {"mlp.shared_experts.down_proj", "ffn_down_shexp", MNEM__HF_AS_IS},                            \
        {"mlp.shared_experts.gate_proj", "ffn_gate_shexp", MNEM__HF_AS_IS}, {                      \
        "mlp.shared_experts.up_proj", "ffn_up_shexp", MNEM__HF_AS_IS                               \
    }

/* ---- groups of keys ---- */

enum {
    MNEM__HF_LLAMA_KEYS = MNEM__HF_USUAL | MNEM__HF_VOCAB | MNEM__HF_ROPE_DIMS,
    MNEM__HF_DEEPSEEK_KEYS = (MNEM__HF_USUAL & ~(MNEM__HF_KV_HEADS | MNEM__HF_HEAD_DIM)) |
                             MNEM__HF_VOCAB | MNEM__HF_EXPERTS | MNEM__HF_GATING | MNEM__HF_LATENT |
                             MNEM__HF_LEADING
};

/* ---- further tables ---- */

/* Rows of families, and what their classes take from config.json. */
typedef struct mnem__hf_table {
    const mnem__hf_family *families;
    const mnem__hf_members *members;
    int families_count, members_count;
} mnem__hf_table;

/* Families without experts (hf_dense.c), with experts (hf_mixtures.c), with experts in some
 * layers (hf_leading.c), and with latent attention (hf_latents.c); with states: delta nets
 * (hf_delta_nets.c) and scans (hf_states.c). */
extern const mnem__hf_table mnem__hf_dense, mnem__hf_latents, mnem__hf_mixtures, mnem__hf_leading,
    mnem__hf_delta_nets, mnem__hf_stateful;
/* All of these; the last is NULL. */
extern const mnem__hf_table *const mnem__hf_tables[];

/* Mistral 4, which folders of class Mistral3 may contain. */
extern const mnem__hf_family mnem__hf_mistral4;
extern const mnem__hf_fixed mnem__hf_mistral4_fixed[];
extern const mnem__hf_default mnem__hf_mistral4_defaults[];

/* Shared by the tables: DeepSeek's names, and the values that mean SiLU. */
extern const mnem__hf_name mnem__hf_deepseek_names[], mnem__hf_turned_names[];

#endif
