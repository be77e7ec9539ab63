/* test_calibrate.c: sums of squares against a plain computation of the first layer's inputs; the
 * same bits for any budget, pass and number of threads, with states in a file or not; each failing
 * allocation leaves nothing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_device.h"
#include "kit/kit_file.h"
#include "kit/kit_heap.h"
#include "mnem/mnem.h"

enum { VOCAB = 96, CHUNK = 80, SEQUENCES = 4, TOKENS = SEQUENCES * CHUNK, EMBD_MOST = 256 };

static const char path[] = MNEM_TEST_DATA "/architectures/llama.gguf";
static int32_t text[TOKENS];
static mnem_imatrix *expected;

/* A run of its own, under a budget (0: none). */
static mnem_status calibrate(uint64_t budget, mnem_walk_options options, mnem_imatrix *imatrix,
                             mnem_walk_report *report) {
    mnem_ledger *ledger;
    mnem_model *model = NULL;
    mnem_status status =
        mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = budget}, &ledger);
    if (status != MNEM_OK) return status;
    options.ledger = ledger;
    options.chunk = CHUNK;
    status = mnem_ledger_watch_heap(ledger);
    if (status == MNEM_OK) status = mnem_model_open(path, &model);
    if (status == MNEM_OK)
        status = mnem_calibrate(model, &options, text, SEQUENCES, imatrix, report);
    mnem_model_close(model);
    assert_int_equal(mnem_ledger_destroy(ledger), MNEM_OK);
    return status;
}

static int prepare(void **state) {
    (void)state;
    for (int32_t i = 0; i < TOKENS; i++) text[i] = (7 * i * i + 13 * i + 5) % VOCAB;
    must(mnem_imatrix_create(&expected));
    must(calibrate(0, (mnem_walk_options){.threads = 1}, expected, NULL));
    return 0;
}

static int finish(void **state) {
    (void)state;
    mnem_imatrix_destroy(expected);
    return 0;
}

/* ---- plainly ---- */

/* What the first layer's queries, keys and values meet: the normed rows of the embedding. */
static void add_plain(const mnem_model *model, const mnem_transformer *t, double *sums) {
    float row[EMBD_MOST], weight[EMBD_MOST];
    const int32_t table = mnem_model_tensor_find(model, "token_embd.weight");
    const int32_t norm = mnem_model_tensor_find(model, "blk.0.attn_norm.weight");
    const uint64_t bytes = (uint64_t)t->embd * sizeof(float);
    mnem_tensor_info info;
    mnem_model_tensor_get(model, (uint32_t)table, &info);
    assert_int_equal(info.type, MNEM_TYPE_F32);
    must(mnem_model_tensor_read(model, (uint32_t)norm, 0, bytes, weight));
    for (int32_t i = 0; i < TOKENS; i++) {
        double square = 0;
        must(mnem_model_tensor_read(model, (uint32_t)table, (uint64_t)text[i] * bytes, bytes, row));
        for (int32_t j = 0; j < t->embd; j++) square += (double)row[j] * (double)row[j];
        const double scale = 1 / sqrt(square / t->embd + (double)t->epsilon);
        for (int32_t j = 0; j < t->embd; j++)
            sums[j] += pow((double)row[j] * scale * (double)weight[j], 2);
    }
}

static void the_first_layers_sums_are_those_of_its_normed_rows(void **state) {
    double sums[EMBD_MOST] = {0};
    mnem_model *model;
    mnem_transformer t;
    mnem_imatrix_entry entry;
    (void)state;
    must(mnem_model_open(path, &model));
    must(mnem_model_transformer(model, &t));
    assert_true(t.embd <= EMBD_MOST);
    add_plain(model, &t, sums);
    static const char *const names[] = {"blk.0.attn_q.weight", "blk.0.attn_k.weight",
                                        "blk.0.attn_v.weight"};
    for (int i = 0; i < 3; i++) {
        assert_true(mnem_imatrix_find(expected, names[i], &entry));
        assert_int_equal(entry.columns, t.embd);
        assert_true(entry.counts[0] == TOKENS);
        for (int32_t j = 0; j < t.embd; j++)
            assert_true(fabs((double)entry.sums[j] - sums[j]) <= 1e-5 * sums[j]);
    }
    mnem_model_close(model);
}

static void every_matrix_of_every_layer_has_an_entry(void **state) {
    mnem_imatrix_info info;
    mnem_imatrix_entry entry;
    mnem_model *model;
    mnem_transformer t;
    (void)state;
    must(mnem_model_open(path, &model));
    must(mnem_model_transformer(model, &t));
    mnem_imatrix_info_get(expected, &info);
    assert_int_equal(info.entries, 7 * t.layers);
    for (int64_t i = 0; mnem_imatrix_entry_get(expected, i, &entry); i++)
        assert_true(entry.matrices == 1 && entry.counts[0] == TOKENS);
    mnem_model_close(model);
}

