/* activation_kernels.c: SILU_MUL, GELU, GELU_MUL, SWIGLU_MUL, RELU_MUL, XIELU and
 * SOFT_CAP of a row, gradients, and what makes weights of a router's scores, over lanes; compiled
 * once for each level. */
#include "ops/core/lanes_softplus.h"
#include "ops/rows/row_lanes.h"

/* ---- SILU_MUL ---- */

/* The numerator stops at -100, where the true value is below 1e-41, so that the bounded power of
 * two in the denominator can't let a huge gate through. */
LANES_INLINE lanes silu_lanes(lanes gate) {
    lanes e = lanes_exp2(lanes_mul(gate, lanes_set(-0x1.715476p+0f))); /* log2(e) */
    lanes top = lanes_max(lanes_set(-100.0f), gate);
    return lanes_div(top, lanes_add(lanes_set(1.0f), e));
}

LANES_INLINE lanes silu_mul_lanes(lanes gate, lanes up) {
    return lanes_mul(silu_lanes(gate), up);
}

void ROW(silu_mul)(int64_t n, const void *gate, const void *up, void *out) {
    EACH_LANES(n, put(F32, out, i, m, silu_mul_lanes(get(F32, gate, i, m), get(F32, up, i, m))))
}

void ROW(silu_mul_bf16)(int64_t n, const void *gate, const void *up, void *out){
    EACH_LANES(n, put(BF16, out, i, m, silu_mul_lanes(get(BF16, gate, i, m), get(BF16, up, i, m))))}

/* A NaN of gate or up stays one: min and max return their second operand. */
LANES_INLINE lanes silu_limited_lanes(lanes gate, lanes up, lanes limit, lanes least) {
    const lanes u = lanes_max(least, lanes_min(limit, up));
    return lanes_mul(lanes_min(limit, silu_lanes(gate)), u);
}

void ROW(silu_mul_limited)(int64_t n, const void *gate, const void *up, float limit, void *out) {
    const lanes most = lanes_set(limit), least = lanes_set(-limit);
    EACH_LANES(n, put(F32, out, i, m,
                      silu_limited_lanes(get(F32, gate, i, m), get(F32, up, i, m), most, least)))
}

/* ---- SWIGLU_MUL ---- */

/* A NaN of gate or up stays one: min and max return their second operand. */
LANES_INLINE lanes swiglu_lanes(lanes gate, lanes up) {
    const lanes limit = lanes_set(7.0f), one = lanes_set(1.0f);
    const lanes g = lanes_min(limit, gate);
    const lanes u = lanes_max(lanes_set(-7.0f), lanes_min(limit, up));
    const lanes e = lanes_exp2(lanes_mul(g, lanes_set(-1.702f * 0x1.715476p+0f))); /* log2(e) */
    const lanes top = lanes_max(lanes_set(-100.0f), g);
    return lanes_mul(lanes_div(top, lanes_add(one, e)), lanes_add(u, one));
}

void ROW(swiglu_mul)(int64_t n, const void *gate, const void *up, void *out){
    EACH_LANES(n, put(F32, out, i, m, swiglu_lanes(get(F32, gate, i, m), get(F32, up, i, m))))}

/* ---- GELU, SILU_MUL_GRAD ---- */

/* -|x| */
LANES_INLINE lanes minus_abs(lanes x) {
    return lanes_min(x, lanes_sub(lanes_zero(), x));
}

/* e^x of x up to 0. */
LANES_INLINE lanes exp_below(lanes x) {
    return lanes_exp2_upto127(lanes_mul(x, lanes_set(0x1.715476p+0f))); /* log2(e) */
}

/* Given e = e^-|x|: 1 / (1 + e), and 1 minus that without cancellation; the first is the sigmoid
 * of x >= 0, the second of others. */
typedef struct sigmoids {
    lanes high, low;
} sigmoids;

LANES_INLINE sigmoids sigmoids_of(lanes e) {
    const lanes one = lanes_set(1.0f), high = lanes_div(one, lanes_add(one, e));
    return (sigmoids){high, lanes_mul(e, high)};
}

