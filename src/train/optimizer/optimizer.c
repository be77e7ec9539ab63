/* optimizer.c: AdamW over flat arrays: the layout of moments, the division of a step among a
 * team, and the norm of gradients.
 *
 * The idea: segments are cut into blocks of 256 numbers, numbered through all segments. The team
 * divides the blocks; a step needs no barrier. The moments of a segment are one contiguous
 * piece:
 *
 *     f32     [ first count f32 | second count f32 ]                      8 bytes a number
 *     8 bits  [ blocks of 2 x 256 codes | blocks of 2 x 16-bit ranges ]   516 bytes a block
 *
 * each rounded up to 64 bytes; 2.016 bytes per number in full blocks. carve() visits the
 * segments once and computes both bytes and places. adam_kernels.c defines the codes.
 *
 * Invariant: a number's step depends on its own gradient, weight and moments, in 8 bits on those
 * of its block; so neither threads nor neighbouring segments change a bit. The norm is the sum
 * of 256 slices of blocks in order, whose borders depend on the number of blocks only. Codes
 * depend on the number of preceding blocks (it seeds the rounding). Cost: a step reads 16 and
 * writes 12 bytes a number in f32, 14 and 6 in 8 bits (10 with zeroed gradients); the norm reads
 * 4. */
#include "train/optimizer/optimizer.h"

#include <math.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"
#include "ops/optimizer/adam.h"

_Static_assert((int)MNEM__OPTIMIZER_BLOCK == (int)MNEM__MOMENT_BLOCK,
               "blocks are those of the kernels");
enum { BLOCK = MNEM__MOMENT_BLOCK, SLICES = 256, ALIGNMENT = MNEM__MOMENTS_ALIGNMENT };
_Static_assert(sizeof(mnem__moment_block) == 2 * BLOCK, "two codes a number");

static const char TAG[] = "optimizer";
static const int64_t COUNT_MAX = (int64_t)1
                                 << 44; /* 64 TiB of weights, so that no size overflows */

/* A placed segment. */
typedef struct part {
    mnem__segment segment;
    int64_t first_block, blocks;
    int64_t number; /* number of its first block, for random numbers */
    uint64_t place; /* offset of its moments, in bytes */
    bool coded;     /* 8 bits */
} part;

struct mnem__optimizer {
    mnem_optimizer_options options;
    const mnem__adam_kernels *kernels;
    uint64_t bytes;
    int64_t blocks; /* of all segments */
    size_t n;
    double slice[SLICES]; /* sums of squares */
    part parts[];
};

static int64_t gradients_at(const part *p) {
    return p->segment.offset - p->segment.apart;
}

/* ---- measuring and placing ---- */

mnem__segment mnem__segment_make(const char *name, int64_t offset, int64_t count, int dims) {
    return (mnem__segment){
        .name = name, .offset = offset, .count = count, .decay = dims >= 2, .exact = dims < 2};
}

static mnem_status check_segment(const mnem__segment *s, int64_t end) {
    if (s->count >= 1 && s->count <= COUNT_MAX && s->offset >= end && s->offset <= COUNT_MAX)
        return MNEM_OK;
    return mnem__fail(
        MNEM_INVALID,
        "optimizer: segment %s has offset %lld and %lld elements, expected an offset of "
        "at least %lld (the end of the segment before) and 1 to 2^44 elements",
        s->name, (long long)s->offset, (long long)s->count, (long long)end);
}

static bool is_coded(const mnem_optimizer_options *options, const mnem__segment *s) {
    return options->moments == MNEM_MOMENTS_8BIT && !s->exact &&
           (s->whole ? s->whole : s->count) >= MNEM__OPTIMIZER_SMALL;
}

void mnem__segment_moments(const mnem_optimizer_options *options, const mnem__segment *s,
                           uint64_t bytes[2]) {
    const uint64_t count = (uint64_t)s->count, blocks = mnem__div_up(count, BLOCK);
    const bool coded = is_coded(options, s);
    bytes[0] = coded ? blocks * sizeof(mnem__moment_block) : count * sizeof(float);
    bytes[1] = coded ? blocks * sizeof(mnem__moment_range) : count * sizeof(float);
}

/* Places a segment behind the previous one. */
static part place(const mnem_optimizer_options *options, const mnem__segment *s, const part *before,
                  uint64_t *bytes) {
    part p = {.segment = *s, .place = *bytes};
    p.first_block = before ? before->first_block + before->blocks : 0;
    p.blocks = (int64_t)mnem__div_up((uint64_t)s->count, BLOCK);
    p.number = s->whole ? s->block : p.first_block;
    p.coded = is_coded(options, s);
    uint64_t need[2];
    mnem__segment_moments(options, s, need);
    *bytes += mnem__align_up(need[0] + need[1], ALIGNMENT);
    return p;
}

