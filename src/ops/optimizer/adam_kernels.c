/* adam_kernels.c: the kernels of AdamW over lanes, compiled once for each level.
 *
 * 8-bit moments. A code is the top bits of a float, counted from the top bits of a smallest one
 * that the block agreed on: encoding and decoding are a shift and an addition, and a step of the
 * code is a step in the logarithm, in straight pieces.
 *
 *     float:  s eeeeeeee mmmmmmmmmmmmmmmmmmmmmmm
 *               `--------v-------'                 keep these (shift), minus the block's base
 *
 * First moment m, sign and 7 bits: y = |m| + c, where c is the largest |m| of the block / 239. y
 * spans 8 octaves of 16 steps: relative steps of 1/16 to 1/32 where |m| is large, even ones of
 * c / 16 around 0 (the segments of telephone coding, G.711, of 8 bits). The base is c itself.
 * Second moment v, 8 bits: 0 is 0, 1 to 255 are the top bits of v. The block takes the finest of
 * 64, 32, 16 or 8 steps an octave whose 255 codes reach from its largest v to its smallest; what
 * is below even 32 octaves (2^-32 of the largest) takes code 1. So v never becomes 0 beside an m
 * that isn't, which would throw the weight far off (Li, Chen, Zhu: "Memory efficient optimizers
 * with 4-bit states", 2023), and even blocks have steps of 1 %.
 * Rounding is stochastic: random bits are added below the cut, so that a code's expectation is the
 * number (a float's bits are straight between two codes), also when (1 - beta2) g^2 is much less
 * than a step, where rounding to nearest would stand still (the net of test_optimizer_8bit.c after
 * 2000 steps: 0.1 % below the loss of f32 moments; rounded to nearest, 33 % above it). The bits are
 * a function of (seed, step, block, place). The weight is updated by the moments before they are
 * rounded.
 *
 * Against Dettmers et al., "8-bit optimizers via block-wise quantization" (2022), whose code is a
 * table of fixed range that is searched and rounded to nearest.
 *
 * Bounds: g within 2^63, so v <= 2^126; moments below 2^-120 are 0, so that none is subnormal.
 * Cost: 5.0 cycles a number in 8 bits with AVX2; memory is the limit in f32. */
#include "base/random.h"
#include "ops/optimizer/adam.h"
#include "ops/optimizer/int_lanes.h"

enum {
    BLOCK = MNEM__MOMENT_BLOCK,
    FIRST_SHIFT = 19,   /* 4 bits of the mantissa */
    SECOND_SHIFT = 17,  /* 6 bits, the finest; 3 at SECOND_SHIFT + 3 */
    SECOND_BASE = 14,   /* bits of the base; the 2 above are the shift */
    SMALLEST = 7 << 23, /* the bits of 2^-120 */
    NO_SIGN = 0x7fffffff
};

typedef struct moments {
    lanes m, v;
} moments;

/* In C only, what is used twice is a function: sanitizers take minutes over all of it in line. */
#if MNEM__LANES == 0
#define BODY_INLINE static
#else
#define BODY_INLINE LANES_INLINE
#endif

/* ---- the update ---- */

BODY_INLINE lanes without_tiny(lanes x) {
    const lanes_int bits = lanes_bits(x);
    return lanes_of_bits(int_where_above(bits, int_and(bits, int_set(NO_SIGN)), SMALLEST - 1));
}

BODY_INLINE moments next_moments(const mnem__adam *a, lanes gradient, moments old) {
    const lanes most = lanes_set(0x1p63f);
    lanes g = lanes_min(lanes_mul(gradient, lanes_set(a->factor)), most);
    g = lanes_max(g, lanes_sub(lanes_zero(), most));
    const lanes m = lanes_fma(lanes_set(a->beta1), old.m, lanes_mul(lanes_set(a->fresh1), g));
    const lanes square = lanes_mul(lanes_mul(lanes_set(a->fresh2), g), g);
    const lanes v = lanes_fma(lanes_set(a->beta2), old.v, square);
    return (moments){without_tiny(m), without_tiny(v)};
}

BODY_INLINE lanes next_weight(const mnem__adam *a, lanes w, moments now) {
    const lanes root = lanes_fma(lanes_sqrt(now.v), lanes_set(a->root), lanes_set(a->epsilon));
    const lanes way = lanes_div(now.m, root);
    return lanes_fma(lanes_set(-a->rate), way, lanes_mul(lanes_set(a->keep), w));
}