/* Times -log2(e): 2 sqrt(2 / pi), and that times 0.044715, so that e^-v = 2^(x (a + b x^2)). */
static const double gelu_a = 1.5957691216057308, gelu_b = 0.07135481627260025;
static const double gelu_base = -1.4426950408889634;

LANES_INLINE lanes gelu_log2(lanes x, lanes square) {
    return lanes_mul(x, lanes_fma(square, lanes_set((float)(gelu_base * gelu_b)),
                                  lanes_set((float)(gelu_base * gelu_a))));
}

/* Between the steps: a factor, and e^-v or 1 + e^-v, infinite where the inverse is too small. */
typedef struct gelu_step {
    lanes factor, e;
} gelu_step;

/* As EACH_LANES, in two steps: begin, of i and m, makes now, which end takes with at and m. The
 * next lanes begin before the last end: the shorter a chain of operations that wait for each other,
 * the more of them does the processor work on at once. */
#define EACH_GELU(n, begin, end)                                                                   \
    {                                                                                              \
        int64_t i = 0, at = 0;                                                                     \
        if (LANES <= (n)) {                                                                        \
            enum { m = LANES };                                                                    \
            gelu_step now = begin;                                                                 \
            for (i = LANES; i + LANES <= (n); i += LANES) {                                        \
                const gelu_step next = begin;                                                      \
                end;                                                                               \
                now = next;                                                                        \
                at = i;                                                                            \
            }                                                                                      \
            end;                                                                                   \
            at = i;                                                                                \
        }                                                                                          \
        if (i < (n)) {                                                                             \
            const int64_t m = (n)-i;                                                               \
            const gelu_step now = begin;                                                           \
            end;                                                                                   \
        }                                                                                          \
    }

LANES_INLINE gelu_step gelu_begin(lanes x) {
    lanes power = lanes_min(lanes_set(128.0f), gelu_log2(x, lanes_mul(x, x)));
    lanes e = lanes_exp2_inside(lanes_max(lanes_set(-126.0f), power));
    return (gelu_step){x, lanes_add(lanes_set(1.0f), e)};
}

/* An infinity of the wrong sign becomes a NaN, not a 0 that would hide it. */
LANES_INLINE void gelu_row(row_type type, int64_t n, const void *x, void *out) {
    EACH_GELU(n, gelu_begin(get(type, x, i, m)),
              put(type, out, at, m, lanes_div(now.factor, now.e)))
}

void ROW(gelu)(int64_t n, const void *x, void *out) {
    gelu_row(F32, n, x, out);
}

void ROW(gelu_bf16)(int64_t n, const void *x, void *out) {
    gelu_row(BF16, n, x, out);
}

/* 1 - erf(z) of z = |x| / sqrt(2) is t (a1 + t (a2 + ...)) e^-(z z), t = 1 / (1 + p z), to 1.5e-7
 * (Hastings 1955; Abramowitz and Stegun 7.1.26). Half of it is the distribution at -|x|. */
LANES_INLINE lanes gelu_erf_lanes(lanes x) {
    const lanes one = lanes_set(1.0f), below = minus_abs(x);
    const lanes e = exp_below(lanes_mul(lanes_mul(x, x), lanes_set(-0.5f)));
    const lanes t =
        lanes_div(one, lanes_fma(below, lanes_set(-0.23164188f), one)); /* p / sqrt(2) */
    lanes p = lanes_fma(t, lanes_set(1.061405429f), lanes_set(-1.453152027f));
    p = lanes_fma(t, p, lanes_set(1.421413741f));
    p = lanes_fma(t, p, lanes_set(-0.284496736f));
    p = lanes_mul(t, lanes_fma(t, p, lanes_set(0.254829592f)));
    const lanes low = lanes_mul(lanes_set(0.5f), lanes_mul(p, e));
    return lanes_mul(x, lanes_select_sign(x, low, lanes_sub(one, low)));
}

void ROW(gelu_erf)(int64_t n, const void *x,
                   void *out){EACH_LANES(n, put(F32, out, i, m, gelu_erf_lanes(get(F32, x, i, m))))}

