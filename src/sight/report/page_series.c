/* page_series.c: numbers over time in a fixed number of buckets.
 *
 * The idea: a series is looked at only when it changes: buckets since then get the number that it
 * had. Invariant: buckets below `until` are final but for the last of them.
 * Cost: one step a bucket and one a change. */
#include "sight/report/page_series.h"

#include "base/heap.h"

mnem_status mnem__series_init(mnem__series *s, uint32_t count, bool whole) {
    const size_t n = (size_t)count * MNEM__BUCKETS;
    *s = (mnem__series){.count = count};
    s->last = mnem__calloc("report", n + 1, sizeof *s->last);
    s->now = mnem__calloc("report", count + 1, sizeof *s->now);
    s->until = mnem__calloc("report", count + 1, sizeof *s->until);
    if (whole) s->least = mnem__calloc("report", n + 1, sizeof *s->least);
    if (whole) s->most = mnem__calloc("report", n + 1, sizeof *s->most);
    if (s->last && s->now && s->until && (!whole || (s->least && s->most))) return MNEM_OK;
    const mnem_status status = mnem__heap_status();
    mnem__series_fini(s);
    return status;
}

void mnem__series_fini(mnem__series *s) {
    mnem__free(s->least);
    mnem__free(s->most);
    mnem__free(s->last);
    mnem__free(s->now);
    mnem__free(s->until);
    *s = (mnem__series){0};
}

/* Buckets up to the end get what it is now. */
static void fill_series(mnem__series *s, uint32_t index, uint32_t end) {
    const size_t row = (size_t)index * MNEM__BUCKETS;
    for (uint32_t b = s->until[index]; b < end; b++) {
        s->last[row + b] = s->now[index];
        if (s->least) s->least[row + b] = s->most[row + b] = s->now[index];
    }
    if (s->until[index] < end) s->until[index] = end;
}

void mnem__series_set(mnem__series *s, uint32_t index, uint32_t bucket, uint64_t value) {
    const size_t at = (size_t)index * MNEM__BUCKETS + bucket;
    fill_series(s, index, bucket + 1);
    s->now[index] = value;
    s->last[at] = value;
    if (!s->least) return;
    if (value < s->least[at]) s->least[at] = value;
    if (value > s->most[at]) s->most[at] = value;
}

static void write_row(mnem__code *code, const uint64_t *row, const uint64_t *over) {
    uint64_t before = 0;
    mnem__code_begin(code);
    for (uint32_t b = 0; b < MNEM__BUCKETS; b++) {
        const uint64_t n = over ? row[b] - over[b] : row[b];
        mnem__code_number(code, (int64_t)(n - before));
        before = n;
    }
    mnem__code_end(code);
}

void mnem__series_write(mnem__series *s, mnem__code *code) {
    mnem__code_text(code, "[");
    for (uint32_t i = 0; i < s->count; i++) {
        const size_t row = (size_t)i * MNEM__BUCKETS;
        fill_series(s, i, MNEM__BUCKETS);
        mnem__code_text(code, i ? ",\n[" : "[");
        if (s->least) {
            write_row(code, s->least + row, NULL);
            mnem__code_text(code, ",");
            write_row(code, s->most + row, s->least + row);
            mnem__code_text(code, ",");
        }
        write_row(code, s->last + row, s->least ? s->least + row : NULL);
        mnem__code_text(code, "]");
    }
    mnem__code_text(code, "]");
}
