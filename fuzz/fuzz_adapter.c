/* fuzz_adapter.c: any bytes as an adapter beside a small model: matched, planned, loaded, run.
 *
 * What is taken runs within the plan's bytes; what isn't is refused with a text, and leaves none.
 *
 *     fuzz_adapter -max_len=4096 -dict=fuzz/gguf.dict NEW_FOLDER fuzz/corpus/adapter */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mnem/engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

static mnem_model *base(void) {
    static mnem_model *model;
    if (!model)
        CHECK(mnem_model_open(MNEM_TEST_DATA "/architectures/llama.gguf", &model) == MNEM_OK);
    return model;
}

static bool look(void *context, int32_t part, int32_t index, const float *logits) {
    (void)context, (void)part, (void)index, (void)logits;
    return true;
}

/* Logits that aren't finite are refused too. */
static void run(const mnem_engine_options *options, const mnem_engine_plan *plan) {
    static const int32_t ids[] = {1, 2, 3};
    mnem_engine *engine;
    mnem_ledger_info info;
    if (mnem_engine_create(base(), options, plan, &engine) == MNEM_OK) {
        mnem_sequence *sequence;
        CHECK(mnem_sequence_create(engine, &sequence) == MNEM_OK);
        mnem_ledger_info_get(options->ledger, &info);
        CHECK(info.bytes_live == plan->peak_bytes);
        const mnem_step_part part = {sequence, ids, 3, 0};
        const mnem_status status = mnem_engine_step(engine, &part, 1, look, NULL);
        CHECK(status == MNEM_OK || status == MNEM_BAD_FILE);
    } else {
        CHECK(*mnem_last_error());
    }
    mnem_engine_destroy(engine);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const float scales[] = {1, -2, 0, 1e30f};
    char path[32];
    mnem_adapter adapter = {.scale = scales[n % 4]};
    mnem_model *file;
    const int fd = memfd_create("adapter", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, data, n) == (ssize_t)n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (mnem_model_open(path, &file) == MNEM_OK) {
        mnem_engine_plan plan;
        mnem_engine_options o = {.context = 8, .threads = 1, .chunk = 2, .adapters = &adapter};
        adapter.model = file;
        o.adapter_count = 1;
        CHECK(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 0}, &o.ledger) == MNEM_OK);
        CHECK(mnem_ledger_watch_heap(o.ledger) == MNEM_OK);
        if (mnem_engine_plan_make(base(), &o, &plan) == MNEM_OK)
            run(&o, &plan);
        else
            CHECK(*mnem_last_error());
        mnem_model_close(file);
        CHECK(mnem_ledger_destroy(o.ledger) == MNEM_OK);
    }
    close(fd);
    return 0;
}
