/* engine_step.c: runs tokens of sequences through an engine.
 *
 * Idea: the parts of a step are dealt to passes, each up to a chunk of tokens, in the order of the
 * parts; then one pass of the head for each group of rows whose logits are wanted.
 *
 *     parts    a: 5 tokens, logits of the last    b: 1, of it    c: 6, of the last      chunk 8
 *     pass 1   rows  a a a a a b c c      head: rows 4 and 5, moved together if they aren't
 *     pass 2   rows  c c c c              head: row 3
 *
 * The next passes are told to the reader before one runs, so that it reads ahead over the borders
 * of passes: a second cursor walks the same parts ahead of the first.
 * Invariant: keys and values of positions below a sequence's length are whole; what lies behind is
 * overwritten, in pages that no other sequence has.
 * Cost: nothing is allocated; a pass streams what isn't resident once, for all its tokens. */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/event.h"
#include "base/minmax.h"
#include "engine/engine_private.h"
#include "model/weights/finite.h"

enum { PASSES_AHEAD = 2 };

/* Where in the parts the next pass begins; at below 0: tokens of the sequence run again, whose
 * states are gone (sequence.c). */
typedef struct cursor {
    int32_t part, at;
} cursor;

typedef struct step {
    mnem_engine *e;
    const mnem_step_part *parts;
    int32_t count;
    mnem_on_step_logits *on_logits;
    mnem__on_hidden *on_hidden; /* NULL: logits are wanted */
    void *context;
    cursor next; /* pass to run */
    /* Passes told to the reader run ahead of those run. */
    cursor told;   /* pass to tell */
    int32_t heads; /* head passes of the last told body still to be told */
    int32_t ahead; /* told and not run */
    /* The pass that runs. */
    int32_t segments, rows; /* segments: in the engine's table */
} step;

/* How many of the segment's rows have logits that are wanted: its last ones. */
static int32_t wanted_of(const step *x, const mnem__segment *g) {
    const int32_t wanted = g->at + g->n - x->parts[g->part].first_logits;
    return x->on_logits ? mnem__min_i32(mnem__max_i32(wanted, 0), g->n) : 0;
}

/* A part's first token, and those that run again before it. */
static cursor begin_part(const step *x, int32_t part) {
    cursor c = {part, 0};
    if (part < x->count && x->parts[part].n > 0)
        c.at = x->parts[part].sequence->ready - x->parts[part].sequence->length;
    return c;
}

/* A cursor is at a token, or behind the last part. */
static void skip_empty(const step *x, cursor *c) {
    while (c->part < x->count && c->at == x->parts[c->part].n) *c = begin_part(x, c->part + 1);
}

/* The segments of the pass at c, which moves behind it; into out unless that is NULL. Returns their
 * number; *wanted: rows whose logits are. */
static int32_t deal(const step *x, cursor *c, mnem__segment *out, int32_t *wanted) {
    int32_t segments = 0, row = 0;
    *wanted = 0;
    while (c->part < x->count && row < x->e->choice.chunk) {
        const int32_t left = x->parts[c->part].n - c->at;
        const int32_t room = x->e->choice.chunk - row;
        if (left > room && x->e->map->shape.encoder) break; /* its texts are whole */
        const mnem__segment g = {c->part, c->at, mnem__min_i32(left, room), row};
        if (out) out[segments] = g;
        segments++;
        row += g.n;
        *wanted += wanted_of(x, &g);
        c->at += g.n;
        skip_empty(x, c);
    }
    return segments;
}

/* ---- pages ---- */

/* What a sequence needs of one kind for its next n tokens, of which the first may lie in a page
 * that others have too. What lies before every window of theirs is forgotten no earlier than room
 * is needed: until then the sequence may be cut back to there. */
static mnem__kv_room room_of(const mnem_sequence *s, int kind, int32_t ready, int32_t n) {
    const mnem_engine *e = s->engine;
    const mnem_kv_layout *layout = &e->pages[kind].layout;
    const int32_t end = mnem__kv_pages_for(layout, mnem__max_i32(ready + n, s->length));
    if (e->pages[kind].count == 0) return (mnem__kv_room){0};
    return (mnem__kv_room){.keep = end - e->tables.kind[kind].need.pages,
                           .write = ready / layout->page_tokens,
                           .end = end};
}

