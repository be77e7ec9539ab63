/* test_real_rows.c: the operators on rows, of every mix of types, against double.
 *
 * Each case draws a shape, a type for each operand, and rows with gaps that hold NaNs and must
 * stay as they are; it runs at every level and with teams of 1 to 4, which must give equal bits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "ops/core/op_fixture.h"
#include "ops/rows/real_naive.h"

static const mnem__cpu_level levels[] = {MNEM__CPU_PLAIN, MNEM__CPU_AVX2, MNEM__CPU_AVX512};
static const int widths[] = {1, 3, 15, 16, 17, 64, 100, 513, 768};
enum {
    WIDTHS = sizeof widths / sizeof *widths,
    SEED = 77,
    CASES = MNEM_SANITIZED ? 6 : 12,
    VOCAB = 7
};

typedef struct operand {
    mnem_tensor tensor;
    uint8_t *bytes; /* as big as the tensor, from its offset on; NULL: absent */
    uint64_t size;
    double *dense;
    int64_t elements;
} operand;

static int64_t unit_of(const operand *o) {
    return (int64_t)mnem_type_get(o->tensor.type)->block_bytes;
}

/* Where row number r (over all dimensions but the last) lies. */
static uint8_t *row_of(const operand *o, int64_t r) {
    const mnem_tensor *t = &o->tensor;
    int64_t at = t->offset;
    for (int d = t->dims - 2; d >= 0; r /= t->shape[d], d--) at += r % t->shape[d] * t->stride[d];
    return o->bytes + at;
}

static int64_t width_of(const operand *o) {
    return o->tensor.shape[o->tensor.dims - 1];
}

static void write_row(const operand *o, int64_t r, const double *x) {
    const int64_t n = width_of(o);
    uint8_t *to = row_of(o, r);
    float part[1024];
    for (int64_t i = 0; i < n; i++) part[i] = (float)x[i];
    if (o->tensor.type == MNEM_TYPE_F64)
        memcpy(to, x, (size_t)n * 8);
    else
        assert_int_equal(mnem_quantize_row(o->tensor.type, n, part, to), MNEM_OK);
}

static void read_row(const operand *o, int64_t r, double *x) {
    const int64_t n = width_of(o);
    float part[1024];
    if (o->tensor.type == MNEM_TYPE_F64)
        memcpy(x, row_of(o, r), (size_t)n * 8);
    else
        assert_int_equal(mnem_dequantize_row(o->tensor.type, n, row_of(o, r), part), MNEM_OK);
    for (int64_t i = 0; i < n && o->tensor.type != MNEM_TYPE_F64; i++) x[i] = part[i];
}

static int64_t rows_of(const operand *o) {
    return o->elements / width_of(o);
}

/* Makes room with gaps between rows, and fills it with random numbers as far as size. */
static operand operand_make(rng *r, mnem_tensor dense, double size) {
    operand o = {.tensor = dense, .elements = 1};
    const int64_t unit = unit_of(&o);
    for (int d = 0; d < dense.dims; d++) o.elements *= dense.shape[d];
    o.tensor.offset = rng_int(r, 0, 3) * unit;
    for (int d = dense.dims - 2; d >= 0; d--)
        o.tensor.stride[d] = o.tensor.stride[d + 1] * dense.shape[d + 1] + rng_int(r, 0, 3) * unit;
    o.size = mnem_tensor_bytes(&o.tensor) + (uint64_t)o.tensor.offset;
    o.bytes = malloc(o.size);
    memset(o.bytes, 0xff, o.size);
    o.dense = malloc((size_t)o.elements * sizeof *o.dense);
    for (int64_t i = 0; i < o.elements; i++) o.dense[i] = rng_float(r) * size;
    for (int64_t i = 0; i < rows_of(&o); i++) {
        write_row(&o, i, o.dense + i * width_of(&o));
        read_row(&o, i, o.dense + i * width_of(&o)); /* as rounded */
    }
    return o;
}

static void operand_free(operand *o) {
    free(o->bytes);
    free(o->dense);
}

/* What a type's rounding may do to x, beside the error of the sums. */
static double bound(mnem_type type, double x) {
    const double unit = type == MNEM_TYPE_BF16  ? 0x1p-8
                        : type == MNEM_TYPE_F16 ? 0x1p-11
                        : type == MNEM_TYPE_F64 ? 0x1p-50
                                                : 0x1p-23;
    return (type == MNEM_TYPE_F64 ? 1e-12 : 3e-6) * (1 + fabs(x)) + unit * fabs(x) +
           (type == MNEM_TYPE_F16 ? 0x1p-25 : 0);
}

