/* facts_workload.c: facts of recorded allocations: a policy's own figures, and what others need.
 *
 * A gain is what the replay says of the same operations with one thing changed. Cost: a fit of the
 * default policy, of the one in use and of best-fit, and a few growths; some passes over the ops.
 * Memory: a byte for each block. */
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "sight/advice/checks.h"

enum { ALIGNMENT_SMALL = 64, ALIGNMENT_USUAL = 256, PARTS = 4 };

typedef struct trying {
    const mnem_workload *workload;
    mnem_workload_info info;
    mnem_replay_settings settings;
    const char *policy;
    mnem_facts *facts;
} trying;

#define SET(name, number) mnem_facts_set(t->facts, MNEM_FACT_##name, (double)(number))
#define VALUE(name)       (t->facts->value[MNEM_FACT_##name])

static mnem_status try_policy(const trying *t, const char *name, mnem_replay_settings settings,
                              unsigned measure, mnem_replay_result *r) {
    mnem_replay_target *target;
    const mnem_replay_options options = {.measure = measure, .runs = 1, .runs_each = 3};
    mnem_status status = mnem_replay_target_create(name, &settings, &target);
    if (status != MNEM_OK) return status;
    status = mnem_replay_run(t->workload, target, &options, r);
    mnem_replay_target_destroy(target);
    return status;
}

/* ---- the policy in use ---- */

/* Blocks rounded up, and how many begin inside a line where blocks lie one behind another. */
static uint64_t granted_peak(const trying *t, uint64_t alignment) {
    uint64_t live = 0, peak = 0;
    uint64_t *bytes = mnem__calloc("advice", t->info.allocations, sizeof *bytes);
    for (size_t i = 0; bytes && i < t->info.count; i++) {
        const mnem_workload_op *op = &t->info.ops[i];
        if (op->bytes) {
            bytes[op->block] = (op->bytes + alignment - 1) / alignment * alignment;
            live += bytes[op->block];
        } else {
            live -= bytes[op->block];
        }
        if (live > peak) peak = live;
    }
    mnem__free(bytes);
    return peak;
}

static mnem_status set_policy(const trying *t) {
    mnem_replay_result r;
    const mnem_status status =
        try_policy(t, t->policy, t->settings, MNEM_REPLAY_FIT | MNEM_REPLAY_GROWTH, &r);
    if (status != MNEM_OK) return status;
    snprintf(t->facts->policy_now, sizeof t->facts->policy_now, "%s", t->policy);
    SET(LIVE_PEAK, t->info.bytes_peak);
    SET(RESERVED_PEAK, r.bytes_reserved_peak);
    SET(CAPACITY, r.bytes_capacity_needed);
    SET(ALIGNMENT, t->settings.alignment);
    SET(GRANTED_PEAK, granted_peak(t, t->settings.alignment));
    SET(HIT_RATE, r.hit_rate);
    SET(UPSTREAM_CALLS, r.upstream_calls);
    SET(SEGMENT, r.segment_bytes);
    return MNEM_OK;
}

enum { LINE = 64 };

static void count_unaligned(void *context, const mnem_replay_box *box) {
    *(uint64_t *)context += box->offset % LINE != 0;
}

/* Where the alignment is below a line. */
static mnem_status set_unaligned(const trying *t) {
    mnem_replay_target *target;
    uint64_t count = 0;
    if (t->settings.alignment >= LINE) return MNEM_OK;
    mnem_status status = mnem_replay_target_create(t->policy, &t->settings, &target);
    if (status != MNEM_OK) return status;
    const uint64_t most = 2 * (uint64_t)VALUE(CAPACITY);
    status = mnem_replay_map(t->workload, target, most, most, count_unaligned, NULL, &count);
    mnem_replay_target_destroy(target);
    if (status == MNEM_OK) SET(UNALIGNED_BLOCKS, count);
    return status == MNEM_UNSUPPORTED ? MNEM_OK : status;
}

/* ---- others ---- */

