/* engine_pass.c: one pass of a step: its body, then its logits.
 *
 * Idea: what is under way lies in the engine's tables: ids, positions, the pages of each layer. The
 * body leaves hidden rows, of which the wanted ones are moved together for the head. Where ranks
 * run the model, a rank's body goes on from another's hidden rows (relay/relay.h), and rank 0 gets
 * the last one's logits.
 * Invariant: a pass that was told to other ranks is ended there too, whatever happens here. */
#include <string.h>

#include "base/error.h"
#include "engine/step_private.h"
#include "model/weights/finite.h"

/* ---- hidden rows, for the host: in place, or a copy where it doesn't reach them ---- */

static size_t hidden_bytes(const mnem_engine *e, int32_t rows) {
    return (size_t)rows * (size_t)e->map->shape.embd * sizeof(float);
}

static mnem_status fetch_hidden(const mnem_engine *e, int32_t rows) {
    if (!e->apart) return MNEM_OK;
    return mnem__location_read(e->hidden, mnem__engine_part_at(e, MNEM__PART_ACTIVATIONS),
                               hidden_bytes(e, rows));
}

static mnem_status store_hidden(const mnem_engine *e, int32_t rows) {
    if (!e->apart) return MNEM_OK;
    return mnem__location_write(mnem__engine_part_at(e, MNEM__PART_ACTIVATIONS), e->hidden,
                                hidden_bytes(e, rows));
}

/* ---- a pass of the body ---- */

/* The rows of the embedding matrix, from the file. */
static mnem_status read_rows(mnem_engine *e, int32_t n) {
    const uint32_t tensor = (uint32_t)e->map->matrices[e->map->embedding];
    uint8_t *rows = e->rows;
    for (int32_t i = 0; i < n; i++) {
        MNEM__TRY(mnem_model_tensor_read(e->model, tensor,
                                         (uint64_t)e->tables.ids[i] * e->row_bytes, e->row_bytes,
                                         rows + (uint64_t)i * e->row_bytes));
        e->tables.ids[i] = i;
    }
    return MNEM_OK;
}

/* The segment's ids and positions. */
static void fill_ids(mnem__step *x, const mnem__segment *g) {
    mnem_engine *e = x->e;
    const mnem_step_part *part = &x->parts[g->part];
    const mnem_sequence *s = part->sequence;
    const mnem__kv_pages *pages = &e->pages[MNEM__KV_FULL];
    const mnem__kv_table *table = &s->table[MNEM__KV_FULL];
    for (int32_t i = 0; i < g->n; i++) {
        const int32_t at = g->at + i, position = s->ready + i;
        const int32_t id = at < 0 ? *mnem__kv_id(pages, table, position) : part->ids[at];
        e->tables.ids[g->row + i] = id;
        e->tables.positions[g->row + i] = position;
        if (pages->ids) *mnem__kv_id(pages, table, position) = id;
    }
}

/* The segment's ids, positions and pages, for all layers. */
static mnem_status fill_segment(mnem__step *x, int32_t index) {
    mnem_engine *e = x->e;
    const mnem__segment *g = &e->tables.segments[index];
    mnem_sequence *s = x->parts[g->part].sequence;
    const mnem_transformer *t = &e->map->shape;
    uint64_t offset[MNEM__KV_KINDS] = {0}; /* of the layer in a page of its kind */
    const int32_t first = t->part_begin;
    for (int k = 0; k < MNEM__KV_KINDS; k++) {
        const mnem__kv_room room = mnem__step_room(s, k, s->ready, g->n);
        MNEM__TRY(mnem__kv_pages_make_room(&e->pages[k], &s->table[k], &room));
    }
    fill_ids(x, g);
    for (int32_t layer = first; layer < first + mnem__kept_layers(t); layer++) {
        mnem_kv_sequence *kv = &e->tables.kv[(int64_t)(layer - first) * x->segments + index];
        const mnem__kept kept = mnem__kept_of(t, &e->pages[MNEM__KV_FULL].layout, layer);
        const mnem__kv_kind k = kept.pages;
        *kv = mnem__kv_sequence_of(&e->pages[k], offset[k], &s->table[k]);
        kv->first_position = s->ready;
        kv->first_row = g->row;
        kv->rows = g->n;
        offset[k] += kept.page_bytes;
    }
    return MNEM_OK;
}

/* Rank 0 alone stops a pass, and only between those that ranks run together: the others would wait
 * for what a rank that stopped by itself doesn't send. */