static void step_f32(const mnem__adam *adam, int64_t n, float *w, float *g, float *m, float *v) {
    const mnem__adam a = *adam; /* a copy that no store can change */
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const moments old = {lanes_load(m + i), lanes_load(v + i)};
        const moments now = next_moments(&a, lanes_load(g + i), old);
        lanes_store(w + i, next_weight(&a, lanes_load(w + i), now));
        lanes_store(m + i, now.m);
        lanes_store(v + i, now.v);
        if (a.zero_gradients) lanes_store(g + i, lanes_zero());
    }
    const int64_t rest = n - i;
    if (rest == 0) return;
    const moments old = {lanes_load_part(m + i, rest), lanes_load_part(v + i, rest)};
    const moments now = next_moments(&a, lanes_load_part(g + i, rest), old);
    lanes_store_part(w + i, next_weight(&a, lanes_load_part(w + i, rest), now), rest);
    lanes_store_part(m + i, now.m, rest);
    lanes_store_part(v + i, now.v, rest);
    if (a.zero_gradients) lanes_store_part(g + i, lanes_zero(), rest);
}

/* ---- codes ---- */

/* What the codes of one block are relative to, taken apart. */
typedef struct ranges {
    int32_t first_base;
    lanes first_low; /* c */
    int32_t second_base, second_shift;
} ranges;

LANES_INLINE ranges ranges_of(const mnem__moment_range *r) {
    ranges out;
    out.first_base = r->first;
    out.first_low = lanes_of_bits(int_set((int32_t)((uint32_t)r->first << FIRST_SHIFT)));
    out.second_base = r->second & ((1 << SECOND_BASE) - 1);
    out.second_shift = SECOND_SHIFT + (r->second >> SECOND_BASE);
    return out;
}

BODY_INLINE moments decode(const ranges *r, const uint8_t *first, const uint8_t *second) {
    const lanes_int code = int_load_u8(first), size = int_and(code, int_set(127));
    const lanes_int sign = int_left(int_and(code, int_set(128)), 24);
    const lanes y = lanes_of_bits(int_left(int_add(size, int_set(r->first_base)), FIRST_SHIFT));
    const lanes_int m = int_xor(lanes_bits(lanes_sub(y, r->first_low)), sign);
    const lanes_int code2 = int_load_u8(second);
    const lanes_int v = int_left(int_add(code2, int_set(r->second_base)), r->second_shift);
    return (moments){lanes_of_bits(m), lanes_of_bits(int_where_above(v, code2, 0))};
}

/* Random bits below the cut; see above. Each is as good as 16 bits. */
BODY_INLINE void encode(const ranges *r, moments now, lanes_int random, uint8_t *first,
                        uint8_t *second) {
    const lanes_int low16 = int_set(0xffff);
    const lanes_int bits = lanes_bits(now.m), size = int_and(bits, int_set(NO_SIGN));
    const lanes_int y = lanes_bits(lanes_add(lanes_of_bits(size), r->first_low));
    lanes_int dither = int_left(int_and(random, low16), FIRST_SHIFT - 16);
    lanes_int code = int_right(int_add(y, dither), FIRST_SHIFT);
    code = int_min(int_sub(code, int_set(r->first_base)), int_set(127));
    const lanes_int sign = int_and(int_right(bits, 24), int_set(128));
    int_store_u8(first, int_xor(code, sign));

    const lanes_int v = lanes_bits(now.v);
    dither = int_left(int_right(random, 16), r->second_shift - 16);
    code = int_right(int_add(v, dither), r->second_shift);
    code = int_sub(code, int_set(r->second_base));
    code = int_max(int_min(code, int_set(255)), int_set(1));
    int_store_u8(second, int_where_above(code, v, 0));
}

static void decode_block(const mnem__moment_block *block, const mnem__moment_range *range, float *m,
                         float *v) {
    const ranges r = ranges_of(range);
    for (int i = 0; i < BLOCK; i += LANES) {
        const moments at = decode(&r, block->first + i, block->second + i);
        lanes_store(m + i, at.m);
        lanes_store(v + i, at.v);
    }
}

/* ---- the range of a block ---- */

/* Of one block: bits of the largest |m|, of the largest v, and of the smallest v above 0 less 1
 * (so that 0 - 1, without its sign, is the largest number of all). */
typedef struct extremes {
    lanes_int first_most, second_most, second_least;
} extremes;

BODY_INLINE void extremes_add(extremes *e, moments now) {
    const lanes_int v = lanes_bits(now.v), no_sign = int_set(NO_SIGN);
    e->first_most = int_max(e->first_most, int_and(lanes_bits(now.m), no_sign));
    e->second_most = int_max(e->second_most, v);
    e->second_least = int_min(e->second_least, int_and(int_sub(v, int_set(1)), no_sign));
}

LANES_INLINE int32_t most_of(lanes_int x) {
    int32_t part[LANES], most = 0;
    int_store(part, x);
    for (int i = 0; i < LANES; i++) most = part[i] > most ? part[i] : most;
    return most;
}

LANES_INLINE int32_t least_of(lanes_int x) {
    return NO_SIGN - most_of(int_sub(int_set(NO_SIGN), x));
}

