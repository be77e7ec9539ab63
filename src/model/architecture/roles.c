/* roles.c: the one table of tensors: names, shapes, and what follows from a role. */
#include "model/architecture/architecture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MATRIX(n, t, r, c)  VECTOR(n, c), .text = t, .rows = MNEM__WIDTH_##r
#define VECTOR(n, c)        .name = n, .columns = MNEM__WIDTH_##c
#define BIAS(b)             .bias = MNEM__ROLE_##b##_BIAS
#define PRECISION(p)        .precision = MNEM__PRECISION_##p
#define EACH                .each = MNEM__WIDTH_EXPERTS
#define EXPERTS(n, t, r, c) MATRIX(n, t, r, c), EACH

static const mnem__role_info infos[MNEM__ROLES] = {
    [MNEM__ROLE_Q] = {MATRIX("attn_q.weight", "q", Q, EMBD), BIAS(Q)},
    [MNEM__ROLE_K] = {MATRIX("attn_k.weight", "k", KV, EMBD), BIAS(K)},
    [MNEM__ROLE_V] = {MATRIX("attn_v.weight", "v", VALUES, EMBD), BIAS(V), PRECISION(BETTER)},
    [MNEM__ROLE_QKV] = {MATRIX("attn_qkv.weight", "qkv", QKV, EMBD), BIAS(QKV), PRECISION(FUSED)},
    [MNEM__ROLE_Q_LATENT] = {MATRIX("attn_q_a.weight", "q latent", Q_LATENT, EMBD)},
    [MNEM__ROLE_KV_LATENT] = {MATRIX("attn_kv_a_mqa.weight", "kv latent", KV_LATENT, EMBD)},
    [MNEM__ROLE_Q_B] = {MATRIX("attn_q_b.weight", "q", Q, Q_LATENT)},
    [MNEM__ROLE_INDEX_K] = {MATRIX("indexer.attn_k.weight", "index k", INDEX, EMBD)},
    [MNEM__ROLE_INDEX_WEIGHT] = {MATRIX("indexer.proj.weight", "index weights", INDEX_HEADS, EMBD),
                                 PRECISION(WHOLE)},
    [MNEM__ROLE_INDEX_Q] = {MATRIX("indexer.attn_q_b.weight", "index q", INDEX_Q, Q_LATENT)},
    [MNEM__ROLE_K_B] = {MATRIX("attn_k_b.weight", "k", LATENT, UNTURNED),
                        .each = MNEM__WIDTH_HEADS},
    [MNEM__ROLE_V_B] = {MATRIX("attn_v_b.weight", "v", VALUE, LATENT), .each = MNEM__WIDTH_HEADS},
    [MNEM__ROLE_O] = {MATRIX("attn_output.weight", "o", EMBD, OUT), BIAS(O)},
    [MNEM__ROLE_CONV_IN] = {MATRIX("shortconv.in_proj.weight", "conv in", 3_EMBD, EMBD)},
    [MNEM__ROLE_CONV_OUT] = {MATRIX("shortconv.out_proj.weight", "conv out", EMBD, EMBD)},
    [MNEM__ROLE_STATE_IN] = {MATRIX("ssm_in.weight", "state in", STATE_IN, EMBD)},
    [MNEM__ROLE_STATE_X] = {MATRIX("ssm_x.weight", "state x", STATE_X, STATE_OUT)},
    [MNEM__ROLE_STATE_STEP] = {MATRIX("ssm_dt.weight", "steps", STATE_OUT, STATE_RANK)},
    [MNEM__ROLE_STATE_GATE] = {MATRIX("attn_gate.weight", "z", GATES, EMBD)},
    [MNEM__ROLE_BETA] = {MATRIX("ssm_beta.weight", "beta", STATE_HEADS, EMBD)},
    [MNEM__ROLE_ALPHA] = {MATRIX("ssm_alpha.weight", "alpha", STATE_HEADS, EMBD)},
    [MNEM__ROLE_BETA_ALPHA] = {MATRIX("ssm_ba.weight", "beta alpha", 2_STATE_HEADS, EMBD)},
    [MNEM__ROLE_DECAY_A] = {MATRIX("ssm_f_a.weight", "decay a", STATE_ROWS, EMBD)},
    [MNEM__ROLE_DECAY_B] = {MATRIX("ssm_f_b.weight", "decays", STATE_OUT, STATE_ROWS)},
    [MNEM__ROLE_OUT_GATE_A] = {MATRIX("ssm_g_a.weight", "gate a", STATE_ROWS, EMBD)},
    [MNEM__ROLE_OUT_GATE_B] = {MATRIX("ssm_g_b.weight", "out gate", STATE_OUT, STATE_ROWS)},
    [MNEM__ROLE_STATE_OUT] = {MATRIX("ssm_out.weight", "state out", EMBD, STATE_OUT)},
    [MNEM__ROLE_GATE] = {MATRIX("ffn_gate.weight", "gate", FF, EMBD)},
    [MNEM__ROLE_UP] = {MATRIX("ffn_up.weight", "up", UP, EMBD), BIAS(UP)},
    [MNEM__ROLE_DOWN] = {MATRIX("ffn_down.weight", "down", EMBD, FF), BIAS(DOWN),
                         PRECISION(BETTER)},
    [MNEM__ROLE_ROUTER] = {MATRIX("ffn_gate_inp.weight", "scores", EXPERTS, EMBD), BIAS(ROUTER),
                           PRECISION(WHOLE)},
    [MNEM__ROLE_LATENT_DOWN] = {MATRIX("ffn_latent_down.weight", "latent", EMBD_EXPERT, EMBD)},
    [MNEM__ROLE_GATE_EXPERTS] = {EXPERTS("ffn_gate_exps.weight", "gates", FF_EXPERT, EMBD),
                                 BIAS(GATE_EXPERTS)},
    [MNEM__ROLE_UP_EXPERTS] = {EXPERTS("ffn_up_exps.weight", "ups", FF_EXPERT, EMBD_EXPERT),
                               BIAS(UP_EXPERTS)},
    [MNEM__ROLE_GATE_UP_EXPERTS] = {EXPERTS("ffn_gate_up_exps.weight", "gates and ups", 2_FF_EXPERT,
                                            EMBD)},
    [MNEM__ROLE_DOWN_EXPERTS] = {EXPERTS("ffn_down_exps.weight", "downs", EMBD_EXPERT, FF_EXPERT),
                                 BIAS(DOWN_EXPERTS), PRECISION(BETTER)},
    [MNEM__ROLE_LATENT_UP] = {MATRIX("ffn_latent_up.weight", "experts", EMBD, EMBD_EXPERT)},
    [MNEM__ROLE_GATE_SHARED] = {MATRIX("ffn_gate_shexp.weight", "shared gate", FF_SHARED, EMBD)},
    [MNEM__ROLE_UP_SHARED] = {MATRIX("ffn_up_shexp.weight", "shared up", UP_SHARED, EMBD)},
    [MNEM__ROLE_DOWN_SHARED] = {MATRIX("ffn_down_shexp.weight", "shared down", EMBD, FF_SHARED),
                                PRECISION(BETTER)},
    [MNEM__ROLE_LAYER_GATE] = {MATRIX("inp_gate.weight", "layer gate", LAYER, EMBD)},
    [MNEM__ROLE_LAYER_OUT] = {MATRIX("proj.weight", "layer out", EMBD, LAYER)},
    [MNEM__ROLE_LAUREL_IN] = {MATRIX("laurel_l.weight", "laurel", LAUREL, EMBD), PRECISION(HALF)},
    [MNEM__ROLE_LAUREL_OUT] = {MATRIX("laurel_r.weight", "laurel out", EMBD, LAUREL),
                               PRECISION(HALF)},
    [MNEM__ROLE_STREAM_ROUTER] = {MATRIX("altup_router.weight", "stream router", STREAMS, EMBD),
                                  PRECISION(HALF)},
    [MNEM__ROLE_STREAM_ROUTER_AGAIN] = {MATRIX("altup_router.weight", "stream router", STREAMS,
                                               EMBD),
                                        PRECISION(HALF)},
    [MNEM__ROLE_STREAM_PREDICT] = {MATRIX("altup_predict_coef.weight", "predicted", STREAM_PAIRS,
                                          STREAMS),
                                   PRECISION(WHOLE)},
    [MNEM__ROLE_STREAM_CORRECT] = {MATRIX("altup_correct_coef.weight", "corrected", STREAMS,
                                          STREAMS),
                                   PRECISION(WHOLE)},
    [MNEM__ROLE_ATTN_NORM] = {VECTOR("attn_norm.weight", EMBD), BIAS(ATTN_NORM), .is_norm = true},
    [MNEM__ROLE_ATTN_NORM_BIAS] = {VECTOR("attn_norm.bias", EMBD)},
    [MNEM__ROLE_QKV_BIAS] = {VECTOR("attn_qkv.bias", QKV)},
    [MNEM__ROLE_Q_BIAS] = {VECTOR("attn_q.bias", Q)},
    [MNEM__ROLE_K_BIAS] = {VECTOR("attn_k.bias", KV)},
    [MNEM__ROLE_V_BIAS] = {VECTOR("attn_v.bias", VALUES)},
    [MNEM__ROLE_Q_LATENT_NORM] = {VECTOR("attn_q_a_norm.weight", Q_LATENT), .is_norm = true},
    [MNEM__ROLE_KV_LATENT_NORM] = {VECTOR("attn_kv_a_norm.weight", LATENT), .is_norm = true},
    [MNEM__ROLE_INDEX_NORM] = {VECTOR("indexer.k_norm.weight", INDEX), BIAS(INDEX_NORM),
                               .is_norm = true},
    [MNEM__ROLE_INDEX_NORM_BIAS] = {VECTOR("indexer.k_norm.bias", INDEX)},
    [MNEM__ROLE_Q_NORM] = {VECTOR("attn_q_norm.weight", Q_NORM), .is_norm = true},
    [MNEM__ROLE_K_NORM] = {VECTOR("attn_k_norm.weight", K_NORM), .is_norm = true},
    [MNEM__ROLE_O_BIAS] = {VECTOR("attn_output.bias", EMBD)},
    [MNEM__ROLE_ATTN_SUM_NORM] = {VECTOR("attn_output_norm.weight", EMBD), BIAS(ATTN_SUM_NORM),
                                  .is_norm = true},
    [MNEM__ROLE_ATTN_SUM_NORM_BIAS] = {VECTOR("attn_output_norm.bias", EMBD)},
    [MNEM__ROLE_ATTN_POST_NORM] = {VECTOR("post_attention_norm.weight", EMBD), .is_norm = true},
    [MNEM__ROLE_CONV] = {MATRIX("shortconv.conv.weight", NULL, EMBD, CONV), PRECISION(WHOLE)},
    [MNEM__ROLE_STATE_CONV] = {MATRIX("ssm_conv1d.weight", NULL, QKV, CONV), PRECISION(WHOLE)},
    [MNEM__ROLE_STATE_CONV_BIAS] = {VECTOR("ssm_conv1d.bias", QKV)},
    [MNEM__ROLE_Q_CONV] = {MATRIX("ssm_conv1d_q.weight", NULL, STATE_OUT, CONV), PRECISION(WHOLE)},
    [MNEM__ROLE_K_CONV] = {MATRIX("ssm_conv1d_k.weight", NULL, STATE_OUT, CONV), PRECISION(WHOLE)},
    [MNEM__ROLE_V_CONV] = {MATRIX("ssm_conv1d_v.weight", NULL, STATE_OUT, CONV), PRECISION(WHOLE)},
    [MNEM__ROLE_STATE_A] = {MATRIX("ssm_a", NULL, STATE_STEPS, STATE_DECAYS), PRECISION(WHOLE)},
    [MNEM__ROLE_STATE_SKIP] = {MATRIX("ssm_d", NULL, STATE_STEPS, STATE_ONE), PRECISION(WHOLE)},
    [MNEM__ROLE_STATE_DT_BIAS] = {VECTOR("ssm_dt.bias", STATE_BIAS)},
    [MNEM__ROLE_STATE_NORM] = {MATRIX("ssm_norm.weight", NULL, STATE_NORMS, STATE_NORMED),
                               PRECISION(WHOLE), .is_norm = true},
    [MNEM__ROLE_STATE_STEP_NORM] = {VECTOR("ssm_dt_norm.weight", STATE_RANK), .is_norm = true},
    [MNEM__ROLE_STATE_B_NORM] = {VECTOR("ssm_b_norm.weight", STATE_ROWS), .is_norm = true},
    [MNEM__ROLE_STATE_C_NORM] = {VECTOR("ssm_c_norm.weight", STATE_ROWS), .is_norm = true},
    [MNEM__ROLE_FFN_NORM] = {VECTOR("ffn_norm.weight", EMBD), BIAS(FFN_NORM), .is_norm = true,
                             .also = "ffn_norm"},
    [MNEM__ROLE_FFN_NORM_BIAS] = {VECTOR("ffn_norm.bias", EMBD)},
    [MNEM__ROLE_UP_BIAS] = {VECTOR("ffn_up.bias", UP)},
    [MNEM__ROLE_DOWN_BIAS] = {VECTOR("ffn_down.bias", EMBD)},
    [MNEM__ROLE_FFN_POST_NORM] = {VECTOR("post_ffw_norm.weight", EMBD), .is_norm = true},
    [MNEM__ROLE_SINKS] = {VECTOR("attn_sinks.weight", HEADS)},
    [MNEM__ROLE_ROUTER_BIAS] = {VECTOR("ffn_gate_inp.bias", EXPERTS)},
    [MNEM__ROLE_CHOICE_BIAS] = {VECTOR("exp_probs_b.bias", EXPERTS), .also = "exp_probs_b"},
    [MNEM__ROLE_GATE_EXPERTS_BIAS] = {VECTOR("ffn_gate_exps.bias", FF_EXPERT), EACH},
    [MNEM__ROLE_UP_EXPERTS_BIAS] = {VECTOR("ffn_up_exps.bias", FF_EXPERT), EACH},
    [MNEM__ROLE_DOWN_EXPERTS_BIAS] = {VECTOR("ffn_down_exps.bias", EMBD), EACH},
    [MNEM__ROLE_FFN_NORM_EXPERTS] = {VECTOR("pre_ffw_norm_2.weight", EMBD), .is_norm = true},
    [MNEM__ROLE_FFN_POST_NORM_DENSE] = {VECTOR("post_ffw_norm_1.weight", EMBD), .is_norm = true},
    [MNEM__ROLE_FFN_POST_NORM_EXPERTS] = {VECTOR("post_ffw_norm_2.weight", EMBD), .is_norm = true},
    [MNEM__ROLE_ROUTER_NORM] = {VECTOR("ffn_gate_inp.scale", EMBD), .is_norm = true},
    [MNEM__ROLE_EXPERT_SCALES] = {VECTOR("ffn_down_exps.scale", EXPERTS), .is_norm = true},
    [MNEM__ROLE_SHARED_GATE] = {VECTOR("ffn_gate_inp_shexp.weight", EMBD)},
    [MNEM__ROLE_FFN_SUM_NORM] = {VECTOR("layer_output_norm.weight", EMBD), BIAS(FFN_SUM_NORM),
                                 .is_norm = true},
    [MNEM__ROLE_FFN_SUM_NORM_BIAS] = {VECTOR("layer_output_norm.bias", EMBD)},
    [MNEM__ROLE_LAYER_POST_NORM] = {VECTOR("post_norm.weight", EMBD), .is_norm = true},
    [MNEM__ROLE_LAYER_SCALE] = {VECTOR("layer_output_scale.weight", 1), .is_norm = true},
    [MNEM__ROLE_LAUREL_NORM] = {VECTOR("laurel_post_norm.weight", EMBD), .is_norm = true},
    [MNEM__ROLE_STREAM_ROUTER_NORM] = {VECTOR("altup_router_norm.weight", EMBD), .is_norm = true},
    [MNEM__ROLE_STREAM_SCALE] = {VECTOR("altup_correct_scale.weight", EMBD), .is_norm = true},
    [MNEM__ROLE_EMBEDDING] = {MATRIX("token_embd.weight", NULL, VOCAB, EMBD)},
    [MNEM__ROLE_POSITIONS] = {MATRIX("position_embd.weight", NULL, CONTEXT, EMBD), PRECISION(HALF)},
    [MNEM__ROLE_TOKEN_TYPES] = {MATRIX("token_types.weight", NULL, TYPES, EMBD), PRECISION(HALF)},
    [MNEM__ROLE_EMBED_NORM] = {VECTOR("token_embd_norm.weight", EMBD), BIAS(EMBED_NORM),
                               .is_norm = true},
    [MNEM__ROLE_EMBED_NORM_BIAS] = {VECTOR("token_embd_norm.bias", EMBD)},
    [MNEM__ROLE_OUTPUT_NORM] = {VECTOR("output_norm.weight", EMBD), BIAS(OUTPUT_NORM),
                                .is_norm = true},
    [MNEM__ROLE_OUTPUT_NORM_BIAS] = {VECTOR("output_norm.bias", EMBD)},
    [MNEM__ROLE_OUTPUT] = {MATRIX("output.weight", NULL, VOCAB, EMBD), BIAS(OUTPUT)},
    [MNEM__ROLE_OUTPUT_BIAS] = {VECTOR("output.bias", VOCAB)},
    [MNEM__ROLE_ROPE_FACTORS] = {VECTOR("rope_freqs.weight", ROPE_PAIRS)},
    [MNEM__ROLE_ROPE_LONG] = {VECTOR("rope_factors_long.weight", ROPE_PAIRS)},
    [MNEM__ROLE_ROPE_SHORT] = {VECTOR("rope_factors_short.weight", ROPE_PAIRS)},
    [MNEM__ROLE_LAYER_TABLE] = {MATRIX("per_layer_token_embd.weight", NULL, VOCAB, ALL_LAYERS)},
    [MNEM__ROLE_LAYER_PROJ] = {MATRIX("per_layer_model_proj.weight", "layers", ALL_LAYERS, EMBD)},
    [MNEM__ROLE_LAYER_PROJ_NORM] = {VECTOR("per_layer_proj_norm.weight", LAYER), .is_norm = true},
    [MNEM__ROLE_STREAMS_IN] = {MATRIX("altup_proj.weight", "streams in", EMBD, EMBD),
                               .each = MNEM__WIDTH_OTHER_STREAMS, PRECISION(HALF)},
    [MNEM__ROLE_STREAMS_OUT] = {MATRIX("altup_unembd_proj.weight", "streams out", EMBD, EMBD),
                                .each = MNEM__WIDTH_OTHER_STREAMS, PRECISION(HALF)},
};

