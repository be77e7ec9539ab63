/* probe.c: a probe's run: what it takes, and whose turn it is.
 *
 * Idea: turns. After each of the long passes (the curve of latency, sweeps of memory) come short
 * ones (caches, arithmetic, the clock), all of them or as many as their share of the time allows.
 * So the passes of any figure are spread over the whole run, and its best is of the quietest
 * moment.
 *
 *     curve [caches L1 L2 L3 | latency L1 L2 L3 | peaks | clock]
 *     memory, load [the same] memory, store [the same] ...
 *
 * Invariant: all memory is taken before the first round. Ends after `seconds`, when each long one
 * had a turn; without those at 1.5 times as many. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "base/pages.h"
#include "base/thread.h"
#include "sight/probe/probe_private.h"

enum { HUGE_PAGE = 2 << 20 };
static const uint64_t mib = 1 << 20;

bool mnem__probe_stopped(const mnem__probe_run *run) {
    const volatile int *cancel = run->options->cancel;
    return (cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED)) || mnem__seconds() > run->last;
}

static bool cancelled(const mnem__probe_run *run) {
    const volatile int *cancel = run->options->cancel;
    return cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED);
}

/* ---- what it goes through ---- */

/* Caches that the system doesn't name are as large as common ones. */
static const uint64_t common[3] = {32 << 10, 1 << 20, 16 << 20};

static void name_levels(mnem__probe_run *run) {
    static const char *const name[3] = {"L1", "L2", "L3"};
    mnem_probe *p = run->probe;
    const mnem__probe_system *s = &run->system;
    const bool said = s->cache_bytes[0] && s->cache_bytes[1];
    for (int i = 0; i < 3; i++) {
        if (said && !s->cache_bytes[i]) continue; /* it has none */
        mnem_probe_level *l = &p->level[p->levels++];
        snprintf(l->name, sizeof l->name, "%s", name[i]);
        l->said_bytes = said ? s->cache_bytes[i] : common[i];
        l->shared = s->cache_shared[i];
    }
    mnem_probe_level *memory = &p->level[p->levels++];
    snprintf(memory->name, sizeof memory->name, "memory");
    memory->said_bytes = s->memory_bytes;
    memory->shared = mnem__processors();
}

static uint64_t square_root(uint64_t n) {
    uint64_t root = 1;
    while (root * root < n && root < 1ull << 31) root *= 2;
    for (int i = 0; i < 8; i++) root = (root + n / root) / 2;
    return root;
}

/* A level's cycle: half of L1, and between a cache and the next one by ratio, so that neither's
 * edge is near; at most eight times the one before, since a last cache that many machines share may
 * have far less for this one than it says. */
static void choose_cycles(mnem__probe_run *run) {
    mnem_probe *p = run->probe;
    for (int i = 0; i < p->levels - 1; i++) {
        const uint64_t said = p->level[i].said_bytes;
        const uint64_t before = i ? p->level[i - 1].said_bytes : 0;
        const uint64_t bytes = i ? mnem__min_u64(square_root(before * said), 8 * before) : said / 2;
        p->level[i].latency_bytes = bytes & ~127ull;
    }
    mnem_probe_level *memory = &p->level[p->levels - 1];
    memory->latency_bytes = run->huge.size & ~127ull;
    memory->partly = run->huge.size < 2 * p->level[p->levels - 2].said_bytes;
}

static int32_t threads_of(int32_t asked) {
    return mnem__min_i32(asked ? asked : mnem__processors(), MNEM_TEAM_MAX);
}

static void choose_teams(mnem__probe_run *run) {
    mnem_probe *p = run->probe;
    p->threads = threads_of(run->options->threads);
    const bool every = p->threads <= 8;
    for (int32_t n = 1; n < p->threads; n = every ? n + 1 : 2 * n) p->team[p->teams++] = n;
    p->team[p->teams++] = p->threads;
}

/* ---- memory ---- */

static mnem_status charge(mnem__probe_run *run, uint64_t bytes) {
    mnem_ledger *ledger = run->options->ledger;
    return ledger ? mnem_ledger_charge(ledger, MNEM_KIND_WORKSPACE, "probe", bytes) : MNEM_OK;
}

static mnem_status block_take(mnem__probe_run *run, mnem__probe_block *block, uint64_t bytes,
                              bool huge) {
    mnem_status status = charge(run, bytes);
    if (status != MNEM_OK) return status;
    block->size = bytes;
    block->bytes = mnem__pages_map(bytes, huge);
    if (block->bytes && (huge || mnem__pages_touch(block->bytes, bytes))) return MNEM_OK;
    return MNEM_NO_MEMORY;
}

static void block_give(const mnem__probe_run *run, mnem__probe_block *block) {
    if (!block->size) return;
    mnem__pages_unmap(block->bytes, block->size);
    if (run->options->ledger)
        mnem_ledger_release(run->options->ledger, MNEM_KIND_WORKSPACE, "probe", block->size);
    *block = (mnem__probe_block){0};
}

