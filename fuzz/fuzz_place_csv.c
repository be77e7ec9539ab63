/* fuzz_place_csv.c: any bytes as a table of buffers, placed, written and read again.
 *
 * What is planned must lie apart (every pair is compared, piece by piece), be aligned, and keep
 * what is fixed; what was written must read as the same buffers. Then the same for two spaces,
 * whose capacities and costs come from the table's length.
 *
 *     fuzz_place_csv -max_len=2048 NEW_FOLDER fuzz/corpus/plan_csv */
#include <stdlib.h>
#include <string.h>

#include "mnem/place.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { BUFFERS_MAX = 60 };

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

/* The bytes that buffer i uses at a time: [bottom, top). */
static void used(const mnem_place_csv_info *t, size_t i, int64_t time, uint64_t *bottom,
                 uint64_t *top) {
    const mnem_place_buffer *b = &t->buffers[i];
    *bottom = *top = 0;
    if (time < b->lower || time >= b->upper) return;
    *bottom = b->offset;
    *top = b->offset + b->bytes;
    for (uint32_t g = 0; g < t->constraints[i].gap_count; g++) {
        const mnem_place_gap *gap = &t->constraints[i].gaps[g];
        if (time < gap->lower || time >= gap->upper) continue;
        *bottom = b->offset + gap->window_lower;
        *top = b->offset + gap->window_upper;
    }
}

static void check_apart(const mnem_place_csv_info *t, size_t i, size_t j, int64_t time) {
    uint64_t bottom, top, other_bottom, other_top;
    used(t, i, time, &bottom, &top);
    used(t, j, time, &other_bottom, &other_top);
    CHECK(bottom == top || other_bottom == other_top || top <= other_bottom || other_top <= bottom);
}

/* Overlaps begin when something of one of the two begins. */
static void check_pair(const mnem_place_csv_info *t, size_t i, size_t j) {
    const size_t both[2] = {i, j};
    for (int k = 0; k < 2; k++) {
        const mnem_place_constraint *w = &t->constraints[both[k]];
        check_apart(t, i, j, t->buffers[both[k]].lower);
        for (uint32_t g = 0; g < w->gap_count; g++) {
            check_apart(t, i, j, w->gaps[g].lower);
            check_apart(t, i, j, w->gaps[g].upper);
        }
    }
}

static void check_again(mnem_place_csv *csv, const mnem_place_csv_info *t) {
    const size_t length = mnem_place_csv_write(csv, NULL, 0);
    char *text = malloc(length);
    mnem_place_csv *again;
    CHECK(text && mnem_place_csv_write(csv, text, length) == length);
    CHECK(mnem_place_csv_read(text, length, &again) == MNEM_OK);
    mnem_place_csv_info u;
    mnem_place_csv_info_get(again, &u);
    CHECK(u.n == t->n);
    for (size_t i = 0; i < t->n; i++) {
        CHECK(t->buffers[i].lower == u.buffers[i].lower);
        CHECK(t->buffers[i].upper == u.buffers[i].upper);
        CHECK(t->buffers[i].bytes == u.buffers[i].bytes);
        CHECK(t->buffers[i].offset == u.buffers[i].offset);
        CHECK(t->constraints[i].gap_count == u.constraints[i].gap_count);
        CHECK(strcmp(mnem_place_csv_id(csv, i), mnem_place_csv_id(again, i)) == 0);
    }
    mnem_place_csv_destroy(again);
    free(text);
}

/* Two spaces, the second without a limit, when that is allowed. */
static void spread(mnem_place_csv *csv, size_t length) {
    static const char *const names[2] = {"chip", "main"};
    mnem_place_csv_info t;
    mnem_place_csv_info_get(csv, &t);
    mnem_place_space spaces[2] = {{.capacity_bytes = 1 + length * 7 % 4096, .cost = length % 3},
                                  {.cost = 1 + length % 5}};
    const mnem_place_options options = {.seconds = 1e-3, .steps_max = 2000};
    mnem_place_spaces_result r;
    mnem_place_use *uses;
    if (t.n > BUFFERS_MAX || mnem_place_csv_uses(csv, names, 2, &uses) != MNEM_OK) return;
    if (mnem_place_solve_spaces(t.buffers, t.constraints, uses, t.n, spaces, 2, &options, &r) !=
        MNEM_OK)
        return;
    CHECK(r.over_bytes > 0 || r.lower_bound_cost <= r.cost);
    CHECK(r.over_bytes > 0 || spaces[0].peak_bytes <= spaces[0].capacity_bytes);
    for (size_t i = 0; i < t.n; i++) {
        const mnem_place_buffer *b = &t.buffers[i];
        CHECK(uses[i].space < 2 && (!uses[i].allowed || (uses[i].allowed >> uses[i].space & 1)));
        CHECK(b->offset % b->alignment == 0);
        CHECK(b->offset + b->bytes <= spaces[uses[i].space].peak_bytes);
        for (size_t j = 0; j < i; j++)
            if (uses[i].space == uses[j].space) check_pair(&t, i, j);
    }
    check_again(csv, &t);
}

static void plan(mnem_place_csv *csv) {
    mnem_place_csv_info t;
    mnem_place_csv_info_get(csv, &t);
    uint64_t fixed[BUFFERS_MAX];
    if (t.n > BUFFERS_MAX) return;
    for (size_t i = 0; i < t.n; i++) fixed[i] = t.buffers[i].offset;
    mnem_place_result r;
    const mnem_place_options options = {.seconds = 1e-3};
    if (mnem_place_solve_constrained(t.buffers, t.constraints, t.n, &options, &r) != MNEM_OK)
        return;
    CHECK(r.lower_bound_bytes <= r.peak_bytes);
    for (size_t i = 0; i < t.n; i++) {
        const mnem_place_buffer *b = &t.buffers[i];
        CHECK(b->offset % b->alignment == 0 && b->offset + b->bytes <= r.peak_bytes);
        CHECK(!t.constraints[i].fixed || b->offset == fixed[i]);
        for (size_t j = 0; j < i; j++) check_pair(&t, i, j);
    }
    check_again(csv, &t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    mnem_place_csv *csv;
    if (mnem_place_csv_read((const char *)data, n, &csv) != MNEM_OK) {
        CHECK(!csv && *mnem_last_error());
        return 0;
    }
    plan(csv);
    mnem_place_csv_destroy(csv);
    if (mnem_place_csv_read((const char *)data, n, &csv) != MNEM_OK) return 0;
    spread(csv, n);
    mnem_place_csv_destroy(csv);
    return 0;
}
