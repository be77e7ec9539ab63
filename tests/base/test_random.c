/* test_random.c: the counter-based generator: published vectors, and what its numbers become. */
#include <math.h>

#include "base/random.h"
#include "kit/kit.h"

/* Known answers of Random123 1.14, file kat_vectors: zeros, ones, digits of pi. */
static void the_published_vectors_come_out(void **state) {
    (void)state;
    static const struct {
        uint64_t key, low, high;
        uint32_t out[4];
    } known[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822,
         0x85a308d3243f6a88,
         0x0370734413198a2e,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const mnem__random4 r = mnem__philox(known[i].key, known[i].low, known[i].high);
        assert_memory_equal(r.v, known[i].out, sizeof r.v);
    }
    assert_int_equal(mnem__random(0, 0, 2), 0xbc57ac4c);
}

static void a_fill_is_the_same_numbers_from_anywhere(void **state) {
    (void)state;
    uint32_t out[24];
    for (uint64_t first = UINT64_MAX - 9; first != 9; first++)
        for (uint64_t n = 0; n < 24; n++) {
            out[n] = 77;
            mnem__random_fill(5, 6, first, n, out);
            for (uint64_t i = 0; i < n; i++)
                assert_int_equal(out[i], mnem__random(5, 6, first + i));
            assert_int_equal(out[n], 77);
        }
}

static void normals_are_the_same_from_anywhere(void **state) {
    (void)state;
    float all[64], part[64];
    mnem__random_normals(1, 2, 0, 64, 0.02f, all);
    for (uint64_t first = 0; first < 40; first++)
        for (uint64_t n = 0; n < 24; n++) {
            mnem__random_normals(1, 2, first, n, 0.02f, part);
            assert_memory_equal(part, all + first, n * sizeof *all);
        }
}

static void streams_and_seeds_differ(void **state) {
    (void)state;
    int same = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        same += mnem__random(1, 0, i) == mnem__random(1, 1, i);
        same += mnem__random(1, 0, i) == mnem__random(2, 0, i);
    }
    assert_int_equal(same, 0);
}

/* Against libm in f64: the logarithm and the turn are good to f32's last place. */
static void normals_are_those_of_libm(void **state) {
    (void)state;
    static const uint32_t edges[] = {0, 1, 0x1fffffff, 0x20000000, 0x60000000, UINT32_MAX};
    const double turn = 2.0 * acos(-1.0) * 0x1p-32;
    for (uint64_t i = 0; i < 100000; i++) {
        uint32_t a = mnem__random(9, 9, 2 * i), b = mnem__random(9, 9, 2 * i + 1);
        if (i < 36) {
            a = edges[i / 6];
            b = edges[i % 6];
        }
        const double radius = sqrt(-2.0 * log((a + 0.5) * 0x1p-32));
        float z[2];
        mnem__random_normal2(a, b, z);
        assert_true(fabs((double)z[0] - radius * cos(b * turn)) < 3e-7 * (radius + 1e-3));
        assert_true(fabs((double)z[1] - radius * sin(b * turn)) < 3e-7 * (radius + 1e-3));
    }
}

/* A million numbers: mean, deviation, third and fourth moment within five standard errors. */
static void normals_have_the_moments(void **state) {
    (void)state;
    enum { N = 1 << 20, STEP = 1 << 10 };
    double sum[4] = {0};
    float z[STEP];
    for (uint64_t i = 0; i < N; i += STEP) {
        mnem__random_normals(42, 3, i, STEP, 1.0f, z);
        for (int j = 0; j < STEP; j++) {
            double power = 1.0;
            for (int k = 0; k < 4; k++) sum[k] += power *= (double)z[j];
        }
    }
    static const double mean[4] = {0, 1, 0, 3}, variance[4] = {1, 2, 15, 96};
    for (int k = 0; k < 4; k++)
        assert_true(fabs(sum[k] / N - mean[k]) < 5.0 * sqrt(variance[k] / N));
}

/* Chi-squared of the top 8 bits over 256 cells: mean 255, deviation 22.6. */
static void units_are_even_and_below_one(void **state) {
    (void)state;
    enum { N = 1 << 18 };
    int cell[256] = {0};
    for (uint64_t i = 0; i < N; i++) {
        const float u = mnem__random_unit(mnem__random(7, 1, i));
        assert_true(u >= 0.0f && u < 1.0f);
        cell[(int)(u * 256.0f)]++;
    }
    double chi = 0;
    for (int i = 0; i < 256; i++) chi += pow(cell[i] - N / 256, 2) / (N / 256);
    assert_true(chi > 150.0 && chi < 370.0);
    assert_true(mnem__random_unit(UINT32_MAX) < 1.0f);
}

static void thresholds_reach_never_and_always(void **state) {
    (void)state;
    assert_int_equal(mnem__random_threshold(0.0), 0);
    assert_int_equal(mnem__random_threshold(-1.0), 0);
    assert_true(mnem__random_threshold(1.0) > UINT32_MAX);
    assert_int_equal(mnem__random_threshold(0.5), 1u << 31);
    assert_int_equal(mnem__random_threshold(0.1), 429496730);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_vectors_come_out),
        cmocka_unit_test(a_fill_is_the_same_numbers_from_anywhere),
        cmocka_unit_test(normals_are_the_same_from_anywhere),
        cmocka_unit_test(streams_and_seeds_differ),
        cmocka_unit_test(normals_are_those_of_libm),
        cmocka_unit_test(normals_have_the_moments),
        cmocka_unit_test(units_are_even_and_below_one),
        cmocka_unit_test(thresholds_reach_never_and_always),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
