/* test_compact.c: 2:4 matrices without their zeros in the file: the same rows, fewer bytes, and
 * files that lie. */
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_heap.h"
#include "kit/kit_model.h"
#include "kit/kit_random.h"
#include "mnem/mnem.h"
#include "model/gguf_forge.h"

enum { LAYERS = 2, MATRICES = 7 * LAYERS };

static const char *const types[] = {"Q4_0", "Q8_0", "F16"};
static const double ratios[] = {14.0 / 18, 22.0 / 34, 9.0 / 16};

/* Widths of 96: the last unit of a row has one block. */
static void make_files(const char *type, const char *ordinary, const char *compact) {
    const char *in = kit_path("in.gguf");
    mnem_prune_options o = {.pattern = MNEM_PRUNE_2_4, .type = type};
    make_model(in, "--type F16 --embd 96 --heads 6 --kv-heads 2 --ff 160");
    must(mnem_prune_file(in, ordinary, &o));
    o.compact = true;
    must(mnem_prune_file(in, compact, &o));
}

static void check_tensor(const mnem_model *a, const mnem_model *b, uint32_t i) {
    mnem_tensor_info x, y;
    mnem_model_tensor_get(a, i, &x);
    mnem_model_tensor_get(b, i, &y);
    assert_string_equal(x.name, y.name);
    assert_int_equal(mnem_model_tensor_find(b, x.name), i);
    assert_int_equal(x.type, y.type);
    assert_memory_equal(x.shape, y.shape, sizeof x.shape);
    assert_int_equal(x.bytes, y.bytes);
    assert_int_equal(y.compact, x.sparse);
    assert_false(x.compact);
    if (y.compact)
        assert_int_equal(y.file_bytes, mnem_sparse_bytes(y.type, y.shape[0], y.shape[1]));
    uint8_t *p = malloc(x.bytes), *q = malloc(x.bytes);
    assert_true(p && q);
    must(mnem_model_tensor_read(a, i, 0, x.bytes, p));
    must(mnem_model_tensor_read(b, i, 0, x.bytes, q));
    assert_memory_equal(p, q, x.bytes);
    for (int turn = 0; turn < 20; turn++) {
        const uint64_t at = random_below(x.bytes), n = 1 + random_below(x.bytes - at);
        memset(q, 0xaa, n);
        must(mnem_model_tensor_read(b, i, at, n, q));
        assert_memory_equal(p + at, q, n);
    }
    free(p);
    free(q);
}

static void rows_are_the_ordinary_ones_from_any_byte_on(void **state) {
    (void)state;
    const char *ordinary = kit_path("a.gguf"), *compact = kit_path("b.gguf");
    random_seed_chosen();
    for (int t = 0; t < 3; t++) {
        mnem_model *a, *b;
        mnem_model_info x, y;
        make_files(types[t], ordinary, compact);
        must(mnem_model_open(ordinary, &a));
        must(mnem_model_open(compact, &b));
        mnem_model_info_get(a, &x);
        mnem_model_info_get(b, &y);
        assert_int_equal(x.tensors, y.tensors);
        assert_int_equal(x.parameters, y.parameters);
        uint64_t dense = 0, small = 0;
        for (uint32_t i = 0; i < x.tensors; i++) {
            mnem_tensor_info info;
            check_tensor(a, b, i);
            mnem_model_tensor_get(b, i, &info);
            if (info.compact) dense += info.bytes, small += info.file_bytes;
        }
        /* Half a unit at a row's end has a whole header. */
        assert_true((double)small < 1.1 * ratios[t] * (double)dense);
        assert_true((double)small >= ratios[t] * (double)dense);
        assert_int_equal(x.tensor_bytes - y.tensor_bytes, dense - small);
        assert_true(x.file_bytes - y.file_bytes + 4096 > dense - small);
        mnem_model_close(a);
        mnem_model_close(b);
    }
}

static void the_way_back_gives_the_ordinary_file(void **state) {
    (void)state;
    const char *ordinary = kit_path("a.gguf"), *compact = kit_path("b.gguf");
    const char *again = kit_path("c.gguf");
    for (int t = 0; t < 3; t++) {
        make_files(types[t], ordinary, compact);
        must(mnem_prune_file(compact, again, &(mnem_prune_options){.pattern = MNEM_PRUNE_2_4}));
        assert_same_files(ordinary, again);
        must(mnem_prune_file(
            ordinary, again,
            &(mnem_prune_options){.pattern = MNEM_PRUNE_2_4, .compact = true, .threads = 3}));
        assert_same_files(compact, again);
    }
}

static void what_is_made_of_it_is_ordinary(void **state) {
    (void)state;
    const char *ordinary = kit_path("a.gguf"), *compact = kit_path("b.gguf");
    const char *x = kit_path("x.gguf"), *y = kit_path("y.gguf");
    const mnem_quantize_options o = {.type = "Q8_0"};
    make_files("F16", ordinary, compact);
    must(mnem_quantize_file(ordinary, x, &o));
    must(mnem_quantize_file(compact, y, &o));
    assert_same_files(x, y);
    const mnem_prune_options heads = {.heads = 0.5};
    must(mnem_prune_file(ordinary, x, &heads));
    must(mnem_prune_file(compact, y, &heads));
    assert_same_files(x, y);
}