/* The pages that a pass will take, in the order in which it takes them. */
static void count_pass(const step *x, int32_t segments, mnem__kv_count *count) {
    mnem_engine *e = x->e;
    for (int32_t i = 0; i < segments; i++) {
        const mnem__segment *g = &e->tables.segments[i];
        mnem_sequence *s = x->parts[g->part].sequence;
        for (int k = 0; k < MNEM__KV_KINDS; k++) {
            const mnem__kv_room room = room_of(s, k, s->ahead.ready, g->n);
            mnem__kv_ahead_make_room(&count[k], &e->pages[k], &s->table[k], &s->ahead.table[k],
                                     &room);
        }
        s->ahead.ready += g->n;
    }
}

/* What the whole step will take of the free pages at the most, by kind. */
static mnem_page_count count_step(const step *x) {
    mnem_engine *e = x->e;
    mnem__kv_count count[MNEM__KV_KINDS] = {{0}};
    cursor at = begin_part(x, 0);
    int32_t wanted;
    skip_empty(x, &at);
    for (int32_t i = 0; i < x->count; i++) {
        mnem_sequence *s = x->parts[i].sequence;
        s->ahead.ready = s->ready;
        for (int k = 0; k < MNEM__KV_KINDS; k++)
            mnem__kv_ahead_begin(&s->ahead.table[k], &s->table[k]);
    }
    while (at.part < x->count) count_pass(x, deal(x, &at, e->tables.segments, &wanted), count);
    for (int32_t i = 0; i < x->count; i++) {
        const mnem_sequence *s = x->parts[i].sequence;
        for (int k = 0; k < MNEM__KV_KINDS; k++)
            mnem__kv_ahead_end(&e->pages[k], &s->table[k], &s->ahead.table[k]);
    }
    return (mnem_page_count){count[MNEM__KV_FULL].most, count[MNEM__KV_WINDOW].most};
}

/* ---- reading ahead ---- */

static mnem_status tell_one(step *x) {
    const bool head = x->heads > 0;
    int32_t wanted;
    if (head) {
        x->heads--;
    } else {
        deal(x, &x->told, NULL, &wanted);
        x->heads = (wanted + x->e->logits_rows - 1) / x->e->logits_rows;
    }
    x->ahead++;
    return mnem__weights_schedule(x->e->weights, head ? MNEM__PASS_HEAD : MNEM__PASS_BODY);
}

/* Tells the reader the passes up to PASSES_AHEAD behind the one that runs next. */
static mnem_status tell_ahead(step *x) {
    mnem_status status = MNEM_OK;
    while (status == MNEM_OK && x->ahead <= PASSES_AHEAD &&
           (x->heads > 0 || x->told.part < x->count))
        status = tell_one(x);
    x->ahead--;
    return status;
}

/* ---- a pass of the body ---- */

/* The rows of the embedding matrix, from the file. */
static mnem_status read_rows(mnem_engine *e, int32_t n) {
    const uint32_t tensor = (uint32_t)e->map->matrices[e->map->embedding];
    uint8_t *rows = e->external[MNEM__SLOT_EMBEDDING];
    for (int32_t i = 0; i < n; i++) {
        MNEM__TRY(mnem_model_tensor_read(e->model, tensor,
                                         (uint64_t)e->tables.ids[i] * e->row_bytes, e->row_bytes,
                                         rows + (uint64_t)i * e->row_bytes));
        e->tables.ids[i] = i;
    }
    return MNEM_OK;
}

