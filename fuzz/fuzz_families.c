/* fuzz_families.c: a model of some family whose keys and tensors lie: opened, planned, run.
 *
 * The first byte is the family, the second how it is run (bit 0: in the least budget, so that
 * weights are streamed and experts come and go; bits 1 and 2: the chunk), then edits
 * (fuzz_family_file.h). What is refused has a text and leaves no bytes; what runs has the plan's
 * bytes.
 *
 *     fuzz_families -max_len=34 NEW_FOLDER fuzz/corpus/families */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz_family_file.h"
#include "mnem/engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { IDS = 9, EMBD = 4096 };

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

static bool look(void *context, int32_t part, int32_t index, const float *logits) {
    (void)context, (void)part, (void)index, (void)logits;
    return true;
}

/* Numbers that aren't finite are refused, as ids beyond a small vocabulary are. */
static bool is_answer(mnem_status status) {
    if (status != MNEM_OK) CHECK(*mnem_last_error());
    return status == MNEM_OK || status == MNEM_BAD_FILE || status == MNEM_INVALID;
}

/* A prompt, a token behind it, a fork, and the fork once more from inside of a page. */
static void generate(mnem_engine *engine) {
    static const int32_t ids[IDS] = {1, 5, 2, 3, 5, 4, 1, 0, 2};
    mnem_sequence *first, *fork;
    CHECK(mnem_sequence_create(engine, &first) == MNEM_OK);
    mnem_step_part part = {first, ids, IDS - 2, 0};
    const mnem_status status = mnem_engine_step(engine, &part, 1, look, NULL);
    CHECK(is_answer(status));
    if (status != MNEM_OK) return;
    CHECK(mnem_sequence_fork(first, IDS - 2, &fork) == MNEM_OK);
    mnem_step_part both[2] = {{first, ids, 1, 0}, {fork, ids + 2, 2, 1}};
    CHECK(is_answer(mnem_engine_step(engine, both, 2, look, NULL)));
    if (mnem_sequence_truncate(fork, 3) != MNEM_OK) return;
    part = (mnem_step_part){fork, ids, 2, 0};
    CHECK(is_answer(mnem_engine_step(engine, &part, 1, look, NULL)));
}

static void embed(mnem_engine *engine, int32_t embd) {
    static const int32_t ids[] = {1, 5, 2};
    static float out[2 * EMBD];
    const mnem_embed_text texts[] = {{ids, 3}, {ids + 1, 1}};
    if (embd <= EMBD) CHECK(is_answer(mnem_engine_embed(engine, texts, 2, NULL, out)));
}

static void run(const mnem_model *model, const mnem_transformer *t,
                const mnem_engine_options *options, const mnem_engine_plan *plan) {
    mnem_engine *engine = NULL;
    mnem_ledger_info info;
    if (mnem_engine_create(model, options, plan, &engine) == MNEM_OK) {
        mnem_ledger_info_get(options->ledger, &info);
        CHECK(info.bytes_live == plan->peak_bytes);
        embed(engine, t->embd);
        if (!t->encoder) generate(engine);
    } else {
        CHECK(*mnem_last_error());
    }
    mnem_engine_destroy(engine);
}

/* Opens the file under a budget and runs it; the least budget that would have done, 0 where none
 * was asked for. */
static uint64_t open_and_run(const char *path, uint64_t budget, mnem_engine_options o) {
    mnem_engine_plan plan = {.needed_bytes = 0};
    mnem_model *model;
    mnem_transformer t;
    const mnem_ledger_options limits = {.budget_bytes = budget, .preparing = true};
    CHECK(mnem_ledger_create(&limits, &o.ledger) == MNEM_OK);
    CHECK(mnem_ledger_watch_heap(o.ledger) == MNEM_OK);
    mnem_status status = mnem_model_open(path, &model);
    if (status == MNEM_OK) status = mnem_model_transformer(model, &t);
    if (status == MNEM_OK) status = mnem_engine_plan_make(model, &o, &plan);
    if (status == MNEM_OK)
        run(model, &t, &o, &plan);
    else
        CHECK(*mnem_last_error());
    mnem_model_close(model);
    CHECK(mnem_ledger_destroy(o.ledger) == MNEM_OK);
    return status == MNEM_OVER_BUDGET ? plan.needed_bytes : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const uint8_t *bytes;
    char path[32];
    if (n < 2) return 0;
    const size_t size = fuzz_family_file(data[0], data + 2, n - 2, &bytes);
    const int fd = memfd_create("family", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const mnem_engine_options o = {
        .context = 16, .threads = 1, .chunk = 2 + (data[1] >> 1 & 3), .sequences = 2};
    const uint64_t budget = data[1] & 1 ? open_and_run(path, 1, o) : 0;
    open_and_run(path, budget, o);
    close(fd);
    return 0;
}
