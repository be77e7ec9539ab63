/* pass_nodes.c: what the nodes of a pass do on one machine (pass_nodes.h).
 *
 * Idea: what is under way lies in the engine's tables: ids, positions, the pages of each layer. The
 * body leaves hidden rows, of which the wanted ones are moved together for the head, which makes
 * logits of as many rows at once as they have room for. */
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "engine/pass_nodes.h"
#include "model/weights/finite.h"

/* ---- hidden rows of a device that the host doesn't reach: a copy for the host, and back ---- */

mnem_status mnem__pass_fetch_states(mnem__step *x) {
    return mnem__location_read(x->e->hidden, mnem__part_at(&x->e->taken, MNEM__PART_ACTIVATIONS),
                               mnem__step_hidden_bytes(x));
}

mnem_status mnem__pass_store_states(mnem__step *x) {
    return mnem__location_write(mnem__part_at(&x->e->taken, MNEM__PART_ACTIVATIONS), x->e->hidden,
                                mnem__step_hidden_bytes(x));
}

/* ---- a pass of the body ---- */

/* The rows of the embedding matrix, from the file. */
mnem_status mnem__pass_read_rows(mnem__step *x) {
    mnem_engine *e = x->e;
    MNEM__TRY(mnem__transformer_embedding_read(e->map, e->tables.ids, x->rows, e->rows));
    for (int32_t i = 0; i < x->rows; i++) e->tables.ids[i] = i;
    return MNEM_OK;
}

/* The segment's ids and positions; the same when it is asked again before the pass has ended. */
static void fill_ids(mnem__step *x, const mnem__segment *g) {
    mnem_engine *e = x->e;
    const mnem_step_part *part = &x->parts[g->part];
    const mnem_sequence *s = part->sequence;
    const int k = mnem__engine_ids_kind(e);
    int32_t *history = mnem__engine_has_states(e) ? mnem__sequence_history(s) : NULL;
    for (int32_t i = 0; i < g->n; i++) {
        const int32_t at = g->at + i, position = s->ready + i;
        int32_t *known = history  ? &history[position]
                         : k >= 0 ? mnem__kv_id(&e->pages[k], &s->table[k], position)
                                  : NULL;
        const int32_t id = at < 0 ? *known : part->ids[at];
        e->tables.ids[g->row + i] = id;
        e->tables.positions[g->row + i] = position;
        if (known) *known = id;
    }
}

/* The segment's ids, positions and pages, for all layers. */
static mnem_status fill_segment(mnem__step *x, int32_t index) {
    mnem_engine *e = x->e;
    const mnem__segment *g = &e->tables.segments[index];
    mnem_sequence *s = x->parts[g->part].sequence;
    const mnem_transformer *t = &e->map->shape;
    uint64_t offset[MNEM__KV_KINDS] = {0}; /* of the layer in a page of its kind */
    for (int k = 0; k < MNEM__KV_KINDS; k++) {
        const mnem__kv_room room = mnem__step_room(s, k, s->ready, g->n);
        MNEM__TRY(mnem__kv_pages_make_room(&e->pages[k], &s->table[k], &room));
    }
    fill_ids(x, g);
    for (int32_t i = 0; i < mnem__kept_rows(t); i++) {
        mnem_kv_sequence *kv = &e->tables.kv[(int64_t)i * x->segments + index];
        const mnem__kept kept = mnem__kept_of(t, &e->pages[0].layout, mnem__kept_row(t, i));
        const mnem__kv_kind k = kept.pages;
        *kv = kept.unit == MNEM__KEPT_SEQUENCE
                  ? mnem__kv_state_of(&e->pages[k], offset[k], &s->table[k])
                  : mnem__kv_sequence_of(&e->pages[k], offset[k], &s->table[k]);
        kv->first_position = s->ready;
        kv->first_row = g->row;
        kv->rows = g->n;
        offset[k] += kept.page_bytes;
    }
    return MNEM_OK;
}

mnem_status mnem__pass_fill(mnem__step *x) {
    for (int32_t i = 0; i < x->segments; i++) MNEM__TRY(fill_segment(x, i));
    mnem__adapters_of_body(x);
    return MNEM_OK;
}

static mnem_graph_args pass_args(const mnem__step *x, int64_t tokens) {
    mnem_graph_args args = x->e->args;
    args.tokens = tokens;
    args.kv_count = x->segments;
    return args;
}

