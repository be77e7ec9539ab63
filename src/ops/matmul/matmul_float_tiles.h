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
 * by reading weights. Groups side by side are then far apart, so that each is a long stream, which
 * the processor fetches ahead by itself: streams as short as a group cost a quarter of the rate on
 * a Zen 4, and so does asking for their lines here. */
#include "ops/matmul/matmul_kernel.h"

enum {
    PAIR = 2 / SPLIT, /* groups of two vectors */
    FETCH_AHEAD = 512,
};

#define INLINE static inline __attribute__((always_inline))

/* Groups side by side: number v is first + v * apart, where that is one of count. */
typedef struct side_by_side {
    int64_t first, apart, count;
} side_by_side;

INLINE bool is_there(const side_by_side *s, int v) {
    return s->first + v * s->apart < s->count;
}

/* One that isn't there reads the first again, and nothing comes of it. */
INLINE const uint8_t *group_at(const mnem__matmul_job *job, const side_by_side *s, int v) {
    return job->weights + (s->first + (is_there(s, v) ? v * s->apart : 0)) * job->group_bytes;
}

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

/* Elements i and i + 1, some time before a tile after the first reads them again. */
INLINE void fetch_ahead(mnem_type type, const uint8_t *group, int64_t i) {
    const uint8_t *at = group + FETCH_AHEAD + i * (type == MNEM_TYPE_F32 ? 64 : 32);
    __builtin_prefetch(at);
    if (type == MNEM_TYPE_F32) __builtin_prefetch(at + 64);
}

static void finish_tile(const mnem__matmul_job *job, const side_by_side *where, int64_t token,
                        int vectors, int tokens, const vector *acc) {
    for (int v = 0; v < vectors && is_there(where, v / SPLIT); v++)
        for (int t = 0; t < tokens; t++)
            finish(job, where->first + v / SPLIT * where->apart, v % SPLIT, token + t,
                   acc[t * vectors + v]);
}

/* tokens by vectors (constants) outputs. */
INLINE void tile(const mnem__matmul_job *job, mnem_type type, const side_by_side *where,
                 int64_t token, const int vectors, const int tokens) {
    const uint8_t *groups[FLIGHT], *input[(TILE + 3) / 4];
    int64_t stride = job->input_stride;
    vector acc[2 * TILE + FLIGHT * SPLIT];
    MNEM__UNROLL
    for (int i = 0; i < vectors * tokens; i++) acc[i] = zero();
    MNEM__UNROLL
    for (int v = 0; v < vectors; v += SPLIT) groups[v / SPLIT] = group_at(job, where, v / SPLIT);
    MNEM__UNROLL
    for (int t = 0; t < tokens; t += 4) input[t / 4] = job->input + (token + t) * stride;
    int64_t i = 0;
    for (; i + 2 <= job->k; i += 2) {
        step(type, groups, input, stride, i, 0, vectors, tokens, acc);
        step(type, groups, input, stride, i + 1, 1, vectors, tokens, acc);
        MNEM__UNROLL
        for (int v = 0; v < vectors; v += SPLIT)
            if (tokens == TILE) fetch_ahead(type, groups[v / SPLIT], i);
        __asm__("" : "+r"(stride)); /* keeps the compiler from keeping a pointer per token */
    }
    if (i < job->k) step(type, groups, input, stride, i, 0, vectors, tokens, acc);
    vector out[2 * TILE + FLIGHT * SPLIT]; /* acc stays in registers */
    MNEM__UNROLL
    for (int o = 0; o < vectors * tokens; o++) out[o] = acc[o];
    finish_tile(job, where, token, vectors, tokens, out);
}

INLINE void one_token(const mnem__matmul_job *job, mnem_type type) {
    side_by_side where = {.count = mnem__matmul_groups(job)};
    where.apart = (where.count + FLIGHT - 1) / FLIGHT;
    for (; where.first < where.apart; where.first++) tile(job, type, &where, 0, FLIGHT * SPLIT, 1);
}

/* Tokens [t, end) of two vectors. */
INLINE void tokens_of_pair(const mnem__matmul_job *job, mnem_type type, const side_by_side *where,
                           int64_t t, int64_t end) {
    for (; end - t >= TILE; t += TILE) tile(job, type, where, t, 2, TILE);
    for (; end - t >= 4 && TILE > 4; t += 4) tile(job, type, where, t, 2, 4);
    for (; end - t >= 2; t += 2) tile(job, type, where, t, 2, 2);
    for (; end - t >= 1; t += 1) tile(job, type, where, t, 2, 1);
}

INLINE void compute(const mnem__matmul_job *job, mnem_type type) {
    const int64_t groups = mnem__matmul_groups(job), most = mnem__token_step(job, TILE);
    if (job->tokens == 1) {
        one_token(job, type);
        return;
    }
    for (int64_t t = 0; t < job->tokens; t += most) {
        const int64_t end = job->tokens - t < most ? job->tokens : t + most;
        side_by_side where = {.apart = (groups + PAIR - 1) / PAIR, .count = groups};
        for (; where.first < where.apart; where.first++) tokens_of_pair(job, type, &where, t, end);
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
