/* engine_split.c: a model's layers over devices that are only numbers.
 *
 * Idea: the chain is the embedding, the layers with their keys and values, and the output matrix
 * with its logits; mnem__plan_split cuts it. What a pass needs (hidden rows, the graph's block,
 * workspace) is the same on every device, and counted on each that has a part.
 *
 *     embedding | layer 0 | layer 1 | ... | layer n-1 | norm, output matrix, logits
 *     `---- device 0 ----'`- device 1 -'   `------------ last device ------------'
 *
 * Invariant: bytes come from the code that measures an engine's own.
 * Cost: a pair of graphs built for each context, KV type and chunk tried; a few hundred at most. */
#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "engine/engine_knob.h"
#include "engine/engine_private.h"
#include "plan/split.h"

enum { DEVICES_MOST = 1024 };

typedef struct splitter {
    mnem__setup setup;
    mnem_engine_device *devices;
    int32_t count;
    size_t links;              /* of the chain: runs of layers and both ends */
    uint64_t *bytes;           /* [links] */
    uint64_t *kv;              /* [links]: part of bytes */
    mnem__split_device *parts; /* [count] */
    uint64_t fixed_bytes;
    mnem__split_result result;
} splitter;

static uint64_t matrix_bytes(const splitter *s, int32_t handle) {
    mnem_tensor_info info;
    const int32_t tensor = s->setup.map->matrices[handle];
    if (!mnem_model_tensor_get(s->setup.model, (uint32_t)tensor, &info)) return 0;
    return mnem__matrix_pack_bytes(&info) + mnem__adapter_set_bytes_at(s->setup.adapters, handle);
}

static uint64_t vector_bytes(const mnem__vector *v) {
    return v->tensor < 0 ? 0 : mnem__align_up((uint64_t)v->n * sizeof(float), 64);
}

static uint64_t layer_weight_bytes(const splitter *s, int32_t layer) {
    const mnem__transformer_map *map = s->setup.map;
    uint64_t bytes = 0;
    for (int32_t i = map->layer_first[layer]; i < map->layer_first[layer + 1]; i++)
        bytes += matrix_bytes(s, i);
    for (int i = 0; i < MNEM__LAYER_VECTORS; i++)
        bytes += vector_bytes(&map->vectors[(int64_t)layer * MNEM__LAYER_VECTORS + i]);
    return bytes;
}

/* The table that adds positions to the embedding. */
static uint64_t positions_bytes(const splitter *s) {
    const mnem__vector *v = &s->setup.map->positions;
    mnem_tensor_info info;
    if (v->tensor < 0 || !mnem_model_tensor_get(s->setup.model, (uint32_t)v->tensor, &info))
        return 0;
    return mnem__align_up(info.bytes, 64);
}

static uint64_t row_bytes(const splitter *s, const mnem__choice *choice, int32_t row) {
    const mnem_transformer *t = &s->setup.map->shape;
    const mnem_kv_layout kv = mnem__engine_kv(&s->setup, choice->kv);
    const mnem__kept kept = mnem__kept_of(t, &kv, row);
    const mnem__kv_need need = mnem__kv_need_of(t, &kv, kept.pages, choice->context, choice->chunk);
    const mnem__choice shared = {.pages = mnem__engine_pages(&s->setup, choice->context),
                                 .states = mnem__engine_states(&s->setup, choice->context)};
    return kept.page_bytes * mnem__engine_pages_of(&s->setup, &shared, &need);
}

/* Pages and live states of one layer, or of all those of an encoder on a device. */
static uint64_t layer_pages_bytes(const splitter *s, const mnem__choice *choice, int32_t layer) {
    const mnem_transformer *t = &s->setup.map->shape;
    return row_bytes(s, choice, layer) +
           (t->state_beside ? row_bytes(s, choice, t->layers + layer) : 0);
}

/* What a pass needs beside weights and pages, on any device. */
static uint64_t pass_bytes(const splitter *s, int32_t chunk, const mnem__graph_pair *pair) {
    const mnem_graph_sizes *b = &pair->body_sizes, *h = &pair->head_sizes;
    return mnem__engine_hidden_bytes(&s->setup, chunk) +
           mnem__max_u64(b->block_bytes, h->block_bytes) +
           mnem__max_u64(b->workspace_bytes, h->workspace_bytes);
}