/* More than twice the last cache, so that most of it can't be in that. */
static uint64_t bytes_wanted(const mnem__probe_run *run) {
    const mnem_probe *p = run->probe;
    uint64_t last = p->level[p->levels - 2].said_bytes;
    const uint64_t huge = mnem__min_u64(mnem__max_u64(last * 5 / 2, 256 * mib), 1024 * mib);
    return huge + huge / 8 + mnem_team_bytes(p->threads);
}

uint64_t mnem_probe_bytes(int32_t threads) {
    return mnem_team_bytes(threads_of(threads)) + 4 * mib;
}

/* A ninth of the room is for small pages, and what is left behind whole huge ones. */
static mnem_status take_probe_memory(mnem__probe_run *run) {
    const uint64_t team = mnem_team_bytes(run->probe->threads);
    const uint64_t least = mnem_probe_bytes(run->probe->threads);
    const uint64_t room =
        run->options->memory_bytes ? run->options->memory_bytes : bytes_wanted(run);
    if (room < least)
        return mnem__fail(MNEM_OVER_BUDGET,
                          "probe: needs at least %llu bytes (%d thread%s and a block), but the "
                          "limit is %llu; raise the limit, or use fewer threads",
                          (unsigned long long)least, run->probe->threads,
                          run->probe->threads == 1 ? "" : "s", (unsigned long long)room);
    const uint64_t blocks = mnem__min_u64(room, bytes_wanted(run)) - team;
    const uint64_t rest = blocks - (blocks / 9 & ~(mib / 4 - 1)), step = mib / 4;
    const uint64_t huge = rest & ~((rest >= HUGE_PAGE ? HUGE_PAGE : step) - 1);
    const uint64_t small = (blocks - huge) & ~(step - 1);
    mnem_status status = mnem_team_create(run->probe->threads, &run->team);
    if (status == MNEM_OK) status = block_take(run, &run->huge, huge, true);
    if (status == MNEM_OK) status = block_take(run, &run->small, small, false);
    run->probe->bytes = team + run->huge.size + run->small.size + sizeof *run;
    return status;
}

/* ---- turns ---- */

/* Short ones by number: caches, arithmetic, latencies, the clock. */
static int short_count(const mnem__probe_run *run) {
    const mnem_probe *p = run->probe;
    return (p->levels - 1) * (p->teams * MNEM_PROBE_STREAMS + 2) + 2 * p->peaks + 1;
}

static void short_one(mnem__probe_run *run, int i) {
    const mnem_probe *p = run->probe;
    const int caches = p->levels - 1, each = p->teams * MNEM_PROBE_STREAMS;
    if (i < caches * each) {
        mnem__probe_rate(run, i / each, i % each / MNEM_PROBE_STREAMS,
                         (mnem_probe_stream)(i % MNEM_PROBE_STREAMS));
        return;
    }
    i -= caches * each;
    if (i < 2 * caches) { /* not so short: a cache's in a round, but all in the first */
        if (!p->rounds || p->rounds % caches == i / 2) mnem__probe_latency(run, i / 2, i % 2);
        return;
    }
    i -= 2 * caches;
    if (i < 2 * p->peaks)
        mnem__probe_peak(run, i / 2, i % 2);
    else
        mnem__probe_clock(run);
}

/* A round of them, as far as it comes in its share of the time; the next goes on there. */
static void short_ones(mnem__probe_run *run, double share) {
    const int count = short_count(run);
    const double end = mnem__seconds() + share;
    for (int i = 0; i < count; i++) {
        if (mnem__probe_stopped(run) || mnem__seconds() > end) return;
        short_one(run, run->next);
        run->next = (run->next + 1) % count;
        run->probe->rounds += run->next == 0;
    }
}

/* Besides sweeps: curves and memory's latency through both kinds of pages, the disk. */
enum { OTHERS = 5 };

static int long_count(const mnem__probe_run *run) {
    return run->probe->teams * MNEM_PROBE_STREAMS + OTHERS;
}

/* What matters most comes first, should the time not be enough for all: the largest team. */
static void long_one(mnem__probe_run *run, int turn) {
    const int sweeps = run->probe->teams * MNEM_PROBE_STREAMS;
    switch (turn - sweeps) {
    case 0: mnem__probe_latency_memory(run, false); break;
    case 1: mnem__probe_curve(run, false); break;
    case 2: mnem__probe_disk(run); break;
    case 3: mnem__probe_latency_memory(run, true); break;
    case 4: mnem__probe_curve(run, true); break;
    default:
        mnem__probe_rate_memory(run, run->probe->teams - 1 - turn / MNEM_PROBE_STREAMS,
                                (mnem_probe_stream)(turn % MNEM_PROBE_STREAMS));
    }
}

