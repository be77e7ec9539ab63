/* session.c: takes what the plan says, and gives it back.
 *
 * Invariant: the bytes taken are those of mnem__session_measure for the plan's choice, the same
 * call that planning made. A session that failed half-way is destroyed like a whole one. */
#include <string.h>

#include "base/checked.h"
#include "base/heap.h"
#include "engine/session_pool.h"

static mnem__choice choice_of(const mnem_session_plan *plan) {
    return (mnem__choice){.context = plan->context,
                          .chunk = plan->chunk,
                          .kv_type = plan->kv_type,
                          .resident = plan->matrices_resident,
                          .order = plan->residency_order,
                          .slots = plan->ring_slots,
                          .slot_bytes = plan->ring_slot_bytes};
}

/* What the heap's watcher will charge. A device that only counts loads nothing: what loading would
 * take of the heap is charged instead. */
static bool charges_itself(const mnem_session *s, mnem__part part) {
    return mnem__part_infos[part].how == MNEM__HEAP &&
           (s->can_run || part != MNEM__PART_HOST_WEIGHTS);
}

static mnem_status take_part(mnem_session *s, mnem__part part) {
    const mnem__part_info *info = &mnem__part_infos[part];
    const uint64_t bytes = s->parts.bytes[part];
    if (bytes == 0 || charges_itself(s, part)) return MNEM_OK;
    const mnem_status status =
        info->how == MNEM__BLOCK ? mnem__session_pool_take(s->blocks, part, bytes, &s->block[part])
                                 : mnem_ledger_charge(s->ledger, info->kind, info->tag, bytes);
    s->charged[part] = status == MNEM_OK;
    return status;
}

static void give_part(mnem_session *s, mnem__part part) {
    const mnem__part_info *info = &mnem__part_infos[part];
    if (!s->charged[part]) return;
    if (info->how == MNEM__BLOCK)
        mnem_pool_free(s->blocks, &s->block[part], NULL);
    else
        mnem_ledger_release(s->ledger, info->kind, info->tag, s->parts.bytes[part]);
}

static uint8_t *part_host(const mnem_session *s, mnem__part part) {
    return s->charged[part] ? mnem_block_host(&s->block[part].memory) : NULL;
}

/* ---- the source of matrices that the graphs see ---- */

static const void *source_resident(void *context, int32_t matrix) {
    return mnem__weights_resident(context, matrix);
}

static mnem_status source_acquire(void *context, int32_t matrix, mnem_graph_chunk *chunk) {
    mnem__weights_chunk c;
    const mnem_status status = mnem__weights_acquire(context, matrix, &c);
    if (status == MNEM_OK)
        *chunk = (mnem_graph_chunk){c.packed, c.row_begin, c.row_end, c.last, c.slot};
    return status;
}

static void source_release(void *context, const mnem_graph_chunk *chunk) {
    mnem__weights_release(context, &(mnem__weights_chunk){.packed = chunk->packed,
                                                          .row_begin = chunk->row_begin,
                                                          .row_end = chunk->row_end,
                                                          .last = chunk->last,
                                                          .slot = chunk->slot});
}

/* ---- create ---- */

/* Points everything into the blocks. */
static void bind(mnem_session *s) {
    const int32_t layers = s->map->shape.layers;
    mnem__kv_pool_init(&s->pool, &s->kv, layers, mnem__kv_pages(&s->kv, s->choice.context),
                       part_host(s, MNEM__PART_PAGES), s->tables.free_pages);
    for (int32_t i = 0; i < layers; i++)
        s->tables.kv[i] = mnem__kv_sequence_of(&s->pool, i, s->tables.pages);
    const int32_t embedding = s->map->embedding;
    mnem_tensor_info info;
    mnem_model_tensor_get(s->model, (uint32_t)s->map->matrices[embedding], &info);
    s->row_bytes = mnem_type_row_bytes(info.type, s->map->shape.embd);
    s->external[MNEM__SLOT_HIDDEN] = part_host(s, MNEM__PART_ACTIVATIONS);
    s->external[MNEM__SLOT_VECTORS] = part_host(s, MNEM__PART_VECTORS);
    s->external[MNEM__SLOT_LOGITS] = part_host(s, MNEM__PART_LOGITS);
    s->external[MNEM__SLOT_EMBEDDING] =
        s->choice.embedding_packed
            ? (void *)(uintptr_t)mnem__weights_resident(s->weights, embedding)
            : part_host(s, MNEM__PART_ROWS);
    s->source = (mnem_graph_weights){source_resident, source_acquire, source_release, s->weights};
    s->stats.pages = (uint64_t)s->pool.pages;
}

