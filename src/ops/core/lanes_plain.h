/* lanes_plain.h: 16 floats in an array, in C; included by lanes.h. lanes_avx512.h describes the
 * functions. */
#ifndef MNEM_SRC_OPS_CORE_LANES_PLAIN_H
#define MNEM_SRC_OPS_CORE_LANES_PLAIN_H

typedef struct lanes {
    float v[LANES];
} lanes;
typedef struct lanes_int {
    int32_t v[LANES];
} lanes_int;

#define LANES_EACH_OF(type, expression)                                                            \
    type out;                                                                                      \
    for (int i = 0; i < LANES; i++) out.v[i] = (expression);                                       \
    return out
#define LANES_EACH(expression) LANES_EACH_OF(lanes, expression)
LANES_INLINE lanes lanes_set(float x) {
    LANES_EACH(x);
}
LANES_INLINE lanes lanes_zero(void) {
    return lanes_set(0.0f);
}
LANES_INLINE lanes lanes_load(const float *p) {
    LANES_EACH(p[i]);
}
LANES_INLINE void lanes_store(float *p, lanes x) {
    memcpy(p, x.v, sizeof x.v);
}
LANES_INLINE lanes lanes_load_part(const float *p, int64_t n) {
    LANES_EACH(i < n ? p[i] : 0.0f);
}
LANES_INLINE void lanes_store_part(float *p, lanes x, int64_t n) {
    memcpy(p, x.v, (size_t)n * sizeof *p);
}
LANES_INLINE lanes lanes_add(lanes a, lanes b) {
    LANES_EACH(a.v[i] + b.v[i]);
}
LANES_INLINE lanes lanes_sub(lanes a, lanes b) {
    LANES_EACH(a.v[i] - b.v[i]);
}
LANES_INLINE lanes lanes_mul(lanes a, lanes b) {
    LANES_EACH(a.v[i] * b.v[i]);
}
LANES_INLINE lanes lanes_div(lanes a, lanes b) {
    LANES_EACH(a.v[i] / b.v[i]);
}
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) {
    LANES_EACH(fmaf(a.v[i], b.v[i], c.v[i]));
}
LANES_INLINE lanes lanes_min(lanes a, lanes b) {
    LANES_EACH(a.v[i] < b.v[i] ? a.v[i] : b.v[i]);
}
LANES_INLINE lanes lanes_max(lanes a, lanes b) {
    LANES_EACH(a.v[i] > b.v[i] ? a.v[i] : b.v[i]);
}
LANES_INLINE lanes lanes_below(lanes x, int64_t n, lanes other) {
    LANES_EACH(i < n ? x.v[i] : other.v[i]);
}
LANES_INLINE lanes lanes_load_half(const uint16_t *p) {
    LANES_EACH(mnem__half_float(p[i]));
}
LANES_INLINE void lanes_store_half(uint16_t *p, lanes x) {
    for (int i = 0; i < LANES; i++) p[i] = mnem__float_half(x.v[i]);
}
LANES_INLINE lanes lanes_load_bf16(const uint16_t *p) {
    LANES_EACH(mnem__bf16_float(p[i]));
}
LANES_INLINE void lanes_store_bf16(uint16_t *p, lanes x) {
    for (int i = 0; i < LANES; i++) p[i] = mnem__float_bf16(x.v[i]);
}
LANES_INLINE lanes lanes_load_bf16_any(const uint16_t *p) {
    return lanes_load_bf16(p);
}
LANES_INLINE void lanes_store_bf16_any(uint16_t *p, lanes x) {
    lanes_store_bf16(p, x);
}
LANES_INLINE lanes lanes_select_sign(lanes sign, lanes negative, lanes positive) {
    LANES_EACH(mnem__float_bits(sign.v[i]) >> 31 ? negative.v[i] : positive.v[i]);
}
LANES_INLINE lanes lanes_load_int8(const int8_t *p) {
    LANES_EACH((float)p[i]);
}
LANES_INLINE void lanes_store_int16(int16_t *p, lanes x) {
    for (int i = 0; i < LANES; i++) p[i] = (int16_t)((x.v[i] + 0x1.8p23f) - 0x1.8p23f);
}
LANES_INLINE void lanes_store_int8(int8_t *p, lanes x) {
    for (int i = 0; i < LANES; i++) p[i] = (int8_t)x.v[i];
}
LANES_INLINE float lanes_reduce_max(lanes x) {
    float m = x.v[0];
    for (int i = 1; i < LANES; i++) m = m > x.v[i] ? m : x.v[i];
    return m;
}
LANES_INLINE lanes lanes_exp2_scale(lanes p, lanes shifted, lanes x, float least) {
    LANES_EACH(x.v[i] < least ? 0.0f
                              : mnem__bits_float(mnem__float_bits(p.v[i]) +
                                                 (mnem__float_bits(shifted.v[i]) << 23)));
}
LANES_INLINE lanes lanes_times_power(lanes p, lanes shifted) {
    LANES_EACH(mnem__bits_float(mnem__float_bits(p.v[i]) + (mnem__float_bits(shifted.v[i]) << 23)));
}
LANES_INLINE void lanes_fold8(lanes x, float out[8]) {
    for (int i = 0; i < 8; i++) out[i] = x.v[i] + x.v[i + 8];
}
LANES_INLINE lanes lanes_swap_pairs(lanes x) {
    LANES_EACH(x.v[i ^ 1]);
}
LANES_INLINE lanes lanes_load_twice(const float *p) {
    LANES_EACH(p[i / 2]);
}

LANES_INLINE lanes_int lanes_dot4_start(int32_t query_sum) {
    (void)query_sum; /* the 128 is taken off the keys */
    return (lanes_int){{0}};
}
/* Keeps the bytes packed; dot4 unpacks them. */
LANES_INLINE lanes_int lanes_load_bytes(const uint8_t *p) {
    lanes_int out;
    memcpy(out.v, p, sizeof out.v);
    return out;
}
LANES_INLINE lanes_int lanes_dot4(lanes_int sum, lanes_int keys, int32_t query) {
    uint8_t key[4 * LANES];
    int8_t q[4];
    memcpy(key, keys.v, sizeof key);
    memcpy(q, &query, sizeof q);
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < 4; j++) sum.v[i] += (key[4 * i + j] - 128) * q[j];
    return sum;
}
LANES_INLINE lanes_int lanes_dot2_start(void) {
    return (lanes_int){{0}};
}
LANES_INLINE lanes_int lanes_load_pairs(const int8_t *p) {
    lanes_int out;
    for (int i = 0; i < LANES; i++) {
        const int16_t pair[2] = {p[2 * i], p[2 * i + 1]};
        memcpy(&out.v[i], pair, sizeof pair);
    }
    return out;
}
LANES_INLINE lanes_int lanes_load_words(const float *p) {
    lanes_int out;
    memcpy(out.v, p, sizeof out.v);
    return out;
}
LANES_INLINE lanes_int lanes_dot2(lanes_int sum, lanes_int pairs, int32_t words) {
    int16_t w[2], pair[2];
    memcpy(w, &words, sizeof w);
    for (int i = 0; i < LANES; i++) {
        memcpy(pair, &pairs.v[i], sizeof pair);
        sum.v[i] += pair[0] * w[0] + pair[1] * w[1];
    }
    return sum;
}
LANES_INLINE lanes lanes_from_int(lanes_int x) {
    LANES_EACH((float)x.v[i]);
}

#endif