static void what_has_no_such_form_is_refused(void **state) {
    (void)state;
    const char *in = kit_path("in.gguf"), *out = kit_path("out.gguf");
    mnem_prune_options o = {.pattern = MNEM_PRUNE_2_4, .compact = true, .type = "Q5_0"};
    make_model(in, "--type F16");
    assert_int_equal(mnem_prune_file(in, out, &o), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "Q4_0, Q8_0 or F16"));
    o = (mnem_prune_options){.heads = 0.5, .compact = true};
    assert_int_equal(mnem_prune_file(in, out, &o), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "compact needs the pattern 2:4"));
}

static void without_memory_pruning_and_reading_fail(void **state) {
    (void)state;
    const char *ordinary = kit_path("a.gguf"), *compact = kit_path("b.gguf");
    heap_sweep sweep = {.most = 99};
    mnem_status status;
    make_files("Q4_0", ordinary, compact);
    do {
        heap_sweep_begin(&sweep, false);
        status = mnem_prune_file(
            compact, kit_path("c.gguf"),
            &(mnem_prune_options){.pattern = MNEM_PRUNE_2_4, .compact = true, .threads = 2});
    } while (heap_sweep_next(&sweep, status));
}

/* ---- files that lie ---- */

typedef struct lie {
    const char *name;
    uint32_t version, type;
    uint64_t rows, row_bytes;
    bool twice; /* the ordinary name too */
    int places; /* byte that all places are */
} lie;

/* A matrix of 32 rows of 64 in Q4_0 takes 28 bytes a row. */
static const lie honest = {"m.weight.2of4.q4_0", 1, MNEM_TYPE_I8, 32, 28, false, 0x44};

static const char *forged(const lie *l) {
    static forge f;
    const char *path = kit_path("forged.gguf");
    const uint64_t shape[] = {l->row_bytes, l->rows}, one[] = {32};
    memset(&f, 0, sizeof f);
    forge_head(&f, 3, 1 + l->twice, 1);
    forge_key_u32(&f, "mnem.sparsity.compact", l->version);
    forge_tensor(&f, l->name, 2, shape, l->type, 0);
    const uint64_t bytes = l->rows * l->row_bytes * (l->type == MNEM_TYPE_F32 ? 4 : 1);
    if (l->twice) forge_tensor(&f, "m.weight", 1, one, MNEM_TYPE_F32, (bytes + 31) / 32 * 32);
    forge_pad(&f, 32);
    for (uint64_t i = 0; i < bytes; i++) forge_put(&f, &(uint8_t){(uint8_t)l->places}, 1);
    forge_pad(&f, 32);
    forge_zeros(&f, 128);
    forge_write(&f, path);
    return path;
}

static void refused(lie l, mnem_status wanted, const char *words) {
    mnem_model *model;
    const mnem_status status = mnem_model_open(forged(&l), &model);
    if (status != wanted || !strstr(mnem_last_error(), words))
        fail_msg("status %d, no \"%s\": %s", status, words, mnem_last_error());
}

static void sizes_that_do_not_fit_are_refused(void **state) {
    (void)state;
    mnem_model *model;
    lie l = honest;
    must(mnem_model_open(forged(&l), &model));
    mnem_model_close(model);
    l.version = 2;
    refused(l, MNEM_UNSUPPORTED, "mnem.sparsity.compact: is 2, expected 1");
    l = honest, l.type = MNEM_TYPE_F32;
    refused(l, MNEM_BAD_FILE, "m.weight.2of4.q4_0: is not a valid 2:4 matrix of type Q4_0");
    l = honest, l.rows = 24;
    refused(l, MNEM_BAD_FILE, "don't match");
    l = honest, l.row_bytes = 30;
    refused(l, MNEM_BAD_FILE, "don't match");
    l = honest, l.row_bytes = 8;
    refused(l, MNEM_BAD_FILE, "don't match");
    l = honest, l.twice = true;
    refused(l, MNEM_BAD_FILE, "m.weight: appears twice");
}

static void two_numbers_at_one_place_are_refused_when_rows_are_read(void **state) {
    (void)state;
    mnem_model *model;
    uint8_t row[36];
    lie l = honest;
    l.places = 0;
    must(mnem_model_open(forged(&l), &model));
    assert_int_equal(mnem_model_tensor_read(model, 0, 18, 36, row), MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "m.weight: row 0 stores two numbers for one column"));
    mnem_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_the_ordinary_ones_from_any_byte_on),
        cmocka_unit_test(the_way_back_gives_the_ordinary_file),
        cmocka_unit_test(what_is_made_of_it_is_ordinary),
        cmocka_unit_test(what_has_no_such_form_is_refused),
        cmocka_unit_test(without_memory_pruning_and_reading_fail),
        cmocka_unit_test(sizes_that_do_not_fit_are_refused),
        cmocka_unit_test(two_numbers_at_one_place_are_refused_when_rows_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
