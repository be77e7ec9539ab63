/* pool_trace.c: a trace as bench_pool replays it: blocks become slots, reused after a free. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mnem/replay.h"
#include "pool_subject.h"

typedef struct slot_table {
    uint32_t *of_block; /* [allocations] */
    uint32_t *spare;
    uint32_t spare_count, used;
} slot_table;

static uint32_t slot_take(slot_table *s) {
    return s->spare_count ? s->spare[--s->spare_count] : s->used++;
}

static void convert(bench_trace *t, const mnem_workload_info *info, slot_table *s) {
    for (size_t i = 0; i < info->count; i++) {
        const mnem_workload_op *op = &info->ops[i];
        if (op->bytes)
            s->of_block[op->block] = slot_take(s);
        else
            s->spare[s->spare_count++] = s->of_block[op->block];
        t->ops[i] = (bench_op){.bytes = op->bytes, .slot = s->of_block[op->block]};
        if (!op->bytes) s->of_block[op->block] = UINT32_MAX;
    }
    for (size_t b = 0; b < info->allocations; b++)
        if (s->of_block[b] != UINT32_MAX) t->slots_end[t->slots_end_count++] = s->of_block[b];
    t->slots = s->used;
}

static void *take(size_t n) {
    void *p = malloc(n ? n : 1);
    if (!p) exit(1);
    return p;
}

bool bench_trace_open(const char *path, bench_trace *t) {
    mnem_workload *w;
    mnem_workload_info info;
    if (mnem_workload_open(path, NULL, &w) != MNEM_OK) {
        fprintf(stderr, "bench_pool: %s\n", mnem_last_error());
        return false;
    }
    mnem_workload_info_get(w, &info);
    const char *name = strrchr(path, '/');
    *t = (bench_trace){.count = info.count,
                       .allocations = info.allocations,
                       .bytes_peak = info.bytes_peak,
                       .ops = take(info.count * sizeof *t->ops),
                       .slots_end = take(info.allocations * sizeof *t->slots_end)};
    snprintf(t->name, sizeof t->name, "%s", name ? name + 1 : path);
    if (strchr(t->name, '.')) *strchr(t->name, '.') = 0;
    slot_table s = {.of_block = take(info.allocations * sizeof *s.of_block),
                    .spare = take(info.allocations * sizeof *s.spare)};
    convert(t, &info, &s);
    free(s.of_block);
    free(s.spare);
    mnem_workload_close(w);
    return true;
}

void bench_trace_close(bench_trace *t) {
    free(t->ops);
    free(t->slots_end);
}