static mnem_graph_args pass_args(const mnem__step *x, int64_t tokens) {
    mnem_engine *e = x->e;
    const bool stops = mnem__relay_first(&e->relay) && !e->relay.together;
    return (mnem_graph_args){
        .tokens = tokens,
        .block = (uint8_t *)e->external[MNEM__SLOT_HIDDEN] + e->parts.hidden_bytes,
        .workspace = mnem__location_bind(mnem__engine_part_at(e, MNEM__PART_WORKSPACE)),
        .external = e->external,
        .ids = e->tables.ids,
        .positions = e->tables.positions,
        .kv = e->tables.kv,
        .kv_count = x->segments,
        .weights = &e->source,
        .gather = &e->gather,
        .cancel = stops ? &e->cancel : NULL};
}

/* Of one sequence, rows before the first wanted one needn't be finished. */
static int32_t first_wanted(const mnem__step *x) {
    const mnem__segment *g = x->e->tables.segments;
    return x->segments == 1 && !x->on_hidden ? g->n - mnem__step_wanted(x, g) : 0;
}

/* What the others need to do the same. */
static mnem_status tell_pass(mnem__step *x) {
    mnem_engine *e = x->e;
    mnem__relay_segment *to;
    MNEM__TRY(mnem__relay_segments(&e->relay, &to));
    for (int32_t i = 0; i < x->segments; i++) {
        const mnem__segment *g = &e->tables.segments[i];
        const mnem_sequence *s = x->parts[g->part].sequence;
        to[i] = (mnem__relay_segment){(int32_t)(s - e->tables.sequences), g->n,
                                      mnem__step_wanted(x, g)};
    }
    return mnem__relay_tell_pass(&e->relay, x->segments, e->tables.ids, x->rows,
                                 x->on_hidden != NULL);
}

/* The hidden rows that the body goes on from, where another rank begins. */
static mnem_status begin_body(mnem__step *x) {
    mnem_engine *e = x->e;
    bool stopped = false;
    MNEM__TRY(mnem__relay_sent(&e->relay)); /* those of the pass before */
    if (mnem__relay_receives(&e->relay)) {
        MNEM__TRY(mnem__relay_receive(&e->relay, e->hidden, x->rows, e->map->shape.embd, &stopped));
        MNEM__TRY(store_hidden(e, stopped ? 0 : x->rows));
    }
    if (stopped) return mnem__fail(MNEM_CANCELLED, "engine: rank 0 stopped the pass");
    return e->choice.embedding_packed ? MNEM_OK : read_rows(e, x->rows);
}

/* To the rank that goes on, also that it doesn't. */
static mnem_status end_body(const mnem__step *x, mnem_status status) {
    mnem_engine *e = x->e;
    if (!mnem__relay_sends(&e->relay)) return status;
    if (status == MNEM_OK) status = fetch_hidden(e, x->rows);
    const mnem_status sent =
        mnem__relay_send(&e->relay, e->hidden, status ? 0 : x->rows, e->map->shape.embd);
    return status ? status : sent;
}

static mnem_status run_graph(mnem_engine *e, const mnem_graph *graph, const mnem_graph_args *args) {
    e->stats.passes++;
    MNEM__TRY(mnem__device_enter(e->device));
    const mnem_status status = mnem_graph_run(graph, e->team, args);
    mnem__device_leave(e->device);
    return status;
}

static mnem_status run_body(mnem__step *x) {
    mnem_engine *e = x->e;
    mnem_status status = mnem__step_tell_ahead(x);
    if (status == MNEM_OK) status = begin_body(x);
    if (status != MNEM_OK) return status;
    mnem_graph_args args = pass_args(x, x->rows);
    args.first_row = first_wanted(x);
    return run_graph(e, e->graphs.body, &args);
}

/* ---- passes of the head ---- */

/* Moves hidden rows whose logits are wanted together, behind the first of them; *begin: which that
 * is; -1: none is wanted. */
static mnem_status gather_wanted(const mnem__step *x, int32_t *begin) {
    const uint64_t bytes = (uint64_t)x->e->map->shape.embd * sizeof(float);
    const mnem__location hidden = mnem__engine_part_at(x->e, MNEM__PART_ACTIVATIONS);
    int32_t to = *begin = -1;
    for (int32_t i = 0; i < x->segments; i++) {
        const mnem__segment *g = &x->e->tables.segments[i];
        const int32_t n = mnem__step_wanted(x, g), from = g->row + g->n - n;
        if (n == 0) continue;
        if (to < 0) *begin = to = from;
        if (to != from)
            MNEM__TRY(mnem__location_move(mnem__location_at(hidden, (uint64_t)to * bytes),
                                          mnem__location_at(hidden, (uint64_t)from * bytes),
                                          (size_t)((uint64_t)n * bytes)));
        to += n;
    }
    return MNEM_OK;
}