/* A NaN stays one: max returns its second operand. */
LANES_INLINE lanes relu_squared_lanes(lanes x) {
    const lanes above = lanes_max(lanes_zero(), x);
    return lanes_mul(above, above);
}

void ROW(relu_squared)(int64_t n, const void *x, void *out) {
    EACH_LANES(n, put(F32, out, i, m, relu_squared_lanes(get(F32, x, i, m))))
}

void ROW(relu_mul)(int64_t n, const void *gate, const void *up, void *out){
    EACH_LANES(n,
               put(F32, out, i, m,
                   lanes_mul(lanes_max(lanes_zero(), get(F32, gate, i, m)), get(F32, up, i, m))))}

/* e^x - 1 - x of x up to 0: near 0 by the series, whose error is at most 2^-24 of it above -0.4. */
LANES_INLINE lanes exp_rest(lanes x) {
    const lanes one = lanes_set(1.0f), half = lanes_mul(lanes_set(0.5f), lanes_mul(x, x));
    lanes near = lanes_fma(x, lanes_set(1.0f / 7), one);
    near = lanes_fma(lanes_mul(x, near), lanes_set(1.0f / 6), one);
    near = lanes_fma(lanes_mul(x, near), lanes_set(1.0f / 5), one);
    near = lanes_fma(lanes_mul(x, near), lanes_set(1.0f / 4), one);
    near = lanes_fma(lanes_mul(x, near), lanes_set(1.0f / 3), one);
    const lanes far = lanes_sub(lanes_sub(exp_below(x), one), x);
    return lanes_select_sign(lanes_add(x, lanes_set(0.4f)), far, lanes_mul(half, near));
}

/* e^y - 1 - x of y = min(x, e) is the rest of y, and y - x. */
LANES_INLINE lanes xielu_lanes(lanes x, const mnem_xielu *how) {
    const lanes y = lanes_min(lanes_set(how->e), x), straight = lanes_mul(lanes_set(how->c), x);
    const lanes below = lanes_add(exp_rest(y), lanes_sub(y, x));
    const lanes above = lanes_mul(lanes_set(how->a), x);
    return lanes_add(
        straight, lanes_select_sign(x, lanes_mul(lanes_set(how->b), below), lanes_mul(above, x)));
}

void ROW(xielu)(int64_t n, const void *x, const mnem_xielu *how,
                void *out){EACH_LANES(n, put(F32, out, i, m, xielu_lanes(get(F32, x, i, m), how)))}

LANES_INLINE
    void gelu_mul_row(row_type type, int64_t n, const void *gate, const void *up, void *out) {
    EACH_GELU(n, gelu_begin(get(type, gate, i, m)),
              put(type, out, at, m, lanes_mul(lanes_div(now.factor, now.e), get(type, up, at, m))))
}

void ROW(gelu_mul)(int64_t n, const void *gate, const void *up, void *out) {
    gelu_mul_row(F32, n, gate, up, out);
}

void ROW(gelu_mul_bf16)(int64_t n, const void *gate, const void *up, void *out) {
    gelu_mul_row(BF16, n, gate, up, out);
}

void ROW(soft_cap)(int64_t n, const void *x, float cap, void *out){
    EACH_LANES(n, put(F32, out, i, m, lanes_soft_cap(get(F32, x, i, m), cap)))}

/* x v' and e^-v. Where the term isn't 0 in floats: x is held there, so that its square stays finite
 * and e^-v is 2^-126 at least. The sum makes a NaN of an infinity. */
LANES_INLINE gelu_step gelu_slope_begin(lanes x) {
    const lanes near = lanes_max(lanes_set(-13.0f), lanes_min(lanes_set(10.0f), x));
    const lanes square = lanes_mul(near, near), power = gelu_log2(near, square);
    lanes slope = lanes_fma(square, lanes_set((float)(3 * gelu_b)), lanes_set((float)gelu_a));
    slope = lanes_fma(lanes_zero(), x, lanes_mul(near, slope));
    return (gelu_step){slope, lanes_exp2_inside(lanes_min(lanes_set(128.0f), power))};
}