static void near_expected(const operand *o, const double *expected, const char *name) {
    double row[1024];
    for (int64_t r = 0; r < rows_of(o); r++) {
        read_row(o, r, row);
        for (int64_t i = 0; i < width_of(o); i++) {
            const double e = expected[r * width_of(o) + i];
            if (!(fabs(row[i] - e) <= bound(o->tensor.type, e)))
                fail_msg("%s row %d column %d of %d is %.9g, not %.9g", name, (int)r, (int)i,
                         (int)width_of(o), row[i], e);
        }
    }
}

/* Bytes that belong to no row are still 0xff. */
static void gaps_are_untouched(const operand *o) {
    uint8_t *seen = calloc(o->size, 1);
    for (int64_t r = 0; r < rows_of(o); r++)
        memset(seen + (row_of(o, r) - o->bytes), 1, (size_t)(width_of(o) * unit_of(o)));
    for (uint64_t i = 0; i < o->size; i++)
        if (!seen[i]) assert_int_equal(o->bytes[i], 0xff);
    free(seen);
}

/* ---- one case ---- */

enum { OUTPUTS = 1 + MNEM_OP_ALSO };

typedef struct trial {
    mnem_op_desc desc;
    mnem_op_args args;
    operand in[MNEM_OP_INPUTS], out[OUTPUTS];
    double *expected[OUTPUTS];
    uint8_t *start[OUTPUTS], *first[OUTPUTS];
} trial;

static mnem_type draw(rng *r, bool f64) {
    static const mnem_type types[] = {MNEM_TYPE_F32, MNEM_TYPE_BF16, MNEM_TYPE_F16};
    return f64 ? MNEM_TYPE_F64 : types[rng_int(r, 0, 2)];
}

static void set_in(trial *c, rng *r, int i, mnem_tensor t, double size) {
    c->in[i] = operand_make(r, t, size);
    c->desc.in[i] = c->in[i].tensor;
    c->args.in[i] = c->in[i].bytes;
}

static void *copy_of(const void *p, uint64_t bytes) {
    return memcpy(malloc(bytes), p, bytes);
}

/* Number 0 is out, then also. */
static void set_out(trial *c, rng *r, int i, mnem_tensor t) {
    operand *o = &c->out[i];
    *o = operand_make(r, t, 1);
    *(i ? &c->desc.also[i - 1] : &c->desc.out) = o->tensor;
    *(i ? &c->args.also[i - 1] : &c->args.out) = o->bytes;
    c->expected[i] = copy_of(o->dense, (uint64_t)o->elements * sizeof(double));
    c->start[i] = copy_of(o->bytes, o->size);
    c->first[i] = copy_of(o->bytes, o->size);
}

static void expect(trial *c) {
    const mnem_op_desc *d = &c->desc;
    const bool embeds = d->kind == MNEM_OP_EMBED || d->kind == MNEM_OP_EMBED_GRAD;
    naive n = {.kind = d->kind,
               .rows = c->args.tokens,
               .heads = 1,
               .n = width_of(&c->in[0]),
               .epsilon = d->epsilon,
               .adds = d->accumulate,
               .inverse = d->inverse,
               .neox = d->rope.neox,
               .dims = d->rope.dims,
               .ids = d->by_position ? c->args.positions : c->args.ids,
               .out = c->expected[0],
               .also = {c->expected[1], c->expected[2]}};
    for (int i = 0; i < MNEM_OP_INPUTS; i++) n.in[i] = c->in[i].dense;
    if (!embeds && d->in[0].dims == 3) n.rows *= n.heads = d->in[0].shape[1];
    naive_run(&n);
}

/* At every level, with 1 to 4 workers. */
static void run_everywhere(trial *c) {
    for (int level = 0; level < 3; level++)
        for (int workers = 1; workers <= 4; workers++) {
            mnem__cpu_level_set(levels[level]);
            for (int i = 0; i < OUTPUTS; i++)
                if (c->start[i]) memcpy(c->out[i].bytes, c->start[i], c->out[i].size);
            op_run(c->desc, workers, c->args);
            for (int i = 0; i < OUTPUTS; i++) {
                if (!c->start[i]) continue;
                if (level == 0 && workers == 1)
                    memcpy(c->first[i], c->out[i].bytes, c->out[i].size);
                assert_memory_equal(c->out[i].bytes, c->first[i], c->out[i].size);
            }
        }
    mnem__cpu_level_set(MNEM__CPU_BEST);
}