static mnem_status try_others(const trying *t) {
    static const char *const names[] = {"mnem", "best-fit", "first-fit"};
    mnem_replay_result r;
    double least = VALUE(CAPACITY);
    const char *best = t->policy;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], t->policy) == 0) continue;
        const mnem_status status = try_policy(t, names[i], t->settings, MNEM_REPLAY_FIT, &r);
        if (status != MNEM_OK) return status;
        if ((double)r.bytes_capacity_needed >= least) continue;
        least = (double)r.bytes_capacity_needed;
        best = names[i];
    }
    snprintf(t->facts->policy, sizeof t->facts->policy, "%s", best);
    SET(POLICY_SET, best == t->policy);
    SET(TRY_POLICY_CAPACITY, least);
    return MNEM_OK;
}

static mnem_status try_alignment(const trying *t) {
    mnem_replay_settings settings = t->settings;
    mnem_replay_result r;
    if (settings.alignment <= ALIGNMENT_SMALL) return MNEM_OK;
    settings.alignment = ALIGNMENT_SMALL;
    const mnem_status status = try_policy(t, t->policy, settings, MNEM_REPLAY_FIT, &r);
    if (status != MNEM_OK) return status;
    SET(TRY_ALIGNMENT, ALIGNMENT_SMALL);
    SET(TRY_ALIGNMENT_CAPACITY, r.bytes_capacity_needed);
    return MNEM_OK;
}

static mnem_status try_granules(const trying *t) {
    mnem_replay_result r;
    if (t->info.bytes_peak < 64 << 20) return MNEM_OK; /* its granules are 2 MiB */
    const mnem_status status = try_policy(t, "granules", t->settings, MNEM_REPLAY_FIT, &r);
    if (status == MNEM_OK) SET(TRY_GRANULES, r.bytes_capacity_needed);
    return status;
}

/* Segments of four times the size, as often as the calls become fewer, and all at once. */
static mnem_status try_segments(const trying *t) {
    mnem_replay_settings settings = t->settings;
    mnem_replay_result r;
    double fewest = VALUE(UPSTREAM_CALLS), best = VALUE(SEGMENT);
    const uint64_t most = t->info.bytes_peak + t->info.bytes_peak / 5;
    for (uint64_t bytes = UINT64_C(2) << 20; bytes <= most; bytes *= 4) {
        settings.segment_bytes = bytes;
        const mnem_status status = try_policy(t, t->policy, settings, MNEM_REPLAY_GROWTH, &r);
        if (status != MNEM_OK) return status;
        if ((double)r.upstream_calls >= fewest) continue;
        fewest = (double)r.upstream_calls;
        best = (double)bytes;
    }
    SET(TRY_SEGMENT, best);
    SET(TRY_SEGMENT_CALLS, fewest);
    return MNEM_OK;
}

/* ---- lives ---- */

typedef struct lives {
    uint64_t blocks[PARTS], bytes[PARTS]; /* live at the end of each part */
    uint64_t brief;
    size_t peak; /* the operation */
} lives;

/* born[block]: the operation that allocated it; its lifetime is known when it is freed. */
static void walk(const trying *t, uint32_t *born, uint64_t *bytes, lives *l) {
    uint64_t blocks = 0, live = 0, most = 0;
    for (size_t i = 0; i < t->info.count; i++) {
        const mnem_workload_op *op = &t->info.ops[i];
        if (op->bytes) {
            born[op->block] = (uint32_t)i;
            bytes[op->block] = op->bytes;
            live += op->bytes;
            blocks++;
        } else {
            live -= bytes[op->block];
            blocks--;
            l->brief += i - born[op->block] == 1;
        }
        if (live > most) most = live, l->peak = i;
        const size_t part = i * PARTS / t->info.count;
        l->blocks[part] = blocks;
        l->bytes[part] = live;
    }
}

/* The peak without those that live longer than three quarters of the operations, and their bytes
 * at the peak. died: of each block, count where it never does. */
