/* moments_walk.c: visits the runs of a block of moments that is divided over ranks. */
#include "train/ranks/moments_walk.h"

#include "base/checked.h"
#include "base/error.h"

typedef struct walk {
    const mnem_optimizer_options *options;
    const mnem__ranks_cut *cut;
    const mnem__segment *whole;
    int32_t rank;
    uint64_t place; /* offset in this rank's block */
    mnem__moments_visit *visit;
    void *context;
} walk;

static uint64_t padded(const uint64_t bytes[2]) {
    return mnem__align_up(bytes[0] + bytes[1], MNEM__MOMENTS_ALIGNMENT);
}

/* Visits one of a parameter's two arrays. */
static mnem_status visit_array(const walk *w, int32_t param, int32_t bucket, int array) {
    mnem__segment part;
    uint64_t bytes[2];
    for (int32_t r = 0; r < w->cut->ranks; r++) {
        if (!mnem__ranks_part(w->cut, w->whole, param, bucket, r, &part)) continue;
        mnem__segment_moments(w->options, &part, bytes);
        const uint64_t place = r == w->rank ? w->place + (array ? bytes[0] : 0) : 0;
        MNEM__TRY(w->visit(w->context, r, place, bytes[array]));
    }
    return MNEM_OK;
}

static mnem_status visit_param(walk *w, int32_t param, int32_t bucket) {
    mnem__segment part;
    uint64_t bytes[2];
    MNEM__TRY(visit_array(w, param, bucket, 0));
    MNEM__TRY(visit_array(w, param, bucket, 1));
    mnem__segment_moments(w->options, &w->whole[param], bytes);
    const uint64_t zeros = padded(bytes) - bytes[0] - bytes[1];
    if (zeros) MNEM__TRY(w->visit(w->context, -1, 0, zeros));
    if (!mnem__ranks_part(w->cut, w->whole, param, bucket, w->rank, &part)) return MNEM_OK;
    mnem__segment_moments(w->options, &part, bytes);
    w->place += padded(bytes);
    return MNEM_OK;
}

mnem_status mnem__moments_walk(const mnem_optimizer_options *options, const mnem__ranks_cut *cut,
                               const mnem__train_shape *shape, const mnem__segment *whole,
                               int32_t rank, mnem__moments_visit *visit, void *context) {
    walk w = {options, cut, whole, rank, 0, visit, context};
    int32_t bucket = 0;
    for (int32_t i = 0; i < shape->params; i++) {
        bucket = mnem__ranks_bucket_next(shape, i, bucket);
        MNEM__TRY(visit_param(&w, i, bucket));
    }
    return MNEM_OK;
}