static void finish(trial *c) {
    static const char *const names[OUTPUTS] = {"out", "also[0]", "also[1]"};
    expect(c);
    run_everywhere(c);
    for (int i = 0; i < OUTPUTS; i++) {
        if (!c->start[i]) continue;
        near_expected(&c->out[i], c->expected[i], names[i]);
        gaps_are_untouched(&c->out[i]);
    }
    for (int i = 0; i < MNEM_OP_INPUTS; i++) operand_free(&c->in[i]);
    for (int i = 0; i < OUTPUTS; i++) {
        operand_free(&c->out[i]);
        free(c->expected[i]);
        free(c->start[i]);
        free(c->first[i]);
    }
}

/* ---- the operators ---- */

static void each_case(void (*one)(rng *r, mnem_op_kind kind, int tokens, int n, bool f64),
                      mnem_op_kind kind) {
    rng r = {SEED + (uint64_t)kind};
    for (int w = 0; w < WIDTHS; w++)
        for (int i = 0; i < CASES / 3; i++) one(&r, kind, rng_int(&r, 1, 6), widths[w], i == 0);
    for (int i = 0; i < CASES; i++) one(&r, kind, rng_int(&r, 30, 100), rng_int(&r, 1, 40), i == 0);
}

/* inputs of [T, n]; a second output for SILU_MUL_GRAD, and now and then one is absent. */
static void elementwise(rng *r, mnem_op_kind kind, int tokens, int n, bool f64) {
    const int inputs = kind == MNEM_OP_GELU ? 1 : kind == MNEM_OP_SILU_MUL_GRAD ? 3 : 2;
    const bool two = kind == MNEM_OP_SILU_MUL_GRAD, skip = two && rng_int(r, 0, 3) == 0;
    trial c = {.desc = {.kind = kind}, .args = {.tokens = tokens}};
    c.desc.accumulate =
        (kind == MNEM_OP_GELU_GRAD || kind == MNEM_OP_SILU_MUL_GRAD) && rng_int(r, 0, 1);
    for (int i = 0; i < inputs; i++) set_in(&c, r, i, mnem_tensor_2d(draw(r, f64), tokens, n), 4);
    if (!skip) set_out(&c, r, 0, mnem_tensor_2d(draw(r, f64), tokens, n));
    if (two) set_out(&c, r, 1, mnem_tensor_2d(draw(r, f64), tokens, n));
    finish(&c);
}

static void elementwise_equal_double(void **state) {
    (void)state;
    static const mnem_op_kind kinds[] = {MNEM_OP_ADD, MNEM_OP_SILU_MUL, MNEM_OP_GELU,
                                         MNEM_OP_GELU_GRAD, MNEM_OP_SILU_MUL_GRAD};
    for (int i = 0; i < 5; i++) each_case(elementwise, kinds[i]);
}

static mnem_tensor draw_rows(rng *r, int tokens, int heads, int n, bool f64) {
    const mnem_type type = draw(r, f64);
    return heads ? mnem_tensor_3d(type, tokens, heads, n) : mnem_tensor_2d(type, tokens, n);
}

static void norms(rng *r, mnem_op_kind kind, int tokens, int n, bool f64) {
    const int heads = rng_int(r, 0, 2);
    trial c = {.desc = {.kind = kind, .epsilon = 1e-3f}, .args = {.tokens = tokens}};
    set_in(&c, r, 0, draw_rows(r, tokens, heads, n, f64), 4);
    set_in(&c, r, 1, mnem_tensor_1d(draw(r, f64), n), 2);
    if (kind == MNEM_OP_LAYER_NORM) set_in(&c, r, 2, mnem_tensor_1d(draw(r, f64), n), 2);
    set_out(&c, r, 0, draw_rows(r, tokens, heads, n, f64));
    finish(&c);
}

static void norms_equal_double(void **state) {
    (void)state;
    each_case(norms, MNEM_OP_RMS_NORM);
    each_case(norms, MNEM_OP_LAYER_NORM);
}

