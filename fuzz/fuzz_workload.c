/* fuzz_workload.c: any bytes as an allocation trace: the text format and PyTorch's pickles.
 *
 * What opens must keep what the header promises: blocks numbered in order, each freed at most once
 * and only after its allocation, sums as told. It is then replayed through the model of PyTorch and
 * a policy, whatever its sizes are.
 *
 *     fuzz_workload -max_len=8192 -dict=fuzz/workload.dict NEW_FOLDER fuzz/corpus/workload */
#include <stdlib.h>
#include <string.h>

#include "mnem/replay.h"

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
    mnem_workload_close(w);
    return 0;
}
