/* test_experts.c: EXPERTS against a plain sum in double, and the promise that a row's bits depend
 * on its token only: not on the other rows, the order of the experts, the team or the level. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "ops/core/op_fixture.h"

static const mnem__cpu_level levels[] = {MNEM__CPU_PLAIN, MNEM__CPU_AVX2, MNEM__CPU_AVX512};

enum { T = 40, N = 64, FF = 96, OUT = 32, E = 6, USED = 3, ANY_ORDER = 16 };

/* Gates and ups are apart; in one matrix, below each other; or there are no gates, and the ups
 * stand in their place. */
typedef enum form { APART, IN_ONE, UNGATED } form;

/* A mixture of one type: raw weights as floats, and packed. */
typedef struct mixture {
    mnem_type type;
    float *weight[3]; /* dequantized: gates, ups [E FF, N], downs [E OUT, FF] */
    uint8_t *packed[3];
    float x[T * N], routes[T * 2 * USED], bias[E * (2 * FF + OUT)];
    bool biased;
    mnem_op_kind core;
    float limit;
    form form;
    uint8_t *in_one; /* gates and ups of each expert */
} mixture;

static const int64_t rows_of[3] = {E * FF, E *FF, E *OUT}, k_of[3] = {N, N, FF};

static void make_weights(mixture *m, int i, rng *r) {
    const int64_t rows = rows_of[i], k = k_of[i];
    const uint64_t row = mnem_type_row_bytes(m->type, k), group = mnem_pack_group_bytes(m->type, k);
    uint8_t *raw = malloc(row * (uint64_t)rows);
    m->weight[i] = calloc((size_t)(rows * k), sizeof(float));
    m->packed[i] = aligned_alloc(64, mnem_pack_bytes(m->type, rows, k));
    assert_true(row && raw && m->weight[i] && m->packed[i]);
    rng_fill(r, m->weight[i], rows * k, 0.3f);
    for (int64_t j = 0; j < rows; j++) {
        float *w = m->weight[i] + j * k;
        must(mnem_quantize_row(m->type, k, w, raw + (uint64_t)j * row));
        must(mnem_dequantize_row(m->type, k, raw + (uint64_t)j * row, w));
    }
    for (int64_t g = 0; g < rows / MNEM_PACK_ROWS; g++)
        mnem_pack_group(m->type, MNEM_PACK_ROWS, k, raw + (uint64_t)g * MNEM_PACK_ROWS * row,
                        m->packed[i] + (uint64_t)g * group);
    free(raw);
}

/* Distinct experts of each token, ascending, then weights. */
static void make_routes(mixture *m, rng *r) {
    for (int t = 0; t < T; t++) {
        float *row = m->routes + t * 2 * USED;
        bool used[E] = {false};
        for (int i = 0; i < USED;) {
            const int e = rng_int(r, 0, E - 1);
            i += !used[e];
            used[e] = true;
        }
        for (int e = 0, at = 0; e < E; e++)
            if (used[e]) row[at++] = (float)e;
        rng_fill(r, row + USED, USED, 1);
    }
}

static mixture *mixture_make(mnem_type type, uint64_t seed) {
    mixture *m = calloc(1, sizeof *m);
    rng r = {seed};
    assert_non_null(m);
    m->type = type;
    m->core = MNEM_OP_SILU_MUL;
    for (int i = 0; i < 3; i++) make_weights(m, i, &r);
    rng_fill(&r, m->x, T * N, 1);
    rng_fill(&r, m->bias, E * (2 * FF + OUT), 0.5f);
    make_routes(m, &r);
    return m;
}

static void mixture_free(mixture *m) {
    for (int i = 0; i < 3; i++) free(m->weight[i]), free(m->packed[i]);
    free(m->in_one);
    free(m);
}

static uint64_t expert_bytes(const mixture *m, int i) {
    return mnem_pack_bytes(m->type, rows_of[i] / E, k_of[i]);
}

