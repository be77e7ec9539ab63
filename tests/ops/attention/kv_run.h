/* kv_run.h: a made-up attention layer for the tests: queries, keys and values as views of one fused
 * buffer, pages in a shuffled order and full of NaN, a naive reference in double. */
#ifndef MNEM_TESTS_OPS_ATTENTION_KV_RUN_H
#define MNEM_TESTS_OPS_ATTENTION_KV_RUN_H

#include "ops/core/op_fixture.h"

typedef struct kv_case {
    mnem_type type;
    int heads, kv_heads, head_dim, page_tokens;
    int positions;
    float spread;      /* of the queries: large ones make scores that overflow an exp */
    bool equal_keys;   /* all keys the same */
    int window;        /* 0: none */
    float soft_cap;    /* 0: none */
    float temperature; /* of the scores, by each 32 positions; 0: none */
    bool sinks;        /* a score beside the others in each head (kv_sink) */
    bool both_ways;    /* not causal; all positions are one run then */
    int value_dim;     /* 0: head_dim */
    bool apart;        /* values are of value_type */
    mnem_type value_type;
    bool rotated; /* in pages: keys and values both */
} kv_case;

float kv_sink(int head);
static inline int kv_values(const kv_case *c) {
    return c->value_dim ? c->value_dim : c->head_dim;
}

static inline mnem_type kv_value_type(const kv_case *c) {
    return c->apart ? c->value_type : c->type;
}
/* Whether numbers in pages have a scale for each 32. */
static inline bool kv_scaled(mnem_type type) {
    return type == MNEM_TYPE_Q8_0 || type == MNEM_TYPE_Q4_0;
}

typedef struct kv_data {
    kv_case c;
    int row;         /* floats of a fused row: q | k | v | gap */
    float *fused;    /* [positions][row] */
    float *expected; /* [positions][heads * kv_values] */
} kv_data;

kv_data kv_data_make(const kv_case *c, uint64_t seed);
void kv_data_free(kv_data *data);

/* Stores and attends to all positions in runs of the given sizes (the last repeats; 0 ends it) by a
 * team; out [positions][heads * kv_values]. NULL chunks: everything at once. */
void kv_run(const kv_data *data, int workers, const int *chunks, float *out);

#endif