static void norm_grads(rng *r, mnem_op_kind kind, int tokens, int n, bool f64) {
    const int heads = rng_int(r, 0, 2), wanted = rng_int(r, 1, 7);
    const mnem_type sum = f64 ? MNEM_TYPE_F64 : MNEM_TYPE_F32;
    trial c = {.desc = {.kind = kind, .epsilon = 1e-1f}, .args = {.tokens = tokens}};
    c.desc.accumulate = rng_int(r, 0, 1);
    set_in(&c, r, 0, draw_rows(r, tokens, heads, n, f64), 4);
    set_in(&c, r, 1, mnem_tensor_1d(draw(r, f64), n), 2);
    set_in(&c, r, 2, draw_rows(r, tokens, heads, n, f64), 1);
    if (wanted & 1) set_out(&c, r, 0, draw_rows(r, tokens, heads, n, f64));
    if (wanted & 2) set_out(&c, r, 1, mnem_tensor_1d(sum, n));
    if (wanted & 4 && kind == MNEM_OP_LAYER_NORM_GRAD) set_out(&c, r, 2, mnem_tensor_1d(sum, n));
    finish(&c);
}

static void norm_grads_equal_double(void **state) {
    (void)state;
    each_case(norm_grads, MNEM_OP_RMS_NORM_GRAD);
    each_case(norm_grads, MNEM_OP_LAYER_NORM_GRAD);
}

static int32_t numbers[128];

static void embeds(rng *r, mnem_op_kind kind, int tokens, int n, bool f64) {
    const bool grad = kind == MNEM_OP_EMBED_GRAD;
    trial c = {.desc = {.kind = kind, .by_position = rng_int(r, 0, 1)}, .args = {.tokens = tokens}};
    for (int i = 0; i < tokens; i++) numbers[i] = rng_int(r, 0, VOCAB - 1);
    *(c.desc.by_position ? &c.args.positions : &c.args.ids) = numbers;
    const mnem_type type = grad ? f64 ? MNEM_TYPE_F64 : MNEM_TYPE_F32 : draw(r, f64);
    const mnem_tensor rows = mnem_tensor_2d(draw(r, f64), tokens, n);
    const mnem_tensor weight = mnem_tensor_2d(type, VOCAB, n);
    set_in(&c, r, 0, grad ? rows : weight, 1);
    set_out(&c, r, 0, grad ? weight : rows);
    finish(&c);
}

static void embeds_equal_double(void **state) {
    (void)state;
    each_case(embeds, MNEM_OP_EMBED);
    each_case(embeds, MNEM_OP_EMBED_GRAD);
}

static void ropes(rng *r, mnem_op_kind kind, int tokens, int n, bool f64) {
    const int heads = rng_int(r, 1, 3), dims = rng_int(r, 1, (n + 1) / 2) * 2;
    trial c = {.desc = {.kind = kind}, .args = {.tokens = tokens}};
    c.desc.rope = (mnem_rope){.dims = dims, .neox = rng_int(r, 0, 1)};
    c.desc.inverse = rng_int(r, 0, 1);
    set_in(&c, r, 0, draw_rows(r, tokens, heads, n + 1, f64), 2);
    set_in(&c, r, 1, mnem_tensor_2d(f64 ? MNEM_TYPE_F64 : MNEM_TYPE_F32, tokens, dims), 1);
    set_out(&c, r, 0, draw_rows(r, tokens, heads, n + 1, f64));
    finish(&c);
}

static void ropes_equal_double(void **state) {
    (void)state;
    each_case(ropes, MNEM_OP_ROPE);
}

/* ---- in place ---- */

/* out takes the place of input i; the bits are those of a run apart. */
static void in_place(mnem_op_desc d, int i, mnem_type type) {
    enum { T = 3, N = 333 };
    static float x[T * N];
    static double in[3][T * N], apart[T * N], also[T * N], last[T * N];
    rng r = {5};
    for (int k = 0; k < 3; k++) {
        rng_fill(&r, x, T * N, 2);
        if (type == MNEM_TYPE_F64)
            for (int e = 0; e < T * N; e++) in[k][e] = x[e];
        else
            mnem_quantize_row(type, T * N, x, in[k]);
        if (d.in[k].dims) d.in[k] = mnem_tensor_2d(type, T, N);
    }
    d.out = mnem_tensor_2d(type, T, N);
    if (d.also[0].dims) d.also[0] = d.out;
    mnem_op_args a = {.tokens = T, .in = {in[0], in[1], in[2]}, .out = apart, .also = {also}};
    a.seed = 3;
    op_run(d, 1, a);
    memcpy(last, in[i], sizeof last);
    a.in[i] = a.out = last;
    op_run(d, 3, a);
    assert_memory_equal(last, apart, mnem_tensor_bytes(&d.out));
}

