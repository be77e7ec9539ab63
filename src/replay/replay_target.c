/* replay_target.c: the targets that have names: offset policies, and models of others.
 *
 * An offset policy grows as a pool over a reserved range does: when a request fails, one more
 * segment is mapped behind the last, or as many as it takes; the free tail joins it. A policy that
 * can't be extended says so, and is measured at a fixed capacity.
 * Cost: 4 bytes per block for handles, beside the policy's own metadata. */
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"
#include "replay/replay_private.h"

static const char tag[] = "replay";

uint64_t mnem__replay_segment(uint64_t bytes_peak) {
    const uint64_t least = (uint64_t)2 << 20;
    uint64_t segment = least;
    while (segment < bytes_peak / 64) segment *= 2;
    return segment;
}

void mnem__replay_target_free(mnem_replay_target *self) {
    mnem__free(self);
}

/* ---- an offset policy ---- */

static mnem_status make(mnem__offset_target *t, uint64_t bytes) {
    return mnem_offset_create(&(mnem_offset_options){.policy = t->policy,
                                                     .bytes = bytes,
                                                     .alignment = t->settings.alignment},
                              &t->a);
}

static void offset_close(mnem_replay_target *self) {
    mnem__offset_target *t = (mnem__offset_target *)self;
    mnem_offset_destroy(t->a);
    mnem__free(t->handles);
    mnem__free(t->offsets);
    t->a = NULL;
    t->handles = NULL;
    t->offsets = NULL;
}

static mnem_status offset_open(mnem_replay_target *self, const mnem_workload *w, uint64_t start,
                               uint64_t most) {
    mnem__offset_target *t = (mnem__offset_target *)self;
    mnem_workload_info info;
    mnem_workload_info_get(w, &info);
    t->a = NULL;
    t->used = (mnem_replay_usage){0};
    t->most = most ? most : UINT64_MAX;
    t->segment = t->settings.segment_bytes ? mnem__align_up(t->settings.segment_bytes, 4096)
                                           : mnem__replay_segment(info.bytes_peak);
    if (!start && t->policy == MNEM_OFFSET_BUDDY)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "replay: policy %s can't grow its range; use another policy",
                          t->base.name);
    t->handles = mnem__calloc(tag, info.allocations, sizeof *t->handles);
    t->offsets = mnem__calloc(tag, info.allocations, sizeof *t->offsets);
    mnem_status status = t->handles && t->offsets ? MNEM_OK : mnem__heap_status();
    if (status == MNEM_OK && start) status = make(t, start);
    if (status != MNEM_OK) offset_close(self);
    if (start)
        t->used = (mnem_replay_usage){.bytes_reserved = start,
                                      .bytes_reserved_peak = start,
                                      .upstream_calls = 1,
                                      .misses = 1};
    else
        t->used.segment_bytes = t->segment;
    return status;
}

/* Reserves so many bytes in all. */
static mnem_status extend_to(mnem__offset_target *t, uint64_t bytes) {
    const mnem_status status = t->a ? mnem_offset_extend(t->a, bytes) : make(t, bytes);
    if (status == MNEM_OK) t->used.bytes_reserved = t->used.bytes_reserved_peak = bytes;
    return status;
}

/* Whole segments for a request, at most what is left; 0: nothing is. */
static uint64_t step_for(const mnem__offset_target *t, uint64_t bytes) {
    const uint64_t left = t->most - t->used.bytes_reserved;
    uint64_t step = mnem__div_up(bytes, t->segment) * t->segment;
    if (step > left) step = left & ~(uint64_t)4095;
    return step;
}

mnem_status mnem__offset_target_grow(mnem__offset_target *t, uint32_t block, uint64_t bytes) {
    mnem_offset_block b;
    if (t->most - t->used.bytes_reserved < 4096) return MNEM_OVER_BUDGET;
    t->used.upstream_calls++;
    t->used.misses++;
    /* One segment may do, if the free tail is long; else as many more as hold the request. */
    for (int i = 0; i < 2; i++) {
        const uint64_t step = step_for(t, i && bytes > t->segment ? bytes - t->segment : 1);
        mnem_status status = step ? extend_to(t, t->used.bytes_reserved + step) : MNEM_OVER_BUDGET;
        if (status == MNEM_OK) status = mnem_offset_alloc(t->a, bytes, &b);
        if (status == MNEM_OK) {
            t->handles[block] = b.handle;
            t->offsets[block] = b.offset;
            return MNEM_OK;
        }
        if (status != MNEM_OVER_BUDGET) return status;
    }
    return MNEM_OVER_BUDGET;
}

