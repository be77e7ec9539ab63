/* ranks_cut.c: divides a batch and the parameters among ranks. */
#include "train/ranks/ranks_cut.h"

#include "base/checked.h"

enum { BLOCK = MNEM__OPTIMIZER_BLOCK, WINDOWS = 2, ALIGNMENT = 16 /* numbers */ };

mnem__ranks_share mnem__ranks_share_get(int32_t batch, int32_t ranks, int32_t rank) {
    const int32_t first = (int32_t)((int64_t)batch * rank / ranks);
    return (mnem__ranks_share){first, (int32_t)((int64_t)batch * (rank + 1) / ranks) - first};
}

int32_t mnem__ranks_buckets(const mnem__train_shape *shape) {
    int32_t bucket = 0;
    for (int32_t i = 0; i < shape->params; i++) bucket = mnem__ranks_bucket_next(shape, i, bucket);
    return bucket + 1;
}

static int64_t blocks_of(int64_t count) {
    return (int64_t)mnem__div_up((uint64_t)count, BLOCK);
}

/* Computes the begin of each rank's part of the parameters [first, end). */
static void cut_bucket(const mnem__train_shape *shape, int32_t first, int32_t end, int32_t ranks,
                       int64_t *bound) {
    int64_t blocks = 0, before = 0;
    for (int32_t i = first; i < end; i++) blocks += blocks_of(shape->param[i].count);
    int32_t rank = 0;
    for (int32_t i = first; i < end; i++) {
        const mnem__train_param *p = &shape->param[i];
        const int64_t behind = before + blocks_of(p->count);
        for (; rank < ranks && blocks * rank / ranks < behind; rank++)
            bound[rank] = p->offset + (blocks * rank / ranks - before) * BLOCK;
        before = behind;
    }
    const mnem__train_param *last = &shape->param[end - 1];
    for (; rank <= ranks; rank++) bound[rank] = last->offset + last->count;
}

static void find_layers(const mnem__train_shape *shape, mnem__ranks_cut *cut) {
    int32_t bucket = 0;
    cut->layer[0] = cut->layer[1] = 0;
    for (int32_t i = 0; i < shape->params; i++) {
        bucket = mnem__ranks_bucket_next(shape, i, bucket);
        if (shape->param[i].layer < 0) continue;
        if (cut->layer[1] == 0) cut->layer[0] = bucket;
        cut->layer[1] = bucket + 1;
    }
}

uint64_t mnem__ranks_cut_numbers(const mnem__train_shape *shape, int32_t ranks) {
    return (uint64_t)mnem__ranks_buckets(shape) * ((uint64_t)ranks + 1 + 2);
}

void mnem__ranks_cut_make(const mnem__train_shape *shape, int32_t ranks, int64_t *memory,
                          mnem__ranks_cut *cut) {
    const int32_t buckets = mnem__ranks_buckets(shape);
    int64_t *bound = memory;
    *cut = (mnem__ranks_cut){.ranks = ranks,
                             .buckets = buckets,
                             .bound = bound,
                             .local = bound + (int64_t)buckets * (ranks + 1),
                             .numbers = shape->count};
    cut->own = cut->local + buckets;
    for (int32_t i = 0; i < buckets; i++) cut->local[i] = cut->own[i] = 0;
    find_layers(shape, cut);
    for (int32_t first = 0, end; first < shape->params; first = end) {
        for (end = first + 1; end < shape->params; end++)
            if (shape->param[end].layer != shape->param[first].layer) break;
        cut_bucket(shape, first, end, cut->ranks, bound);
        bound += cut->ranks + 1;
    }
}

/* ---- gradients ---- */

static int64_t aligned(int64_t numbers) {
    return (int64_t)mnem__align_up((uint64_t)numbers, ALIGNMENT);
}

/* The begin of a bucket, or of a rank's part of it. */
static int64_t bucket_begin(const mnem__ranks_cut *cut, int32_t bucket) {
    return cut->bound[(int64_t)bucket * (cut->ranks + 1)];
}

static int64_t bucket_count(const mnem__ranks_cut *cut, int32_t bucket) {
    const int64_t *bound = cut->bound + (int64_t)bucket * (cut->ranks + 1);
    return bound[cut->ranks] - bound[0];
}

static bool takes_turns(const mnem__ranks_cut *cut, int32_t bucket) {
    return bucket >= cut->layer[0] && bucket < cut->layer[1];
}

/* Layout: this rank's sums, then gradients outside of layers, then the windows. */
void mnem__ranks_cut_gradients(int32_t rank, mnem__ranks_cut *cut) {
    int64_t at = 0, window = 0;
    for (int32_t b = 0; b < cut->buckets; b++) {
        const int64_t *bound = cut->bound + (int64_t)b * (cut->ranks + 1) + rank;
        cut->own[b] = bound[0] - at;
        at += aligned(bound[1] - bound[0]);
    }
    cut->sums = at;
    for (int32_t b = 0; b < cut->buckets; b++) {
        const int64_t count = aligned(bucket_count(cut, b));
        if (takes_turns(cut, b)) {
            window = count > window ? count : window;
            continue;
        }
        cut->local[b] = bucket_begin(cut, b) - at;
        at += count;
    }
    const int32_t layers = cut->layer[1] - cut->layer[0];
    for (int32_t b = cut->layer[0]; b < cut->layer[1]; b++)
        cut->local[b] = bucket_begin(cut, b) - at - window * ((b - cut->layer[0]) % WINDOWS);
    cut->numbers = at + window * (layers < WINDOWS ? layers : WINDOWS);
}

int32_t mnem__ranks_window_before(const mnem__ranks_cut *cut, int32_t bucket) {
    if (!cut->sums || !takes_turns(cut, bucket)) return -1;
    return bucket + WINDOWS < cut->layer[1] ? bucket + WINDOWS : -1;
}

/* ---- parts ---- */

bool mnem__ranks_part(const mnem__ranks_cut *cut, const mnem__segment *whole, int32_t param,
                      int32_t bucket, int32_t rank, mnem__segment *part) {
    const mnem__segment *s = &whole[param];
    const int64_t *bound = cut->bound + (int64_t)bucket * (cut->ranks + 1) + rank;
    const int64_t begin = bound[0] > s->offset ? bound[0] : s->offset;
    const int64_t behind = s->offset + s->count, end = bound[1] < behind ? bound[1] : behind;
    if (begin >= end) return false;
    *part = *s;
    part->offset = begin;
    part->apart = cut->own[bucket];
    part->count = end - begin;
    part->whole = s->count;
    part->before = begin - s->offset;
    part->block = part->before / BLOCK; /* and those before the parameter: mnem__ranks_parts */
    return true;
}

int32_t mnem__ranks_parts(const mnem__ranks_cut *cut, const mnem__train_shape *shape,
                          const mnem__segment *whole, int32_t rank, mnem__segment *parts) {
    int32_t n = 0, bucket = 0;
    int64_t block = 0;
    for (int32_t i = 0; i < shape->params; i++) {
        bucket = mnem__ranks_bucket_next(shape, i, bucket);
        if (mnem__ranks_part(cut, whole, i, bucket, rank, &parts[n])) parts[n++].block += block;
        block += blocks_of(whole[i].count);
    }
    return n;
}
