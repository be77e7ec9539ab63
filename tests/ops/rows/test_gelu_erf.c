/* test_gelu_erf.c: GELU_ERF against the C library's erf, at every level. */
#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "ops/core/op_fixture.h"

enum { ROWS = 3, N = 32 * 40 };
static const mnem__cpu_level levels[] = {MNEM__CPU_PLAIN, MNEM__CPU_AVX2, MNEM__CPU_AVX512};
static float in[ROWS * N], out[ROWS * N], first[ROWS * N];

static void error_is_below_its_bound_and_bits_are_those_of_all_levels(void **state) {
    (void)state;
    mnem_op_desc d = {.kind = MNEM_OP_GELU_ERF, .workers = 1};
    d.in[0] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, ROWS, N);
    for (int i = 0; i < ROWS * N; i++) in[i] = -12 + 24.0f * (float)i / (ROWS * N - 1);
    in[0] = -1e30f, in[1] = 1e30f, in[2] = 0, in[3] = NAN;
    for (int level = 0; level < 3; level++) {
        mnem__cpu_level_set(levels[level]);
        op_run(d, 1 + level, (mnem_op_args){.tokens = ROWS, .in = {in}, .out = out});
        if (level == 0) memcpy(first, out, sizeof out);
        assert_memory_equal(out, first, sizeof out);
    }
    mnem__cpu_level_set(MNEM__CPU_BEST);
    for (int i = 0; i < ROWS * N; i++) {
        const double want = 0.5 * in[i] * (1 + erf((double)in[i] / sqrt(2)));
        if (i == 3 ? !isnan(out[i]) : !(fabs(out[i] - want) <= fabs((double)in[i]) * 0x1p-22))
            fail_msg("%g: %g, not %g", (double)in[i], (double)out[i], want);
    }
}

static void other_types_are_refused(void **state) {
    (void)state;
    mnem_op_desc d = {.kind = MNEM_OP_GELU_ERF, .workers = 1};
    d.in[0] = d.out = mnem_tensor_2d(MNEM_TYPE_BF16, ROWS, N);
    op_refused(&d, "in[0] and out must be F32 [T, n] of one shape");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_is_below_its_bound_and_bits_are_those_of_all_levels),
        cmocka_unit_test(other_types_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