/* Places all segments; parts may be NULL. */
static mnem_status carve(const mnem_optimizer_options *options, const mnem__segment *segments,
                         size_t n, part *parts, uint64_t *bytes) {
    int64_t end = 0;
    part last;
    *bytes = 0;
    for (size_t i = 0; i < n; i++) {
        MNEM__TRY(check_segment(&segments[i], end));
        end = segments[i].offset + segments[i].count;
        last = place(options, &segments[i], i ? &last : NULL, bytes);
        if (parts) parts[i] = last;
    }
    return MNEM_OK;
}

/* ---- options ---- */

static mnem_status check_options(const mnem_optimizer_options *given, size_t n,
                                 mnem_optimizer_options *out) {
    mnem_optimizer_options o = *given;
    if (o.beta1 == 0.0) o.beta1 = 0.9;
    if (o.beta2 == 0.0) o.beta2 = 0.95;
    if (o.epsilon == 0.0) o.epsilon = 1e-8;
    if (!(o.beta1 > 0.0 && o.beta1 < 1.0 && o.beta2 > 0.0 && o.beta2 < 1.0))
        return mnem__fail(
            MNEM_INVALID,
            "optimizer: beta1 is %g and beta2 %g, expected more than 0 and less than 1", o.beta1,
            o.beta2);
    /* A v that was rounded to 0 (below 2^-120) may belong to an m of 4e-19. */
    if (!(o.epsilon >= 1e-16 && o.epsilon <= 1.0))
        return mnem__fail(MNEM_INVALID, "optimizer: epsilon is %g, expected 1e-16 to 1", o.epsilon);
    if (!(o.weight_decay >= 0.0 && o.weight_decay <= 1e6))
        return mnem__fail(MNEM_INVALID, "optimizer: the weight decay is %g, expected 0 to 1e6",
                          o.weight_decay);
    if (o.moments != MNEM_MOMENTS_F32 && o.moments != MNEM_MOMENTS_8BIT)
        return mnem__fail(MNEM_INVALID,
                          "optimizer: moments is %d, expected a constant of mnem_moments",
                          (int)o.moments);
    if (n < 1 || n > MNEM__OPTIMIZER_SEGMENTS)
        return mnem__fail(MNEM_INVALID,
                          "optimizer: the number of segments is %zu, expected 1 to %d", n,
                          MNEM__OPTIMIZER_SEGMENTS);
    *out = o;
    return MNEM_OK;
}

mnem_status mnem__optimizer_measure(const mnem_optimizer_options *options,
                                    const mnem__segment *segments, size_t n, uint64_t *bytes) {
    mnem_optimizer_options o;
    *bytes = 0;
    const mnem_status status = check_options(options, n, &o);
    return status == MNEM_OK ? carve(&o, segments, n, NULL, bytes) : status;
}

uint64_t mnem__optimizer_host_bytes(size_t n) {
    return sizeof(mnem__optimizer) + n * sizeof(part);
}

mnem_status mnem__optimizer_create(const mnem_optimizer_options *options,
                                   const mnem__segment *segments, size_t n, mnem__optimizer **out) {
    mnem_optimizer_options o;
    *out = NULL;
    MNEM__TRY(check_options(options, n, &o));
    mnem__optimizer *a = mnem__calloc(TAG, 1, mnem__optimizer_host_bytes(n));
    if (!a) return mnem__heap_status();
    a->options = o;
    a->kernels = mnem__adam_kernels_get();
    a->n = n;
    mnem_status status = carve(&o, segments, n, a->parts, &a->bytes);
    if (status != MNEM_OK) {
        mnem__free(a);
        return status;
    }
    a->blocks = a->parts[n - 1].first_block + a->parts[n - 1].blocks;
    *out = a;
    return MNEM_OK;
}

void mnem__optimizer_destroy(mnem__optimizer *optimizer) {
    mnem__free(optimizer);
}

uint64_t mnem__optimizer_bytes(const mnem__optimizer *optimizer) {
    return optimizer->bytes;
}

/* ---- runs: sequences of blocks inside one segment ---- */

/* Blocks [begin, end) of a part; number i of the run is number offset + i of the segment. */
typedef struct run {
    const part *part;
    int64_t begin, end; /* blocks, counted within the part */
    int64_t offset, count;
} run;

