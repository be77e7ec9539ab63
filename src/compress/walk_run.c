/* walk_run.c: a model over a text, layer by layer.
 *
 *     for each layer (-1: the embedding)
 *         load its weights, build its program
 *         for each sequence
 *             states: memory or file ─► passes of the program, in place ─► back
 *
 * Idea: the loops of running are turned inside out. An engine takes all layers for a few tokens;
 * here all tokens are taken through a layer, so its weights are read once for the whole text, and
 * everything about a layer's inputs is known before the next one begins.
 * Invariant: a row's values depend on its sequence only, since operators compute the same bits for
 * any number of tokens and workers; so does what the watcher sees.
 * Cost: one layer's weights, states of all tokens (in a file where they don't fit), one program. */
#include "base/carve.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "base/progress.h"
#include "base/team/team.h"
#include "base/thread.h"
#include "compress/walk_private.h"
#include "engine/pages/kv_pages.h"
#include "mnem/supports.h"
#include "model/weights/finite.h"

enum { CHUNK_DEFAULT = 512 };

/* ---- what is refused ---- */

static mnem_status check(const mnem__walker *w) {
    const mnem_walk_options *o = w->options;
    const mnem_transformer *t = &w->map->shape;
    if (!o->ledger) return mnem__fail(MNEM_INVALID, "walk: options.ledger is missing");
    if (o->threads < 0 || o->threads > MNEM_TEAM_MAX || o->chunk < 0 || o->pass < 0)
        return mnem__fail(MNEM_INVALID,
                          "walk: options.threads is %d, chunk %d and pass %d, expected 0 or more "
                          "for each, and at most 256 threads",
                          o->threads, o->chunk, o->pass);
    if (w->sequences < 1)
        return mnem__fail(MNEM_INVALID,
                          "walk: the text is too short for one sequence; use a longer text");
    MNEM__TRY(mnem_transformer_supports(t, MNEM_FEATURE_WALK));
    if (w->map->positions.tensor >= 0 && w->chunk > t->context)
        return mnem__fail(MNEM_INVALID,
                          "walk: a sequence has %d tokens, but the model supports at most %d; use "
                          "shorter sequences",
                          w->chunk, t->context);
    for (int64_t i = 0; i < w->sequences * w->chunk; i++)
        if (w->ids[i] < 0 || w->ids[i] >= t->vocab)
            return mnem__fail(MNEM_INVALID,
                              "walk: token %lld has the id %d, but the vocabulary has %d tokens",
                              (long long)i, w->ids[i], t->vocab);
    return MNEM_OK;
}

/* ---- tables ---- */

static int32_t most_matrices(const mnem__walker *w) {
    int32_t most = 0, first;
    for (int32_t layer = 0; layer < w->map->shape.layers; layer++)
        most = mnem__max_i32(most, mnem__walk_layer_matrices(w, layer, &first));
    return most;
}

/* From base on (NULL measures); returns the bytes. */
static uint64_t lay_out(mnem__walker *w, uint8_t *base) {
    const int32_t pages = mnem__kv_pages_for(&w->kv, w->chunk);
    const uint64_t most = (uint64_t)w->matrices_most, chunk = (uint64_t)w->chunk;
    uint64_t at = 0;
    w->info = mnem__carve(base, &at, most, sizeof *w->info);
    w->same = mnem__carve(base, &at, most, sizeof *w->same);
    w->pages = mnem__carve(base, &at, (uint64_t)pages, sizeof *w->pages);
    w->rows = mnem__carve(base, &at, chunk, sizeof *w->rows);
    w->positions = mnem__carve(base, &at, chunk, sizeof *w->positions);
    w->resident = mnem__carve(base, &at, most, sizeof *w->resident);
    for (int32_t i = 0; base && i < pages; i++) w->pages[i] = i;
    for (int32_t i = 0; base && i < w->chunk; i++) w->rows[i] = i;
    return at;
}

static mnem_status make_tables(mnem__walker *w) {
    const mnem_transformer *t = &w->map->shape;
    w->kv = mnem__kv_layout_for(t, MNEM_KV_F16);
    w->states.sequence_bytes =
        mnem__align_up((uint64_t)w->chunk * (uint64_t)t->embd * sizeof(float), 64);
    w->matrices_most = most_matrices(w);
    uint8_t *base = mnem__calloc("walk", 1, lay_out(w, NULL));
    if (!base) return mnem__heap_status();
    lay_out(w, base);
    return MNEM_OK;
}

/* ---- what is chosen, taken ---- */

