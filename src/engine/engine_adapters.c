/* engine_adapters.c: the low-rank adapters that a sequence uses, and the rows of a pass with them.
 *
 * Idea: every sequence has a scale for each adapter of the engine. The scales are chosen while the
 * sequence is empty, so that all its keys, values and states are computed with the same ones. A
 * pass tells its programs which rows use which scales (mnem_low_rank_run): neighbouring rows with
 * equal scales are one entry; rows whose scales are all 0 have no entry, and nothing is added to
 * them.
 * Invariant: a fork has its origin's scales. A saved sequence contains a checksum of its scales,
 * and is only loaded into a sequence with the same ones.
 * Cost: O(segments x adapters) a pass. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/file/checksum.h"
#include "base/minmax.h"
#include "engine/pass_nodes.h"

int32_t mnem_engine_adapter_count(const mnem_engine *e) {
    return e->adapters ? e->adapters->adapters : 0;
}

bool mnem_engine_adapter_get(const mnem_engine *e, int32_t index, mnem_engine_adapter *adapter) {
    if (index < 0 || index >= mnem_engine_adapter_count(e)) return false;
    adapter->path = mnem_model_file_path(e->adapters->file[index], 0);
    adapter->scale = e->adapters->scale[index];
    return true;
}

static size_t scales_bytes(const mnem_engine *e) {
    return (size_t)mnem_engine_adapter_count(e) * sizeof(float);
}

float *mnem__sequence_scales(const mnem_sequence *s) {
    const mnem_engine *e = s->engine;
    return e->tables.scales + (s - e->tables.sequences) * (int64_t)mnem_engine_adapter_count(e);
}

const float *mnem_sequence_adapters_get(const mnem_sequence *s) {
    return mnem__sequence_scales(s);
}

void mnem__sequence_scales_copy(mnem_sequence *s, const float *scales) {
    if (s->engine->adapters) memcpy(mnem__sequence_scales(s), scales, scales_bytes(s->engine));
}

const float *mnem__engine_scales(const mnem_engine *e) {
    return e->adapters ? e->adapters->scale : NULL;
}

mnem_status mnem__adapters_check(const mnem_engine *e, const float *scales) {
    for (int32_t i = 0; scales && i < mnem_engine_adapter_count(e); i++)
        if (!isfinite(scales[i]))
            return mnem__fail(MNEM_INVALID,
                              "adapters: the scale of adapter %d is %g, expected a finite number",
                              i, (double)scales[i]);
    return MNEM_OK;
}

mnem_status mnem_sequence_adapters_set(mnem_sequence *s, const float *scales) {
    if (s->length > 0 || s->load.on)
        return mnem__fail(MNEM_INVALID,
                          "adapters: the sequence has %d tokens, which were computed with other "
                          "adapters; truncate it to 0 tokens first",
                          s->length);
    MNEM__TRY(mnem__adapters_check(s->engine, scales));
    mnem__sequence_scales_copy(s, scales ? scales : mnem__engine_scales(s->engine));
    return MNEM_OK;
}

uint64_t mnem__adapters_choice(const mnem_engine *e, const float *scales) {
    mnem__checksum sum;
    if (!e->adapters) return 0;
    mnem__checksum_init(&sum);
    for (int32_t i = 0; i < mnem_engine_adapter_count(e); i++) {
        const float scale = scales[i] == 0 ? 0 : scales[i]; /* -0 counts as 0 */
        mnem__checksum_add(&sum, &scale, sizeof scale);
    }
    return mnem__checksum_get(&sum);
}

/* ---- the rows of a pass ---- */

static bool uses_any(const mnem_engine *e, const float *scales) {
    bool any = false;
    for (int32_t i = 0; i < mnem_engine_adapter_count(e); i++) any |= scales[i] != 0;
    return any;
}

/* Lists rows of a sequence, in ascending order. Extends the last entry if it ends at `row` and has
 * the same scales. */
static void add_rows(mnem_engine *e, const mnem_sequence *s, int32_t row, int32_t rows) {
    const float *scales = mnem__sequence_scales(s);
    mnem_low_rank_rows *list = e->tables.low_rows;
    mnem_low_rank_rows *last = e->low.count > 0 ? &list[e->low.count - 1] : NULL;
    if (rows <= 0 || !uses_any(e, scales)) return;
    if (last && last->first_row + last->rows == row &&
        memcmp(last->scale, scales, scales_bytes(e)) == 0)
        last->rows += rows;
    else
        list[e->low.count++] = (mnem_low_rank_rows){row, rows, scales};
}

void mnem__adapters_of_body(const mnem__step *x) {
    mnem_engine *e = x->e;
    e->low.count = 0;
    for (int32_t i = 0; e->adapters && i < x->segments; i++) {
        const mnem__segment *g = &e->tables.segments[i];
        add_rows(e, x->parts[g->part].sequence, g->row, g->n);
    }
}

void mnem__adapters_of_head(const mnem__step *x) {
    mnem_engine *e = x->e;
    const int32_t begin = x->head.at, end = x->head.at + x->head.n;
    int32_t at = 0; /* index of the segment's first row among the wanted rows */
    e->low.count = 0;
    for (int32_t i = 0; e->adapters && i < x->segments; i++) {
        const mnem__segment *g = &e->tables.segments[i];
        const int32_t wanted = mnem__step_wanted(x, g), from = mnem__max_i32(at, begin);
        add_rows(e, x->parts[g->part].sequence, from - begin,
                 mnem__min_i32(at + wanted, end) - from);
        at += wanted;
    }
}
