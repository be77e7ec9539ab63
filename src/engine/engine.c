/* engine.c: takes what the plan says, and gives it back.
 *
 * Invariant: the bytes taken are those of mnem__engine_measure for the plan's choice, the same
 * call that planning made. An engine that failed half-way is destroyed like a whole one. */
#include <string.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/pages.h"
#include "base/team/team.h"
#include "engine/pass_nodes.h"

/* Of a pinned part. */
static uint8_t *part_host(const mnem_engine *e, mnem__part part) {
    return mnem__part_host(&e->taken, part);
}

/* ---- create ---- */

/* Points everything into the blocks. */
static void bind(mnem_engine *e) {
    const int32_t embedding = e->map->embedding;
    mnem__location pages = mnem__part_at(&e->taken, MNEM__PART_PAGES);
    for (int k = 0; k < MNEM__KV_PAGED; k++) { /* one kind's behind the other's */
        e->pages[k].base = pages;
        pages = mnem__kv_page_at(&e->pages[k], e->pages[k].count);
    }
    e->pages[MNEM__KV_STATES].base = mnem__part_at(&e->taken, MNEM__PART_STATES);
    e->pages[MNEM__KV_STATES].more = mnem__part_at(&e->taken, MNEM__PART_SNAPSHOTS);
    e->external[MNEM__SLOT_HIDDEN] = mnem__part_bound(&e->taken, MNEM__PART_ACTIVATIONS);
    e->external[MNEM__SLOT_VECTORS] = mnem__part_bound(&e->taken, MNEM__PART_VECTORS);
    e->external[MNEM__SLOT_LOGITS] = mnem__part_bound(&e->taken, MNEM__PART_LOGITS);
    e->external[MNEM__SLOT_EMBEDDING] = mnem__part_bound(&e->taken, MNEM__PART_ROWS);
    e->external[MNEM__SLOT_LAYER_ROWS] = mnem__part_bound(&e->taken, MNEM__PART_LAYER_ROWS);
    e->logits = (void *)part_host(e, MNEM__PART_LOGITS);
    e->rows = part_host(e, MNEM__PART_ROWS);
    e->hidden = (void *)part_host(e, e->taken.apart ? MNEM__PART_STAGING : MNEM__PART_ACTIVATIONS);
    if (embedding >= 0 && e->choice.embedding_packed)
        e->external[MNEM__SLOT_EMBEDDING] =
            (void *)(uintptr_t)mnem__weights_resident(e->weights, embedding);
    e->source = mnem__weights_source(e->weights);
    e->low = (mnem_low_rank_run){.matrices = mnem__part_bound(&e->taken, MNEM__PART_ADAPTERS),
                                 .list = e->tables.low_rows};
}

/* A block that was the ring is as new again: zeros. */
static void clear_ring(mnem_engine *e) {
    if (e->parts.ring == MNEM__PART_RING) return;
    memset(part_host(e, e->parts.ring), 0, (size_t)e->choice.slots * e->choice.slot_bytes);
}

/* The team of the options, or one of its own. */
static mnem_status take_team(mnem_engine *e, const mnem__setup *setup) {
    e->team = setup->options->team;
    e->owns_team = !e->team;
    if (e->owns_team) MNEM__TRY(mnem_team_create(setup->threads, &e->team));
    if (setup->threads != mnem_team_count(e->team))
        return mnem__fail(MNEM_INVALID, "engine: the plan is for %d threads, but the team has %d",
                          setup->threads, mnem_team_count(e->team));
    mnem__team_adapt(e->team);
    return MNEM_OK;
}