static void put_in_one(mixture *m) {
    const uint64_t bytes = expert_bytes(m, 0);
    m->form = IN_ONE;
    m->in_one = aligned_alloc(64, 2 * bytes * E);
    assert_non_null(m->in_one);
    for (uint64_t i = 0; i < 2 * E; i++)
        memcpy(m->in_one + i * bytes, m->packed[i % 2] + i / 2 * bytes, bytes);
}

/* ---- where experts come from ---- */

typedef struct source {
    const mixture *m;
    int32_t wanted[E], count;
    int32_t first; /* number 0 is this one */
    bool backwards, in_order;
    int32_t fail_at; /* so many are given; 0: all */
} source;

static void want(void *context, const int32_t *numbers, int32_t count, bool in_order) {
    source *s = context;
    for (int32_t i = 0; i < count; i++) {
        assert_true(i == 0 || numbers[i] > numbers[i - 1]);
        s->wanted[i] = numbers[i];
    }
    s->count = count;
    s->in_order = in_order;
}

static bool next(void *context, const mnem_worker *worker, int32_t at, mnem_op_expert *expert) {
    const source *s = context;
    (void)worker;
    if (s->fail_at && at == s->fail_at) return false;
    assert_int_equal(expert->number, s->wanted[at]);
    if (s->backwards && !s->in_order) expert->number = s->wanted[s->count - 1 - at];
    const uint64_t number = (uint64_t)(s->first + expert->number);
    for (int i = 0; i < 3; i++)
        expert->packed[i] = s->m->packed[i] + expert_bytes(s->m, i) * number;
    if (s->m->form == IN_ONE) expert->packed[0] = s->m->in_one + 2 * expert_bytes(s->m, 0) * number;
    if (s->m->form != APART) expert->packed[1] = NULL;
    return true;
}

static mnem_op_desc desc_of(const mixture *m, int64_t tokens) {
    mnem_op_desc d = {.kind = MNEM_OP_EXPERTS,
                      .route.used = USED,
                      .core = m->core,
                      .limit = m->limit,
                      .workers = 1};
    d.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, tokens, N);
    for (int i = 0; i < 3; i++) d.in[1 + i] = mnem_tensor_packed(m->type, rows_of[i], k_of[i]);
    if (m->form != APART) d.in[2] = (mnem_tensor){0};
    if (m->form == IN_ONE) d.in[1] = mnem_tensor_packed(m->type, 2 * rows_of[0], N);
    d.in[4] = mnem_tensor_2d(MNEM_TYPE_F32, tokens, 2 * USED);
    if (m->biased) d.in[5] = mnem_tensor_1d(MNEM_TYPE_F32, E * (2 * FF + OUT));
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, tokens, OUT);
    return d;
}

/* Tokens [from, from + n) by themselves, prepared for more. */
static void run(const mixture *m, int workers, int from, int n, bool backwards, float *out) {
    source s = {.m = m, .backwards = backwards};
    const mnem_op_experts experts = {want, next, &s};
    op_run(desc_of(m, n + 3), workers,
           (mnem_op_args){.tokens = n,
                          .in = {m->x + from * N, NULL, NULL, NULL, m->routes + from * 2 * USED,
                                 m->biased ? m->bias : NULL},
                          .out = out + from * OUT,
                          .experts = &experts});
    assert_int_equal(s.in_order, n > ANY_ORDER);
}

/* ---- in double ---- */

static double product(const mixture *m, int which, int expert, int row, const double *x) {
    const int64_t rows = rows_of[which] / E, k = k_of[which];
    const float *w = m->weight[which] + (expert * rows + row) * k;
    double sum = m->biased ? (double)m->bias[E * FF * which + expert * rows + row] : 0;
    for (int64_t i = 0; i < k; i++) sum += (double)w[i] * x[i];
    return sum;
}

static double core(const mixture *m, double gate, double up) {
    const mnem_op_kind kind = m->core;
    const double silu = gate / (1 + exp(-gate)), limit = m->limit;
    if (limit > 0) return fmin(silu, limit) * fmax(-limit, fmin(up, limit));
    if (kind == MNEM_OP_SILU_MUL) return silu * up;
    if (kind == MNEM_OP_RELU_SQUARED) return fmax(gate, 0) * fmax(gate, 0);
    const double g = fmin(gate, 7), u = fmax(-7, fmin(up, 7));
    return g / (1 + exp(-1.702 * g)) * (u + 1);
}

