/* session_eval.c: runs tokens through a session.
 *
 * Idea: a prompt is cut into chunks; each is a pass of the body, then one pass of the head for each
 * group of rows whose logits are wanted. The next passes are told to the reader before one runs, so
 * that it reads ahead over the borders of passes.
 * Invariant: keys and values of positions below length are whole; what lies behind is overwritten.
 * Cost: nothing is allocated; a pass streams what isn't resident once, for all its tokens. */
#include <time.h>

#include "base/error.h"
#include "engine/session_private.h"

enum { PASSES_AHEAD = 2 };

/* Where the schedule of one eval stands: passes told to the reader run ahead of those run. */
typedef struct schedule {
    int32_t n, first_logits, chunk, rows; /* of the eval */
    int32_t at;                           /* first token of the chunk that is told next */
    int32_t heads;                        /* head passes of the last told chunk still to be told */
    int32_t ahead;                        /* told and not run */
} schedule;

typedef struct evaluation {
    mnem_session *s;
    const int32_t *ids;
    mnem_on_logits *on_logits;
    void *context;
    schedule schedule;
} evaluation;

static int32_t smaller(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static int32_t larger(int32_t a, int32_t b) {
    return a > b ? a : b;
}

static mnem_status tell_one(mnem_session *s, schedule *p) {
    const bool head = p->heads > 0;
    if (head) {
        p->heads--;
    } else {
        const int32_t end = smaller(p->at + p->chunk, p->n);
        const int32_t rows = end - larger(p->at, p->first_logits);
        p->heads = rows > 0 ? (rows + p->rows - 1) / p->rows : 0;
        p->at = end;
    }
    p->ahead++;
    return mnem__weights_schedule(s->weights, head ? MNEM__PASS_HEAD : MNEM__PASS_BODY);
}

/* Tells the reader the passes up to PASSES_AHEAD behind the one that runs next. */
static mnem_status tell_ahead(mnem_session *s, schedule *p) {
    mnem_status status = MNEM_OK;
    while (status == MNEM_OK && p->ahead <= PASSES_AHEAD && (p->heads > 0 || p->at < p->n))
        status = tell_one(s, p);
    p->ahead--;
    return status;
}

/* The rows of the embedding matrix, from the file. */
static mnem_status read_rows(mnem_session *s, const int32_t *ids, int32_t n) {
    const uint32_t tensor = (uint32_t)s->map->matrices[s->map->embedding];
    uint8_t *rows = s->external[MNEM__SLOT_EMBEDDING];
    for (int32_t i = 0; i < n; i++) {
        const mnem_status status =
            mnem_model_tensor_read(s->model, tensor, (uint64_t)ids[i] * s->row_bytes, s->row_bytes,
                                   rows + (uint64_t)i * s->row_bytes);
        if (status != MNEM_OK) return status;
        s->tables.ids[i] = i;
    }
    return MNEM_OK;
}

static mnem_graph_args pass_args(mnem_session *s, int64_t tokens) {
    return (mnem_graph_args){.tokens = tokens,
                             .block =
                                 (uint8_t *)s->external[MNEM__SLOT_HIDDEN] + s->parts.hidden_bytes,
                             .workspace = mnem_block_host(&s->block[MNEM__PART_WORKSPACE].memory),
                             .external = s->external,
                             .ids = s->tables.ids,
                             .positions = s->tables.positions,
                             .kv = s->tables.kv,
                             .kv_count = 1,
                             .weights = &s->source,
                             .cancel = &s->cancel};
}

/* n tokens; hidden rows below first are wanted by nobody. */
static mnem_status run_body(evaluation *e, const int32_t *ids, int32_t n, int32_t first) {
    mnem_session *s = e->s;
    mnem_status status = tell_ahead(s, &e->schedule);
    if (status != MNEM_OK) return status;
    if (!mnem__kv_pool_resize(&s->pool, s->tables.pages, &s->pages_used,
                              mnem__kv_pages(&s->kv, s->length + n)))
        return mnem__fail(MNEM_OVER_BUDGET, "session: no KV pages for %d tokens", s->length + n);
    for (int32_t i = 0; i < n; i++) {
        s->tables.ids[i] = ids[i];
        s->tables.positions[i] = s->length + i;
    }
    if (!s->choice.embedding_packed) status = read_rows(s, ids, n);
    if (status != MNEM_OK) return status;
    for (int32_t i = 0; i < s->map->shape.layers; i++) {
        s->tables.kv[i].first_position = s->length;
        s->tables.kv[i].rows = n;
    }
    mnem_graph_args args = pass_args(s, n);
    args.first_row = first;
    s->stats.passes++;
    return mnem_graph_run(s->graphs.body, s->team, &args);
}

/* Logits of the hidden rows [begin, end); at: the index of row 0 in the eval. */
static mnem_status run_head(evaluation *e, int32_t at, int32_t begin, int32_t end) {
    mnem_session *s = e->s;
    const mnem_transformer *t = &s->map->shape;
    const float *logits = s->external[MNEM__SLOT_LOGITS];
    float *hidden = s->external[MNEM__SLOT_HIDDEN];
    mnem_status status = tell_ahead(s, &e->schedule);
    if (status != MNEM_OK) return status;
    mnem_graph_args args = pass_args(s, end - begin);
    void *external[MNEM__SLOTS];
    for (int i = 0; i < MNEM__SLOTS; i++) external[i] = s->external[i];
    external[MNEM__SLOT_HIDDEN] = hidden + (int64_t)begin * t->embd;
    args.external = external;
    s->stats.passes++;
    status = mnem_graph_run(s->graphs.head, s->team, &args);
    for (int32_t i = begin; i < end && status == MNEM_OK; i++)
        if (!e->on_logits(e->context, at + i, logits + (int64_t)(i - begin) * t->vocab))
            status =
                mnem__fail(MNEM_CANCELLED, "session: stopped by the caller at token %d", at + i);
    return status;
}

/* Tokens [at, end) of the eval, and their logits. */
static mnem_status run_chunk(evaluation *e, int32_t at, int32_t end) {
    mnem_session *s = e->s;
    int32_t begin = larger(at, e->schedule.first_logits);
    mnem_status status = run_body(e, e->ids + at, end - at, smaller(begin, end) - at);
    for (; begin < end && status == MNEM_OK; begin += s->logits_rows)
        status = run_head(e, at, begin - at, smaller(begin + s->logits_rows, end) - at);
    if (status == MNEM_OK) s->length += end - at;
    return status;
}

static mnem_status check(const mnem_session *s, const int32_t *ids, int32_t n) {
    if (!s->can_run)
        return mnem__fail(MNEM_UNSUPPORTED, "session: the host can't see this device's memory: it "
                                            "is for planning, not for running");
    if (n < 0) return mnem__fail(MNEM_INVALID, "session: %d tokens", n);
    for (int32_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= s->map->shape.vocab)
            return mnem__fail(MNEM_INVALID, "session: token %d is %d, the vocabulary has %d", i,
                              ids[i], s->map->shape.vocab);
    if (n > s->choice.context - s->length)
        return mnem__fail(MNEM_OVER_BUDGET,
                          "session: %d tokens after %d don't fit the context of %d (--ctx)", n,
                          s->length, s->choice.context);
    return MNEM_OK;
}

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Gives back the pages behind the sequence. */
static void trim(mnem_session *s) {
    mnem__kv_pool_resize(&s->pool, s->tables.pages, &s->pages_used,
                         mnem__kv_pages(&s->kv, s->length));
}

mnem_status mnem_session_eval(mnem_session *s, const int32_t *ids, int32_t n, int32_t first_logits,
                              mnem_on_logits *on_logits, void *context) {
    mnem_status status = check(s, ids, n);
    if (status != MNEM_OK) return status;
    if (!on_logits || first_logits > n) first_logits = n;
    if (first_logits < 0) first_logits = 0;
    const double start = seconds_now();
    evaluation e = {
        s,
        ids,
        on_logits,
        context,
        {.n = n, .first_logits = first_logits, .chunk = s->choice.chunk, .rows = s->logits_rows}};
    for (int32_t at = 0; at < n && status == MNEM_OK; at += s->choice.chunk) {
        const int32_t end = smaller(at + s->choice.chunk, n);
        status = run_chunk(&e, at, end);
        if (status == MNEM_OK) s->stats.tokens += (uint64_t)(end - at);
    }
    if (status != MNEM_OK) {
        trim(s);
        mnem__weights_rewind(s->weights);
    }
    __atomic_store_n(&s->cancel, 0, __ATOMIC_RELAXED);
    s->stats.seconds_eval += seconds_now() - start;
    return status;
}

int32_t mnem_session_length(const mnem_session *s) {
    return s->length;
}

mnem_status mnem_session_truncate(mnem_session *s, int32_t n) {
    if (n < 0 || n > s->length)
        return mnem__fail(MNEM_INVALID, "session: %d tokens of %d can't be kept", n, s->length);
    s->length = n;
    if (s->can_run) trim(s);
    return MNEM_OK;
}

void mnem_session_cancel(mnem_session *s) {
    __atomic_store_n(&s->cancel, 1, __ATOMIC_RELAXED);
}

void mnem_session_stats_get(const mnem_session *s, mnem_session_stats *stats) {
    *stats = s->stats;
    stats->pages_used = (uint64_t)s->pages_used;
    if (!s->weights) return;
    mnem__weights_stats weights;
    mnem__weights_stats_get(s->weights, &weights);
    stats->bytes_streamed = weights.bytes_streamed;
    stats->seconds_waiting = weights.seconds_waiting;
}