/* The segment's ids and positions. */
static void fill_ids(step *x, const mnem__segment *g) {
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
static void fill_segment(step *x, int32_t index) {
    mnem_engine *e = x->e;
    const mnem__segment *g = &e->tables.segments[index];
    mnem_sequence *s = x->parts[g->part].sequence;
    const mnem_transformer *t = &e->map->shape;
    uint64_t offset[MNEM__KV_KINDS] = {0}; /* of the layer in a page of its kind */
    for (int k = 0; k < MNEM__KV_KINDS; k++) {
        const mnem__kv_room room = room_of(s, k, s->ready, g->n);
        mnem__kv_pages_make_room(&e->pages[k], &s->table[k], &room);
    }
    fill_ids(x, g);
    for (int32_t layer = 0; layer < mnem__kv_layers(t); layer++) {
        mnem_kv_sequence *kv = &e->tables.kv[(int64_t)layer * x->segments + index];
        const mnem__kv_kind k = mnem__kv_kind_of(t, layer);
        *kv = mnem__kv_sequence_of(&e->pages[k], offset[k], &s->table[k]);
        kv->first_position = s->ready;
        kv->first_row = g->row;
        kv->rows = g->n;
        offset[k] += mnem__kv_layer_bytes(t, &e->pages[k].layout, layer);
    }
}

static mnem_graph_args pass_args(const step *x, int64_t tokens) {
    mnem_engine *e = x->e;
    return (mnem_graph_args){.tokens = tokens,
                             .block =
                                 (uint8_t *)e->external[MNEM__SLOT_HIDDEN] + e->parts.hidden_bytes,
                             .workspace = mnem_block_host(&e->block[MNEM__PART_WORKSPACE].memory),
                             .external = e->external,
                             .ids = e->tables.ids,
                             .positions = e->tables.positions,
                             .kv = e->tables.kv,
                             .kv_count = x->segments,
                             .weights = &e->source,
                             .cancel = &e->cancel};
}

/* Of one sequence, rows before the first wanted one needn't be finished. */
static int32_t first_wanted(const step *x) {
    const mnem__segment *g = x->e->tables.segments;
    return x->segments == 1 && !x->on_hidden ? g->n - wanted_of(x, g) : 0;
}

static mnem_status run_body(step *x) {
    mnem_engine *e = x->e;
    mnem_status status = tell_ahead(x);
    for (int32_t i = 0; i < x->segments; i++) fill_segment(x, i);
    if (status == MNEM_OK && !e->choice.embedding_packed) status = read_rows(e, x->rows);
    if (status != MNEM_OK) return status;
    mnem_graph_args args = pass_args(x, x->rows);
    args.first_row = first_wanted(x);
    e->stats.passes++;
    return mnem_graph_run(e->graphs.body, e->team, &args);
}

/* ---- passes of the head ---- */

/* Moves hidden rows whose logits are wanted together, behind the first of them; returns where they
 * begin; NULL: there are none. */
static float *gather_wanted(const step *x) {
    const int64_t embd = x->e->map->shape.embd;
    float *hidden = x->e->external[MNEM__SLOT_HIDDEN], *begin = NULL, *to = NULL;
    for (int32_t i = 0; i < x->segments; i++) {
        const mnem__segment *g = &x->e->tables.segments[i];
        const int32_t n = wanted_of(x, g);
        float *from = hidden + (g->row + g->n - n) * embd;
        if (n == 0) continue;
        if (!begin) begin = to = from;
        if (to != from) memmove(to, from, (size_t)(n * embd) * sizeof *to);
        to += n * embd;
    }
    return begin;
}

/* Which row of logits comes next, as a segment and a token of its. */
typedef struct reader {
    int32_t segment, left; /* rows of it still to come */
} reader;

static mnem_status give_logits(const step *x, reader *r, const float *logits) {
    const mnem__segment *g = &x->e->tables.segments[r->segment];
    while (r->left == 0) {
        g = &x->e->tables.segments[++r->segment];
        r->left = wanted_of(x, g);
    }
    const int32_t index = g->at + g->n - r->left--;
    if (x->on_logits(x->context, g->part, index, logits)) return MNEM_OK;
    return mnem__fail(MNEM_CANCELLED, "session: stopped by the caller at token %d", index);
}

/* Nothing can be chosen or measured by logits that are no numbers. Mostly a weight is none. */
static mnem_status not_finite(const mnem_engine *e) {
    mnem_model_info info;
    MNEM__TRY(mnem__model_check_finite(e->model, &e->cancel));
    for (int32_t i = 0; e->adapters && i < e->adapters->count; i++) {
        const mnem_model *file = e->adapters->product[i].file;
        if (i == 0 || file != e->adapters->product[i - 1].file)
            MNEM__TRY(mnem__model_check_finite(file, &e->cancel));
    }
    mnem_model_info_get(e->model, &info);
    return mnem__fail(MNEM_BAD_FILE, "%s: its logits aren't finite numbers, though its weights are",
                      info.path);
}

static mnem_status run_head(step *x, float *hidden, int32_t n, reader *r) {
    mnem_engine *e = x->e;
    const float *logits = e->external[MNEM__SLOT_LOGITS];
    MNEM__TRY(tell_ahead(x));
    mnem_graph_args args = pass_args(x, n);
    void *external[MNEM__SLOTS];
    memcpy(external, e->external, sizeof external);
    external[MNEM__SLOT_HIDDEN] = hidden;
    args.external = external;
    e->stats.passes++;
    mnem_status status = mnem_graph_run(e->graphs.head, e->team, &args);
    if (status == MNEM_OK && !mnem__is_finite(logits, (int64_t)n * e->map->shape.vocab))
        status = not_finite(e);
    for (int32_t i = 0; i < n && status == MNEM_OK; i++)
        status = give_logits(x, r, logits + (int64_t)i * e->map->shape.vocab);
    return status;
}

static mnem_status give_hidden(const step *x) {
    const mnem_engine *e = x->e;
    const int64_t embd = e->map->shape.embd;
    float *hidden = e->external[MNEM__SLOT_HIDDEN];
    mnem_status status = MNEM_OK;
    if (!mnem__is_finite(hidden, x->rows * embd)) return not_finite(e);
    for (int32_t i = 0; i < x->segments && status == MNEM_OK; i++) {
        const mnem__segment *g = &e->tables.segments[i];
        if (g->at + g->n > 0) /* not one that only runs again */
            status = x->on_hidden(x->context, g->part, mnem__max_i32(g->at, 0),
                                  g->n + mnem__min_i32(g->at, 0),
                                  hidden + (g->row - mnem__min_i32(g->at, 0)) * embd);
    }
    return status;
}

static mnem_status run_pass(step *x) {
    mnem_engine *e = x->e;
    int32_t wanted;
    x->segments = deal(x, &x->next, e->tables.segments, &wanted);
    const mnem__segment *last = &e->tables.segments[x->segments - 1];
    x->rows = last->row + last->n;
    mnem_status status = run_body(x);
    if (status == MNEM_OK && x->on_hidden) status = give_hidden(x);
    float *hidden = gather_wanted(x);
    reader r = {0, wanted_of(x, e->tables.segments)};
    for (int32_t i = 0; i < wanted && status == MNEM_OK; i += e->logits_rows)
        status = run_head(x, hidden + i * (int64_t)e->map->shape.embd,
                          mnem__min_i32(e->logits_rows, wanted - i), &r);
    if (status != MNEM_OK) return status;
    for (int32_t i = 0; i < x->segments; i++) {
        mnem_sequence *s = x->parts[e->tables.segments[i].part].sequence;
        s->ready += e->tables.segments[i].n;
        s->length = mnem__max_i32(s->length, s->ready);
    }
    e->stats.tokens += (uint64_t)x->rows;
    return MNEM_OK;
}

/* ---- a step ---- */

static mnem_status check_part(const mnem_engine *e, const mnem_step_part *part) {
    const mnem_sequence *s = part->sequence;
    if (s->engine != e || !s->open || s->in_step)
        return mnem__fail(MNEM_INVALID, "engine: a sequence %s",
                          s->engine == e && s->open ? "twice in one step"
                                                    : "that isn't the engine's");
    if (s->load.on) return mnem__fail(MNEM_INVALID, "engine: a sequence that is being loaded");
    if (part->n < 0) return mnem__fail(MNEM_INVALID, "session: %d tokens", part->n);
    for (int32_t i = 0; i < part->n; i++)
        if (part->ids[i] < 0 || part->ids[i] >= e->map->shape.vocab)
            return mnem__fail(MNEM_INVALID, "session: token %d is %d, the vocabulary has %d", i,
                              part->ids[i], e->map->shape.vocab);
    if (part->n > e->choice.context - s->length)
        return mnem__fail(MNEM_OVER_BUDGET,
                          "session: %d tokens after %d don't fit the context of %d", part->n,
                          s->length, e->choice.context);
    return MNEM_OK;
}

static mnem_status check_parts(const mnem_engine *e, const mnem_step_part *parts, int32_t count) {
    mnem_status status = MNEM_OK;
    int32_t checked = 0;
    if (!e->can_run)
        return mnem__fail(MNEM_UNSUPPORTED, "session: the host can't see this device's memory: it "
                                            "is for planning, not for running");
    for (; checked < count && status == MNEM_OK; checked++) {
        status = check_part(e, &parts[checked]);
        if (status == MNEM_OK) parts[checked].sequence->in_step = true;
    }
    for (int32_t i = 0; i < checked; i++) parts[i].sequence->in_step = false;
    return status;
}

/* Gives back the pages behind every sequence. That is never refused: what the pass would have seen
 * of windows is there still (room_of). */
static void trim(const step *x) {
    for (int32_t i = 0; i < x->count; i++) {
        mnem__sequence_doubt(x->parts[i].sequence);
        mnem_sequence_truncate(x->parts[i].sequence, x->parts[i].sequence->length);
    }
    mnem__weights_rewind(x->e->weights);
}

mnem_status mnem__engine_refuse_encoder(const mnem_transformer *t) {
    return mnem__fail(MNEM_UNSUPPORTED, "session: %s is for embeddings, not for text: mnem embed",
                      t->architecture);
}

/* Nothing runs that would stop for want of a page. */
static mnem_status check_pages(const step *x) {
    const mnem__kv_pages *pages = x->e->pages;
    const mnem_page_count taken = count_step(x);
    const bool full = taken.full > pages[MNEM__KV_FULL].free_count;
    const mnem__kv_pages *lacks = &pages[full ? MNEM__KV_FULL : MNEM__KV_WINDOW];
    const int32_t needed = full ? taken.full : taken.window;
    if (needed <= lacks->free_count) return MNEM_OK;
    return mnem__fail(MNEM_OVER_BUDGET, "engine: a step of %d pages, %d of %d are free", needed,
                      lacks->free_count, lacks->count);
}

mnem_status mnem_engine_step_pages(mnem_engine *e, const mnem_step_part *parts, int32_t count,
                                   mnem_page_count *pages) {
    const step x = {.e = e, .parts = parts, .count = count};
    *pages = (mnem_page_count){0};
    MNEM__TRY(check_parts(e, parts, count));
    *pages = count_step(&x);
    return MNEM_OK;
}

/* With the tokens that it runs. */
static void tell_step(const step *x, mnem__event_what what) {
    uint64_t tokens = 0;
    if (!mnem__event_told()) return;
    for (int32_t i = 0; i < x->count; i++) tokens += (uint64_t)x->parts[i].n;
    mnem__event_say(what, MNEM__OWNER_FIXED, MNEM__FIXED_STEP, MNEM__SPAN_STEP, "step", NULL,
                    what == MNEM__EVENT_BEGIN ? tokens : 0);
    mnem__event_sample();
}

static mnem_status run_step(step *x) {
    mnem_engine *e = x->e;
    mnem_status status = check_parts(e, x->parts, x->count);
    if (status == MNEM_OK) status = check_pages(x);
    if (status != MNEM_OK) return status;
    const double start = mnem__seconds();
    tell_step(x, MNEM__EVENT_BEGIN);
    x->next = begin_part(x, 0);
    skip_empty(x, &x->next);
    x->told = x->next;
    while (status == MNEM_OK && x->next.part < x->count) status = run_pass(x);
    if (status != MNEM_OK) trim(x);
    __atomic_store_n(&e->cancel, 0, __ATOMIC_RELAXED);
    e->stats.seconds_eval += mnem__seconds() - start;
    tell_step(x, MNEM__EVENT_END);
    return status;
}

mnem_status mnem_engine_step(mnem_engine *e, const mnem_step_part *parts, int32_t count,
                             mnem_on_step_logits *on_logits, void *context) {
    step x = {.e = e, .parts = parts, .count = count, .on_logits = on_logits, .context = context};
    if (e->map->shape.encoder) return mnem__engine_refuse_encoder(&e->map->shape);
    return run_step(&x);
}

mnem_status mnem__engine_step_hidden(mnem_engine *e, const mnem_step_part *parts, int32_t count,
                                     mnem__on_hidden *on_hidden, void *context) {
    step x = {.e = e, .parts = parts, .count = count, .on_hidden = on_hidden, .context = context};
    return run_step(&x);
}

void mnem_engine_cancel(mnem_engine *e) {
    __atomic_store_n(&e->cancel, 1, __ATOMIC_RELAXED);
}