/* A block that was the ring is as new again: zeros. */
static void clear_ring(mnem_session *s) {
    if (s->parts.ring == MNEM__PART_RING) return;
    memset(part_host(s, s->parts.ring), 0, (size_t)s->choice.slots * s->choice.slot_bytes);
}

static mnem_status load(mnem_session *s, const mnem__setup *setup) {
    const mnem_session_options *o = setup->options;
    mnem__weights_options options = mnem__session_weights_options(setup, &s->choice);
    options.tensors = s->map->matrices;
    options.resident = s->tables.resident;
    mnem_status status = mnem__weights_create(&options, part_host(s, MNEM__PART_MATRICES),
                                              part_host(s, s->parts.ring), &s->weights);
    if (status == MNEM_OK) status = mnem_team_create(setup->threads, &s->team);
    if (status == MNEM_OK)
        status = mnem__transformer_vectors_load(s->map, part_host(s, MNEM__PART_VECTORS));
    if (status == MNEM_OK)
        status = mnem__weights_load(s->weights, o->on_progress, o->progress_context);
    if (status != MNEM_OK) return status;
    clear_ring(s);
    bind(s);
    return MNEM_OK;
}

/* The session with its tables, and the numbers of its parts. Takes setup's map. */
static mnem_status start(mnem__setup *setup, const mnem_session_plan *plan,
                         mnem_session **session) {
    mnem__choice choice = choice_of(plan);
    mnem__residency(setup->map, choice.order, choice.resident, setup->flags);
    choice.embedding_packed = setup->flags[setup->map->embedding];
    const mnem__weights_options options = mnem__session_weights_options(setup, &choice);
    mnem__weights_sizes weights;
    mnem_status status = mnem__weights_measure(&options, &weights);
    if (status != MNEM_OK) return status;
    uint8_t *base =
        mnem__calloc("session", 1, mnem__session_tables_lay_out(setup, &choice, NULL, NULL));
    if (!base) return mnem__heap_status();
    mnem_session *s = *session = (void *)base;
    mnem__session_tables_lay_out(setup, &choice, base, &s->tables);
    memcpy(s->tables.resident, setup->flags, (size_t)setup->matrices * sizeof(bool));
    s->model = setup->model;
    s->ledger = setup->options->ledger;
    s->device = setup->device;
    s->choice = choice;
    s->logits_rows = setup->logits_rows;
    s->map = setup->map;
    s->kv = mnem__session_kv(setup, choice.kv_type);
    status = mnem__graphs_build(setup, &choice, &s->graphs);
    if (status == MNEM_OK)
        mnem__session_measure(setup, &choice, &s->graphs.body_sizes, &s->graphs.head_sizes,
                              &weights, &s->parts);
    return status;
}

static mnem_status open_device(mnem_session *s) {
    if (!s->device) {
        const mnem_status status = mnem_device_open("host", NULL, &s->device);
        if (status != MNEM_OK) return status;
        s->owns_device = true;
    }
    mnem_device_info info;
    const mnem_status status = mnem_device_info_get(s->device, &info);
    s->can_run = status == MNEM_OK && info.host_visible;
    return status;
}

mnem_status mnem_session_create(const mnem_model *model, const mnem_session_options *options,
                                const mnem_session_plan *plan, mnem_session **session) {
    mnem__setup setup;
    mnem_session *s = NULL;
    *session = NULL;
    mnem_status status = mnem__setup_init(&setup, model, options);
    if (status != MNEM_OK) return status;
    setup.threads = plan->threads;
    setup.logits_rows = plan->logits_rows;
    status = start(&setup, plan, &s);
    mnem__free(setup.flags); /* no more bytes than the plan's from here on */
    setup.flags = NULL;
    if (status == MNEM_OK) status = open_device(s);
    if (status == MNEM_OK) status = mnem__session_pool_create(s->device, s->ledger, &s->blocks);
    for (int i = 0; i < MNEM__PARTS && status == MNEM_OK; i++) status = take_part(s, (mnem__part)i);
    if (status == MNEM_OK && s->can_run) status = load(s, &setup);
    if (s) setup.map = NULL; /* it is the session's */
    mnem__setup_fini(&setup);
    if (status != MNEM_OK) {
        mnem_session_destroy(s);
        return status;
    }
    *session = s;
    return MNEM_OK;
}

void mnem_session_destroy(mnem_session *s) {
    if (!s) return;
    mnem_team_destroy(s->team);
    mnem__weights_destroy(s->weights);
    for (int i = 0; i < MNEM__PARTS; i++) give_part(s, (mnem__part)i);
    mnem_pool_destroy_forced(s->blocks);
    mnem__graphs_destroy(&s->graphs);
    mnem__transformer_map_destroy(s->map);
    if (s->owns_device) mnem_device_close(s->device);
    mnem__free(s);
}