/* 1 - s is e s, without cancellation, or 1 where e is infinite. */
LANES_INLINE lanes gelu_slope_end(gelu_step g) {
    const lanes one = lanes_set(1.0f), s = lanes_div(one, lanes_add(one, g.e));
    return lanes_fma(g.factor, lanes_mul(s, lanes_min(lanes_mul(g.e, s), one)), s);
}

LANES_INLINE void gelu_grad_part(row_type type, gelu_step now, const void *dy, void *dx, int64_t at,
                                 int64_t m) {
    const lanes slope = gelu_slope_end(now);
    put(type, dx, at, m, lanes_mul(slope, get(type, dy, at, m)));
}

void ROW(gelu_grad)(int64_t n, const void *x, const void *dy, void *dx) {
    EACH_GELU(n, gelu_slope_begin(get(F32, x, i, m)), gelu_grad_part(F32, now, dy, dx, at, m))
}

void ROW(gelu_grad_bf16)(int64_t n, const void *x, const void *dy, void *dx){
    EACH_GELU(n, gelu_slope_begin(get(BF16, x, i, m)), gelu_grad_part(BF16, now, dy, dx, at, m))}

LANES_INLINE void silu_mul_grad_part(row_type type, const void *const in[3], int64_t i, void *dgate,
                                     void *dup, int64_t m) {
    lanes g = get(type, in[0], i, m), up = get(type, in[1], i, m), d = get(type, in[2], i, m);
    const sigmoids both = sigmoids_of(exp_below(minus_abs(g)));
    lanes s = lanes_select_sign(g, both.low, both.high);
    lanes rest = lanes_select_sign(g, both.high, both.low);
    lanes slope = lanes_fma(lanes_mul(g, rest), s, s);
    put(type, dgate, i, m, lanes_mul(lanes_mul(d, up), slope));
    put(type, dup, i, m, lanes_mul(d, lanes_mul(g, s)));
}

void ROW(silu_mul_grad)(int64_t n, const void *const in[3], void *dgate, void *dup) {
    EACH_LANES(n, silu_mul_grad_part(F32, in, i, dgate, dup, m))
}

void ROW(silu_mul_grad_bf16)(int64_t n, const void *const in[3], void *dgate, void *dup) {
    EACH_LANES(n, silu_mul_grad_part(BF16, in, i, dgate, dup, m))
}

/* ---- weights of scores ---- */

/* The largest of a row; any NaN in it makes all of the softmax NaN, by the sum. */
static float largest(int64_t n, const float *x) {
    float top = x[0];
    for (int64_t i = 1; i < n; i++) top = x[i] > top ? x[i] : top;
    return top;
}

void ROW(softmax)(int64_t n, const float *x, float *out) {
    const lanes top = lanes_set(largest(n, x));
    lanes sum = lanes_zero();
    EACH_LANES(n, {
        const lanes e = exp_below(lanes_sub(lanes_load_part(x + i, m), top));
        lanes_store_part(out + i, e, m);
        sum = lanes_add(sum, lanes_load_part(out + i, m));
    })
    const lanes all = lanes_set(lanes_reduce_add(sum));
    EACH_LANES(n, lanes_store_part(out + i, lanes_div(lanes_load_part(out + i, m), all), m))
}

LANES_INLINE lanes sigmoid_lanes(lanes x) {
    const sigmoids both = sigmoids_of(exp_below(minus_abs(x)));
    return lanes_select_sign(x, both.low, both.high);
}

void ROW(sigmoid)(int64_t n, const float *x, float *out) {
    EACH_LANES(n, lanes_store_part(out + i, sigmoid_lanes(lanes_load_part(x + i, m)), m))
}

void ROW(sigmoid_mul)(int64_t n, const void *gate, const void *up, void *out) {
    EACH_LANES(
        n, put(F32, out, i, m, lanes_mul(get(F32, up, i, m), sigmoid_lanes(get(F32, gate, i, m)))))
}

void ROW(softplus_mul)(int64_t n, const void *gate, const void *up, void *out) {
    EACH_LANES(
        n, put(F32, out, i, m, lanes_mul(get(F32, up, i, m), lanes_softplus(get(F32, gate, i, m)))))
}