static mnem_status take_parts(mnem__walker *w, mnem_walk_report *report) {
    MNEM__TRY(mnem__walk_choose(w, report));
    MNEM__TRY(mnem_ledger_hold(w->options->ledger));
    MNEM__TRY(mnem__parts_take(&w->taken));
    w->states.base = mnem__part_host(&w->taken, MNEM__PART_TEXT);
    if (w->way.in_memory < w->sequences)
        MNEM__TRY(mnem__walk_states_open(&w->states, w->options->spill));
    MNEM__TRY(mnem_team_create(w->threads, &w->team));
    mnem__team_adapt(w->team);
    return mnem__transformer_vectors_load(w->map, mnem__part_at(&w->taken, MNEM__PART_VECTORS));
}

/* ---- a pass ---- */

/* The first time that a layer runs. */
static bool is_seen(const mnem__walker *w) {
    return w->watcher && w->watcher->input && w->kept == mnem__walk_again(w);
}

static mnem_status run_graph(mnem__walker *w, const mnem_graph_args *args) {
    MNEM__TRY(mnem__device_enter(w->taken.device));
    const mnem_status status = mnem_graph_run(w->graph, w->team, args);
    mnem__device_leave(w->taken.device);
    return status ? status : w->seen;
}

/* n tokens at w->position, whose states are x. */
static mnem_status run_pass(mnem__walker *w, float *x, int32_t n) {
    const mnem_graph_weights source = mnem__weights_source(w->weights);
    const mnem_graph_tap tap = {mnem__walk_see, w};
    const mnem_kv_sequence kv = {
        .base = mnem__part_bound(&w->taken, MNEM__PART_PAGES),
        .page_stride = w->layer < 0 ? 0 : mnem__kv_layer_bytes(&w->map->shape, &w->kv, w->layer),
        .table = w->pages,
        .first_position = w->position,
        .rows = n};
    const uint64_t at = (uint64_t)((uint8_t *)x - w->states.base);
    const mnem__location states = mnem__part_at(&w->taken, MNEM__PART_TEXT);
    void *external[MNEM__SLOTS] = {
        [MNEM__SLOT_HIDDEN] = mnem__location_bind(mnem__location_at(states, at)),
        [MNEM__SLOT_VECTORS] = mnem__part_bound(&w->taken, MNEM__PART_VECTORS),
        [MNEM__SLOT_EMBEDDING] = mnem__part_bound(&w->taken, MNEM__PART_ROWS)};
    const mnem_graph_args args = {.tokens = n,
                                  .block = mnem__part_bound(&w->taken, MNEM__PART_ACTIVATIONS),
                                  .workspace = mnem__part_bound(&w->taken, MNEM__PART_WORKSPACE),
                                  .external = external,
                                  .ids = w->rows,
                                  .positions = w->positions,
                                  .kv = &kv,
                                  .kv_count = 1,
                                  .weights = w->weights ? &source : NULL,
                                  .tap = is_seen(w) ? &tap : NULL};
    for (int32_t i = 0; i < n; i++) w->positions[i] = w->position + i;
    if (w->layer < 0) /* the rows of the embedding matrix, from the file */
        MNEM__TRY(mnem__transformer_embedding_read(w->map,
                                                   w->ids + w->sequence * w->chunk + w->position, n,
                                                   mnem__part_host(&w->taken, MNEM__PART_ROWS)));
    if (w->weights) MNEM__TRY(mnem__weights_schedule(w->weights, MNEM__PASS_BODY));
    return run_graph(w, &args);
}

static mnem_status tell(mnem__walker *w, int32_t n) {
    const uint64_t times = mnem__walk_again(w) ? 2 : 1;
    const uint64_t each = times * (uint64_t)w->map->shape.layers + 1;
    const uint64_t total = (uint64_t)w->sequences * (uint64_t)w->chunk * each;
    w->done += (uint64_t)n;
    if (mnem__progress_tell(&w->options->progress, "walking", w->done, total)) return MNEM_OK;
    return mnem__fail(MNEM_CANCELLED, "walk: stopped by the caller");
}

static mnem_status not_finite(const mnem__walker *w) {
    const int never = 0;
    MNEM__TRY(mnem__model_check_finite(w->model, &never));
    return mnem__fail(
        MNEM_BAD_FILE,
        "walk: the hidden states after layer %d are not finite (NaN or infinite), although the "
        "weights are: the model overflows on this text; use another text",
        w->layer);
}

/* w->sequence through the layer. */
static mnem_status run_sequence(mnem__walker *w) {
    const int64_t embd = w->map->shape.embd;
    float *x;
    if (w->kept)
        MNEM__TRY(mnem__walk_states_copy(&w->states, w->sequence, &x));
    else
        MNEM__TRY(mnem__walk_states_get(&w->states, w->sequence, w->layer >= 0, &x));
    for (w->position = 0; w->position < w->chunk;) {
        const int32_t n = mnem__min_i32(w->way.pass, w->chunk - w->position);
        MNEM__TRY(run_pass(w, x + w->position * embd, n));
        MNEM__TRY(tell(w, n));
        w->position += n;
    }
    if (!mnem__is_finite(x, w->chunk * embd)) return not_finite(w);
    return w->kept ? MNEM_OK : mnem__walk_states_put(&w->states, w->sequence);
}

