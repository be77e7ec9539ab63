/* test_attention.c: ATTENTION over stored pages against a full softmax in double, and the promise
 * that its bits don't depend on chunks, members of the team or the processor's level. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "kv_run.h"
#include "mnem/base.h"

static const kv_case shapes[] = {
    {MNEM_TYPE_F16, 8, 2, 64, 32, 150, 3, false},   {MNEM_TYPE_F16, 4, 4, 8, 16, 70, 3, false},
    {MNEM_TYPE_F16, 6, 2, 72, 64, 130, 3, false},   {MNEM_TYPE_F16, 16, 1, 256, 16, 65, 3, false},
    {MNEM_TYPE_F16, 7, 1, 80, 48, 100, 3, false},   {MNEM_TYPE_F16, 32, 4, 64, 64, 129, 3, false},
    {MNEM_TYPE_F16, 1, 1, 16, 128, 200, 3, false},  {MNEM_TYPE_F16, 9, 3, 24, 16, 33, 3, false},
    {MNEM_TYPE_F16, 100, 1, 32, 16, 20, 3, false},  {MNEM_TYPE_F16, 5, 1, 128, 32, 77, 3, false},
    {MNEM_TYPE_Q8_0, 8, 2, 64, 32, 150, 3, false},  {MNEM_TYPE_Q8_0, 4, 4, 32, 16, 70, 3, false},
    {MNEM_TYPE_Q8_0, 6, 2, 96, 64, 130, 3, false},  {MNEM_TYPE_Q8_0, 16, 1, 256, 16, 65, 3, false},
    {MNEM_TYPE_Q8_0, 14, 2, 64, 48, 100, 3, false}, {MNEM_TYPE_Q8_0, 1, 1, 128, 32, 200, 3, false},
    {MNEM_TYPE_Q8_0, 3, 3, 128, 16, 33, 3, false},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static int64_t outputs(const kv_case *c) {
    return (int64_t)c->positions * c->heads * c->head_dim;
}

static float *results(const kv_case *c) {
    float *out = calloc((size_t)outputs(c), sizeof *out);
    assert_non_null(out);
    return out;
}

static void equals_a_full_softmax(void **state) {
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        kv_data data = kv_data_make(&shapes[i], 1 + (uint64_t)i);
        float *out = results(&shapes[i]);
        kv_run(&data, 1, NULL, out);
        double difference = kv_difference(out, data.expected, outputs(&shapes[i]));
        print_message("shape %d: error %.2g\n", i, difference);
        assert_true(difference < 5e-6);
        free(out);
        kv_data_free(&data);
    }
}

/* Everything else must equal this to the bit. */
static void check_same(const kv_data *data, const float *first, int workers, const int *chunks) {
    float *out = results(&data->c);
    kv_run(data, workers, chunks, out);
    assert_memory_equal(out, first, (size_t)outputs(&data->c) * sizeof *out);
    free(out);
}

static void bits_do_not_depend_on_chunks_or_workers(void **state) {
    (void)state;
    static const int one[] = {1, 0}, some[] = {5, 1, 31, 2, 64, 17, 0}, tens[] = {10, 0};
    rng r = {7};
    for (int i = 0; i < SHAPES; i++) {
        kv_data data = kv_data_make(&shapes[i], 100 + (uint64_t)i);
        float *first = results(&shapes[i]);
        kv_run(&data, 1, NULL, first);
        int random[40] = {0};
        for (int j = 0; j < 39; j++) random[j] = rng_int(&r, 1, 40);
        for (int workers = 1; workers <= 3; workers++) {
            check_same(&data, first, workers, NULL);
            check_same(&data, first, workers, some);
            check_same(&data, first, workers, tens);
            check_same(&data, first, workers, random);
        }
        check_same(&data, first, 2, one);
        free(first);
        kv_data_free(&data);
    }
}

static void bits_do_not_depend_on_the_level(void **state) {
    (void)state;
    static const int some[] = {5, 1, 31, 2, 64, 17, 0};
    for (int i = 0; i < SHAPES; i++) {
        kv_data data = kv_data_make(&shapes[i], 200 + (uint64_t)i);
        float *first = results(&shapes[i]);
        kv_run(&data, 1, NULL, first);
        mnem__cpu_level_set(MNEM__CPU_PLAIN);
        check_same(&data, first, 1, NULL);
        mnem__cpu_level_set(MNEM__CPU_AVX2);
        check_same(&data, first, 1, NULL);
        check_same(&data, first, 1, some);
        mnem__cpu_level_set(MNEM__CPU_AVX512);
        free(first);
        kv_data_free(&data);
    }
}

static void huge_scores_give_no_nan(void **state) {
    (void)state;
    for (int type = 0; type < 2; type++) {
        kv_case c = {type ? MNEM_TYPE_Q8_0 : MNEM_TYPE_F16, 4, 2, 64, 16, 100, 1e37f, false};
        kv_data data = kv_data_make(&c, 5);
        float *out = results(&c);
        kv_run(&data, 1, NULL, out);
        for (int64_t i = 0; i < outputs(&c); i++) assert_true(fabsf(out[i]) <= 1.001f);
        free(out);
        kv_data_free(&data);
        c.spread = 3000.0f; /* one position wins, and which is certain */
        data = kv_data_make(&c, 6);
        out = results(&c);
        kv_run(&data, 1, NULL, out);
        assert_true(kv_difference(out, data.expected, outputs(&c)) < 1e-3);
        free(out);
        kv_data_free(&data);
    }
}

static void equal_scores_give_the_mean(void **state) {
    (void)state;
    for (int type = 0; type < 2; type++) {
        kv_case c = {type ? MNEM_TYPE_Q8_0 : MNEM_TYPE_F16, 4, 2, 64, 16, 100, 1, true};
        kv_data data = kv_data_make(&c, 5);
        float *out = results(&c);
        kv_run(&data, 2, NULL, out);
        assert_true(kv_difference(out, data.expected, outputs(&c)) < 2e-6);
        free(out);
        kv_data_free(&data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_a_full_softmax),
        cmocka_unit_test(bits_do_not_depend_on_chunks_or_workers),
        cmocka_unit_test(bits_do_not_depend_on_the_level),
        cmocka_unit_test(huge_scores_give_no_nan),
        cmocka_unit_test(equal_scores_give_the_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