/* The first layer of a link, or of what is behind it. */
static int32_t layer_of(const splitter *s, size_t link) {
    return link == 0 ? 0 : mnem__layer_run_begin(&s->setup.map->shape, (int32_t)link - 1);
}

static void fill_chain(splitter *s, const mnem__choice *choice) {
    const mnem__transformer_map *map = s->setup.map;
    const size_t last = s->links - 1;
    for (size_t i = 1; i < last; i++) {
        s->kv[i] = s->bytes[i] = 0;
        for (int32_t layer = layer_of(s, i); layer < layer_of(s, i + 1); layer++) {
            s->kv[i] += map->shape.encoder ? 0 : layer_pages_bytes(s, choice, layer);
            s->bytes[i] += layer_weight_bytes(s, layer);
        }
        s->bytes[i] += s->kv[i];
    }
    s->bytes[0] = matrix_bytes(s, map->embedding) + positions_bytes(s);
    s->bytes[last] = matrix_bytes(s, map->body_count) + vector_bytes(&map->output_norm) +
                     vector_bytes(&map->output_norm_bias) + vector_bytes(&map->output_bias) +
                     mnem__engine_logits_bytes(&s->setup);
    if (map->shape.encoder) s->bytes[last] = 0;
}

/* Cuts with these numbers; result holds the room, or what is short. */
static mnem_status cut(splitter *s, const mnem__choice *choice) {
    mnem__graph_pair pair;
    mnem__residency(s->setup.map, 0, s->setup.matrices, s->setup.flags);
    MNEM__TRY(mnem__graphs_build(&s->setup, choice, &pair));
    s->fixed_bytes = pass_bytes(s, choice->chunk, &pair);
    if (s->setup.map->shape.encoder) s->fixed_bytes += layer_pages_bytes(s, choice, 0);
    mnem__graphs_destroy(&pair);
    fill_chain(s, choice);
    for (int32_t i = 0; i < s->count; i++)
        s->parts[i] = (mnem__split_device){.capacity_bytes = s->devices[i].capacity_bytes,
                                           .fixed_bytes = s->fixed_bytes};
    return mnem__plan_split(s->bytes, s->links, s->parts, (size_t)s->count, &s->result);
}

/* ---- what options leave open ---- */

/* The largest chunk, not below least, that fits. MNEM_OVER_BUDGET: none. */
static mnem_status try_chunks(splitter *s, mnem__choice *choice, int32_t least) {
    const int32_t asked = s->setup.map->shape.encoder ? choice->context : s->setup.options->chunk;
    if (asked) {
        choice->chunk = mnem__min_i32(asked, choice->context);
        return cut(s, choice);
    }
    for (choice->chunk = mnem__chunk_most(choice->context);; choice->chunk /= 2) {
        const mnem_status status = cut(s, choice);
        if (status != MNEM_OVER_BUDGET || choice->chunk / 2 < least) return status;
    }
}

static mnem_status try_types(splitter *s, mnem__choice *choice, int32_t least) {
    mnem_kv_choice types[2];
    mnem_status status = MNEM_OVER_BUDGET;
    const int count = mnem__engine_kv_types(&s->setup, types);
    for (int i = 0; i < count && status == MNEM_OVER_BUDGET; i++) {
        choice->kv = types[i];
        status = try_chunks(s, choice, least);
    }
    return status;
}

/* The largest context with a good chunk, else with any. */
static mnem_status choose(splitter *s, mnem__choice *choice) {
    const int32_t asked = s->setup.options->context;
    mnem_status status = MNEM_OVER_BUDGET;
    for (int32_t least = MNEM__CHUNK_MODEST; least >= 1; least = least > 1 ? 1 : 0) {
        choice->context = asked ? asked : mnem__context_most(&s->setup.map->shape);
        for (; status == MNEM_OVER_BUDGET; choice->context /= 2) {
            status = try_types(s, choice, least);
            if (status != MNEM_OVER_BUDGET) return status;
            if (asked || choice->context / 2 < MNEM__CONTEXT_LEAST) break;
        }
    }
    return status;
}