/* c, rounded up to a code. With c >= most / 239 the code of most + c is at most 127 above that of
 * c: 127 steps lead to 240.9 c at least (c = 1.0625 2^k; 248 c for c = 2^k). */
static uint16_t first_range(int32_t most_bits) {
    const float low = mnem__bits_float((uint32_t)most_bits) * (1.0f / 239.0f);
    const uint32_t round_up = (1u << FIRST_SHIFT) - 1;
    return (uint16_t)((mnem__float_bits(low) + round_up) >> FIRST_SHIFT);
}

/* The finest steps with which code 255 is the largest (or next to it) and code 1 the smallest. */
static uint16_t second_range(int32_t most, int32_t least) {
    int32_t base = 0, shift = SECOND_SHIFT;
    for (;; shift++) {
        const int32_t top = (most >> shift) + ((most & ((1 << shift) - 1)) != 0);
        base = top > 255 ? top - 255 : 0;
        if ((least >> shift) > base || shift == SECOND_SHIFT + 3) break;
    }
    return (uint16_t)(base | (shift - SECOND_SHIFT) << SECOND_BASE);
}

static mnem__moment_range range_of(const extremes *e) {
    const int32_t most = most_of(e->second_most);
    mnem__moment_range r = {first_range(most_of(e->first_most)), 0};
    if (most > 0) r.second = second_range(most, least_of(e->second_least) + 1);
    return r;
}

/* ---- one block ---- */

/* 16 different states of xorshift (Marsaglia 2003) from one random number, by the finalizer of a
 * hash: multiply and fold twice. */
BODY_INLINE lanes_int random_start(const mnem__adam *a, uint64_t number) {
    static const int32_t lane[LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const uint32_t word = mnem__philox(a->seed, number, a->step).v[0];
    lanes_int x = int_mul(int_load(lane), int_set((int32_t)0x9e3779b9));
    x = int_add(x, int_set((int32_t)word));
    x = int_mul(int_xor(x, int_right(x, 16)), int_set(0x21f0aaad));
    x = int_mul(int_xor(x, int_right(x, 15)), int_set(0x735a2d97));
    return int_xor(x, int_right(x, 15));
}

BODY_INLINE lanes_int random_next(lanes_int x) {
    x = int_xor(x, int_left(x, 13));
    x = int_xor(x, int_right(x, 17));
    return int_xor(x, int_left(x, 5));
}

/* Updates the weights and leaves the new moments, unrounded, in m and v. Lanes past n are 0. */
BODY_INLINE extremes update_block(const mnem__adam *a, int64_t n, float *w, float *g,
                                  const mnem__moment_block *block, const ranges *r, float *m,
                                  float *v) {
    extremes e = {int_set(0), int_set(0), int_set(NO_SIGN)};
    for (int64_t i = 0; i < n; i += LANES) {
        const int64_t part = n - i < LANES ? n - i : LANES;
        const moments old = decode(r, block->first + i, block->second + i);
        const moments now = next_moments(a, lanes_load_part(g + i, part), old);
        const lanes weight = next_weight(a, lanes_load_part(w + i, part), now);
        lanes_store_part(w + i, weight, part);
        if (a->zero_gradients) lanes_store_part(g + i, lanes_zero(), part);
        extremes_add(&e, now);
        lanes_store(m + i, now.m);
        lanes_store(v + i, now.v);
    }
    return e;
}

static void step_8bit(const mnem__adam *adam, int64_t n, uint64_t number, float *w, float *g,
                      mnem__moment_block *block, mnem__moment_range *range) {
    const mnem__adam a = *adam;
    _Alignas(64) float m[BLOCK], v[BLOCK];
    ranges r = ranges_of(range);
    const extremes e = n == BLOCK ? update_block(&a, BLOCK, w, g, block, &r, m, v)
                                  : update_block(&a, n, w, g, block, &r, m, v);
    *range = range_of(&e);
    r = ranges_of(range);
    lanes_int random = random_start(&a, number);
    for (int64_t i = 0; i < n; i += LANES) {
        random = random_next(random);
        encode(&r, (moments){lanes_load(m + i), lanes_load(v + i)}, random, block->first + i,
               block->second + i);
    }
}

/* ---- the norm ---- */

/* The square of an f32 is exact in f64, so that whether it is added by fma makes no difference. */
static void add_squares(int64_t n, const float *g, double sums[16]) {
    double sum[LANES];
    memcpy(sum, sums, sizeof sum);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) sum[j] += (double)g[i + j] * (double)g[i + j];
    for (int j = 0; i + j < n; j++) sum[j] += (double)g[i + j] * (double)g[i + j];
    memcpy(sums, sum, sizeof sum);
}

const mnem__adam_kernels MNEM__AT_LEVEL(mnem__adam_kernels) = {
    .step_f32 = step_f32,
    .step_8bit = step_8bit,
    .add_squares = add_squares,
    .decode = decode_block,
};