const mnem__role_info *mnem__role_get(mnem__role role) {
    return &infos[role];
}

/* That files have factors of: all that layers with a window turn, where the others turn half. */
static int64_t pairs_of(const mnem_transformer *t) {
    const mnem__architecture *a = mnem__architecture_find(t->architecture);
    return (a && a->half_turned ? 2 * (int64_t)t->rope.dims : t->rope.dims) / 2;
}

static int64_t width_get(mnem__width width, const mnem_transformer *t) {
    const int64_t q = (int64_t)t->heads * (t->latent ? t->key_dim : t->head_dim);
    const int64_t kv = (int64_t)t->kv_heads * t->head_dim;
    const int64_t given = t->value_dim ? t->value_dim : t->head_dim; /* by a head */
    const int64_t values = t->latent ? kv : t->kv_heads * given;
    const int64_t inner = (int64_t)t->state_heads * t->state_columns;
    const int64_t scanned = inner + mnem__state_width(t); /* and the gate */
    switch (width) {
    case MNEM__WIDTH_NONE: return 1;
    case MNEM__WIDTH_EMBD: return t->embd;
    case MNEM__WIDTH_Q: return t->output_gate ? 2 * q : q;
    case MNEM__WIDTH_KV: return kv;
    case MNEM__WIDTH_VALUES: return values;
    case MNEM__WIDTH_QKV: return t->state_heads ? mnem__state_width(t) : q + kv + values;
    case MNEM__WIDTH_3_EMBD: return 3 * (int64_t)t->embd;
    case MNEM__WIDTH_CONV: return t->conv_length;
    case MNEM__WIDTH_Q_NORM: return t->wide_qk_norm ? q : t->head_dim;
    case MNEM__WIDTH_K_NORM: return t->wide_qk_norm ? kv : t->head_dim;
    case MNEM__WIDTH_FF: return t->ff;
    case MNEM__WIDTH_UP: return t->gate_in_up ? 2 * (int64_t)t->ff : t->ff;
    case MNEM__WIDTH_VOCAB: return t->vocab;
    case MNEM__WIDTH_CONTEXT: return t->context;
    case MNEM__WIDTH_TYPES: return t->token_types;
    case MNEM__WIDTH_ROPE_PAIRS: return pairs_of(t);
    case MNEM__WIDTH_EXPERTS: return t->experts;
    case MNEM__WIDTH_FF_EXPERT: return t->ff_expert;
    case MNEM__WIDTH_2_FF_EXPERT: return 2 * (int64_t)t->ff_expert;
    case MNEM__WIDTH_EMBD_EXPERT: return t->embd_expert ? t->embd_expert : t->embd;
    case MNEM__WIDTH_FF_SHARED: return t->ff_shared;
    case MNEM__WIDTH_UP_SHARED: return t->gate_in_up ? 2 * (int64_t)t->ff_shared : t->ff_shared;
    case MNEM__WIDTH_HEADS: return t->heads;
    case MNEM__WIDTH_OUT: return t->heads * given;
    case MNEM__WIDTH_Q_LATENT: return t->latent_q;
    case MNEM__WIDTH_LATENT: return t->latent;
    case MNEM__WIDTH_KV_LATENT: return t->latent + t->rope.dims;
    case MNEM__WIDTH_UNTURNED: return t->key_dim - t->rope.dims;
    case MNEM__WIDTH_VALUE: return t->value_dim;
    case MNEM__WIDTH_INDEX: return t->index_dim;
    case MNEM__WIDTH_INDEX_HEADS: return t->index_heads;
    case MNEM__WIDTH_INDEX_Q: return (int64_t)t->index_heads * t->index_dim;
    case MNEM__WIDTH_STATE_HEADS: return t->state_heads;
    case MNEM__WIDTH_2_STATE_HEADS: return 2 * (int64_t)t->state_heads;
    case MNEM__WIDTH_STATE_COLUMNS: return t->state_columns;
    case MNEM__WIDTH_STATE_OUT: return inner;
    case MNEM__WIDTH_GATES: return t->state_heads ? inner : t->head_gates ? t->heads : q;
    case MNEM__WIDTH_STATE_IN:
        return t->state_rank ? 2 * inner : t->state_scans ? scanned + t->state_heads : scanned;
    case MNEM__WIDTH_STATE_X: return t->state_rank + 2 * (int64_t)t->state_rows;
    case MNEM__WIDTH_STATE_RANK: return t->state_rank;
    case MNEM__WIDTH_STATE_ROWS: return t->state_rows;
    case MNEM__WIDTH_STATE_BIAS: return t->state_rank || t->state_channels ? inner : t->state_heads;
    case MNEM__WIDTH_STATE_STEPS: return t->state_rank ? inner : t->state_heads;
    case MNEM__WIDTH_LAYER: return t->layer_embd;
    case MNEM__WIDTH_ALL_LAYERS: return (int64_t)t->layers * t->layer_embd;
    case MNEM__WIDTH_1: return 1;
    case MNEM__WIDTH_LAUREL: return t->laurel;
    case MNEM__WIDTH_STREAMS: return t->streams;
    case MNEM__WIDTH_STREAM_PAIRS: return (int64_t)t->streams * t->streams;
    case MNEM__WIDTH_OTHER_STREAMS: return t->streams - 1;
    case MNEM__WIDTH_STATE_DECAYS: return t->state_rank ? t->state_rows : t->state_scans;
    case MNEM__WIDTH_STATE_ONE: return t->state_scans && !t->state_rank;
    case MNEM__WIDTH_STATE_NORMS: return t->state_scans ? t->state_groups : 0;
    case MNEM__WIDTH_STATE_NORMED:
        return t->state_scans && t->state_groups ? inner / t->state_groups : t->state_columns;
    }
    return 0;
}

