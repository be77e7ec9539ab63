/* corpus_feed.c: a thread that reads micro-batches into a ring of buffers, ahead of the trainer.
 *
 * The idea: depth + 1 buffers; one is the caller's, the others are filled or waiting (ahead.h).
 *
 * The order of windows is a function of their numbers, so a position is the thread's only state.
 * All data, including this struct, is in the caller's memory:
 *
 *     [ feed ][ ids, targets ] * (depth + 1)[ one window and its last target ]
 *
 * Cost: one pread for each 4 KiB of a window. */
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/team/ahead.h"
#include "mnem/corpus.h"

enum { DEPTH_DEFAULT = 2, DEPTH_MAX = 1024, ALIGNMENT = 64 };

struct mnem_feed {
    mnem_feed_options options;
    uint64_t buffer_bytes; /* bytes of ids, and of targets */
    char *memory;          /* start of the buffers */
    int32_t *window;       /* scratch of the thread: [sequence + 1] */
    uint64_t position;     /* used by the thread: the next window to read */
    mnem__ahead ahead;     /* its items are micro-batches */
};

/* ---- sizes ---- */

typedef struct sizes {
    uint64_t buffer, window, all;
} sizes;

static bool sizes_get(uint32_t rows, uint32_t sequence, uint32_t depth, sizes *s) {
    const uint64_t count = (depth ? depth : DEPTH_DEFAULT) + UINT64_C(1);
    uint64_t tokens, buffers;
    if (rows == 0 || sequence == 0 || depth > DEPTH_MAX) return false;
    s->window = mnem__align_up((sequence + UINT64_C(1)) * sizeof(int32_t), ALIGNMENT);
    return mnem__mul_u64(rows, sequence * sizeof(int32_t), &tokens) &&
           mnem__align_u64(tokens, ALIGNMENT, &s->buffer) &&
           mnem__mul_u64(s->buffer, 2 * count, &buffers) &&
           mnem__add_u64(buffers, s->window, &s->all) &&
           mnem__add_u64(s->all, mnem__align_up(sizeof(mnem_feed), ALIGNMENT), &s->all) &&
           s->all <= INT64_MAX;
}

uint64_t mnem_feed_bytes(uint32_t rows, uint32_t sequence, uint32_t depth) {
    sizes s;
    return sizes_get(rows, sequence, depth, &s) ? s.all : 0;
}

/* ---- the thread ---- */

static int32_t *ids_of(const mnem_feed *f, uint64_t number) {
    return (int32_t *)(f->memory + 2 * f->buffer_bytes * (number % f->ahead.places));
}

static int32_t *targets_of(const mnem_feed *f, uint64_t number) {
    return (int32_t *)((char *)ids_of(f, number) + f->buffer_bytes);
}

/* The first window from position on that belongs to the group's share. */
static uint64_t in_share(const mnem_feed_options *o, uint64_t position) {
    if (!o->share) return position;
    const uint64_t place = position % o->group, group = position - place;
    if (place < o->share_first) return group + o->share_first;
    return place - o->share_first < o->share ? position : group + o->group + o->share_first;
}

/* The number of windows of the micro-batch at position; 0: behind the end. */
static uint32_t rows_at(const mnem_feed_options *o, uint64_t position) {
    uint64_t rows = o->rows;
    if (o->end && position >= o->end) return 0;
    if (o->end && o->end - position < rows) rows = o->end - position;
    if (!o->group) return (uint32_t)rows;
    const uint64_t last = o->share ? (uint64_t)o->share_first + o->share : o->group;
    const uint64_t left = last - position % o->group;
    return (uint32_t)(left < rows ? left : rows);
}