static mnem_status load(mnem_engine *e, const mnem__setup *setup) {
    const mnem_engine_options *o = setup->options;
    mnem__weights_options options = mnem__engine_weights_options(setup, &e->choice);
    options.tensors = e->map->matrices;
    options.resident = e->tables.resident;
    const mnem__weights_blocks blocks = {.resident = mnem__part_at(&e->taken, MNEM__PART_MATRICES),
                                         .ring = part_host(e, e->parts.ring),
                                         .experts = part_host(e, MNEM__PART_EXPERTS)};
    MNEM__TRY(mnem__weights_create(&options, &blocks, &e->weights));
    MNEM__TRY(take_team(e, setup));
    MNEM__TRY(mnem__transformer_vectors_load(e->map, mnem__part_at(&e->taken, MNEM__PART_VECTORS)));
    if (e->adapters)
        MNEM__TRY(mnem__adapter_set_load(e->adapters, part_host(e, MNEM__PART_ADAPTERS)));
    MNEM__TRY(mnem__weights_load(e->weights, &o->progress));
    clear_ring(e);
    bind(e);
    const mnem__gather_member mine = {
        .part = e->map->shape.rows, .head_dim = e->map->shape.head_dim, .threads = setup->threads};
    mnem__relay_shape relay = mnem__engine_relay(setup, &e->choice);
    relay.mine = &mine;
    relay.device = e->taken.apart ? e->device : NULL;
    MNEM__TRY(mnem__relay_start(&e->relay, o->comm, &relay, part_host(e, MNEM__PART_RELAY),
                                e->tables.requests));
    mnem__pass_compile(e);
    return MNEM_OK;
}

/* Its sequences, none of them open, and the books of its pages, all of them free. */
static void start_sequences(mnem_engine *e, const mnem__setup *setup) {
    const mnem__engine_tables *t = &e->tables;
    e->sequences = setup->sequences;
    for (int k = 0; k < MNEM__KV_KINDS; k++) {
        e->pages[k] = (mnem__kv_pages){.layout = mnem__engine_kv(setup, e->choice.kv),
                                       .page_bytes = t->kind[k].need.page_bytes,
                                       .count = t->kind[k].count,
                                       .free = t->kind[k].free_pages,
                                       .references = t->kind[k].references,
                                       .ids = t->kind[k].ids};
        mnem__kv_pages_init(&e->pages[k]);
        if (!t->kind[k].need.one) e->stats.pages += (uint64_t)e->pages[k].count;
    }
    e->pages[MNEM__KV_STATES].base_count = e->choice.states;
    e->snapshots = t->snapshots;
    e->snapshots.pages = &e->pages[MNEM__KV_STATES];
    e->snapshot_tokens = mnem__engine_snapshot_tokens(setup);
    for (int32_t i = 0; i < e->sequences; i++) {
        t->sequences[i] = (mnem_sequence){.engine = e};
        for (int k = 0; k < MNEM__KV_KINDS; k++)
            t->sequences[i].table[k].page = t->kind[k].pages + (int64_t)i * t->table_pages;
    }
}

/* The engine with its tables, and the numbers of its parts. Takes setup's map and adapters. */
static mnem_status start(mnem__setup *setup, const mnem_engine_plan *plan, mnem_engine **engine) {
    mnem__choice choice = mnem__engine_choice(plan);
    mnem__residency(setup->map, choice.order, choice.resident, setup->flags);
    choice.embedding_packed = mnem__embedding_packed(setup);
    const mnem__weights_options options = mnem__engine_weights_options(setup, &choice);
    mnem__weights_sizes weights;
    MNEM__TRY(mnem__weights_measure(&options, &weights));
    const uint64_t bytes = mnem__engine_tables_lay_out(setup, &choice, NULL, NULL);
    uint8_t *base = mnem__alloc("session", bytes);
    if (!base) return mnem__heap_status();
    memset(base, 0, bytes); /* touched: sequences take no page of the machine later */
    mnem_engine *e = *engine = (void *)base;
    mnem__engine_tables_lay_out(setup, &choice, base, &e->tables);
    memcpy(e->tables.resident, setup->flags, (size_t)setup->matrices * sizeof(bool));
    e->model = setup->model;
    e->process = getpid();
    e->ledger = setup->options->ledger;
    e->device = setup->device;
    e->page_cache = setup->options->page_cache;
    e->taken =
        (mnem__taken){.parts = &e->parts.all, .ledger = e->ledger, .name = setup->options->name};
    e->choice = choice;
    e->logits_rows = setup->logits_rows;
    e->map = setup->map;
    e->adapters = setup->adapters;
    start_sequences(e, setup);
    mnem_status status = mnem__graphs_build(setup, &choice, &e->graphs);
    if (status == MNEM_OK)
        mnem__engine_measure(setup, &choice, &e->graphs.body_sizes, &e->graphs.head_sizes, &weights,
                             &e->parts);
    return status;
}

