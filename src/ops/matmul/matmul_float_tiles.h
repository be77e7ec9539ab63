/* matmul_float_tiles.h: MATMUL of F32, F16 and BF16 weights for one vector width; included by one
 * file per kind of multiply-add, which first defines
 *   vector, LANES (8 or 16), SPLIT (vectors per group: 16 / LANES), TILE (tokens), FLIGHT (groups)
 *   zero(), splat(float), mul_add(a, b, c)
 *   weight(type, group, i, parity, part): 16 / SPLIT rows' element i
 *   finish(job, group, part, token, vector)
 *
 * Elements of the input are words of 4 bytes: an f32, or a pair of bf16 for a multiply-add of
 * pairs, whose weights then look like F32 to this code.
 *
 * An output is one chain of fma over k. Several chains side by side hide its latency: for many
 * tokens, TILE of them by two vectors; for one token, FLIGHT groups at once, which are then bound
 * by reading weights. */
#include "ops/matmul/matmul_kernel.h"

enum { FETCH_AHEAD = 2048 };

#define INLINE static inline __attribute__((always_inline))

/* Element i of all tokens and vectors. Two vectors share each broadcast. */
INLINE void step(mnem_type type, const uint8_t *const *groups, const uint8_t *const *input,
                 int64_t stride, int64_t i, const int parity, const int vectors, const int tokens,
                 vector *acc) {
    vector w[FLIGHT * SPLIT];
    MNEM__UNROLL
    for (int v = 0; v < vectors; v++) w[v] = weight(type, groups[v / SPLIT], i, parity, v % SPLIT);
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++) {
        float x;
        __builtin_memcpy(&x, input[t / 4] + t % 4 * stride + 4 * i, 4);
        vector all = splat(x);
        MNEM__UNROLL
        for (int v = 0; v < vectors; v++)
            acc[t * vectors + v] = mul_add(w[v], all, acc[t * vectors + v]);
    }
}

/* Elements i and i + 1, some time before they are read. */
INLINE void fetch_ahead(mnem_type type, const uint8_t *group, int64_t i) {
    const uint8_t *at = group + FETCH_AHEAD + i * (type == MNEM_TYPE_F32 ? 64 : 32);
    __builtin_prefetch(at);
    if (type == MNEM_TYPE_F32) __builtin_prefetch(at + 64);
}

/* tokens by vectors (constants) outputs. */
INLINE void tile(const mnem__matmul_job *job, mnem_type type, int64_t group, int64_t token,
                 const int vectors, const int tokens) {
    const uint8_t *groups[FLIGHT], *input[(TILE + 3) / 4];
    int64_t stride = job->input_stride;
    vector acc[2 * TILE + FLIGHT * SPLIT];
    MNEM__UNROLL
    for (int i = 0; i < vectors * tokens; i++) acc[i] = zero();
    MNEM__UNROLL
    for (int v = 0; v < vectors; v += SPLIT)
        groups[v / SPLIT] = job->weights + (group + v / SPLIT) * job->group_bytes;
    MNEM__UNROLL
    for (int t = 0; t < tokens; t += 4) input[t / 4] = job->input + (token + t) * stride;
    int64_t i = 0;
    for (; i + 2 <= job->k; i += 2) {
        step(type, groups, input, stride, i, 0, vectors, tokens, acc);
        step(type, groups, input, stride, i + 1, 1, vectors, tokens, acc);
        MNEM__UNROLL
        for (int v = 0; v < vectors; v += SPLIT) fetch_ahead(type, groups[v / SPLIT], i);
        __asm__("" : "+r"(stride)); /* keeps the compiler from keeping a pointer per token */
    }
    if (i < job->k) step(type, groups, input, stride, i, 0, vectors, tokens, acc);
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++) MNEM__UNROLL
    for (int v = 0; v < vectors; v++)
        finish(job, group + v / SPLIT, v % SPLIT, token + t, acc[t * vectors + v]);
}

/* Tokens [t, end) of two vectors (or of one group). */
INLINE void tokens_of_groups(const mnem__matmul_job *job, mnem_type type, int64_t group, int64_t t,
                             int64_t end, const int vectors) {
    for (; end - t >= TILE; t += TILE) tile(job, type, group, t, vectors, TILE);
    for (; end - t >= 4 && TILE > 4; t += 4) tile(job, type, group, t, vectors, 4);
    for (; end - t >= 2; t += 2) tile(job, type, group, t, vectors, 2);
    for (; end - t >= 1; t += 1) tile(job, type, group, t, vectors, 1);
}

INLINE void compute(const mnem__matmul_job *job, mnem_type type) {
    const int pair = 2 / SPLIT; /* groups of two vectors */
    int64_t groups = mnem__matmul_groups(job), g = 0;
    for (; job->tokens == 1 && groups - g >= FLIGHT; g += FLIGHT)
        tile(job, type, g, 0, FLIGHT * SPLIT, 1);
    const int64_t step_tokens = mnem__token_step(job, TILE);
    for (int64_t t = 0; t < job->tokens; t += step_tokens) {
        int64_t end = job->tokens - t < step_tokens ? job->tokens : t + step_tokens, h = g;
        for (; groups - h >= pair; h += pair) tokens_of_groups(job, type, h, t, end, 2);
        for (; groups - h >= 1; h++) tokens_of_groups(job, type, h, t, end, SPLIT);
    }
}

/* Defines a table of kernels that multiply f32. */
#define FLOAT_KERNELS(table)                                                                       \
    static void compute_f32(const mnem__matmul_job *job) {                                         \
        compute(job, MNEM_TYPE_F32);                                                               \
    }                                                                                              \
    static void compute_f16(const mnem__matmul_job *job) {                                         \
        compute(job, MNEM_TYPE_F16);                                                               \
    }                                                                                              \
    static void compute_bf16(const mnem__matmul_job *job) {                                        \
        compute(job, MNEM_TYPE_BF16);                                                              \
    }                                                                                              \
    const mnem__matmul_kernel table[3] = {{.type = MNEM_TYPE_F32, .compute = compute_f32},         \
                                          {.type = MNEM_TYPE_F16, .compute = compute_f16},         \
                                          {.type = MNEM_TYPE_BF16, .compute = compute_bf16}}

/* Defines the function that multiplies pairs of bf16. */
#define PAIR_KERNEL(name)                                                                          \
    static void name(const mnem__matmul_job *job) {                                                \
        mnem__matmul_job pairs = *job;                                                             \
        pairs.k = (job->k + 1) / 2;                                                                \
        compute(&pairs, MNEM_TYPE_F32);                                                            \
    }