/* Which row of logits comes next, as a segment and a token of its. */
typedef struct reader {
    int32_t segment, left; /* rows of it still to come */
} reader;

static mnem_status give_logits(const mnem__step *x, reader *r, const float *logits) {
    const mnem__segment *g = &x->e->tables.segments[r->segment];
    while (r->left == 0) {
        g = &x->e->tables.segments[++r->segment];
        r->left = mnem__step_wanted(x, g);
    }
    const int32_t index = g->at + g->n - r->left--;
    if (x->on_logits(x->context, g->part, index, logits)) return MNEM_OK;
    return mnem__fail(MNEM_CANCELLED, "engine: stopped by the caller at token %d", index);
}

/* Nothing can be chosen or measured by logits that are no numbers. Mostly a weight is none. */
mnem_status mnem__step_not_finite(const mnem_engine *e) {
    mnem_model_info info;
    MNEM__TRY(mnem__model_check_finite(e->model, &e->cancel));
    for (int32_t i = 0; e->adapters && i < e->adapters->count; i++) {
        const mnem_model *file = e->adapters->product[i].file;
        if (i == 0 || file != e->adapters->product[i - 1].file)
            MNEM__TRY(mnem__model_check_finite(file, &e->cancel));
    }
    mnem_model_info_get(e->model, &info);
    return mnem__fail(MNEM_BAD_FILE, "%s: the logits are not finite, although the weights are",
                      info.path);
}

/* Of rows of hidden states, in the engine's place of logits; those of the last rank on rank 0. */
static mnem_status make_logits(mnem__step *x, float *hidden, int32_t n) {
    mnem_engine *e = x->e;
    float *logits = e->logits;
    const size_t bytes = (size_t)n * (size_t)e->map->shape.vocab * sizeof *logits;
    if (!mnem__head_here(&e->map->shape))
        return mnem__relay_leads(&e->relay) ? mnem__relay_logits_receive(&e->relay, logits, bytes)
                                            : MNEM_OK;
    MNEM__TRY(mnem__step_tell_ahead(x));
    MNEM__TRY(mnem__relay_logits_sent(&e->relay)); /* those before */
    mnem_graph_args args = pass_args(x, n);
    void *external[MNEM__SLOTS];
    memcpy(external, e->external, sizeof external);
    external[MNEM__SLOT_HIDDEN] = hidden;
    args.external = external;
    MNEM__TRY(run_graph(e, e->graphs.head, &args));
    return mnem__relay_first(&e->relay) || e->relay.together
               ? MNEM_OK /* of rows: gathered */
               : mnem__relay_logits_send(&e->relay, logits, bytes);
}

static mnem_status run_head(mnem__step *x, float *hidden, int32_t n, reader *r) {
    mnem_engine *e = x->e;
    const float *logits = e->logits;
    mnem_status status = make_logits(x, hidden, n);
    if (status == MNEM_OK && mnem__relay_first(&e->relay) &&
        !mnem__is_finite(logits, (int64_t)n * e->map->shape.vocab))
        status = mnem__step_not_finite(e);
    for (int32_t i = 0; i < n && status == MNEM_OK && mnem__relay_first(&e->relay); i++)
        status = give_logits(x, r, logits + (int64_t)i * e->map->shape.vocab);
    return status;
}
static mnem_status give_hidden(const mnem__step *x) {
    const mnem_engine *e = x->e;
    const int64_t embd = e->map->shape.embd;
    float *hidden = e->hidden;
    mnem_status status = MNEM_OK;
    if (mnem__relay_first(&e->relay) && !mnem__is_finite(hidden, x->rows * embd))
        return mnem__step_not_finite(e);
    for (int32_t i = 0; i < x->segments && status == MNEM_OK; i++) {
        const mnem__segment *g = &e->tables.segments[i];
        if (g->at + g->n > 0) /* not one that only runs again */
            status = x->on_hidden(x->context, g->part, mnem__max_i32(g->at, 0),
                                  g->n + mnem__min_i32(g->at, 0),
                                  hidden + (g->row - mnem__min_i32(g->at, 0)) * embd);
    }
    return status;
}

