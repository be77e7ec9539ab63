/* hparams_latent.c: the keys of attention through a latent (DeepSeek-V2, 2024).
 *
 * What YaRN multiplies angles' sizes with is divided by the same of a multiplier in the file, and
 * both are equal in these models; scores are multiplied by its square instead. */
#include <math.h>

#include "model/architecture/hparams.h"
#include "model/architecture/layer_schedule.h"

enum { DIM_MAX = 1024, RANK_MAX = 1 << 16 };

/* Each head's rows of the matrices to and from the latent are packed 16 at a time. */
static mnem_status check_rows(const mnem__key_reader *r, const char *what, int32_t rows) {
    if (rows % MNEM_PACK_ROWS == 0) return MNEM_OK;
    return mnem__fail(MNEM_UNSUPPORTED,
                      "%s: key %s.%s: is %d, but only multiples of %d are supported",
                      r->model->path, r->prefix, what, rows, MNEM_PACK_ROWS);
}

static mnem_status check_dims(const mnem__key_reader *r, const mnem_transformer *t) {
    if (t->kv_heads != 1 || t->head_dim != t->latent + t->rope.dims)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: the model has %d KV heads of %d numbers, but latent attention needs "
                          "1 of %d; convert the model again with a newer converter",
                          r->model->path, t->kv_heads, t->head_dim, t->latent + t->rope.dims);
    if (t->key_dim <= t->rope.dims)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: key %s.attention.key_length_mla: is %d, expected more than %d, the "
                          "number of dimensions that RoPE rotates",
                          r->model->path, r->prefix, t->key_dim, t->rope.dims);
    MNEM__TRY(check_rows(r, "attention.kv_lora_rank", t->latent));
    return check_rows(r, "attention.value_length_mla", t->value_dim);
}

static mnem_status take_scale(mnem__key_reader *r, mnem_transformer *t) {
    float multiplier = 0, magnitude = 1;
    MNEM__TRY(mnem__take_float(r, "rope.scaling.yarn_log_multiplier", 0, 100, 0, &multiplier));
    if (t->rope.yarn_ext > 0 && t->rope.scale < 1 && multiplier > 0) {
        t->rope.yarn_attn = 1 / (1 - 0.1f * logf(t->rope.scale));
        magnitude = 1 - multiplier * logf(t->rope.scale); /* the file's is a tenth of it */
    }
    t->attention_scale = magnitude * magnitude / sqrtf((float)t->key_dim);
    return MNEM_OK;
}

/* Splitting one is transposing its halves, which quantized rows can't be without losing more. */
static mnem_status check_split(mnem__key_reader *r) {
    mnem_value value;
    if (mnem__key_find(r, "attention.key_length_mla", &value)) return MNEM_OK;
    return mnem__fail(MNEM_UNSUPPORTED,
                      "%s: an older file, with keys and values in one matrix (attn_kv_b), is not "
                      "supported; convert its folder again, or use a newer file",
                      r->model->path);
}

/* Whether a layer has an indexer: a flag for each; where a file doesn't say, those that have its
 * key. */
static bool is_indexed(mnem__key_reader *r, const mnem_value *flags, int32_t layer) {
    if (flags) return mnem_value_i64(flags, (uint64_t)layer) != 0;
    return mnem__role_tensor(r->model, MNEM__ROLE_INDEX_K, layer) >= 0;
}

static mnem_status take_indexed(mnem__key_reader *r, mnem_transformer *t) {
    mnem_value flags;
    const bool found = mnem__key_find(r, "attention.indexer.types", &flags);
    if (found && (flags.type != MNEM_VALUE_ARRAY ||
                  (!mnem__value_is_integer(flags.element) && flags.element != MNEM_VALUE_BOOL) ||
                  !mnem__hparams_is_by_layer(r, t, flags.count)))
        return mnem__key_by_layer(r, &flags, "booleans", t->layers);
    if (!is_indexed(r, found ? &flags : NULL, 0))
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: key %s: layer 0 has no indexer, expected one: there is no earlier "
                          "layer whose indexer it could share",
                          r->model->path, r->key);
    for (int32_t layer = 0; layer < t->layers; layer++)
        if (is_indexed(r, found ? &flags : NULL, layer))
            mnem__layer_schedule_add(&t->indexed, layer);
    t->indexed = mnem__layer_schedule_simple(&t->indexed, t->layers);
    return MNEM_OK;
}

/* Queries and keys begin with the numbers that are turned. */
static mnem_status take_indexer(mnem__key_reader *r, mnem_transformer *t) {
    const int64_t required = MNEM__KEY_REQUIRED;
    MNEM__TRY(
        mnem__take_size(r, "attention.indexer.head_count", 1, RANK_MAX, required, &t->index_heads));
    MNEM__TRY(mnem__take_size(r, "attention.indexer.key_length", t->rope.dims, DIM_MAX, required,
                              &t->index_dim));
    MNEM__TRY(
        mnem__take_int(r, "attention.indexer.top_k", 1, INT32_MAX, required, &t->index_top_k));
    return take_indexed(r, t);
}

mnem_status mnem__hparams_latent(mnem__key_reader *r, const mnem__architecture *a,
                                 mnem_transformer *t) {
    const int64_t required = MNEM__KEY_REQUIRED;
    mnem_status status = check_split(r);
    if (status == MNEM_OK && !a->turn) /* as wide as where it is turned */
        status = mnem__take_int(r, MNEM__KEY_ROPE_DIMS, 2, t->head_dim, required, &t->rope.dims);
    if (status == MNEM_OK)
        status = mnem__take_size(r, "attention.kv_lora_rank", 1, DIM_MAX, required, &t->latent);
    if (status == MNEM_OK && mnem__architecture_has(a, MNEM__ROLE_Q_LATENT))
        status = mnem__take_size(r, "attention.q_lora_rank", 1, RANK_MAX, required, &t->latent_q);
    if (status == MNEM_OK)
        status = mnem__take_size(r, "attention.key_length_mla", 1, DIM_MAX, required, &t->key_dim);
    if (status == MNEM_OK)
        status =
            mnem__take_size(r, "attention.value_length_mla", 1, DIM_MAX, required, &t->value_dim);
    if (status == MNEM_OK) status = check_dims(r, t);
    if (status == MNEM_OK && a->takes & MNEM__TAKES_INDEXER) status = take_indexer(r, t);
    return status == MNEM_OK ? take_scale(r, t) : status;
}
