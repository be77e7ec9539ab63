/* fuzz_workload.c: any bytes as an allocation trace: the text format and PyTorch's pickles.
 *
 * What opens must keep what the header promises: blocks numbered in order, each freed at most once
 * and only after its allocation, sums as told. It is then replayed through the model of PyTorch and
 * a policy, whatever its sizes are; who holds memory, what failed and what PyTorch's settings would
 * do must add up.
 *
 *     fuzz_workload -max_len=8192 -dict=fuzz/workload.dict NEW_FOLDER fuzz/corpus/workload */
#include <stdlib.h>
#include <string.h>

#include "mnem/snapshot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

/* One operation against the bytes of each block (0: not live). */
static uint64_t check_op(const mnem_workload_op *op, uint64_t *bytes, size_t *blocks,
                         uint64_t live) {
    if (op->bytes) {
        CHECK(op->block == *blocks);
        bytes[(*blocks)++] = op->bytes;
        return live + op->bytes;
    }
    CHECK(op->block < *blocks && bytes[op->block]);
    live -= bytes[op->block];
    bytes[op->block] = 0;
    return live;
}

static void check_ops(const mnem_workload_info *info) {
    uint64_t *bytes = calloc(info->allocations, sizeof *bytes), live = 0, peak = 0;
    size_t blocks = 0;
    for (size_t i = 0; i < info->count; i++) {
        CHECK(info->ops[i].stream < info->streams);
        CHECK(i >= info->prelude || info->ops[i].bytes);
        live = check_op(&info->ops[i], bytes, &blocks, live);
        if (live > peak) peak = live;
    }
    CHECK(blocks == info->allocations && live == info->bytes_end && peak == info->bytes_peak);
    free(bytes);
}

static void check_sites(const mnem_workload *w, const mnem_workload_info *info) {
    for (size_t i = 0; i < info->allocations; i++)
        for (const char *c = mnem_workload_site(w, (uint32_t)i); *c; c++)
            CHECK(*c >= 32 && *c < 127);
}

static void replay(const mnem_workload *w, const char *name) {
    mnem_replay_target *target;
    mnem_replay_result r;
    CHECK(mnem_replay_target_create(name, NULL, &target) == MNEM_OK);
    const mnem_replay_options options = {.measure = MNEM_REPLAY_GROWTH};
    if (mnem_replay_run(w, target, &options, &r) == MNEM_OK)
        CHECK(!r.measured || (r.bytes_reserved_peak && r.hit_rate >= 0 && r.hit_rate <= 1));
    else
        CHECK(*mnem_last_error());
    mnem_replay_target_destroy(target);
}

static void check_holders(const mnem_workload *w, const mnem_workload_info *info) {
    mnem_snapshot_holders *h;
    uint64_t bytes = 0, blocks = 0;
    CHECK(mnem_snapshot_holders_create(w, MNEM_SNAPSHOT_PEAK, &h) == MNEM_OK);
    for (size_t i = 0; i < h->count; i++) {
        bytes += h->of[i].bytes;
        blocks += h->of[i].blocks;
        for (const char *c = h->of[i].site; *c; c++) CHECK(*c >= 32 && *c < 127);
    }
    CHECK(bytes == info->bytes_peak && h->bytes == bytes && h->blocks == blocks);
    mnem_snapshot_holders_destroy(h);
}

static void check_failures(const mnem_workload *w) {
    for (size_t i = 0; i < mnem_snapshot_failures(w) && i < 4; i++) {
        mnem_snapshot_failure *f;
        CHECK(mnem_snapshot_failure_create(w, i, &f) == MNEM_OK);
        CHECK(f->bytes_granted + f->bytes_free == f->bytes_reserved);
        CHECK(f->bytes_free_largest <= f->bytes_free && f->segment_count <= f->segments);
        for (size_t k = 0; k < f->segment_count; k++)
            CHECK(f->segment[k].bytes_free && f->segment[k].blocks);
        for (size_t k = 0; k < f->pin_count; k++) CHECK(f->pin[k].segments && f->pin[k].blocks);
        mnem_snapshot_failure_destroy(f);
    }
}

static void check_trial(const mnem_workload *w, const mnem_workload_info *info,
                        const mnem_pytorch_settings *settings) {
    mnem_pytorch_trial t;
    if (mnem_pytorch_try(w, settings, info->bytes_peak, (mnem_progress){0}, &t) != MNEM_OK) {
        CHECK(*mnem_last_error());
        return;
    }
    CHECK(t.bytes_needed >= info->bytes_peak && t.bytes_needed <= t.bytes_reserved_peak);
    CHECK(!t.fits || t.bytes_reserved_within <= info->bytes_peak);
}

/* As the file says, and each option that changes how blocks are kept. */
static void check_settings(const mnem_workload *w, const mnem_workload_info *info) {
    mnem_pytorch_settings s;
    const char *text;
    mnem_snapshot_settings(w, &s, &text);
    check_trial(w, info, &s);
    s.expandable_segments = !s.expandable_segments;
    check_trial(w, info, &s);
    s.max_split_bytes = 32 << 20;
    check_trial(w, info, &s);
    s.expandable_segments = false;
    s.garbage_collection_threshold = 0.5;
    check_trial(w, info, &s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    mnem_workload *w;
    if (mnem_workload_read("f", data, n, NULL, &w) != MNEM_OK) {
        CHECK(w == NULL && *mnem_last_error());
        return 0;
    }
    mnem_workload_info info;
    mnem_workload_info_get(w, &info);
    check_ops(&info);
    check_sites(w, &info);
    replay(w, "mnem");
    replay(w, "pytorch");
    check_holders(w, &info);
    check_failures(w);
    check_settings(w, &info);
    mnem_workload_close(w);
    return 0;
}