/* The index of the part that contains a block. */
static size_t part_of(const mnem__optimizer *a, int64_t block) {
    size_t low = 0, high = a->n;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (a->parts[middle].first_block <= block)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The run that begins at block *next and ends before `end`; moves *next past it. */
static run next_run(const mnem__optimizer *a, size_t *index, int64_t *next, int64_t end) {
    const part *p = &a->parts[*index];
    const int64_t past = p->first_block + p->blocks;
    run r = {.part = p, .begin = *next - p->first_block};
    *next = past < end ? past : end;
    if (*next == past) ++*index;
    r.end = *next - p->first_block;
    r.offset = r.begin * BLOCK;
    const int64_t last = r.end * BLOCK < p->segment.count ? r.end * BLOCK : p->segment.count;
    r.count = last - r.offset;
    return r;
}

/* ---- the norm ---- */

/* Adds 16 sums in a fixed tree. */
static double sum_of(const double s[16]) {
    double t[16];
    for (int i = 0; i < 16; i++) t[i] = s[i];
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) t[i] += t[i + half];
    return t[0];
}

static double slice_sum(const mnem__optimizer *a, int64_t begin, int64_t end,
                        const float *gradients) {
    double sums[16] = {0};
    size_t index = begin < end ? part_of(a, begin) : 0;
    for (int64_t next = begin; next < end;) {
        const run r = next_run(a, &index, &next, end);
        a->kernels->add_squares(r.count, gradients + gradients_at(r.part) + r.offset, sums);
    }
    return sum_of(sums);
}

