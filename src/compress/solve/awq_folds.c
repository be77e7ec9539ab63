/* awq_folds.c: the three kinds of folds that absorb scales.
 *
 *     norm ─► q, k, v (gate, up; other matrices that read only the norm)
 *     v    ─► o       attention sums rows of v; a head of v has the heads of o that share it
 *     up   ─► down    up is a factor of the result; no scale can pass GELU alone */
#include "compress/solve/awq_folds.h"

static void fold_norm(const mnem__layer_part *part, mnem__awq_fold *fold) {
    *fold = (mnem__awq_fold){.from = part->norm, .bias = mnem__role_get(part->norm)->bias};
    for (int i = 0; i < mnem__part_inputs(part); i++) fold->to[i] = part->in[i];
}

static void fold_value(const mnem__layer_part *part, const mnem_transformer *t,
                       mnem__awq_fold *fold) {
    const bool fused = part->in[0] == MNEM__ROLE_QKV;
    const mnem__role from = fused ? MNEM__ROLE_QKV : MNEM__ROLE_V;
    *fold = (mnem__awq_fold){.from = from,
                             .bias = mnem__role_get(from)->bias,
                             .first = fused ? (int64_t)(t->heads + t->kv_heads) * t->head_dim : 0,
                             .to = {part->out},
                             .shared = t->heads / t->kv_heads,
                             .width = t->head_dim};
}

static void fold_up(const mnem__layer_part *part, const mnem_transformer *t, mnem__awq_fold *fold) {
    *fold = (mnem__awq_fold){.from = MNEM__ROLE_UP,
                             .bias = mnem__role_get(MNEM__ROLE_UP)->bias,
                             .first = t->gate_in_up ? t->ff : 0,
                             .to = {part->out}};
}

/* Whether attention's values are directly rows of a matrix. */
static bool has_value(const mnem__layer_part *part) {
    return part->core == MNEM_OP_ATTENTION && !part->v_b &&
           (part->in[0] == MNEM__ROLE_QKV || part->in[2] == MNEM__ROLE_V);
}

int mnem__awq_folds(const mnem_transformer *transformer, int32_t layer,
                    mnem__awq_fold folds[MNEM__AWQ_FOLDS]) {
    const mnem__architecture *a = mnem__architecture_find(transformer->architecture);
    int count = 0;
    for (int i = 0; i < MNEM__PARTS_MAX && a->parts[i].out; i++) {
        const mnem__layer_part *part = &a->parts[i];
        if (part->router || !mnem__layer_is(transformer, layer, part->layers)) continue;
        if (part->norm) fold_norm(part, &folds[count++]);
        if (has_value(part)) fold_value(part, transformer, &folds[count++]);
        if (part->core == MNEM_OP_SILU_MUL || part->core == MNEM_OP_GELU_MUL)
            fold_up(part, transformer, &folds[count++]);
    }
    return count;
}