/* ---- refusing ---- */

static bool would_fit(void *owner, const mnem_engine_options *options) {
    splitter *s = owner;
    const mnem_engine_options *asked = s->setup.options;
    mnem__choice choice = {0};
    s->setup.options = options;
    const bool fits = choose(s, &choice) == MNEM_OK;
    s->setup.options = asked;
    return fits;
}

static mnem_status refuse(splitter *s, mnem_engine_split *split) {
    char more[24], have[24];
    uint64_t total = 0;
    const uint64_t bytes = split->short_bytes = s->result.short_bytes; /* of the least tried */
    for (int32_t i = 0; i < s->count; i++) total += s->devices[i].capacity_bytes;
    split->knob = mnem__engine_knob(s->setup.options, would_fit, s);
    if (split->knob.kind == MNEM_KNOB_NONE)
        split->knob = (mnem_knob){MNEM_KNOB_DEVICES, (int64_t)bytes};
    return mnem__fail(MNEM_OVER_BUDGET,
                      "plan: the model doesn't fit %d device%s with %s together: each device needs "
                      "%llu more bytes (%s)",
                      s->count, s->count == 1 ? "" : "s",
                      mnem_size_format(total, have, sizeof have), (unsigned long long)bytes,
                      mnem_size_format(bytes, more, sizeof more));
}

/* ---- results ---- */

static void fill_device(const splitter *s, const mnem__split_device *part, mnem_engine_device *d) {
    const size_t end = part->layer_begin + part->layers;
    *d = (mnem_engine_device){.capacity_bytes = d->capacity_bytes};
    if (part->layers == 0) return;
    d->embedding = part->layer_begin == 0;
    d->head = end == s->links;
    d->layer_begin = layer_of(s, part->layer_begin);
    d->layers = layer_of(s, d->head ? s->links - 1 : end) - d->layer_begin;
    for (size_t i = part->layer_begin; i < end; i++) {
        d->weight_bytes += s->bytes[i] - s->kv[i];
        d->kv_bytes += s->kv[i];
    }
    d->activation_bytes = s->fixed_bytes;
    d->bytes_used = part->bytes_used;
    if (!d->head) return;
    d->weight_bytes -= mnem__engine_logits_bytes(&s->setup);
    d->activation_bytes += mnem__engine_logits_bytes(&s->setup);
}

static mnem_status split_layers(splitter *s, mnem_engine_split *split) {
    mnem__choice choice = {0};
    s->bytes = mnem__calloc("plan", s->links, sizeof *s->bytes);
    s->kv = mnem__calloc("plan", s->links, sizeof *s->kv);
    s->parts = mnem__calloc("plan", (size_t)s->count, sizeof *s->parts);
    if (!s->bytes || !s->kv || !s->parts) return mnem__heap_status();
    const mnem_status status = choose(s, &choice);
    if (status == MNEM_OVER_BUDGET) return refuse(s, split);
    if (status != MNEM_OK) return status;
    *split = (mnem_engine_split){.context = choice.context,
                                 .chunk = choice.chunk,
                                 .kv = choice.kv,
                                 .room_bytes = s->result.room_bytes};
    for (int32_t i = 0; i < s->count; i++) fill_device(s, &s->parts[i], &s->devices[i]);
    return MNEM_OK;
}

mnem_status mnem_engine_split_make(const mnem_model *model, const mnem_engine_options *options,
                                   mnem_engine_device *devices, int32_t count,
                                   mnem_engine_split *split) {
    splitter s = {.devices = devices, .count = count};
    *split = (mnem_engine_split){0};
    if (count < 1 || count > DEVICES_MOST)
        return mnem__fail(MNEM_INVALID, "plan: the number of devices is %d, expected 1 to %d",
                          count, DEVICES_MOST);
    MNEM__TRY(mnem__setup_init(&s.setup, model, options));
    s.links = (size_t)mnem__layer_runs(&s.setup.map->shape) + 2;
    mnem_status status = split_layers(&s, split);
    mnem__free(s.bytes);
    mnem__free(s.kv);
    mnem__free(s.parts);
    mnem__setup_fini(&s.setup);
    return status;
}
