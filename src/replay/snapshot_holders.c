/* snapshot_holders.c: who holds the memory at one moment: live blocks, summed by site.
 *
 * Idea: the blocks that are live after N operations, sorted by the text of their site and then by
 * their birth: each site is a run, its oldest block comes first, its median is the middle.
 *
 * Invariant: every live block is in exactly one run, so the sums are those of the workload.
 * Cost: one pass over the operations, a sort of the live blocks; 12 bytes for each allocation. */
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "base/sort.h"
#include "replay/snapshot_facts.h"

static const char tag[] = "replay";

typedef struct census {
    const mnem_workload *w;
    size_t ops;
    uint64_t *born; /* [allocations]: operation + 1; 0: not live */
    uint32_t *live; /* [count]: blocks, sorted */
    size_t count, sites;
    uint64_t us_now, us_first;
    mnem_snapshot_holder *holder; /* [sites] */
} census;

/* Operations up to the peak; MNEM_SNAPSHOT_PEAK without memory. */
static size_t peak_of(const mnem_workload_info *info) {
    uint64_t live = 0;
    size_t i = 0;
    uint64_t *bytes = mnem__calloc(tag, info->allocations, sizeof *bytes);
    if (!bytes) return MNEM_SNAPSHOT_PEAK;
    for (; i < info->count && (!i || live < info->bytes_peak); i++) {
        const mnem_workload_op *o = &info->ops[i];
        if (o->bytes) bytes[o->block] = o->bytes;
        live += o->bytes ? o->bytes : 0 - bytes[o->block];
    }
    mnem__free(bytes);
    return i;
}

static uint32_t site_at(const census *c, uint32_t block) {
    return c->w->site_at ? c->w->site_at[block] : 1;
}

static const char *site_of(const census *c, uint32_t block) {
    return mnem__stack_text(c->w, site_at(c, block));
}

static bool same_site(const census *c, uint32_t a, uint32_t b) {
    return site_at(c, a) == site_at(c, b) || strcmp(site_of(c, a), site_of(c, b)) == 0;
}

static bool site_then_birth(const void *context, uint32_t a, uint32_t b) {
    const census *c = context;
    if (!same_site(c, a, b)) return strcmp(site_of(c, a), site_of(c, b)) < 0;
    return c->born[a] < c->born[b];
}

/* ---- times ---- */

static uint64_t us_at(const census *c, size_t op) {
    const mnem__snapshot_facts *f = c->w->facts;
    return f && f->timed ? ((const uint64_t *)f->time.p)[op] : 0;
}

static void find_times(census *c) {
    for (size_t i = 0; i < c->ops && !c->us_first; i++) c->us_first = us_at(c, i);
    for (size_t i = c->ops; i > 0 && !c->us_now; i--) c->us_now = us_at(c, i - 1);
}

static mnem_snapshot_age age_of(const census *c, uint32_t block) {
    const size_t op = (size_t)c->born[block] - 1, prelude = c->w->info.prelude;
    const bool before = op < prelude;
    const uint64_t us = before || !us_at(c, op) ? c->us_first : us_at(c, op);
    const size_t since = before ? (prelude < c->ops ? prelude : c->ops) : op;
    return (mnem_snapshot_age){c->ops - since, c->us_now > us ? c->us_now - us : 0};
}

/* ---- sums ---- */

static mnem_status list_live(census *c) {
    const mnem_workload_info *info = &c->w->info;
    c->born = mnem__calloc(tag, info->allocations, sizeof *c->born);
    if (!c->born) return mnem__heap_status();
    for (size_t i = 0; i < c->ops; i++) {
        const mnem_workload_op *o = &info->ops[i];
        c->born[o->block] = o->bytes ? i + 1 : 0;
        if (o->bytes)
            c->count++;
        else
            c->count--;
    }
    c->live = mnem__alloc(tag, (c->count + 1) * sizeof *c->live);
    if (!c->live) return mnem__heap_status();
    size_t n = 0;
    for (uint32_t b = 0; b < info->allocations; b++)
        if (c->born[b]) c->live[n++] = b;
    mnem__sort(c->live, n, site_then_birth, c);
    return MNEM_OK;
}

/* The run that begins at i; returns its end. */
static size_t sum_run(const census *c, size_t i, mnem_snapshot_holder *h) {
    const size_t from = i;
    *h = (mnem_snapshot_holder){.site = site_of(c, c->live[i])};
    for (; i < c->count && same_site(c, c->live[from], c->live[i]); i++) {
        const size_t op = (size_t)c->born[c->live[i]] - 1;
        h->bytes += c->w->info.ops[op].bytes;
        h->blocks++;
        h->blocks_before += op < c->w->info.prelude;
    }
    h->oldest = age_of(c, c->live[from]);
    h->median = age_of(c, c->live[from + (i - from) / 2]);
    return i;
}

static mnem_status sum_sites(census *c) {
    for (size_t i = 0; i < c->count; i++)
        c->sites += !i || !same_site(c, c->live[i - 1], c->live[i]);
    c->holder = mnem__alloc(tag, (c->sites + 1) * sizeof *c->holder);
    if (!c->holder) return mnem__heap_status();
    for (size_t i = 0, n = 0; i < c->count; n++) i = sum_run(c, i, &c->holder[n]);
    return MNEM_OK;
}

static bool more_bytes(const void *context, uint32_t a, uint32_t b) {
    const mnem_snapshot_holder *h = context;
    return h[a].bytes != h[b].bytes ? h[a].bytes > h[b].bytes : a < b;
}

/* The result in one piece: the struct, then its holders. */
static mnem_status order(census *c, mnem_snapshot_holders **out) {
    mnem_snapshot_holders *all = mnem__alloc(tag, sizeof *all + c->sites * sizeof *c->holder);
    uint32_t *index = mnem__alloc(tag, (c->sites + 1) * sizeof *index);
    if (all && index) {
        mnem_snapshot_holder *to = (mnem_snapshot_holder *)(all + 1);
        *all = (mnem_snapshot_holders){.ops = c->ops, .count = c->sites, .of = to};
        for (size_t i = 0; i < c->sites; i++) index[i] = (uint32_t)i;
        mnem__sort(index, c->sites, more_bytes, c->holder);
        for (size_t i = 0; i < c->sites; i++) {
            to[i] = c->holder[index[i]];
            all->bytes += to[i].bytes;
            all->blocks += to[i].blocks;
        }
        *out = all;
    } else {
        mnem__free(all);
    }
    mnem__free(index);
    return *out ? MNEM_OK : mnem__heap_status();
}

mnem_status mnem_snapshot_holders_create(const mnem_workload *w, size_t ops,
                                         mnem_snapshot_holders **out) {
    census c = {.w = w, .ops = ops == MNEM_SNAPSHOT_PEAK ? peak_of(&w->info) : ops};
    *out = NULL;
    if (c.ops == MNEM_SNAPSHOT_PEAK) return mnem__heap_status();
    if (c.ops > w->info.count)
        return mnem__fail(MNEM_INVALID,
                          "snapshot: operation %zu does not exist: the snapshot has %zu operations",
                          c.ops, w->info.count);
    find_times(&c);
    mnem_status status = list_live(&c);
    if (status == MNEM_OK) status = sum_sites(&c);
    if (status == MNEM_OK) status = order(&c, out);
    mnem__free(c.born);
    mnem__free(c.live);
    mnem__free(c.holder);
    return status;
}

void mnem_snapshot_holders_destroy(mnem_snapshot_holders *holders) {
    mnem__free(holders);
}