static bool tell(const mnem__probe_run *run) {
    const mnem_progress *progress = &run->options->progress;
    const double part = (mnem__seconds() - run->begun) / (run->until - run->begun);
    return !progress->tell || progress->tell(progress->context, "measuring",
                                             (uint64_t)(1000 * mnem__min_f64(part, 1)), 1000);
}

static mnem_status rounds(mnem__probe_run *run) {
    const int turns = long_count(run);
    const double share = 0.6 * (run->until - mnem__seconds()) / turns;
    for (int turn = 0;; turn++) {
        const double now = mnem__seconds();
        if (!tell(run) || cancelled(run))
            return mnem__fail(MNEM_CANCELLED, "probe: stopped by the caller");
        if ((turn >= turns && now > run->until) || mnem__probe_stopped(run)) return MNEM_OK;
        long_one(run, turn % turns);
        short_ones(run, share);
    }
}

/* ---- what it says ---- */

static void tell_levels(mnem__probe_run *run) {
    mnem_probe *p = run->probe;
    for (int i = 0; i < p->levels; i++) {
        mnem_probe_level *l = &p->level[i];
        l->latency = mnem__probe_value(&run->latency[i][0], false);
        l->latency_small = mnem__probe_value(&run->latency[i][1], false);
        for (int t = 0; t < p->teams; t++)
            for (int s = 0; s < MNEM_PROBE_STREAMS; s++)
                l->rate[t][s] = mnem__probe_value(&run->rate[i][t][s], true);
    }
}

static void tell_peaks(mnem__probe_run *run) {
    mnem_probe *p = run->probe;
    for (int i = 0; i < p->peaks; i++)
        for (int all = 0; all < 2; all++)
            p->peak[i].rate[all] = mnem__probe_value(&run->peak[i][all], true);
    for (int i = 0; i < p->peaks; i++)
        p->peak[i].used = p->peak[i].rate[1].best > 0 &&
                          p->peak[i].rate[1].best >= mnem_probe_peak_of(p, p->peak[i].type);
}

static void tell_all(mnem__probe_run *run) {
    mnem_probe *p = run->probe;
    for (int i = 0; i < p->sizes; i++) {
        p->size[i].ns = run->size[i][0].best;
        p->size[i].ns_small = run->size[i][1].best;
    }
    tell_levels(run);
    tell_peaks(run);
    mnem__probe_knees(p);
    p->clock = mnem__probe_value(&run->clock, true);
    p->clock_wide = mnem__probe_value(&run->clock_wide, true);
    p->disk = mnem__probe_value(&run->disk, true);
    p->disk_wait = mnem__probe_value(&run->disk_wait, false);
    p->seconds = mnem__seconds() - run->begun;
}

static mnem_status measure(mnem__probe_run *run) {
    const double seconds = run->options->seconds > 0 ? run->options->seconds : 6;
    run->seconds = seconds;
    run->begun = mnem__seconds();
    run->last = run->begun + 1.5 * seconds;
    mnem__probe_system_get(&run->system);
    memcpy(run->probe->processor, run->system.processor, sizeof run->probe->processor);
    mnem__probe_unused(run->probe->unused, sizeof run->probe->unused);
    run->kernels = mnem__probe_kernels_get(mnem__cpu_level_get());
    choose_teams(run);
    name_levels(run);
    mnem_status status = take_probe_memory(run);
    if (status != MNEM_OK) return status;
    /* Pages that a machine hasn't given anybody yet take seconds. */
    run->until = mnem__max_f64(run->begun + seconds, mnem__seconds() + 0.5 * seconds);
    run->last = mnem__max_f64(run->last, mnem__seconds() + 0.8 * seconds);
    choose_cycles(run);
    mnem__probe_rate_bytes(run);
    mnem__probe_sizes(run);
    mnem__probe_peaks_begin(run);
    status = rounds(run);
    if (status == MNEM_OK) tell_all(run);
    return status;
}

mnem_status mnem_probe_run(const mnem_probe_options *options, mnem_probe *probe) {
    *probe = (mnem_probe){0};
    if (!(options->seconds >= 0 && options->seconds <= 60) || options->threads < 0)
        return mnem__fail(MNEM_INVALID,
                          "probe: options.seconds is %g and options.threads %d, expected 0 to 60 "
                          "seconds and 0 or more threads",
                          (double)options->seconds, (int)options->threads);
    mnem__probe_run *run = mnem__calloc("probe", 1, sizeof *run);
    if (!run) return mnem__heap_status();
    run->options = options;
    run->probe = probe;
    run->random = 0x9e3779b97f4a7c15ull;
    const mnem_status status = measure(run);
    mnem_team_destroy(run->team);
    block_give(run, &run->huge);
    block_give(run, &run->small);
    mnem__free(run);
    return status;
}
