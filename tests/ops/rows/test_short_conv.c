/* test_short_conv.c: SHORT_CONV against doubles, cut into runs anywhere, by any team. */
#include <math.h>
#include <string.h>

#include "kit/kit.h"
#include "ops/core/op_fixture.h"

enum { TOKENS = 100, WIDTH = 150, PAGE = 16, PAGES = (TOKENS + PAGE - 1) / PAGE, SEQUENCES = 2 };

static float in[SEQUENCES * TOKENS][3 * WIDTH], weight[WIDTH * MNEM_CONV_LENGTH_MAX];
static float out[SEQUENCES * TOKENS][WIDTH], first[SEQUENCES * TOKENS][WIDTH];
static _Alignas(64) uint8_t pages[SEQUENCES * PAGES][WIDTH * MNEM_CONV_LENGTH_MAX * 4];
static int32_t tables[SEQUENCES][PAGES];

static void fill(void) {
    rng r = {11};
    rng_fill(&r, in[0], (int64_t)SEQUENCES * TOKENS * 3 * WIDTH, 1);
    rng_fill(&r, weight, (int64_t)WIDTH * MNEM_CONV_LENGTH_MAX, 1);
    memset(pages, 0xff, sizeof pages); /* NaN: what isn't written isn't read */
    for (int s = 0; s < SEQUENCES; s++)
        for (int i = 0; i < PAGES; i++) tables[s][i] = SEQUENCES * (PAGES - 1 - i) + s;
}

static mnem_op_desc desc_of(int tokens, int length) {
    mnem_op_desc d = {.kind = MNEM_OP_SHORT_CONV, .workers = 1, .kv.page_tokens = PAGE};
    d.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, tokens, 3 * WIDTH);
    d.in[1] = mnem_tensor_2d(MNEM_TYPE_F32, WIDTH, length);
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, tokens, WIDTH);
    return d;
}

/* Rows of a run are a's tokens, then b's; the sequences are one behind the other in `in`. */
static void run_pass(int length, int workers, int at, int n) {
    static float rows[SEQUENCES * TOKENS][3 * WIDTH], made[SEQUENCES * TOKENS][WIDTH];
    mnem_kv_sequence kv[SEQUENCES];
    for (int s = 0; s < SEQUENCES; s++) {
        kv[s] = (mnem_kv_sequence){pages[0], sizeof pages[0], tables[s], at, s * n, n};
        memcpy(rows[s * n], in[s * TOKENS + at], (size_t)n * sizeof rows[0]);
    }
    op_run(desc_of(SEQUENCES * n, length), workers,
           (mnem_op_args){.tokens = SEQUENCES * n,
                          .in = {rows, weight},
                          .out = made,
                          .kv = kv,
                          .kv_count = SEQUENCES});
    for (int s = 0; s < SEQUENCES; s++)
        memcpy(out[s * TOKENS + at], made[s * n], (size_t)n * sizeof made[0]);
}

static double product(int row, int channel, bool gate) {
    const float *r = in[row];
    return gate ? r[WIDTH + channel] : (double)r[channel] * r[2 * WIDTH + channel];
}

static double expected(int row, int channel, int length) {
    double sum = 0;
    for (int k = 0; k < length; k++) {
        const int back = length - 1 - k;
        if (back <= row % TOKENS)
            sum += (double)weight[channel * length + k] * product(row - back, channel, false);
    }
    return sum * product(row, channel, true);
}

static void is_the_convolution_of_what_came_before(void **state) {
    (void)state;
    static const int lengths[] = {2, 3, 4, 16};
    for (int l = 0; l < 4; l++) {
        double worst = 0;
        fill();
        run_pass(lengths[l], 1, 0, TOKENS);
        for (int row = 0; row < SEQUENCES * TOKENS; row++)
            for (int c = 0; c < WIDTH; c++) {
                const double error = fabs((double)out[row][c] - expected(row, c, lengths[l]));
                if (!(error <= worst)) worst = error;
            }
        if (!(worst < 1e-5)) fail_msg("length %d: %g", lengths[l], worst);
    }
}

static void bits_do_not_depend_on_runs_or_team(void **state) {
    (void)state;
    for (int length = 3; length <= 4; length++) {
        fill();
        run_pass(length, 1, 0, TOKENS);
        memcpy(first, out, sizeof out);
        for (int step = 1; step <= 33; step += step < 5 ? 1 : 14)
            for (int workers = 1; workers <= 4; workers++) {
                fill();
                for (int at = 0; at < TOKENS; at += step)
                    run_pass(length, workers, at, at + step < TOKENS ? step : TOKENS - at);
                assert_memory_equal(out, first, sizeof out);
            }
    }
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    mnem_op_desc d = desc_of(4, 17);
    op_refused(&d, "in[1] must be F32 [n, length]");
    d = desc_of(4, 3);
    d.kv.page_tokens = 2;
    op_refused(&d, "expected at least the length of the convolution");
    d = desc_of(4, 3);
    d.in[0].shape[1] = 2 * WIDTH;
    op_refused(&d, "in[0] must be F32 [T, 3 * n]");
    assert_int_equal(mnem_conv_page_bytes(WIDTH, 17), 0);
    assert_int_equal(mnem_conv_page_bytes(WIDTH, 1), 0);
    assert_int_equal(mnem_conv_page_bytes(WIDTH, 3), (2 * WIDTH * 4 + 63) / 64 * 64);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_convolution_of_what_came_before),
        cmocka_unit_test(bits_do_not_depend_on_runs_or_team),
        cmocka_unit_test(what_is_wrong_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
