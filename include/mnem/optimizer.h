/* mnem/optimizer.h: AdamW over flat arrays of weights and gradients, with moments in f32 or 8 bits;
 * the norm of gradients, clipping, and the schedule of the learning rate.
 *
 * Weights and gradients are two arrays of f32 of one layout, cut into named segments (one for each
 * tensor). The moments lie in one block whose bytes the optimizer says; zeroed, it is the state
 * before step 1. Nothing here takes memory but mnem_optimizer_create (a table of segments).
 * Not here: overflow of f16 (loss_scale.h), files (checkpoint.h).
 * Threads: functions that take a worker are called by every member of a team, with the same
 * arguments; the others by one thread. Results are the same to the bit for any number of threads
 * and at every level of the processor.
 *
 *     mnem_optimizer *adam;
 *     mnem_optimizer_create(&(mnem_optimizer_options){.weight_decay = 0.1}, segments, n, &adam);
 *     void *moments = ...mnem_optimizer_bytes(adam), 64-byte aligned, zeroed...;
 *     mnem_optimizer_update_args args = {weights, gradients, moments, .step = 1, .rate = 3e-4,
 *                                        .scale = 1, .norm_max = 1};
 *     mnem_optimizer_update_result r = mnem_optimizer_update(adam, team, &args);
 */
#ifndef MNEM_OPTIMIZER_H
#define MNEM_OPTIMIZER_H

#include "mnem/team.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MNEM_OPTIMIZER_BLOCK = 256,        /* numbers that share a range in 8 bits */
    MNEM_OPTIMIZER_SMALL = 4096,       /* segments below have moments in f32 whatever is asked */
    MNEM_OPTIMIZER_SEGMENTS = 1 << 20, /* at most */
};

/* One tensor's place in the flat arrays. */
typedef struct mnem_segment {
    const char *name;      /* borrowed while the optimizer lives */
    int64_t offset, count; /* in numbers */
    bool decay;            /* weight decay applies */
    bool exact;            /* moments in f32 whatever is asked */
} mnem_segment;

/* The rules for a tensor of this many dimensions: matrices (2 and more) decay; vectors (norms,
 * biases) don't, and keep moments in f32. */
mnem_segment mnem_segment_make(const char *name, int64_t offset, int64_t count, int dims);

typedef enum mnem_moments {
    MNEM_MOMENTS_F32,  /* 8 bytes for each weight */
    MNEM_MOMENTS_8BIT, /* 2 bytes, and 4 for each block of 256 (optimizer.c says how) */
} mnem_moments;

/* Zero means default, but for weight_decay. */
typedef struct mnem_optimizer_options {
    mnem_moments moments;
    double beta1, beta2; /* decay of the moments, above 0 and below 1 (0.9, 0.95) */
    double epsilon;      /* beside the root of the second moment, 1e-16 to 1 (1e-8) */
    double weight_decay; /* 0: none */
    uint64_t seed;       /* of the rounding of 8-bit moments */
} mnem_optimizer_options;

typedef struct mnem_optimizer mnem_optimizer;

/* Segments are in the order of their offsets and don't overlap; gaps are left alone. The table is
 * copied, names aren't. MNEM_INVALID names the option, or the segment and its numbers;
 * MNEM_NO_MEMORY, MNEM_OVER_BUDGET. */
mnem_status mnem_optimizer_create(const mnem_optimizer_options *options,
                                  const mnem_segment *segments, size_t n, mnem_optimizer **out);
void mnem_optimizer_destroy(mnem_optimizer *optimizer); /* NULL is fine */
/* What create takes of the heap for n segments. */
uint64_t mnem_optimizer_host_bytes(size_t n);

/* Bytes of the block of moments, a multiple of 64. The first form asks without creating. */
mnem_status mnem_optimizer_measure(const mnem_optimizer_options *options,
                                   const mnem_segment *segments, size_t n, uint64_t *bytes);
uint64_t mnem_optimizer_bytes(const mnem_optimizer *optimizer);

/* sqrt(sum of squares) of all gradients: exact products, sums in f64 over fixed slices, so that it
 * depends on nothing but the numbers. Not finite exactly when one of them isn't. */
double mnem_optimizer_norm(const mnem_worker *worker, mnem_optimizer *optimizer,
                           const float *gradients);
/* The first number that isn't finite: its segment (-1: none) and its place there. One thread. */
int64_t mnem_optimizer_find_bad(const mnem_optimizer *optimizer, const float *gradients,
                                int64_t *place);
/* min(1, norm_max / (norm + 1e-6)); 1 when norm_max is 0. Pascanu, Mikolov, Bengio 2013. */
double mnem_clip_factor(double norm, double norm_max);

/* One step of AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019), with
 * g = gradient * factor and t = step, counted from 1:
 *     m = beta1 m + (1 - beta1) g          v = beta2 v + (1 - beta2) g^2
 *     w = w (1 - rate decay) - rate / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + epsilon)
 * Gradients must be finite; g is held within 2^63. Moments below 2^-120 become 0. */
typedef struct mnem_optimizer_step_args {
    float *weights, *gradients;
    void *moments; /* 64-byte aligned */
    uint64_t step;
    double rate;         /* the learning rate */
    double factor;       /* on the gradients: 1 / loss scale, times clipping */
    bool zero_gradients; /* leaves zeros: cheaper here than in a pass of its own */
} mnem_optimizer_step_args;
void mnem_optimizer_step(const mnem_worker *worker, mnem_optimizer *optimizer,
                         const mnem_optimizer_step_args *args);

/* All of a step over a team (NULL: alone): norm, check, clipping, update. */
typedef struct mnem_optimizer_update_args {
    float *weights, *gradients;
    void *moments;
    uint64_t step;
    double rate;
    double scale;    /* on the gradients before anything: 1 / (loss scale) */
    double norm_max; /* 0: no clipping */
    bool zero_gradients;
} mnem_optimizer_update_args;
typedef struct mnem_optimizer_update_result {
    double norm;  /* of the scaled gradients, before clipping; may be infinite or NaN */
    double clip;  /* what they were multiplied by */
    bool applied; /* false: a gradient isn't finite; weights and moments are what they were (with
                     zero_gradients, the gradients are zero all the same) */
    int64_t bad_segment, bad_place; /* then: the first such number */
} mnem_optimizer_update_result;
mnem_optimizer_update_result mnem_optimizer_update(mnem_optimizer *optimizer, mnem_team *team,
                                                   const mnem_optimizer_update_args *args);

/* The numbers of one segment's moments as f32 (tests, reports): first and second count each. */
void mnem_optimizer_moments_get(const mnem_optimizer *optimizer, const void *moments,
                                size_t segment, float *first, float *second);

/* Warm-up, then half a cosine down to a floor (Loshchilov and Hutter, "SGDR", 2017). Of step t,
 * counted from 1, with W = warmup_steps and T = total_steps:
 *     t <= W:      peak t / W
 *     W < t < T:   floor + (peak - floor) (1 + cos(pi (t - W) / (T - W))) / 2
 *     t >= T:      floor */
typedef struct mnem_schedule {
    double rate_peak, rate_floor;
    uint64_t warmup_steps, total_steps;
} mnem_schedule;
/* MNEM_INVALID: rates that aren't 0 <= floor <= peak, or warmup_steps > total_steps. */
mnem_status mnem_schedule_check(const mnem_schedule *schedule);
double mnem_schedule_rate(const mnem_schedule *schedule, uint64_t step);

#ifdef __cplusplus
}
#endif
#endif