static mnem_status take_parts(mnem_engine *e, const mnem_progress *progress, uint64_t bytes) {
    MNEM__TRY(mnem__taken_open(&e->taken, e->device));
    e->device = e->taken.device;
    mnem__pages_tell(progress->tell ? progress : NULL, bytes);
    const mnem_status status = mnem__parts_take(&e->taken);
    mnem__pages_tell(NULL, 0);
    return status;
}

mnem_status mnem_engine_create(const mnem_model *model, const mnem_engine_options *options,
                               const mnem_engine_plan *plan, mnem_engine **engine) {
    mnem__setup setup;
    mnem_engine *e = NULL;
    mnem_engine_options here = *options;
    here.layer_begin = plan->layer_begin;
    here.layer_end = plan->layer_end;
    here.rows = plan->rows;
    here.draft = plan->draft;
    *engine = NULL;
    MNEM__TRY(mnem__setup_init(&setup, model, &here));
    setup.threads = plan->threads;
    setup.logits_rows = plan->logits_rows;
    setup.sequences = plan->sequences;
    mnem_status status = start(&setup, plan, &e);
    mnem__free(setup.flags); /* no more bytes than the plan's from here on */
    setup.flags = NULL;
    if (status == MNEM_OK) status = mnem_ledger_hold(e->ledger);
    if (status == MNEM_OK) status = take_parts(e, &options->progress, plan->peak_bytes);
    if (status == MNEM_OK && e->taken.runs) status = load(e, &setup);
    if (e) { /* they are the engine's */
        setup.map = NULL;
        setup.adapters = NULL;
    }
    mnem__setup_fini(&setup);
    if (status != MNEM_OK) {
        if (options->comm) mnem_comm_abort(options->comm, mnem_last_error());
        mnem_engine_destroy(e);
        return status;
    }
    *engine = e;
    return MNEM_OK;
}

void mnem_engine_destroy(mnem_engine *e) {
    if (!e || e->process != getpid()) return; /* a child has none of the threads to wait for */
    mnem__step_forget_awaited(e);
    if (mnem__relay_leads(&e->relay)) (void)mnem__relay_end(&e->relay);
    mnem__relay_let_go(&e->relay);
    if (e->owns_team) mnem_team_destroy(e->team);
    mnem__weights_destroy(e->weights);
    mnem__taken_close(&e->taken);
    mnem__graphs_destroy(&e->graphs);
    mnem__transformer_map_destroy(e->map);
    mnem__adapter_set_destroy(e->adapters);
    mnem__free(e);
}

void mnem_engine_pages_get(const mnem_engine *e, mnem_engine_pages *pages) {
    *pages = (mnem_engine_pages){.tokens = mnem__engine_page_tokens(e),
                                 .full_bytes = e->pages[MNEM__KV_FULL].page_bytes,
                                 .window_bytes = e->pages[MNEM__KV_WINDOW].page_bytes,
                                 .state_bytes = e->pages[MNEM__KV_STATES].page_bytes};
    pages->snapshots = e->snapshots.most;
    pages->snapshots_used = e->snapshots.used;
    for (int k = 0; k < MNEM__KV_KINDS; k++) {
        *mnem__page_count_at(&pages->all, k) = mnem__engine_pages_all(e, k);
        *mnem__page_count_at(&pages->free, k) = mnem__engine_pages_free(e, k);
        *mnem__page_count_at(&pages->most, k) = mnem__engine_need(e, k)->pages;
    }
}

void mnem_engine_stats_get(const mnem_engine *e, mnem_engine_stats *stats) {
    *stats = e->stats;
    for (int k = 0; k < MNEM__KV_PAGED; k++)
        stats->pages_used += (uint64_t)(e->pages[k].count - e->pages[k].free_count);
    if (!e->weights) return;
    mnem__weights_stats weights;
    mnem__weights_stats_get(e->weights, &weights);
    stats->bytes_streamed = weights.bytes_streamed;
    stats->expert_hits = weights.expert_hits;
    stats->expert_misses = weights.expert_misses;
    stats->expert_guesses = weights.expert_guesses;
    stats->expert_guessed = weights.expert_guessed;
    stats->seconds_waiting = weights.seconds_waiting;
}