int mnem__role_shape(mnem__role role, const mnem_transformer *t, int64_t shape[3]) {
    const mnem__role_info *info = &infos[role];
    const mnem__width widths[] = {info->each, info->rows, info->columns};
    int dims = 0;
    shape[1] = 1;
    for (int i = 0; i < 3; i++) {
        const int64_t n = widths[i] ? width_get(widths[i], t) : 0;
        const bool optional = widths[i] >= MNEM__WIDTH_STATE_DECAYS;
        if (widths[i] && (n > 0 || !optional)) shape[dims++] = n;
    }
    return dims;
}

static void name_in(mnem__role role, int32_t layer, const char *rest, char name[MNEM__ROLE_NAME]) {
    if (mnem__role_in_layer(role))
        snprintf(name, MNEM__ROLE_NAME, "blk.%d.%s", layer, rest);
    else
        snprintf(name, MNEM__ROLE_NAME, "%s", rest);
}

void mnem__role_name(mnem__role role, int32_t layer, char name[MNEM__ROLE_NAME]) {
    name_in(role, layer, infos[role].name, name);
}

int32_t mnem__role_tensor(const mnem_model *model, mnem__role role, int32_t layer) {
    char name[MNEM__ROLE_NAME];
    mnem__role_name(role, layer, name);
    const int32_t found = mnem_model_tensor_find(model, name);
    if (found >= 0 || !infos[role].also) return found;
    name_in(role, layer, infos[role].also, name);
    return mnem_model_tensor_find(model, name);
}

const char *mnem__layer_name(const char *name, int32_t *layer) {
    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9') return NULL;
    char *end;
    const long number = strtol(name + 4, &end, 10);
    *layer = number < INT32_MAX ? (int32_t)number : INT32_MAX;
    return *end == '.' ? end + 1 : NULL;
}

mnem__role mnem__role_find(const char *name, int32_t *layer) {
    const char *rest = mnem__layer_name(name, layer);
    const int first = rest ? MNEM__LAYER_MATRIX_FIRST : MNEM__OUTER_FIRST;
    const int end = rest ? MNEM__OUTER_FIRST : MNEM__ROLES;
    if (!rest) *layer = -1;
    for (int role = first; role < end; role++) {
        const char *also = infos[role].also;
        if (strcmp(rest ? rest : name, infos[role].name) == 0) return (mnem__role)role;
        if (also && strcmp(rest ? rest : name, also) == 0) return (mnem__role)role;
    }
    return MNEM__ROLE_NONE;
}