static void expect(const mixture *m, float *out) {
    for (int t = 0; t < T; t++) {
        const float *route = m->routes + t * 2 * USED;
        double x[N], hidden[FF], sum[OUT] = {0};
        for (int i = 0; i < N; i++) x[i] = (double)m->x[t * N + i];
        for (int u = 0; u < USED; u++) {
            const int e = (int)route[u];
            for (int f = 0; f < FF; f++)
                hidden[f] = core(m, product(m, 0, e, f, x), product(m, 1, e, f, x));
            for (int o = 0; o < OUT; o++)
                sum[o] += (double)route[USED + u] * product(m, 2, e, o, hidden);
        }
        for (int o = 0; o < OUT; o++) out[t * OUT + o] = (float)sum[o];
    }
}

/* ---- tests ---- */

static float first[T * OUT], out[T * OUT], expected[T * OUT];

static void results_equal_a_sum_in_double(void **state) {
    (void)state;
    static const struct {
        mnem_type type;
        double tolerance; /* of inputs in 8 bits, where weights are quantized */
    } cases[] = {{MNEM_TYPE_F32, 1e-5},
                 {MNEM_TYPE_F16, 1e-5},
                 {MNEM_TYPE_Q8_0, 6e-2},
                 {MNEM_TYPE_MXFP4, 6e-2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int way = 0; way < 3; way++) {
            mixture *m = mixture_make(cases[i].type, 7 + i);
            m->biased = way > 0;
            m->core = way == 1 ? MNEM_OP_SWIGLU_MUL : MNEM_OP_SILU_MUL;
            m->limit = way == 2 ? 0.25f : 0;
            expect(m, expected);
            run(m, 2, 0, T, false, out);
            const double difference = op_difference(out, expected, T * OUT);
            if (!(difference <= cases[i].tolerance)) fail_msg("case %zu: %g", i, difference);
            mixture_free(m);
        }
}

static void bits_are_those_of_a_token_alone(void **state) {
    (void)state;
    static const mnem_type types[] = {MNEM_TYPE_F32, MNEM_TYPE_BF16, MNEM_TYPE_Q4_0,
                                      MNEM_TYPE_MXFP4};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        mixture *m = mixture_make(types[i], 20 + i);
        m->biased = i & 1;
        for (int t = 0; t < T; t++) run(m, 1, t, 1, false, first);
        for (int workers = 1; workers <= 3; workers++) {
            run(m, workers, 0, T, false, out);
            assert_memory_equal(out, first, sizeof out);
            memset(out, 0xff, sizeof out);
            for (int t = 0; t < T; t += 10) run(m, workers, t, 10, true, out);
            assert_memory_equal(out, first, sizeof out);
        }
        mixture_free(m);
    }
}

static void gates_and_ups_in_one_give_the_same_bits(void **state) {
    (void)state;
    static const mnem_type types[] = {MNEM_TYPE_F32, MNEM_TYPE_Q4_0, MNEM_TYPE_Q8_0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        mixture *m = mixture_make(types[i], 80 + i);
        run(m, 1, 0, T, false, first);
        put_in_one(m);
        for (int workers = 1; workers <= 3; workers++) {
            run(m, workers, 0, T, false, out);
            assert_memory_equal(out, first, sizeof out);
        }
        memset(out, 0xff, sizeof out);
        for (int t = 0; t < T; t += 10) run(m, 2, t, 10, true, out);
        assert_memory_equal(out, first, sizeof out);
        mixture_free(m);
    }
}