/* Of one sequence, rows before the first wanted one needn't be finished. */
static int32_t first_wanted(const mnem__step *x) {
    const mnem__segment *g = x->e->tables.segments;
    return x->segments == 1 && !x->on_hidden ? g->n - mnem__step_wanted(x, g) : 0;
}

/* Nodes [first, end). */
static mnem_status run_nodes(mnem_engine *e, const mnem_graph *graph, int32_t first, int32_t end,
                             const mnem_graph_args *args) {
    if (first == 0) e->stats.passes++;
    MNEM__TRY(mnem__device_enter(e->device));
    const mnem_status status = mnem_graph_run_part(graph, first, end, e->team, args);
    mnem__device_leave(e->device);
    return status;
}

static mnem_status run_body(mnem__step *x, int32_t first, int32_t end) {
    mnem_graph_args args = pass_args(x, x->rows);
    args.first_row = first_wanted(x);
    return run_nodes(x->e, x->e->graphs.body, first, end, &args);
}

mnem_status mnem__pass_run_to_layer_rows(mnem__step *x) {
    return run_body(x, 0, x->e->layer_rows_node);
}

/* What is left of it. */
mnem_status mnem__pass_run_body(mnem__step *x) {
    return run_body(x, x->e->layer_rows_node, x->e->graphs.body_sizes.nodes);
}

/* ---- what tokens have for each layer: rows of a table in the file ---- */

static void advise_layer_rows(const mnem__step *x, bool soon) {
    for (int32_t i = 0; i < x->rows; i++)
        mnem__transformer_layer_row_advise(x->e->map, x->e->tables.ids[i], soon);
}

/* Those of the step's next pass, as many as a chunk has at the most. */
static void advise_next_rows(const mnem__step *x) {
    int32_t left = x->e->choice.chunk, at = mnem__max_i32(x->next.at, 0);
    for (int32_t part = x->next.part; part < x->count && left > 0; part++, at = 0)
        for (; at < x->parts[part].n && left > 0; at++, left--)
            mnem__transformer_layer_row_advise(x->e->map, x->parts[part].ids[at], true);
}

/* The disk is asked for the rows of all tokens together, before anything is computed. */
mnem_status mnem__pass_ask_layer_rows(mnem__step *x) {
    advise_layer_rows(x, true);
    return MNEM_OK;
}

/* Rows that the members of a team read and decode, each some of them. */
typedef struct row_job {
    const mnem__step *x;
    atomic_flag failed; /* who sets it writes what went wrong, which its own thread knows alone */
    mnem_status status;
    char text[512];
} row_job;

static void add_rows(const mnem_worker *worker, void *context) {
    row_job *job = context;
    const mnem_engine *e = job->x->e;
    const uint64_t width = mnem__transformer_layer_row(&e->map->shape) / sizeof(float);
    float *to = mnem__part_host(&e->taken, MNEM__PART_LAYER_ROWS);
    mnem_status status = MNEM_OK;
    int64_t begin, end;
    mnem_team_split(worker, job->x->rows, 1, &begin, &end);
    for (int64_t i = begin; i < end && status == MNEM_OK; i++)
        status =
            mnem__transformer_layer_row_add(e->map, e->tables.ids[i], to + (uint64_t)i * width);
    if (status == MNEM_OK || atomic_flag_test_and_set(&job->failed)) return;
    job->status = status;
    strncpy(job->text, mnem_last_error(), sizeof job->text - 1);
}

/* Adds the rows to what the body made; those of the next chunk are asked for. They don't stay in
 * the page cache, unless the model is read through that: it has those of two chunks at the most. */
mnem_status mnem__pass_add_layer_rows(mnem__step *x) {
    const mnem_engine *e = x->e;
    const mnem_worker alone = {.count = 1};
    row_job job = {.x = x, .failed = ATOMIC_FLAG_INIT};
    for (int32_t i = 0; i < x->segments; i++) /* mnem__pass_read_rows has put other numbers there */
        fill_ids(x, &e->tables.segments[i]);
    if (x->rows > 1 && mnem__transformer_layer_rows_apart(e->map))
        mnem_team_run(e->team, add_rows, &job);
    else
        add_rows(&alone, &job);
    if (!e->page_cache) advise_layer_rows(x, false);
    advise_next_rows(x);
    return job.status == MNEM_OK ? MNEM_OK : mnem__fail(job.status, "%s", job.text);
}

/* ---- passes of the head ---- */

