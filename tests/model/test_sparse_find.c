/* test_sparse_find.c: which matrices of a file are taken for 2:4, and files that aren't what they
 * say. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "model/gguf/gguf_writer.h"
#include "model/weights_case.h"
#include "ops/core/sparse_form.h"

enum { ROWS = 100, K = 256, OTHERS = 20 };

static const mnem_type types[] = {MNEM_TYPE_Q4_0, MNEM_TYPE_Q8_0, MNEM_TYPE_F16, MNEM_TYPE_Q4_1};
enum { TYPES = sizeof types / sizeof *types };

/* What is written: whether the file says so, and what isn't 2:4. */
typedef struct spec {
    const char *pattern; /* NULL: no key */
    int bad_matrix, bad_row;
    int dense_before; /* dense matrices that come first */
} spec;

static void write_rows(mnem_gguf_writer *w, mnem_type type, int bad_row) {
    float x[K];
    uint8_t row[K * 2];
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < K; i++) x[i] = i % 4 == r % 4 || i % 4 == (r + 1) % 4 ? 1 + i % 5 : 0;
        if (r == bad_row) x[40] = x[41] = x[42] = x[43] = 5;
        must(mnem_quantize_row(type, K, x, row));
        must(mnem__gguf_write_data(w, row, mnem_type_row_bytes(type, K)));
    }
}

/* OTHERS dense ones if wanted, one matrix of each type, one that is named as an embedding. */
static const char *file_of(const spec *s) {
    const char *path = kit_path("sparse.gguf");
    const int64_t shape[] = {ROWS, K};
    char name[32];
    mnem_gguf_writer *w;
    must(mnem_gguf_create(path, &w));
    must(mnem_gguf_key_text(w, "general.architecture", "none"));
    if (s->pattern) must(mnem_gguf_key_text(w, "mnem.sparsity.pattern", s->pattern));
    for (int i = 0; i < s->dense_before; i++) {
        snprintf(name, sizeof name, "dense%d", i);
        must(mnem__gguf_write_tensor(w, name, MNEM_TYPE_Q4_0, 2, shape));
    }
    for (int i = 0; i < TYPES; i++) {
        snprintf(name, sizeof name, "m%d", i);
        must(mnem__gguf_write_tensor(w, name, types[i], 2, shape));
    }
    must(mnem__gguf_write_tensor(w, "token_embd.weight", MNEM_TYPE_Q4_0, 2, shape));
    for (int i = 0; i < s->dense_before; i++) write_rows(w, MNEM_TYPE_Q4_0, 0);
    for (int i = 0; i < TYPES; i++) write_rows(w, types[i], i == s->bad_matrix ? s->bad_row : -1);
    write_rows(w, MNEM_TYPE_Q4_0, -1);
    must(mnem_gguf_finish(w));
    return path;
}

/* The matrices that are found, as a set of bits; each is packed so where that pays. */
static unsigned found(const spec *s) {
    mnem_model *model;
    mnem_tensor_info t;
    unsigned set = 0;
    must(mnem_model_open(file_of(s), &model));
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++) {
        if (t.sparse) set |= t.name[0] == 'm' ? 1u << (t.name[1] - '0') : 1u << 31;
        assert_int_equal(t.layout, t.sparse && mnem__sparse_pays(t.type) ? MNEM_LAYOUT_SPARSE
                                                                         : MNEM_LAYOUT_PACKED);
    }
    mnem_model_close(model);
    return set;
}

static void matrices_are_found_but_for_embeddings_and_other_types(void **state) {
    (void)state;
    assert_int_equal(found(&(spec){.bad_matrix = -1}), 7);
    assert_int_equal(found(&(spec){.pattern = "2:4", .bad_matrix = -1}), 7);
}

/* A foreign file is read whole: one number too many anywhere, and a matrix is dense. */
static void a_file_that_says_nothing_is_believed_in_nothing(void **state) {
    (void)state;
    for (int m = 0; m < 3; m++)
        for (int row = 0; row < ROWS; row += 33)
            assert_int_equal(found(&(spec){.bad_matrix = m, .bad_row = row}), 7 & ~(1u << m));
}

/* Of one that says so a page is; what isn't 2:4 there is dense, as the first row here. */
static void a_file_that_says_so_is_believed_beyond_a_page(void **state) {
    (void)state;
    assert_int_equal(found(&(spec){.pattern = "2:4", .bad_matrix = 2, .bad_row = 0}), 3);
    assert_int_equal(found(&(spec){.pattern = "2:4", .bad_matrix = 2, .bad_row = 99}), 7);
    assert_int_equal(found(&(spec){.pattern = "1:4", .bad_matrix = 2, .bad_row = 99}), 3);
}

static void many_dense_matrices_end_the_search_unless_the_file_says_so(void **state) {
    (void)state;
    assert_int_equal(found(&(spec){.bad_matrix = -1, .dense_before = OTHERS}), 0);
    assert_int_equal(found(&(spec){.bad_matrix = -1, .dense_before = OTHERS, .pattern = "2:4"}), 7);
}

/* What was believed is checked when it is packed. */
static void a_file_that_lies_is_refused_by_name(void **state) {
    (void)state;
    const spec lie = {.pattern = "2:4", .bad_matrix = 1, .bad_row = 77};
    if (!mnem__sparse_pays(MNEM_TYPE_Q8_0)) return;
    weights_case c;
    weights_case_init(&c, file_of(&lie), 1, 0);
    must(weights_case_open(&c, 1, 0, 0, true));
    assert_int_equal(mnem__weights_load(c.weights, &(mnem_progress){0}), MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(),
                           "m1: the file says that the model is 2:4 (mnem.sparsity.pattern), but "
                           "row 77 has more than two numbers that aren't 0 in columns 40"));
    weights_case_close(&c);
    must(weights_case_open(&c, 0, 0, 0, true));
    must(mnem__weights_load(c.weights, &(mnem_progress){0}));
    must(mnem__weights_schedule(c.weights, MNEM__PASS_BODY));
    mnem_status status = MNEM_OK;
    for (int32_t m = 0; m < c.body && status == MNEM_OK; m++) {
        mnem_graph_chunk chunk = {0};
        while (status == MNEM_OK && !chunk.last) {
            status = mnem__weights_acquire(c.weights, m, &chunk);
            if (status == MNEM_OK) mnem__weights_release(c.weights, &chunk);
        }
    }
    assert_int_equal(status, MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "row 77"));
    weights_case_fini(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_are_found_but_for_embeddings_and_other_types),
        cmocka_unit_test(a_file_that_says_nothing_is_believed_in_nothing),
        cmocka_unit_test(a_file_that_says_so_is_believed_beyond_a_page),
        cmocka_unit_test(many_dense_matrices_end_the_search_unless_the_file_says_so),
        cmocka_unit_test(a_file_that_lies_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