static void experts_without_gates_equal_a_sum_in_double(void **state) {
    (void)state;
    static const mnem_type types[] = {MNEM_TYPE_F32, MNEM_TYPE_BF16};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        mixture *m = mixture_make(types[i], 90 + i);
        m->core = MNEM_OP_RELU_SQUARED;
        m->form = UNGATED;
        expect(m, expected);
        run(m, 1, 0, T, false, first);
        const double difference = op_difference(first, expected, T * OUT);
        if (!(difference <= (i ? 2e-2 : 1e-5))) fail_msg("case %zu: %g", i, difference);
        run(m, 3, 0, T, false, out);
        assert_memory_equal(out, first, sizeof out);
        for (int t = 0; t < T; t++) run(m, 2, t, 1, true, out);
        assert_memory_equal(out, first, sizeof out);
        mixture_free(m);
    }
}

static void levels_give_the_same_bits(void **state) {
    (void)state;
    mixture *m = mixture_make(MNEM_TYPE_Q5_1, 31);
    for (int level = 0; level < 3; level++) {
        mnem__cpu_level_set(levels[level]);
        run(m, 2, 0, T, false, level ? out : first);
        if (level) assert_memory_equal(out, first, sizeof out);
    }
    mnem__cpu_level_set(MNEM__CPU_BEST);
    mixture_free(m);
}

/* Inputs that come as A8 are what f32 becomes on the way. */
static void quantized_inputs_give_the_same_bits(void **state) {
    (void)state;
    mixture *m = mixture_make(MNEM_TYPE_Q4_0, 40);
    source s = {.m = m};
    const mnem_op_experts experts = {want, next, &s};
    mnem_op_desc d = desc_of(m, T), quantize = {.kind = MNEM_OP_QUANTIZE};
    quantize.in[0] = d.in[0];
    quantize.out = d.in[0] = mnem_tensor_2d(MNEM_TYPE_A8, T, N);
    uint8_t *a8 = aligned_alloc(64, mnem_tensor_bytes(&d.in[0]));
    assert_non_null(a8);
    op_run(quantize, 1, (mnem_op_args){.tokens = T, .in = {m->x}, .out = a8});
    run(m, 1, 0, T, false, first);
    op_run(
        d, 2,
        (mnem_op_args){
            .tokens = T, .in = {a8, NULL, NULL, NULL, m->routes}, .out = out, .experts = &experts});
    assert_memory_equal(out, first, sizeof out);
    free(a8);
    mixture_free(m);
}

/* Experts [begin, end), whose biases are a list by themselves, into their places of wide. */
static void run_apart(const mixture *m, int workers, int begin, int end, float *wide) {
    static float bias[E * (2 * FF + OUT)];
    source s = {.m = m, .first = begin, .backwards = begin % 2};
    const mnem_op_experts experts = {want, next, &s};
    const int here = end - begin;
    mnem_op_desc d = desc_of(m, T);
    d.apart = true;
    d.axis = begin;
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, USED * OUT);
    float *at = bias;
    for (int i = 0; i < 3; i++) {
        const int64_t rows = rows_of[i] / E;
        d.in[1 + i] = mnem_tensor_packed(m->type, here * rows, k_of[i]);
        memcpy(at, m->bias + E * FF * i + begin * rows, (size_t)(here * rows) * sizeof *at);
        at += here * rows;
    }
    if (m->biased) d.in[5] = mnem_tensor_1d(MNEM_TYPE_F32, here * (2 * FF + OUT));
    op_run(d, workers,
           (mnem_op_args){.tokens = T,
                          .in = {m->x, NULL, NULL, NULL, m->routes, m->biased ? bias : NULL},
                          .out = wide,
                          .experts = &experts});
}

/* Made in up to E parts and added up, whole or by row, they are what one program makes. */
static void parts_of_the_experts_add_up_to_the_same_bits(void **state) {
    (void)state;
    static float wide[T * USED * OUT];
    static const mnem_type types[] = {MNEM_TYPE_F32, MNEM_TYPE_Q4_0};
    static const int cuts[][E + 1] = {{0, 6}, {0, 1, 6}, {0, 3, 4, 6}, {0, 1, 2, 3, 4, 5, 6}};
    for (size_t i = 0; i < 2 * sizeof cuts / sizeof *cuts; i++) {
        mixture *m = mixture_make(types[i % 2], 70 + i);
        m->biased = i % 4 < 2;
        run(m, 1, 0, T, false, first);
        memset(wide, 0xff, sizeof wide); /* NaN where nobody writes */
        for (const int *cut = cuts[i / 2]; *cut < E; cut++)
            run_apart(m, 1 + (int)i % 3, cut[0], cut[1], wide);
        mnem_op_desc sum = {.kind = MNEM_OP_EXPERTS_SUM, .workers = 1};
        sum.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, T, USED * OUT);
        sum.in[1] = mnem_tensor_2d(MNEM_TYPE_F32, T, 2 * USED);
        sum.out = mnem_tensor_2d(MNEM_TYPE_F32, T, OUT);
        op_run(sum, 1 + (int)i % 2,
               (mnem_op_args){.tokens = T, .in = {wide, m->routes}, .out = out});
        assert_memory_equal(out, first, sizeof out);
        mixture_free(m);
    }
}