static mnem_status offset_alloc(mnem_replay_target *self, uint32_t block, uint64_t bytes,
                                uint32_t stream) {
    mnem__offset_target *t = (mnem__offset_target *)self;
    mnem_offset_block b;
    (void)stream;
    if (!t->a || mnem_offset_alloc(t->a, bytes, &b) != MNEM_OK)
        return mnem__offset_target_grow(t, block, bytes);
    t->handles[block] = b.handle;
    t->offsets[block] = b.offset;
    return MNEM_OK;
}

static void offset_free(mnem_replay_target *self, uint32_t block, uint32_t stream) {
    mnem__offset_target_free(self, block, stream);
}

static void offset_usage(const mnem_replay_target *self, mnem_replay_usage *usage) {
    *usage = ((const mnem__offset_target *)self)->used;
}

static uint64_t offset_place(const mnem_replay_target *self, uint32_t block, uint64_t *bytes) {
    const mnem__offset_target *t = (const mnem__offset_target *)self;
    *bytes = mnem_offset_block_bytes(t->a, t->handles[block]);
    return t->offsets[block];
}

static mnem_status offset_create(mnem_offset_policy policy, const mnem_replay_settings *settings,
                                 mnem_replay_target **out) {
    mnem__offset_target *t = mnem__calloc(tag, 1, sizeof *t);
    if (!t) return mnem__heap_status();
    t->base = (mnem_replay_target){.name = mnem_offset_policy_text(policy),
                                   .open = offset_open,
                                   .alloc = offset_alloc,
                                   .free = offset_free,
                                   .close = offset_close,
                                   .usage = offset_usage,
                                   .place = offset_place,
                                   .destroy = mnem__replay_target_free};
    t->policy = policy;
    if (settings) t->settings = *settings;
    *out = &t->base;
    return MNEM_OK;
}

bool mnem__is_offset_target(const mnem_replay_target *target) {
    return target->alloc == offset_alloc;
}

/* ---- names ---- */

static mnem_status pytorch_create(const mnem_replay_settings *settings, mnem_replay_target **out) {
    (void)settings; /* PyTorch's are its own */
    return mnem_pytorch_target_create(NULL, out);
}

/* What isn't an offset policy. */
static const struct {
    const char *name;
    mnem_status (*create)(const mnem_replay_settings *settings, mnem_replay_target **out);
} others[] = {{"pool", mnem__pool_target_create},
              {"granules", mnem__granule_target_create},
              {"pytorch", pytorch_create}};
enum { OTHERS = sizeof others / sizeof others[0] };

const char *mnem_replay_target_name(unsigned i) {
    if (i < MNEM_OFFSET_POLICY_COUNT) return mnem_offset_policy_text((mnem_offset_policy)i);
    const unsigned k = i - MNEM_OFFSET_POLICY_COUNT;
    return k < OTHERS ? others[k].name : NULL;
}

mnem_status mnem_replay_target_create(const char *name, const mnem_replay_settings *settings,
                                      mnem_replay_target **target) {
    mnem_offset_policy policy;
    *target = NULL;
    for (unsigned k = 0; k < OTHERS; k++)
        if (strcmp(name, others[k].name) == 0) return others[k].create(settings, target);
    const mnem_status status = mnem_offset_policy_parse(name, &policy);
    if (status == MNEM_OK) return offset_create(policy, settings, target);
#define MNEM_OFFSET_POLICY_NAMED(id, text) " " text
    return mnem__fail(status,
                      "replay: unknown policy \"%s\"; the policies are pool granules pytorch%s",
                      name, MNEM_OFFSET_POLICY_LIST(MNEM_OFFSET_POLICY_NAMED));
#undef MNEM_OFFSET_POLICY_NAMED
}

void mnem_replay_target_destroy(mnem_replay_target *target) {
    if (target && target->destroy) target->destroy(target);
}