/* ---- a layer ---- */

static mnem_status load(mnem__walker *w) {
    const mnem__weights_options o = mnem__walk_weights_options(w, w->layer);
    const mnem__weights_blocks blocks = {.resident = mnem__part_at(&w->taken, MNEM__PART_MATRICES),
                                         .ring = mnem__part_host(&w->taken, MNEM__PART_RING)};
    const mnem_progress nobody = {NULL, NULL};
    MNEM__TRY(mnem__weights_create(&o, &blocks, &w->weights));
    return mnem__weights_load(w->weights, &nobody);
}

static mnem_status run_sequences(mnem__walker *w) {
    mnem_status status = MNEM_OK;
    for (w->sequence = 0; w->sequence < w->sequences && status == MNEM_OK; w->sequence++)
        status = run_sequence(w);
    return status;
}

/* With its graph, and its weights if it has any. */
static mnem_status run_watched(mnem__walker *w) {
    w->kept = false;
    if (w->layer < 0) return run_sequences(w);
    int32_t first;
    const mnem_walk_watcher *watcher = w->watcher;
    const mnem_walk_layer layer = {.layer = w->layer,
                                   .layers = w->map->shape.layers,
                                   .matrices = mnem__walk_layer_matrices(w, w->layer, &first),
                                   .matrix = w->info,
                                   .same = w->same,
                                   .walker = w};
    mnem__walk_find_inputs(w);
    MNEM__TRY(load(w));
    if (watcher && watcher->begin) MNEM__TRY(watcher->begin(watcher->context, &layer));
    w->kept = mnem__walk_again(w);
    MNEM__TRY(run_sequences(w));
    if (watcher && watcher->end) MNEM__TRY(watcher->end(watcher->context, &layer));
    if (!w->kept) return MNEM_OK;
    w->kept = false;
    return run_sequences(w);
}

static mnem_status run_layer(mnem__walker *w) {
    const mnem__transformer_graph_options o = mnem__walk_graph_options(w, w->way.pass);
    mnem_graph_sizes sizes;
    MNEM__TRY(mnem__transformer_part(&o, w->layer, &w->graph, &sizes));
    const mnem_status status = run_watched(w);
    mnem__weights_destroy(w->weights);
    mnem_graph_destroy(w->graph);
    w->weights = NULL;
    w->graph = NULL;
    return status;
}

static mnem_status give_states(mnem__walker *w) {
    const mnem_walk_watcher *watcher = w->watcher;
    float *x;
    if (!watcher || !watcher->states) return MNEM_OK;
    for (int64_t i = 0; i < w->sequences; i++) {
        MNEM__TRY(mnem__walk_states_get(&w->states, i, true, &x));
        MNEM__TRY(watcher->states(watcher->context, i, x));
    }
    return MNEM_OK;
}

static mnem_status walk_model(mnem__walker *w, mnem_walk_report *report) {
    MNEM__TRY(mnem__transformer_map_create(w->model, &w->map));
    MNEM__TRY(check(w));
    MNEM__TRY(make_tables(w));
    MNEM__TRY(mnem__taken_open(&w->taken, w->options->device));
    if (w->options->plan_only) return mnem__walk_choose(w, report);
    if (!w->taken.runs)
        return mnem__fail(MNEM_UNSUPPORTED, "walk: operators can't run on this device, which is "
                                            "for planning only; use the device \"host\"");
    MNEM__TRY(take_parts(w, report));
    for (w->layer = -1; w->layer < w->map->shape.layers; w->layer++) MNEM__TRY(run_layer(w));
    return give_states(w);
}

static void give(mnem__walker *w) {
    mnem_team_destroy(w->team);
    mnem__walk_states_close(&w->states);
    mnem__taken_close(&w->taken);
    mnem__free(w->info); /* the tables begin there */
    mnem__transformer_map_destroy(w->map);
}

mnem_status mnem_walk(const mnem_model *model, const mnem_walk_options *options, const int32_t *ids,
                      int64_t sequences, const mnem_walk_watcher *watcher,
                      mnem_walk_report *report) {
    mnem_walk_report mine;
    mnem__walker w = {.model = model,
                      .options = options,
                      .watcher = watcher,
                      .ids = ids,
                      .sequences = sequences,
                      .chunk = options->chunk ? options->chunk : CHUNK_DEFAULT,
                      .threads = options->threads ? options->threads : mnem__processors(),
                      .taken = {.ledger = options->ledger},
                      .states = {.fd = -1}};
    w.taken.parts = &w.parts;
    w.threads = mnem__min_i32(w.threads, MNEM_TEAM_MAX);
    const mnem_status status = walk_model(&w, report ? report : &mine);
    give(&w);
    return status;
}
