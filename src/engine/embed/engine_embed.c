/* engine_embed.c: texts to embeddings.
 *
 * Idea: a text is a sequence that lives for one step, whose hidden rows are pooled as passes make
 * them: added up, or the first or the last one kept. A decoder's rows are normed before, as its
 * head would.
 * Invariant: a text's rows are added in their order, so its embedding doesn't depend on chunks,
 * threads or company. Cost: the body once a token; nothing is allocated. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/minmax.h"
#include "engine/engine_private.h"

enum { TOGETHER = 32 }; /* at most in a step */

typedef struct pooler {
    mnem_engine *e;
    const mnem_step_part *parts;
    const float *scales; /* of adapters */
    mnem_pooling pooling;
    float *out; /* [parts][embd] */
} pooler;

/* A vector where it lies, or copied to place 0 or 1 behind the hidden rows of the staging part. */
static mnem_status vector_for_host(const mnem_engine *e, const mnem__vector *v, int place,
                                   const void **host) {
    const mnem__location at =
        mnem__location_at(mnem__part_at(&e->taken, MNEM__PART_VECTORS), v->offset);
    float *copy = e->hidden + e->parts.hidden_bytes / sizeof(float) + place * v->n;
    return mnem__location_get(at, copy, (size_t)v->n * sizeof *copy, host);
}

/* The norm that comes before the output matrix, in place. */
static mnem_status norm_rows(const mnem_engine *e, int32_t n, float *rows) {
    const mnem__transformer_map *map = e->map;
    const mnem_transformer *t = &map->shape;
    const mnem__vector *weight = &map->output_norm, *bias = &map->output_norm_bias;
    const void *scale, *shift = NULL;
    const mnem_worker alone = {NULL, 0, 1};
    mnem_op_desc d = {.kind = mnem__architecture_find(t->architecture)->norm,
                      .workers = 1,
                      .epsilon = t->epsilon};
    mnem_op op;
    MNEM__TRY(vector_for_host(e, weight, 0, &scale));
    d.in[0] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, n, t->embd);
    d.in[1] = mnem_tensor_1d(MNEM_TYPE_F32, weight->n);
    if (bias->tensor >= 0) {
        d.in[2] = mnem_tensor_1d(MNEM_TYPE_F32, bias->n);
        MNEM__TRY(vector_for_host(e, bias, 1, &shift));
    }
    const mnem_op_args args = {.tokens = n, .in = {rows, scale, shift}, .out = rows};
    MNEM__TRY(mnem_op_prepare(&d, &op)); /* f32 throughout: no workspace */
    mnem_op_run(&op, &args, &alone);
    return MNEM_OK;
}

static mnem_status pool(void *context, int32_t part, int32_t at, int32_t n, float *rows) {
    const pooler *p = context;
    const int64_t embd = p->e->map->shape.embd;
    float *out = p->out + part * embd;
    if (mnem__head_here(&p->e->map->shape)) MNEM__TRY(norm_rows(p->e, n, rows));
    if (p->pooling == MNEM_POOLING_MEAN)
        for (int64_t i = 0; i < n * embd; i++) out[i % embd] += rows[i];
    else if (p->pooling == MNEM_POOLING_CLS && at == 0)
        memcpy(out, rows, (size_t)embd * sizeof *out);
    else if (p->pooling == MNEM_POOLING_LAST && at + n == p->parts[part].n)
        memcpy(out, rows + (n - 1) * embd, (size_t)embd * sizeof *out);
    return MNEM_OK;
}

mnem_status mnem__embed_follow(void *context, int32_t part, int32_t at, int32_t n, float *rows) {
    (void)part, (void)at;
    return norm_rows(context, n, rows);
}