double mnem__optimizer_norm(const mnem_worker *worker, mnem__optimizer *optimizer,
                            const float *gradients) {
    int64_t begin, end;
    mnem_team_split(worker, SLICES, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        optimizer->slice[i] = slice_sum(optimizer, optimizer->blocks * i / SLICES,
                                        optimizer->blocks * (i + 1) / SLICES, gradients);
    mnem_team_barrier(worker);
    double sum = 0.0;
    for (int i = 0; i < SLICES; i++) sum += optimizer->slice[i];
    mnem_team_barrier(worker); /* all members have read the slices */
    return sqrt(sum);
}

int64_t mnem__optimizer_find_bad(const mnem__optimizer *optimizer, const float *gradients,
                                 int64_t *where) {
    for (size_t i = 0; i < optimizer->n; i++) {
        const mnem__segment *s = &optimizer->parts[i].segment;
        for (int64_t j = 0; j < s->count; j++) {
            if (isfinite(gradients[s->offset - s->apart + j])) continue;
            *where = s->before + j;
            return (int64_t)i;
        }
    }
    *where = -1;
    return -1;
}

double mnem__clip_factor(double norm, double norm_max) {
    const double factor = norm_max / (norm + 1e-6);
    return norm_max > 0.0 && factor < 1.0 ? factor : 1.0;
}

/* ---- the step ---- */

static mnem__adam adam_make(const mnem__optimizer *a, const mnem__optimizer_step_args *args) {
    const mnem_optimizer_options *o = &a->options;
    const double t = (double)args->step;
    return (mnem__adam){
        .beta1 = (float)o->beta1,
        .fresh1 = (float)(1.0 - o->beta1),
        .beta2 = (float)o->beta2,
        .fresh2 = (float)(1.0 - o->beta2),
        .factor = (float)args->factor,
        .rate = (float)(args->rate / (1.0 - pow(o->beta1, t))),
        .root = (float)(1.0 / sqrt(1.0 - pow(o->beta2, t))),
        .epsilon = (float)o->epsilon,
        .keep = 1.0f,
        .zero_gradients = args->zero_gradients,
        .seed = o->seed,
        .step = args->step,
    };
}

/* The two arrays of an 8-bit segment. */
static mnem__moment_block *blocks_of(const part *p, const void *moments) {
    return (mnem__moment_block *)((uintptr_t)moments + p->place);
}

static mnem__moment_range *ranges_at(const part *p, const void *moments) {
    return (mnem__moment_range *)(blocks_of(p, moments) + p->blocks);
}

static void step_coded(const mnem__optimizer *a, const mnem__adam *adam, const run *r,
                       const mnem__optimizer_step_args *args) {
    const part *p = r->part;
    mnem__moment_block *block = blocks_of(p, args->moments);
    mnem__moment_range *range = ranges_at(p, args->moments);
    for (int64_t b = r->begin; b < r->end; b++) {
        const int64_t at = b * BLOCK, rest = p->segment.count - at;
        a->kernels->step_8bit(adam, rest < BLOCK ? rest : BLOCK, (uint64_t)(p->number + b),
                              args->weights + p->segment.offset + at,
                              args->gradients + gradients_at(p) + at, block + b, range + b);
    }
}

static void step_exact(const mnem__optimizer *a, const mnem__adam *adam, const run *r,
                       const mnem__optimizer_step_args *args) {
    const part *p = r->part;
    float *first = (float *)((uintptr_t)args->moments + p->place);
    a->kernels->step_f32(adam, r->count, args->weights + p->segment.offset + r->offset,
                         args->gradients + gradients_at(p) + r->offset, first + r->offset,
                         first + p->segment.count + r->offset);
}

void mnem__optimizer_step(const mnem_worker *worker, mnem__optimizer *optimizer,
                          const mnem__optimizer_step_args *args) {
    mnem__adam adam = adam_make(optimizer, args);
    const float keep = (float)(1.0 - args->rate * optimizer->options.weight_decay);
    int64_t next, end;
    mnem_team_split(worker, optimizer->blocks, 1, &next, &end);
    size_t index = next < end ? part_of(optimizer, next) : 0;
    while (next < end) {
        const run r = next_run(optimizer, &index, &next, end);
        adam.keep = r.part->segment.decay ? keep : 1.0f;
        (r.part->coded ? step_coded : step_exact)(optimizer, &adam, &r, args);
    }
}

/* ---- all of it ---- */

typedef struct update {
    mnem__optimizer *optimizer;
    const mnem__optimizer_update_args *args;
    mnem__optimizer_update_result result;
} update;

static void zero_run(const mnem_worker *worker, const mnem__optimizer *a, float *gradients) {
    int64_t next, end;
    mnem_team_split(worker, a->blocks, 1, &next, &end);
    size_t index = next < end ? part_of(a, next) : 0;
    while (next < end) {
        const run r = next_run(a, &index, &next, end);
        float *g = gradients + gradients_at(r.part) + r.offset;
        for (int64_t i = 0; i < r.count; i++) g[i] = 0.0f;
    }
}

static void update_worker(const mnem_worker *worker, void *context) {
    update *u = context;
    const mnem__optimizer_update_args *args = u->args;
    const double norm =
        mnem__optimizer_norm(worker, u->optimizer, args->gradients) * fabs(args->scale);
    const double clip = mnem__clip_factor(norm, args->norm_max);
    const bool apply = isfinite(norm);
    if (worker->index == 0) {
        u->result = (mnem__optimizer_update_result){
            .norm = norm, .clip = clip, .applied = apply, .bad_segment = -1, .bad_place = -1};
        if (!apply)
            u->result.bad_segment =
                mnem__optimizer_find_bad(u->optimizer, args->gradients, &u->result.bad_place);
    }
    if (!apply) {
        mnem_team_barrier(worker); /* the norm is complete before gradients are cleared */
        if (args->zero_gradients) zero_run(worker, u->optimizer, args->gradients);
        return;
    }
    const mnem__optimizer_step_args step = {
        .weights = args->weights,
        .gradients = args->gradients,
        .moments = args->moments,
        .step = args->step,
        .rate = args->rate,
        .factor = args->scale * clip,
        .zero_gradients = args->zero_gradients,
    };
    mnem__optimizer_step(worker, u->optimizer, &step);
}

mnem__optimizer_update_result mnem__optimizer_update(mnem__optimizer *optimizer, mnem_team *team,
                                                     const mnem__optimizer_update_args *args) {
    update u = {.optimizer = optimizer, .args = args};
    if (team)
        mnem_team_run(team, update_worker, &u);
    else
        update_worker(&(mnem_worker){NULL, 0, 1}, &u);
    return u.result;
}

/* ---- reading moments ---- */

static void get_coded(const mnem__optimizer *a, const part *p, const void *moments, float *first,
                      float *second) {
    float m[BLOCK], v[BLOCK];
    for (int64_t b = 0; b < p->blocks; b++) {
        const int64_t at = b * BLOCK, rest = p->segment.count - at;
        a->kernels->decode(blocks_of(p, moments) + b, ranges_at(p, moments) + b, m, v);
        for (int64_t i = 0; i < rest && i < BLOCK; i++) {
            first[at + i] = m[i];
            second[at + i] = v[i];
        }
    }
}

void mnem__optimizer_moments_get(const mnem__optimizer *optimizer, const void *moments,
                                 size_t segment, float *first, float *second) {
    const part *p = &optimizer->parts[segment];
    if (p->coded) {
        get_coded(optimizer, p, moments, first, second);
        return;
    }
    const float *from = (const float *)((uintptr_t)moments + p->place);
    for (int64_t i = 0; i < p->segment.count; i++) {
        first[i] = from[i];
        second[i] = from[p->segment.count + i];
    }
}
