/* fuzz_saved.c: any bytes as a saved sequence of small models: with states, and with windows.
 *
 * The first byte chooses the model, and whether identity and checksums are made right first, so
 * that what they hide is reached. What is loaded goes on, or isn't finite; what isn't loaded is
 * refused with a text, and changes nothing.
 *
 *     fuzz_saved -max_len=100000 NEW_FOLDER fuzz/corpus/saved */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file/checksum.h"
#include "engine/saved/saved_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

enum { CONTEXT = 192 };

static mnem_engine *engine_of(int which) {
    static const char *const paths[] = {MNEM_TEST_DATA "/architectures/lfm2.gguf",
                                        MNEM_TEST_DATA "/architectures/gemma3.gguf"};
    static mnem_engine *engines[2];
    static mnem_model *models[2];
    mnem_engine_options o = {.context = CONTEXT, .threads = 1, .chunk = 16, .sequences = 2};
    mnem_engine_plan plan;
    if (engines[which]) return engines[which];
    CHECK(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 0}, &o.ledger) == MNEM_OK);
    CHECK(mnem_model_open(paths[which], &models[which]) == MNEM_OK);
    CHECK(mnem_engine_plan_make(models[which], &o, &plan) == MNEM_OK);
    CHECK(mnem_engine_create(models[which], &o, &plan, &engines[which]) == MNEM_OK);
    return engines[which];
}

/* ---- what checksums hide ---- */

/* Of a page in the file, as though it were one of the engine's. */
static void make_page_right(const mnem_engine *e, const mnem__saved_header *h, int kind,
                            int32_t number, uint8_t *record) {
    const mnem__kv_pages *pages = &e->pages[kind];
    const size_t ids = pages->ids ? (size_t)pages->layout.page_tokens * sizeof(int32_t) : 0;
    mnem__checksum checksum = mnem__saved_page_sum(kind, number, h->ids_checksum);
    mnem__checksum_add(&checksum, record, pages->page_bytes + ids);
    const uint64_t sum = mnem__checksum_get(&checksum);
    memcpy(record + pages->page_bytes + ids, &sum, sizeof sum);
}

static void make_right(const mnem_engine *e, uint8_t *data, size_t n) {
    mnem__saved_header h;
    mnem__saved_pages pages[MNEM__KV_PAGED];
    uint64_t bytes;
    if (n < sizeof h) return;
    memcpy(&h, data, sizeof h);
    const mnem__saved_header own = mnem__saved_header_of(e, 0, 1, 0);
    CHECK(mnem__saved_identity(e, &h.identity) == MNEM_OK);
    h.magic = own.magic;
    memcpy(h.page_bytes, own.page_bytes, sizeof h.page_bytes);
    h.page_tokens = own.page_tokens;
    h.kv_type = own.kv_type;
    h.states = own.states;
    if (!mnem__engine_has_states(e)) h.state_count = 0;
    if (h.length > 0 && h.length <= CONTEXT && h.from >= 0 && h.from < h.length &&
        h.first_window >= 0 && h.first_window <= h.length && h.ready >= 0 && h.ready <= h.length) {
        mnem__saved_lay_out(e, &h, pages, &h.bytes);
        const size_t ids = sizeof h + (size_t)h.length * sizeof(int32_t);
        if (ids <= n) h.ids_checksum = mnem__checksum_of(data + sizeof h, ids - sizeof h);
        for (int k = 0; k < MNEM__KV_PAGED; k++)
            for (int32_t i = pages[k].begin; i < pages[k].end; i++) {
                const uint64_t at =
                    pages[k].at + pages[k].record_bytes * (uint64_t)(i - pages[k].begin);
                bytes = at + pages[k].record_bytes;
                if (bytes <= n) make_page_right(e, &h, k, i, data + at);
            }
    }
    h.checksum = mnem__saved_header_checksum(&h);
    memcpy(data, &h, sizeof h);
}

/* ---- one file ---- */

static bool look(void *context, int32_t part, int32_t index, const float *logits) {
    (void)context, (void)part, (void)index, (void)logits;
    return true;
}

static mnem_status step(mnem_engine *e, mnem_sequence *s, int32_t n) {
    static const int32_t ids[CONTEXT];
    return mnem_engine_step(e, &(mnem_step_part){s, ids, n, n - 1}, 1, look, NULL);
}

/* Behind as many tokens as it asks for, up to some of its length; then it goes on. */
static void load(mnem_engine *e, const mnem_saved *saved, int32_t n) {
    mnem_sequence *s;
    CHECK(mnem_sequence_create(e, &s) == MNEM_OK);
    if (saved->from > 0 && saved->from < CONTEXT) CHECK(step(e, s, saved->from) == MNEM_OK);
    const int32_t length = mnem_sequence_length(s);
    if (mnem_sequence_load(s, saved, n) == MNEM_OK) {
        CHECK(mnem_sequence_length(s) == n);
        if (n < CONTEXT) {
            const mnem_status status = step(e, s, 1);
            CHECK(status == MNEM_OK || status == MNEM_BAD_FILE);
        }
        (void)mnem_sequence_truncate(s, n / 2);
    } else {
        CHECK(*mnem_last_error() && mnem_sequence_length(s) == length);
    }
    mnem_sequence_destroy(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const int32_t ids[4] = {1, 2, 3, 4};
    if (n == 0) return 0;
    mnem_engine *e = engine_of(data[0] & 1);
    mnem_engine_pages before, after;
    mnem_saved saved;
    int32_t common;
    const int fd = memfd_create("saved", MFD_CLOEXEC);
    uint8_t *copy = malloc(n);
    CHECK(fd >= 0 && copy);
    memcpy(copy, data + 1, n - 1);
    if (data[0] & 2) make_right(e, copy, n - 1);
    CHECK(write(fd, copy, n - 1) == (ssize_t)n - 1);
    mnem_engine_pages_get(e, &before);
    if (mnem_saved_open(e, fd, 0, &saved) == MNEM_OK) {
        CHECK(saved.from >= 0 && saved.from < saved.length);
        (void)mnem_saved_common(&saved, ids, 4, &common);
        load(e, &saved, data[0] & 4 ? saved.length : saved.from + 1);
    } else {
        CHECK(*mnem_last_error());
    }
    mnem_engine_pages_get(e, &after);
    CHECK(memcmp(&before.free, &after.free, sizeof before.free) == 0);
    free(copy);
    close(fd);
    return 0;
}