static uint64_t peak_without(const trying *t, const uint32_t *born, const uint32_t *died,
                             const uint64_t *bytes, size_t at, uint64_t *idle) {
    const size_t longest = t->info.count / 4 * 3;
    uint64_t live = 0, most = 0;
    *idle = 0;
    for (size_t i = 0; i < t->info.count; i++) {
        const uint32_t b = t->info.ops[i].block;
        const bool is_long = died[b] - born[b] > longest;
        if (is_long && t->info.ops[i].bytes && born[b] <= at && died[b] > at) *idle += bytes[b];
        if (is_long) continue;
        live += t->info.ops[i].bytes ? bytes[b] : -bytes[b];
        if (live > most) most = live;
    }
    return most;
}

static void set_growth(const trying *t, const lives *l) {
    uint64_t grown = UINT64_MAX, by = 0;
    for (int i = 1; i < PARTS; i++) {
        const uint64_t more = l->blocks[i] > l->blocks[i - 1] ? l->blocks[i] - l->blocks[i - 1] : 0;
        if (more < grown) {
            grown = more;
            by = l->bytes[i] > l->bytes[i - 1] ? l->bytes[i] - l->bytes[i - 1] : 0;
        }
    }
    /* Fewer than one operation in a hundred is how programs begin and end. */
    const bool is_leak = grown > 16 && grown * PARTS * 100 > t->info.count;
    SET(GROWING_BLOCKS, is_leak ? grown : 0);
    SET(GROWING_BYTES, is_leak ? by : 0);
}

static void set_lives(const trying *t, uint32_t *born, uint32_t *died, uint64_t *bytes) {
    lives l = {.brief = 0};
    uint64_t idle;
    for (size_t i = 0; i < t->info.allocations; i++) died[i] = (uint32_t)t->info.count;
    walk(t, born, bytes, &l);
    for (size_t i = 0; i < t->info.count; i++)
        if (!t->info.ops[i].bytes) died[t->info.ops[i].block] = (uint32_t)i;
    const uint64_t without = peak_without(t, born, died, bytes, l.peak, &idle);
    SET(IDLE_BYTES, idle);
    SET(TRY_IDLE_PEAK, without);
    SET(BRIEF_BLOCKS, l.brief);
    SET(BRIEF_PART, (double)l.brief / (double)t->info.allocations);
    SET(END_BLOCKS, l.blocks[PARTS - 1]);
    SET(END_BYTES, l.bytes[PARTS - 1]);
    set_growth(t, &l);
}

static mnem_status gather_lives(const trying *t) {
    const size_t n = t->info.allocations;
    if (t->info.count >= UINT32_MAX) return MNEM_OK;
    uint32_t *born = mnem__calloc("advice", n, sizeof *born);
    uint32_t *died = mnem__calloc("advice", n, sizeof *died);
    uint64_t *bytes = mnem__calloc("advice", n, sizeof *bytes);
    const mnem_status status = born && died && bytes ? MNEM_OK : mnem__heap_status();
    if (status == MNEM_OK) set_lives(t, born, died, bytes);
    mnem__free(born);
    mnem__free(died);
    mnem__free(bytes);
    return status;
}

mnem_status mnem_facts_workload(const mnem_workload *workload, const char *policy,
                                const mnem_replay_settings *settings, mnem_facts *facts) {
    trying all = {.workload = workload, .policy = policy ? policy : "mnem", .facts = facts};
    const trying *t = &all;
    if (settings) all.settings = *settings;
    if (!all.settings.alignment) all.settings.alignment = ALIGNMENT_USUAL;
    mnem_workload_info_get(workload, &all.info);
    mnem_status status = set_policy(t);
    if (status == MNEM_OK) status = set_unaligned(t);
    if (status == MNEM_OK) status = try_others(t);
    if (status == MNEM_OK) status = try_alignment(t);
    if (status == MNEM_OK) status = try_granules(t);
    if (status == MNEM_OK) status = try_segments(t);
    return status == MNEM_OK ? gather_lives(t) : status;
}
