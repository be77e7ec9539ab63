/* optimizer_case.c: one optimizer with the memory that it works on, and gradients, for tests. */
#include "train/optimizer_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "kit/kit.h"

bench bench_make(const mnem_optimizer_options *options, const mnem__segment *segments, size_t n) {
    bench b = {.count = segments[n - 1].offset + segments[n - 1].count + 8};
    assert_int_equal(mnem__optimizer_create(options, segments, n, &b.adam), MNEM_OK);
    const uint64_t bytes = mnem__optimizer_bytes(b.adam);
    b.weights = calloc((size_t)b.count, sizeof(float));
    b.gradients = calloc((size_t)b.count, sizeof(float));
    b.moments = aligned_alloc(64, bytes);
    assert_true(b.weights && b.gradients && b.moments);
    memset(b.moments, 0, bytes);
    return b;
}

void bench_free(bench *b) {
    mnem__optimizer_destroy(b->adam);
    free(b->weights);
    free(b->gradients);
    free(b->moments);
}

mnem__optimizer_update_result bench_step(bench *b, mnem_team *team, uint64_t step, double rate) {
    const mnem__optimizer_update_args args = {.weights = b->weights,
                                              .gradients = b->gradients,
                                              .moments = b->moments,
                                              .step = step,
                                              .rate = rate,
                                              .scale = 1.0,
                                              .norm_max = 0.0};
    return mnem__optimizer_update(b->adam, team, &args);
}

void make_gradients(float *g, int64_t n, uint64_t stream) {
    mnem__random_normals(SEED, stream, 0, (uint64_t)n, 1.0f, g);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t r = mnem__random(SEED, ~stream, (uint64_t)(i / 50));
        g[i] *= r % 7 == 0 ? 0.0f : powf(10.0f, -(float)(r % 13));
    }
}