/* To rank 0, behind logits that are awaited there; rows that ranks made together all have. */
static mnem_status pass_hidden(const mnem__step *x) {
    mnem_engine *e = x->e;
    const size_t bytes = hidden_bytes(e, x->rows);
    if (e->relay.size < 2 || e->relay.together) {
        if (!mnem__relay_first(&e->relay)) return MNEM_OK;
        MNEM__TRY(fetch_hidden(e, x->rows));
        return give_hidden(x);
    }
    if (mnem__relay_first(&e->relay)) {
        MNEM__TRY(mnem__relay_sent(&e->relay)); /* its own lie there */
        MNEM__TRY(mnem__relay_logits_receive(&e->relay, e->hidden, bytes));
        return give_hidden(x);
    }
    if (!mnem__relay_last(&e->relay)) return MNEM_OK;
    MNEM__TRY(fetch_hidden(e, x->rows));
    MNEM__TRY(give_hidden(x));
    MNEM__TRY(mnem__relay_logits_sent(&e->relay)); /* those before */
    MNEM__TRY(mnem__relay_logits_send(&e->relay, e->hidden, bytes));
    return mnem__relay_logits_sent(&e->relay);
}

/* Ranks that run a pass together all end it, or none does: one is stopped before it begins. */
static mnem_status check_stopped(const mnem_engine *e) {
    if (!e->relay.together || e->relay.rank > 0 || !__atomic_load_n(&e->cancel, __ATOMIC_RELAXED))
        return MNEM_OK;
    return mnem__fail(MNEM_CANCELLED, "engine: cancelled before a pass");
}

/* The last rank makes all that the pass wants before it hears that rank 0 wanted no more. */
static mnem_status run_heads(mnem__step *x, int32_t wanted) {
    mnem_engine *e = x->e;
    const int64_t embd = e->map->shape.embd;
    float *hidden = NULL; /* for operators */
    int32_t begin;
    if (mnem__head_here(&e->map->shape)) {
        MNEM__TRY(gather_wanted(x, &begin));
        if (begin >= 0) hidden = (float *)e->external[MNEM__SLOT_HIDDEN] + begin * embd;
    }
    reader r = {0, mnem__step_wanted(x, e->tables.segments)};
    mnem_status status = MNEM_OK;
    for (int32_t i = 0; i < wanted && status == MNEM_OK; i += e->logits_rows) {
        float *rows = hidden ? hidden + i * embd : NULL;
        status = run_head(x, rows, mnem__min_i32(e->logits_rows, wanted - i), &r);
        for (int32_t k = i + e->logits_rows; status != MNEM_OK && k < wanted; k += e->logits_rows) {
            if (hidden && !(e->relay.together && status == MNEM_CANCELLED)) break;
            const mnem_status left = make_logits(x, hidden ? hidden + k * embd : NULL,
                                                 mnem__min_i32(e->logits_rows, wanted - k));
            if (left != MNEM_OK) status = left;
        }
    }
    return status;
}

mnem_status mnem__step_run_pass(mnem__step *x) {
    mnem_engine *e = x->e;
    int32_t wanted;
    x->segments = mnem__step_deal(x, &x->next, e->tables.segments, &wanted);
    const mnem__segment *last = &e->tables.segments[x->segments - 1];
    x->rows = last->row + last->n;
    MNEM__TRY(check_stopped(e));
    for (int32_t i = 0; i < x->segments; i++) MNEM__TRY(fill_segment(x, i));
    if (mnem__relay_leads(&x->e->relay)) MNEM__TRY(tell_pass(x));
    mnem_status status = end_body(x, run_body(x));
    if (status == MNEM_OK && x->on_hidden) status = pass_hidden(x);
    if (status == MNEM_OK && wanted > 0)
        status = x->later ? mnem__step_await(x, wanted) : run_heads(x, wanted);
    if (status != MNEM_OK && status != MNEM_CANCELLED && e->relay.together)
        mnem_comm_abort(e->relay.comm, mnem_last_error()); /* the others wait in the middle of it */
    if (status != MNEM_OK) return status;
    for (int32_t i = 0; i < x->segments; i++) {
        mnem_sequence *s = x->parts[e->tables.segments[i].part].sequence;
        s->ready += e->tables.segments[i].n;
        s->length = mnem__max_i32(s->length, s->ready);
    }
    e->stats.tokens += (uint64_t)x->rows;
    return MNEM_OK;
}