/* Moves hidden rows whose logits are wanted together, behind the first of them. */
mnem_status mnem__pass_gather_wanted(mnem__step *x) {
    const uint64_t bytes = (uint64_t)x->e->map->shape.embd * sizeof(float);
    const mnem__location hidden = mnem__part_at(&x->e->taken, MNEM__PART_ACTIVATIONS);
    int32_t begin = -1, to = -1;
    for (int32_t i = 0; i < x->segments; i++) {
        const mnem__segment *g = &x->e->tables.segments[i];
        const int32_t n = mnem__step_wanted(x, g), from = g->row + g->n - n;
        if (n == 0) continue;
        if (to < 0) begin = to = from;
        if (to != from)
            MNEM__TRY(mnem__location_move(mnem__location_at(hidden, (uint64_t)to * bytes),
                                          mnem__location_at(hidden, (uint64_t)from * bytes),
                                          (size_t)((uint64_t)n * bytes)));
        to += n;
    }
    x->head.hidden = (float *)x->e->external[MNEM__SLOT_HIDDEN] + begin * x->e->map->shape.embd;
    return MNEM_OK;
}

mnem_status mnem__pass_run_head(mnem__step *x) {
    mnem_engine *e = x->e;
    mnem_graph_args args = pass_args(x, x->head.n);
    void *external[MNEM__SLOTS];
    memcpy(external, e->external, sizeof external);
    mnem__adapters_of_head(x);
    external[MNEM__SLOT_HIDDEN] = x->head.hidden + (int64_t)x->head.at * e->map->shape.embd;
    args.external = external;
    return run_nodes(e, e->graphs.head, 0, e->graphs.head_sizes.nodes, &args);
}

/* Nothing can be chosen or measured by logits that are no numbers. Mostly a weight is none. */
mnem_status mnem__step_not_finite(const mnem_engine *e) {
    mnem_model_info info;
    MNEM__TRY(mnem__model_check_finite(e->model, &e->cancel));
    for (int32_t i = 0; i < mnem_engine_adapter_count(e); i++)
        MNEM__TRY(mnem__model_check_finite(e->adapters->file[i], &e->cancel));
    mnem_model_info_get(e->model, &info);
    return mnem__fail(
        MNEM_BAD_FILE,
        "%s: the logits are not finite (NaN or infinite), although the weights are: the model "
        "overflows on this text; change the text, or use another file of the model",
        info.path);
}

mnem_status mnem__pass_check_logits(mnem__step *x) {
    const mnem_engine *e = x->e;
    return mnem__is_finite(e->logits, (int64_t)x->head.n * e->map->shape.vocab)
               ? MNEM_OK
               : mnem__step_not_finite(e);
}

static mnem_status give_row(mnem__step *x, const float *logits) {
    const mnem__segment *g = &x->e->tables.segments[x->head.segment];
    while (x->head.left == 0) {
        g = &x->e->tables.segments[++x->head.segment];
        x->head.left = mnem__step_wanted(x, g);
    }
    const int32_t index = g->at + g->n - x->head.left--;
    if (x->on_logits(x->context, g->part, index, logits)) return MNEM_OK;
    return mnem__fail(MNEM_CANCELLED, "engine: stopped by the caller at token %d", index);
}

mnem_status mnem__pass_give_logits(mnem__step *x) {
    for (int32_t i = 0; i < x->head.n; i++)
        MNEM__TRY(give_row(x, x->e->logits + (int64_t)i * x->e->map->shape.vocab));
    return MNEM_OK;
}

/* ---- hidden rows that are wanted ---- */

mnem_status mnem__pass_check_hidden(mnem__step *x) {
    const mnem_engine *e = x->e;
    return mnem__is_finite(e->hidden, (int64_t)x->rows * e->map->shape.embd)
               ? MNEM_OK
               : mnem__step_not_finite(e);
}

mnem_status mnem__pass_give_hidden(mnem__step *x) {
    const mnem_engine *e = x->e;
    const int64_t embd = e->map->shape.embd;
    mnem_status status = MNEM_OK;
    for (int32_t i = 0; i < x->segments && status == MNEM_OK; i++) {
        const mnem__segment *g = &e->tables.segments[i];
        if (g->at + g->n > 0) /* not one that only runs again */
            status = x->on_hidden(x->context, g->part, mnem__max_i32(g->at, 0),
                                  g->n + mnem__min_i32(g->at, 0),
                                  e->hidden + (g->row - mnem__min_i32(g->at, 0)) * embd);
    }
    return status;
}
