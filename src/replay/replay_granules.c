/* replay_granules.c: blocks fitted into granules that are mapped elsewhere (granule_fit.h), as a
 * target.
 *
 * The idea: the orders to the device are counted, not carried out, so their time isn't in what is
 * measured; the search for a remap is. Streams are ignored, as by the offset policies. A capacity
 * is whole granules. When nothing is reserved at first, it remaps before it takes more, because
 * otherwise a pool without a limit would never remap.
 *
 *     open  granules 0..n are taken (start), or none
 *     alloc a free run serves; else an order: take and map, or map what is free elsewhere
 *
 * Invariant: upstream calls are the orders; a request missed if it made one at least.
 * Cost: 12 bytes per block. */
#include "alloc/granule/granule_fit.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"
#include "replay/replay_private.h"

static const char tag[] = "replay";

#define GRANULE        ((uint64_t)2 << 20)
#define GRANULES_MOST  ((uint64_t)1 << 22) /* of tables with 16 rows for each: 8 TiB */
#define ALIGNMENT_MOST (GRANULE / 64)

typedef struct granular {
    mnem_replay_target base;
    uint64_t alignment;
    mnem__granule_fit *fit; /* NULL: the capacity is less than one granule */
    uint32_t *handles;      /* [blocks] */
    uint64_t *offsets;      /* [blocks] */
    uint64_t orders, misses;
} granular;

static mnem_status count_order(void *context, const mnem__granule_order *order) {
    (void)order;
    ((granular *)context)->orders++;
    return MNEM_OK;
}

static mnem_status granular_alloc(mnem_replay_target *self, uint32_t block, uint64_t bytes,
                                  uint32_t stream) {
    granular *g = (granular *)self;
    mnem__granule_block b;
    (void)stream;
    if (!g->fit) return MNEM_OVER_BUDGET;
    const uint64_t orders = g->orders;
    const mnem_status status = mnem__granule_fit_alloc(g->fit, bytes, &b);
    g->misses += g->orders != orders;
    if (status != MNEM_OK) return status;
    g->handles[block] = b.handle;
    g->offsets[block] = b.offset;
    return MNEM_OK;
}

static void granular_free(mnem_replay_target *self, uint32_t block, uint32_t stream) {
    granular *g = (granular *)self;
    (void)stream;
    mnem__granule_fit_free(g->fit, g->handles[block]);
}

static void granular_close(mnem_replay_target *self) {
    granular *g = (granular *)self;
    mnem__granule_fit_destroy(g->fit);
    mnem__free(g->handles);
    mnem__free(g->offsets);
    g->fit = NULL;
    g->handles = NULL;
    g->offsets = NULL;
}

static mnem_status granular_open(mnem_replay_target *self, const mnem_workload *w, uint64_t start,
                                 uint64_t most) {
    granular *g = (granular *)self;
    mnem_workload_info info;
    mnem_workload_info_get(w, &info);
    g->orders = g->misses = 0;
    /* Without a limit: the tables want one all the same. */
    const uint64_t enough = 4 * mnem__div_up(info.bytes_peak, GRANULE) + 64;
    const uint64_t granules = start || (most && most / GRANULE < enough) ? most / GRANULE : enough;
    if (granules > GRANULES_MOST || g->alignment > ALIGNMENT_MOST)
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "replay: %llu granules of 2 MiB with an alignment of %llu are not supported: expected "
            "at most 2^22 granules, and an alignment of at most 32 KiB",
            (unsigned long long)granules, (unsigned long long)g->alignment);
    g->handles = mnem__calloc(tag, info.allocations, sizeof *g->handles);
    g->offsets = mnem__calloc(tag, info.allocations, sizeof *g->offsets);
    mnem_status status = g->handles && g->offsets ? MNEM_OK : mnem__heap_status();
    const mnem__granule_options options = {.granules_max = (uint32_t)granules,
                                           .granules_start = start ? (uint32_t)granules : 0,
                                           .remap_first = !start,
                                           .alignment = g->alignment,
                                           .carry_out = count_order,
                                           .context = g};
    if (status == MNEM_OK && granules) status = mnem__granule_fit_create(&options, &g->fit);
    if (status != MNEM_OK) granular_close(self);
    return status;
}

static void granular_usage(const mnem_replay_target *self, mnem_replay_usage *usage) {
    const granular *g = (const granular *)self;
    mnem__granule_info info = {0};
    if (g->fit) mnem__granule_fit_info_get(g->fit, &info);
    *usage = (mnem_replay_usage){.bytes_reserved = info.granules * GRANULE,
                                 .bytes_reserved_peak = info.granules_peak * GRANULE,
                                 .upstream_calls = g->orders,
                                 .misses = g->misses};
}

static uint64_t granular_place(const mnem_replay_target *self, uint32_t block, uint64_t *bytes) {
    const granular *g = (const granular *)self;
    *bytes = mnem__granule_fit_block_bytes(g->fit, g->handles[block]);
    return g->offsets[block];
}

mnem_status mnem__granule_target_create(const mnem_replay_settings *settings,
                                        mnem_replay_target **out) {
    granular *g = mnem__calloc(tag, 1, sizeof *g);
    if (!g) return mnem__heap_status();
    g->base = (mnem_replay_target){.name = "granules",
                                   .open = granular_open,
                                   .alloc = granular_alloc,
                                   .free = granular_free,
                                   .close = granular_close,
                                   .usage = granular_usage,
                                   .place = granular_place,
                                   .destroy = mnem__replay_target_free};
    g->alignment = settings && settings->alignment ? settings->alignment : 256;
    *out = &g->base;
    return MNEM_OK;
}
