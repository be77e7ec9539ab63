/* optimizer.h: AdamW over flat arrays of weights and gradients, with moments in f32 or 8 bits;
 * the norm of gradients, clipping, and the schedule of the learning rate.
 *
 * Weights and gradients are two arrays of f32 with the same layout, divided into named segments
 * (one per tensor). The moments lie in one block whose size the optimizer computes; zeros are
 * the state before step 1. Only mnem__optimizer_create takes memory (a table of segments). Not
 * here: its options (train.h), overflow of f16 (loss_scale.h), files (checkpoint.h). Threads:
 * functions that take a worker are called by every member of a team, with the same arguments;
 * the others by one thread. Results are the same to the bit for any number of threads and at
 * every level of the processor.
 *
 *     mnem__optimizer *adam;
 *     mnem__optimizer_create(&(mnem_optimizer_options){.weight_decay = 0.1}, segments, n, &adam);
 *     void *moments = ...mnem__optimizer_bytes(adam), 64-byte aligned, zeroed...;
 *     mnem__optimizer_update_args args = {weights, gradients, moments, .step = 1, .rate = 3e-4,
 *                                        .scale = 1, .norm_max = 1};
 *     mnem__optimizer_update_result r = mnem__optimizer_update(adam, team, &args);
 * */
#ifndef MNEM_SRC_TRAIN_OPTIMIZER_OPTIMIZER_H
#define MNEM_SRC_TRAIN_OPTIMIZER_OPTIMIZER_H

#include "mnem/train.h"

enum {
    MNEM__OPTIMIZER_BLOCK = 256,        /* numbers whose moments share a range */
    MNEM__OPTIMIZER_SMALL = 4096,       /* smaller segments always have moments in f32 */
    MNEM__OPTIMIZER_SEGMENTS = 1 << 20, /* at most */
};

/* The place of a tensor in the flat arrays; or of a part of a tensor, whose numbers are updated
 * as in the whole tensor. */
typedef struct mnem__segment {
    const char *name;      /* borrowed while the optimizer lives */
    int64_t offset, count; /* in numbers */
    bool decay;            /* weight decay applies */
    bool exact;            /* moments always in f32 */
    int64_t whole;         /* of a part: numbers of the whole tensor; 0: not a part */
    int64_t before;        /* of a part: numbers before it, a multiple of MNEM__OPTIMIZER_BLOCK */
    int64_t block;         /* of a part: its first block, numbered over all tensors */
    int64_t apart;         /* its gradients begin at offset - apart */
} mnem__segment;

/* The rules for a tensor of this many dimensions: matrices (2 and more) decay; vectors (norms,
 * biases) don't, and keep moments in f32. */
mnem__segment mnem__segment_make(const char *name, int64_t offset, int64_t count, int dims);

/* The bytes of a segment's moments: contiguous arrays of the first and of the second (in 8 bits:
 * of both, and of their ranges), padded with zeros to 64. */
enum { MNEM__MOMENTS_ALIGNMENT = 64 };
void mnem__segment_moments(const mnem_optimizer_options *options, const mnem__segment *segment,
                           uint64_t bytes[2]);

typedef struct mnem__optimizer mnem__optimizer;

/* Segments are sorted by offset and don't overlap; gaps are not touched. The table is copied,
 * names are not. MNEM_INVALID names the option, or the segment and its numbers; MNEM_NO_MEMORY,
 * MNEM_OVER_BUDGET. */
mnem_status mnem__optimizer_create(const mnem_optimizer_options *options,
                                   const mnem__segment *segments, size_t n, mnem__optimizer **out);
void mnem__optimizer_destroy(mnem__optimizer *optimizer); /* accepts NULL */
/* The heap that create takes for n segments. */
uint64_t mnem__optimizer_host_bytes(size_t n);

/* The bytes of the block of moments, a multiple of 64; measure works without an optimizer. */
mnem_status mnem__optimizer_measure(const mnem_optimizer_options *options,
                                    const mnem__segment *segments, size_t n, uint64_t *bytes);
uint64_t mnem__optimizer_bytes(const mnem__optimizer *optimizer);

/* sqrt(sum of squares) of all gradients: exact products, sums in f64 over fixed slices, so that
 * it depends only on the numbers. Not finite exactly if one of them isn't. */
double mnem__optimizer_norm(const mnem_worker *worker, mnem__optimizer *optimizer,
                            const float *gradients);
/* The first number that isn't finite: its segment (-1: none) and its position there. One thread. */
int64_t mnem__optimizer_find_bad(const mnem__optimizer *optimizer, const float *gradients,
                                 int64_t *place);
/* min(1, norm_max / (norm + 1e-6)); 1 when norm_max is 0. Pascanu, Mikolov, Bengio 2013. */
double mnem__clip_factor(double norm, double norm_max);

/* One step of AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019), with
 * g = gradient * factor and t = step, counted from 1:
 *     m = beta1 m + (1 - beta1) g          v = beta2 v + (1 - beta2) g^2
 *     w = w (1 - rate decay) - rate / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + epsilon)
 * Gradients must be finite; g is held within 2^63. Moments below 2^-120 become 0. */
typedef struct mnem__optimizer_step_args {
    float *weights, *gradients;
    void *moments; /* 64-byte aligned */
    uint64_t step;
    double rate;         /* the learning rate */
    double factor;       /* on the gradients: 1 / loss scale, times clipping */
    bool zero_gradients; /* sets gradients to zero, which is cheaper here than in a separate pass */
} mnem__optimizer_step_args;
void mnem__optimizer_step(const mnem_worker *worker, mnem__optimizer *optimizer,
                          const mnem__optimizer_step_args *args);

/* All of a step over a team (NULL: alone): norm, check, clipping, update. */
typedef struct mnem__optimizer_update_args {
    float *weights, *gradients;
    void *moments;
    uint64_t step;
    double rate;
    double scale;    /* on the gradients before anything: 1 / (loss scale) */
    double norm_max; /* 0: no clipping */
    bool zero_gradients;
} mnem__optimizer_update_args;
typedef struct mnem__optimizer_update_result {
    double norm;  /* of the scaled gradients, before clipping; may be infinite or NaN */
    double clip;  /* what they were multiplied by */
    bool applied; /* false: a gradient isn't finite; weights and moments are unchanged (with
                     zero_gradients, the gradients are still set to zero) */
    int64_t bad_segment, bad_place; /* if not applied: the first such number */
} mnem__optimizer_update_result;
mnem__optimizer_update_result mnem__optimizer_update(mnem__optimizer *optimizer, mnem_team *team,
                                                     const mnem__optimizer_update_args *args);

/* The numbers of one segment's moments as f32 (tests, reports): first and second count each. */
void mnem__optimizer_moments_get(const mnem__optimizer *optimizer, const void *moments,
                                 size_t segment, float *first, float *second);

/* MNEM_INVALID: rates that aren't 0 <= floor <= peak, or warmup_steps > total_steps. */
mnem_status mnem__schedule_check(const mnem_schedule *schedule);
double mnem__schedule_rate(const mnem_schedule *schedule, uint64_t step);

#endif