/* ---- the same bits ---- */

static void assert_expected(const mnem_imatrix *imatrix) {
    mnem_imatrix_entry a, b;
    int64_t i = 0;
    for (; mnem_imatrix_entry_get(expected, i, &a); i++) {
        assert_true(mnem_imatrix_entry_get(imatrix, i, &b));
        assert_string_equal(a.tensor, b.tensor);
        assert_memory_equal(a.sums, b.sums, (size_t)a.columns * sizeof *a.sums);
        assert_memory_equal(a.counts, b.counts, sizeof *a.counts);
    }
    assert_false(mnem_imatrix_entry_get(imatrix, i, &b));
}

static void sums_are_the_same_for_any_pass_and_threads(void **state) {
    static const int32_t passes[] = {0, 16, 48, 33, 1000};
    (void)state;
    for (int i = 0; i < 5; i++) {
        for (int32_t threads = 1; threads <= 3; threads++) {
            mnem_imatrix *imatrix;
            must(mnem_imatrix_create(&imatrix));
            must(calibrate(0, (mnem_walk_options){.threads = threads, .pass = passes[i]}, imatrix,
                           NULL));
            assert_expected(imatrix);
            mnem_imatrix_destroy(imatrix);
        }
    }
}

/* One whose memory faults when the host touches it. */
static void sums_are_the_same_on_a_device_apart(void **state) {
    mnem_device *device = device_open("apart", 0);
    mnem_imatrix *imatrix;
    (void)state;
    must(mnem_imatrix_create(&imatrix));
    must(calibrate(0, (mnem_walk_options){.device = device, .threads = 2, .pass = 48}, imatrix,
                   NULL));
    assert_expected(imatrix);
    mnem_imatrix_destroy(imatrix);
    must(mnem_device_close(device));
}

/* From what is plenty down to what is refused, in small steps. */
static void sums_are_the_same_for_any_budget(void **state) {
    mnem_walk_options o = {.threads = 2, .spill = kit_path("states")};
    mnem_walk_report report = {.pass = 0};
    bool spilled = false, smaller = false, streamed = false;
    uint64_t budget = 8 * MIB;
    mnem_status status = MNEM_OK;
    (void)state;
    for (; status == MNEM_OK; budget -= 16 * KIB) {
        mnem_imatrix *imatrix;
        must(mnem_imatrix_create(&imatrix));
        status = calibrate(budget, o, imatrix, &report);
        if (status == MNEM_OK) {
            assert_expected(imatrix);
            assert_true(report.peak_bytes <= budget);
            spilled |= report.bytes_spilled > 0;
            smaller |= report.pass < CHUNK;
            streamed |= report.streamed;
        }
        mnem_imatrix_destroy(imatrix);
    }
    assert_int_equal(status, MNEM_OVER_BUDGET);
    assert_true(spilled && smaller);
    assert_int_equal(kit_folder_count(), 0); /* the file has no name */
    print_message("least %llu KiB, streamed: %d\n", (unsigned long long)(budget / KIB + 32),
                  streamed);
}

static void a_refusal_says_what_a_file_would_save(void **state) {
    mnem_imatrix *imatrix;
    (void)state;
    must(mnem_imatrix_create(&imatrix));
    assert_int_equal(calibrate(MIB, (mnem_walk_options){.threads = 1}, imatrix, NULL),
                     MNEM_OVER_BUDGET);
    assert_non_null(strstr(mnem_last_error(), "budget is 1048576 (1 MiB)"));
    assert_non_null(strstr(mnem_last_error(), "in a file"));
    mnem_imatrix_destroy(imatrix);
}

static void no_failing_allocation_leaves_anything(void **state) {
    heap_sweep sweep = {.most = 3000};
    mnem_status status;
    (void)state;
    do {
        mnem_imatrix *imatrix = NULL;
        heap_sweep_begin(&sweep, false);
        status = mnem_imatrix_create(&imatrix);
        if (status == MNEM_OK)
            status = calibrate(0, (mnem_walk_options){.threads = 1}, imatrix, NULL);
        mnem_imatrix_destroy(imatrix);
    } while (heap_sweep_next(&sweep, status));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_layers_sums_are_those_of_its_normed_rows),
        cmocka_unit_test(every_matrix_of_every_layer_has_an_entry),
        cmocka_unit_test(sums_are_the_same_for_any_pass_and_threads),
        cmocka_unit_test(sums_are_the_same_on_a_device_apart),
        cmocka_unit_test(sums_are_the_same_for_any_budget),
        cmocka_unit_test(a_refusal_says_what_a_file_would_save),
        cmocka_unit_test(no_failing_allocation_leaves_anything),
    };
    return cmocka_run_group_tests(tests, prepare, finish);
}