static void a_source_that_has_no_more_ends_the_run(void **state) {
    (void)state;
    mixture *m = mixture_make(MNEM_TYPE_F32, 50);
    source s = {.m = m, .fail_at = 2};
    const mnem_op_experts experts = {want, next, &s};
    op_run(desc_of(m, T), 2,
           (mnem_op_args){.tokens = T,
                          .in = {m->x, NULL, NULL, NULL, m->routes},
                          .out = out,
                          .experts = &experts});
    assert_true(s.count > 2);
    mixture_free(m);
}

static void shapes_that_are_wrong_are_refused(void **state) {
    (void)state;
    mixture *m = mixture_make(MNEM_TYPE_F32, 60);
    mnem_op_desc d = desc_of(m, T);
    d.in[3].shape[1] -= 8;
    op_refused(&d, "must be a multiple of 16");
    d = desc_of(m, T);
    d.in[2].shape[0] -= 16;
    op_refused(&d, "in[2]");
    d = desc_of(m, T);
    d.in[4].shape[1]--;
    op_refused(&d, "in[4]");
    d = desc_of(m, T);
    d.in[5] = mnem_tensor_1d(MNEM_TYPE_F32, 3);
    op_refused(&d, "in[5]");
    d = desc_of(m, T);
    d.core = MNEM_OP_GELU;
    op_refused(&d, "core");
    d.core = MNEM_OP_RELU_SQUARED;
    op_refused(&d, "in[2] must be absent (dims 0)");
    d = desc_of(m, T);
    d.in[2] = (mnem_tensor){0};
    op_refused(&d, "in[1], in[2] and in[3] must be packed");
    d.core = MNEM_OP_RELU_SQUARED;
    d.in[5] = mnem_tensor_1d(MNEM_TYPE_F32, E * (2 * FF + OUT));
    op_refused(&d, "in[5] must be absent (dims 0)");
    d = desc_of(m, T);
    d.route.used = E + 1;
    op_refused(&d, "route.used");
    d = desc_of(m, T);
    d.apart = true; /* OUT isn't a number of USED */
    op_refused(&d, "must be a multiple of 16");
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, USED * OUT);
    d.out.stride[0] *= 2;
    op_refused(&d, "without gaps");
    mnem_op_desc sum = {.kind = MNEM_OP_EXPERTS_SUM, .workers = 1};
    sum.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, T, USED * OUT);
    sum.in[1] = mnem_tensor_2d(MNEM_TYPE_F32, T, 2 * USED + 2);
    sum.out = mnem_tensor_2d(MNEM_TYPE_F32, T, OUT);
    op_refused(&sum, "in[0] must be [T, used * n] and in[1] (the routes)");
    mixture_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_equal_a_sum_in_double),
        cmocka_unit_test(bits_are_those_of_a_token_alone),
        cmocka_unit_test(gates_and_ups_in_one_give_the_same_bits),
        cmocka_unit_test(experts_without_gates_equal_a_sum_in_double),
        cmocka_unit_test(levels_give_the_same_bits),
        cmocka_unit_test(quantized_inputs_give_the_same_bits),
        cmocka_unit_test(parts_of_the_experts_add_up_to_the_same_bits),
        cmocka_unit_test(a_source_that_has_no_more_ends_the_run),
        cmocka_unit_test(shapes_that_are_wrong_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