static void in_place_is_the_same(void **state) {
    (void)state;
    static const mnem_type types[] = {MNEM_TYPE_F32, MNEM_TYPE_BF16, MNEM_TYPE_F16, MNEM_TYPE_F64};
    const mnem_tensor there = {.dims = 2};
    for (int t = 0; t < 4; t++) {
        in_place((mnem_op_desc){.kind = MNEM_OP_ADD, .in = {there, there}}, 0, types[t]);
        in_place((mnem_op_desc){.kind = MNEM_OP_ADD, .in = {there, there}}, 1, types[t]);
        in_place((mnem_op_desc){.kind = MNEM_OP_SILU_MUL, .in = {there, there}}, 0, types[t]);
        in_place((mnem_op_desc){.kind = MNEM_OP_GELU, .in = {there}}, 0, types[t]);
        in_place((mnem_op_desc){.kind = MNEM_OP_GELU_GRAD, .in = {there, there}}, 1, types[t]);
        in_place((mnem_op_desc){.kind = MNEM_OP_DROPOUT, .in = {there}, .dropout = 0.4f}, 0,
                 types[t]);
        in_place((mnem_op_desc){.kind = MNEM_OP_DROPOUT, .in = {there}}, 0, types[t]);
        in_place((mnem_op_desc){.kind = MNEM_OP_SCALE, .in = {there}, .scale = -1.5f}, 0, types[t]);
    }
}

static void prepare_names_what_is_wrong(void **state) {
    (void)state;
    const mnem_tensor rows = mnem_tensor_2d(MNEM_TYPE_BF16, 4, 8);
    const mnem_tensor wide = mnem_tensor_1d(MNEM_TYPE_F32, 8), f64 = {.type = MNEM_TYPE_F64};
    mnem_op_desc d = {.kind = MNEM_OP_LAYER_NORM_GRAD, .workers = 1, .epsilon = 1e-5f};
    d.in[0] = d.in[2] = d.out = rows;
    d.in[1] = d.also[0] = d.also[1] = wide;
    d.also[1].type = MNEM_TYPE_BF16;
    d.also[1].stride[0] = 2;
    op_refused(&d, "also[1] must be F32, because gradients are summed in it");
    d.also[1] = mnem_tensor_1d(MNEM_TYPE_F32, 9);
    op_refused(&d, "also[1] must be F32, BF16 or F16 (F64 if in[0] is) [n], with the n of in[0]");
    d.in[2] = mnem_tensor_2d(MNEM_TYPE_F64, 4, 8);
    op_refused(&d, "in[2] must be F32, BF16 or F16 (F64 if in[0] is), with the shape of in[0]");
    d.kind = MNEM_OP_RMS_NORM_GRAD;
    d.in[2] = rows;
    d.also[1] = wide;
    op_refused(&d, "rms_norm has no bias");
    d.also[1].dims = 0;
    d.in[0].shape[0] = d.in[2].shape[0] = d.out.shape[0] = (int64_t)1 << 62;
    d.in[0].stride[0] = d.in[2].stride[0] = d.out.stride[0] = 0;
    op_refused(&d, "in[0] is too large");
    d = (mnem_op_desc){.kind = MNEM_OP_DROPOUT, .workers = 1, .dropout = 1.0f};
    d.in[0] = d.out = rows;
    op_refused(&d, "expected 0 to less than 1");
    d = (mnem_op_desc){.kind = MNEM_OP_SCALE, .workers = 1, .scale = INFINITY};
    d.in[0] = d.out = rows;
    op_refused(&d, "expected a finite number");
    d.kind = MNEM_OP_GELU;
    d.in[0].type = f64.type;
    op_refused(&d, "in[0] must be F32, BF16, F16 or F64 [T, n]");
    d = (mnem_op_desc){.kind = MNEM_OP_EMBED_GRAD, .workers = 1};
    d.in[0] = d.out = rows;
    op_refused(
        &d, "embed_grad (in[0] BF16 [4, 8], out BF16 [4, 8]): out must be F32 (F64 if in[0] is)");
}

int main(void) {
    printf("seed %d\n", SEED);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise_equal_double),    cmocka_unit_test(norms_equal_double),
        cmocka_unit_test(norm_grads_equal_double),     cmocka_unit_test(embeds_equal_double),
        cmocka_unit_test(ropes_equal_double),          cmocka_unit_test(in_place_is_the_same),
        cmocka_unit_test(prepare_names_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