static mnem_status read_batch(void *context, uint64_t number, bool *ended) {
    mnem_feed *f = context;
    const mnem_feed_options *o = &f->options;
    const uint64_t sequence = o->windows.sequence;
    const uint32_t rows = rows_at(o, f->position);
    int32_t *ids = ids_of(f, number), *targets = targets_of(f, number);
    for (uint32_t r = 0; r < rows; r++) {
        const uint64_t start = mnem_windows_start(&o->windows, f->position + r);
        if (o->windows.rows) {
            MNEM__TRY(mnem_corpus_row_read(o->corpus, start, o->windows.sequence,
                                           ids + r * sequence, targets + r * sequence, f->window));
            continue;
        }
        MNEM__TRY(mnem_corpus_read(o->corpus, start, sequence + 1, f->window));
        memcpy(ids + r * sequence, f->window, sequence * sizeof *ids);
        memcpy(targets + r * sequence, f->window + 1, sequence * sizeof *ids);
    }
    f->position = in_share(o, f->position + rows);
    *ended = rows == 0;
    return MNEM_OK;
}

/* ---- the caller ---- */

static mnem_status check_options(const mnem_feed_options *o, const void *memory, sizes *s) {
    const mnem_windows *w = &o->windows;
    mnem_corpus_info info;
    if (!sizes_get(o->rows, w->sequence, o->depth, s) || w->count == 0)
        return mnem__fail(MNEM_INVALID,
                          "feed: rows is %u, windows.sequence %u, depth %u and windows.count %llu, "
                          "expected at least 1 for each, and buffers whose size fits in 64 bits",
                          o->rows, w->sequence, o->depth, (unsigned long long)w->count);
    if (o->share && (o->share_first >= o->group || o->share > o->group - o->share_first))
        return mnem__fail(MNEM_INVALID,
                          "feed: share is %u and share_first %u, expected a sum of at most %u, the "
                          "windows of a group",
                          o->share, o->share_first, o->group);
    if ((uintptr_t)memory % ALIGNMENT)
        return mnem__fail(MNEM_INVALID, "feed: the memory must be aligned to %d bytes", ALIGNMENT);
    mnem_corpus_info_get(o->corpus, &info);
    const uint64_t has = w->rows ? info.rows : info.tokens;
    if (!w->rows && info.rows)
        return mnem__fail(MNEM_INVALID, "feed: the windows count tokens, but the corpus has rows; "
                                        "create windows of rows");
    if (w->begin > has || w->tokens > has - w->begin)
        return mnem__fail(
            MNEM_INVALID,
            "feed: the windows begin at %s %llu and have %llu, but the corpus has only "
            "%llu: make them from mnem_corpus_info_get",
            w->rows ? "row" : "token", (unsigned long long)w->begin, (unsigned long long)w->tokens,
            (unsigned long long)has);
    return MNEM_OK;
}

mnem_status mnem_feed_create(const mnem_feed_options *options, void *memory, mnem_feed **feed) {
    sizes s = {0};
    mnem_feed *f = memory;
    MNEM__TRY(check_options(options, memory, &s));
    *f = (mnem_feed){.options = *options, .buffer_bytes = s.buffer};
    f->options.first = f->position = in_share(options, options->first);
    f->ahead.fill = read_batch;
    f->ahead.context = f;
    f->ahead.places = (options->depth ? options->depth : DEPTH_DEFAULT) + 1;
    f->memory = (char *)memory + mnem__align_up(sizeof *f, ALIGNMENT);
    f->window = (int32_t *)(f->memory + 2 * s.buffer * f->ahead.places);
    MNEM__TRY(mnem__ahead_start(&f->ahead, MNEM_FEED_STACK_BYTES));
    *feed = f;
    return MNEM_OK;
}

bool mnem_feed_ready(mnem_feed *feed) {
    return mnem__ahead_ready(&feed->ahead);
}

/* options.first is the first window of the caller's next micro-batch. */
mnem_status mnem_feed_next(mnem_feed *f, mnem_batch *batch) {
    int64_t number;
    *batch = (mnem_batch){.first = f->options.first};
    mnem__ahead_give(&f->ahead);
    MNEM__TRY(mnem__ahead_take(&f->ahead, &number));
    if (number < 0) return MNEM_OK;
    batch->ids = ids_of(f, (uint64_t)number);
    batch->targets = targets_of(f, (uint64_t)number);
    batch->rows = rows_at(&f->options, batch->first);
    f->options.first = in_share(&f->options, batch->first + batch->rows);
    return MNEM_OK;
}

void mnem_feed_destroy(mnem_feed *f) {
    if (f) mnem__ahead_stop(&f->ahead);
}