/* Divides sums by their number, then all by their length (one of 0 stays). */
static void finish(const pooler *p, int32_t count, bool raw) {
    const int64_t embd = p->e->map->shape.embd;
    for (int32_t t = 0; t < count; t++) {
        float *out = p->out + t * embd;
        const bool mean = p->pooling == MNEM_POOLING_MEAN;
        double square = 0;
        for (int64_t i = 0; i < embd; i++) {
            if (mean) out[i] /= (float)p->parts[t].n;
            square += (double)out[i] * (double)out[i];
        }
        const double factor = raw || square == 0 ? 1 : 1 / sqrt(square);
        for (int64_t i = 0; i < embd; i++) out[i] = (float)((double)out[i] * factor);
    }
}

/* Whether there are pages for all of them in one step. */
static bool have_pages(mnem_engine *e, const mnem_step_part *parts, int32_t count) {
    mnem_engine_pages pages;
    mnem_page_count wanted;
    mnem_engine_pages_get(e, &pages);
    return mnem_engine_step_pages(e, parts, count, &wanted) == MNEM_OK &&
           mnem__page_count_fits(wanted, pages.free);
}

/* One step of up to TOGETHER texts; *count: how many it took. */
static mnem_status embed_some(pooler *p, const mnem_embed_text *texts, int32_t *count, bool raw) {
    mnem_step_part parts[TOGETHER];
    int32_t open = 0;
    mnem_status status = MNEM_OK;
    while (open < *count && status == MNEM_OK) {
        parts[open] = (mnem_step_part){.ids = texts[open].ids, .n = texts[open].n};
        status = mnem_sequence_create(p->e, &parts[open].sequence);
        open += status == MNEM_OK;
        if (status == MNEM_OK && p->scales)
            mnem__sequence_scales_copy(parts[open - 1].sequence, p->scales);
        if (status != MNEM_OK || open == 1 || have_pages(p->e, parts, open)) continue;
        mnem_sequence_destroy(parts[--open].sequence);
        break;
    }
    *count = open;
    if (open == 0) return status;
    p->parts = parts; /* those that there are sequences for */
    memset(p->out, 0, (size_t)open * (size_t)p->e->map->shape.embd * sizeof *p->out);
    status = mnem__engine_step_hidden(p->e, parts, open, pool, p);
    if (status == MNEM_OK) finish(p, open, raw);
    for (int32_t i = 0; i < open; i++) mnem_sequence_destroy(parts[i].sequence);
    return status;
}

static mnem_status check(const mnem_engine *e, const mnem_embed_text *texts, int32_t count,
                         mnem_pooling pooling) {
    if (pooling <= MNEM_POOLING_NONE || pooling > MNEM_POOLING_LAST)
        return mnem__fail(MNEM_INVALID,
                          "embed: the pooling is %d, and the model (%s) names none: set it to "
                          "mean, cls or last (a constant of mnem_pooling)",
                          (int)pooling, e->map->shape.architecture);
    for (int32_t i = 0; i < count; i++) {
        if (texts[i].n < 1)
            return mnem__fail(MNEM_INVALID, "embed: text %d (from 0) has no tokens; leave it out",
                              i + 1);
        if (texts[i].n > (e->map->shape.encoder ? e->choice.chunk : e->choice.context))
            return mnem__fail(MNEM_OVER_BUDGET,
                              "embed: text %d (from 0) has %d tokens, but the context has %d; "
                              "split it, or use a larger context",
                              i + 1, texts[i].n, e->choice.context);
    }
    return MNEM_OK;
}

mnem_status mnem_engine_embed(mnem_engine *e, const mnem_embed_text *texts, int32_t count,
                              const mnem_embed_options *options, float *out) {
    const mnem_embed_options o = options ? *options : (mnem_embed_options){0};
    pooler p = {.e = e,
                .scales = o.adapter_scales,
                .pooling = o.pooling ? o.pooling : e->map->shape.pooling};
    MNEM__TRY(check(e, texts, count, p.pooling));
    MNEM__TRY(mnem__adapters_check(e, p.scales));
    mnem_status status = MNEM_OK;
    for (int32_t at = 0, n; at < count && status == MNEM_OK; at += n) {
        n = mnem__min_i32(count - at, TOGETHER);
        p.out = out + (int64_t)at * e->map->shape.embd;
        status = embed_some(&p, texts + at, &n, o.raw);
    }
    return status;
}
