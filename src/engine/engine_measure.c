/* engine_measure.c: the bytes of every part of an engine, for planning and for creating.
 *
 * Invariant: nothing here takes memory of the engine; graphs are built to be measured by the code
 * that builds them to be run, weights measured by the code that carves them. */
#include "base/checked.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "base/thread.h"
#include "device/backend/backend.h"
#include "engine/engine_private.h"
#include "mnem/draft.h"
#include "mnem/supports.h"
#include "model/architecture/architecture.h"

enum { SNAPSHOT_TOKENS = 512, SNAPSHOT_TURNS = 8, SNAPSHOTS_MAX = 1 << 14 };
enum { SEQUENCES_MAX = 1024 };

/* ---- what planning and creating start from ---- */

/* The largest that planning is sure to look at; 0: its own choice. */
static int32_t context_most(const mnem_engine_options *o) {
    return o->context ? o->context : o->context_wanted;
}

static mnem_status check_options(const mnem_engine_options *o) {
    const int32_t context = context_most(o);
    if (!o->ledger) return mnem__fail(MNEM_INVALID, "engine: options.ledger is missing");
    if (o->context < 0 || o->chunk < 0 || o->logits_rows < 0)
        return mnem__fail(
            MNEM_INVALID,
            "engine: context is %d, chunk %d and logits_rows %d, expected 0 or more for each",
            o->context, o->chunk, o->logits_rows);
    if (o->sequences < 0 || o->sequences > SEQUENCES_MAX)
        return mnem__fail(MNEM_INVALID, "engine: the number of sequences is %d, expected 0 to %d",
                          o->sequences, SEQUENCES_MAX);
    if (o->context_needed < 0 || o->context_needed > o->context_wanted)
        return mnem__fail(MNEM_INVALID,
                          "engine: context_needed is %d, expected 0 to context_wanted, which is %d",
                          o->context_needed, o->context_wanted);
    if ((int64_t)o->sequences * context > INT32_MAX)
        return mnem__fail(MNEM_INVALID,
                          "engine: %d sequences of %d tokens have 2^31 tokens or more, expected "
                          "fewer; use fewer sequences or a smaller context",
                          o->sequences, context);
    if (o->pages_tokens < 0)
        return mnem__fail(MNEM_INVALID, "engine: pages_tokens is %d, expected 0 or more",
                          o->pages_tokens);
    if (o->states < 0)
        return mnem__fail(MNEM_INVALID, "engine: states is %d, expected 0 or more", o->states);
    if (o->snapshots < MNEM_SNAPSHOTS_FILL || o->snapshots > SNAPSHOTS_MAX)
        return mnem__fail(MNEM_INVALID,
                          "engine: the number of snapshots is %d, expected 0 to %d, or "
                          "MNEM_SNAPSHOTS_FILL",
                          o->snapshots, SNAPSHOTS_MAX);
    if (o->snapshot_tokens < 0)
        return mnem__fail(MNEM_INVALID, "engine: snapshot_tokens is %d, expected 0 or more",
                          o->snapshot_tokens);
    if (o->draft < 0 || o->draft > MNEM_DRAFT_MOST || o->draft_wanted < 0)
        return mnem__fail(
            MNEM_INVALID,
            "engine: draft is %d and draft_wanted %d, expected 0 to %d, and 0 or more", o->draft,
            o->draft_wanted, MNEM_DRAFT_MOST);
    if (o->draft > 0 && o->chunk > 0 && o->chunk <= o->draft)
        return mnem__fail(MNEM_INVALID,
                          "engine: a draft of %d tokens needs chunks of %d, but chunk is %d",
                          o->draft, o->draft + 1, o->chunk);
    if (o->threads < 0 || o->threads > MNEM_TEAM_MAX)
        return mnem__fail(MNEM_INVALID, "engine: the number of threads is %d, expected 0 to %d",
                          o->threads, MNEM_TEAM_MAX);
    if (o->team && o->threads && o->threads != mnem_team_count(o->team))
        return mnem__fail(MNEM_INVALID,
                          "engine: the number of threads is %d, but the team has %d; set 0 or %d",
                          o->threads, mnem_team_count(o->team), mnem_team_count(o->team));
    if (!mnem_kv_is_valid(o->kv))
        return mnem__fail(MNEM_INVALID,
                          "engine: kv is %d, expected a constant of mnem_kv_choice or mnem_kv_pair",
                          (int)o->kv);
    return MNEM_OK;
}

/* What a longer context would need. */
static mnem_status check_context(const mnem__transformer_map *map, int32_t context) {
    const mnem_transformer *t = &map->shape;
    if (context <= t->context || map->positions.tensor < 0) return MNEM_OK;
    return mnem__fail(MNEM_INVALID,
                      "engine: the context is %d tokens, but the model has positions for %d "
                      "only; use a smaller context",
                      context, t->context);
}

/* Blocks of Q8_0 and Q4_0 have 32 numbers, and none spans two heads. */
static mnem_status check_kv(const mnem__setup *setup) {
    const mnem_kv_choice asked = setup->options->kv;
    const mnem_kv_layout kv = mnem__engine_kv(setup, asked);
    const mnem_type_info *keys = mnem_type_get(mnem_kv_type(asked));
    const mnem_type_info *values = mnem_type_get(mnem_kv_type(mnem_kv_values(asked)));
    const mnem_type_info *blocks = keys->block_elements > 1 ? keys : values;
    if (blocks->block_elements == 1 || kv.kv_heads == 0 || mnem_kv_page_bytes(&kv)) return MNEM_OK;
    return mnem__fail(MNEM_INVALID,
                      "engine: a KV cache of type %s needs heads whose size is a multiple of 32, "
                      "but this model's heads have %d dimensions; use f16 or f32 for the KV cache",
                      blocks->name, (int)kv.head_dim);
}

void mnem__setup_draft(mnem__setup *setup, int32_t draft) {
    const int32_t asked = setup->options->logits_rows;
    setup->draft = draft;
    setup->logits_rows = asked ? asked : setup->sequences;
    if (draft > 0) setup->logits_rows = mnem__max_i32(setup->logits_rows, 1 + draft);
}

mnem_status mnem__setup_init(mnem__setup *setup, const mnem_model *model,
                             const mnem_engine_options *options) {
    *setup = (mnem__setup){.model = model, .options = options, .device = options->device};
    mnem_status status = check_options(options);
    if (status == MNEM_OK)
        status = options->rows.vocab.end > 0
                     ? mnem__transformer_map_rows(model, &options->rows, &setup->map)
                     : mnem__transformer_map_part(model, options->layer_begin, options->layer_end,
                                                  &setup->map);
    if (status != MNEM_OK) return status;
    const mnem__transformer_map *map = setup->map;
    status = check_context(map, context_most(options));
    if (status == MNEM_OK) status = check_kv(setup);
    if (status == MNEM_OK && options->draft > 0)
        status = mnem_transformer_supports(&map->shape, MNEM_FEATURE_DRAFT);
    if (status != MNEM_OK) {
        mnem__setup_fini(setup);
        return status;
    }
    status =
        mnem__adapter_set_create(map, options->adapters, options->adapter_count, &setup->adapters);
    if (status != MNEM_OK) {
        mnem__setup_fini(setup);
        return status;
    }
    if (map->rows) setup->gather_bytes = mnem__transformer_gather_bytes(map);
    setup->apart = mnem__device_is_apart(setup->device);
    setup->matrices = map->body_count + map->head_count + map->extra_count;
    setup->threads = options->team      ? mnem_team_count(options->team)
                     : options->threads ? options->threads
                                        : mnem__processors();
    if (setup->threads > MNEM_TEAM_MAX) setup->threads = MNEM_TEAM_MAX;
    setup->sequences = options->sequences ? options->sequences : 1;
    mnem__setup_draft(setup, options->draft);
    const size_t flags = (size_t)setup->matrices + 1; /* an embedding that is never resident */
    setup->flags = mnem__calloc("session", flags, sizeof(bool));
    if (setup->flags) return MNEM_OK;
    mnem__setup_fini(setup);
    return mnem__heap_status();
}

void mnem__setup_fini(mnem__setup *setup) {
    mnem__transformer_map_destroy(setup->map);
    mnem__adapter_set_destroy(setup->adapters);
    mnem__free(setup->flags);
    *setup = (mnem__setup){0};
}

static uint32_t reverse_bits(uint32_t x, int bits) {
    uint32_t r = 0;
    for (int i = 0; i < bits; i++) r |= (x >> i & 1u) << (bits - 1 - i);
    return r;
}

/* In which order of residency a matrix of the body comes. */
typedef enum group { GROUP_ROUTERS, GROUP_BODY, GROUP_EXPERTS, GROUPS } group;

static group group_of(const mnem__transformer_map *map, int32_t matrix) {
    mnem_tensor_info info = {.name = ""};
    int32_t layer;
    mnem_model_tensor_get(map->model, (uint32_t)map->matrices[matrix], &info);
    const mnem__role role = mnem__role_find(info.name, &layer);
    return role == MNEM__ROLE_ROUTER     ? GROUP_ROUTERS
           : mnem__role_is_experts(role) ? GROUP_EXPERTS
                                         : GROUP_BODY;
}

static int32_t count_group(const mnem__transformer_map *map, group g) {
    int32_t count = 0;
    for (int32_t i = 0; i < map->body_count && map->shape.experts > 0; i++)
        count += group_of(map, i) == g;
    return count;
}

int32_t mnem__residency_experts(const mnem__transformer_map *map) {
    return count_group(map, GROUP_EXPERTS);
}

int32_t mnem__residency_routers(const mnem__transformer_map *map) {
    return count_group(map, GROUP_ROUTERS);
}

/* at counts places: a walk for routers, the head where it comes first, a walk over the body, the
 * head where it comes last, a walk for experts, then what is extra. */
int32_t mnem__residency_next(const mnem__transformer_map *map, int32_t order, uint32_t *at) {
    const uint32_t head_first = order == 1;
    int bits = 0;
    while ((int64_t)1 << bits < map->body_count) bits++;
    const uint32_t walk = (uint32_t)1 << bits, head = head_first ? walk : 2 * walk;
    for (;;) {
        const uint32_t r = (*at)++;
        if (r == head && (map->head_count || map->shape.encoder)) return map->body_count;
        if (r == head) continue; /* another rank has it */
        if (r > GROUPS * walk)
            return map->body_count + map->head_count + (int32_t)(r - GROUPS * walk) - 1;
        const uint32_t step = r - (r > head);
        const int32_t i = (int32_t)reverse_bits(step % walk, bits);
        if (i < map->body_count && group_of(map, i) == (group)(step / walk)) return i;
    }
}

void mnem__residency(const mnem__transformer_map *map, int32_t order, int32_t count, bool *flags) {
    const int32_t total = map->body_count + map->head_count + map->extra_count;
    uint32_t at = 0;
    for (int32_t i = 0; i < total; i++) flags[i] = false;
    for (int32_t n = 0; n < count && n < total; n++)
        flags[mnem__residency_next(map, order, &at)] = true;
}

/* ---- the parts ---- */

mnem_kv_layout mnem__engine_kv(const mnem__setup *setup, mnem_kv_choice kv) {
    return mnem__kv_layout_for(&setup->map->shape, kv);
}

int mnem__engine_kv_types(const mnem__setup *setup, mnem_kv_choice types[2]) {
    const mnem_kv_choice kv = setup->options->kv;
    const mnem_kv_layout q8 = mnem__engine_kv(setup, MNEM_KV_Q8_0);
    types[0] = kv == MNEM_KV_AUTO ? MNEM_KV_F16 : kv;
    types[1] = MNEM_KV_Q8_0;
    return kv == MNEM_KV_AUTO && mnem__kv_layout_fits(&setup->map->shape, &q8) ? 2 : 1;
}

int32_t mnem__engine_pages_most(const mnem__setup *setup, int32_t context) {
    const mnem_kv_layout layout = {.page_tokens = MNEM__PAGE_TOKENS};
    return setup->sequences * mnem__kv_pages_for(&layout, context);
}

int32_t mnem__engine_pages(const mnem__setup *setup, int32_t context) {
    const mnem_engine_options *o = setup->options;
    const mnem_kv_layout layout = {.page_tokens = MNEM__PAGE_TOKENS};
    const int32_t one = mnem__kv_pages_for(&layout, context);
    const int32_t most = mnem__engine_pages_most(setup, context);
    if (o->pages_tokens == 0) return o->pages_fill ? one : most;
    return mnem__min_i32(most, mnem__max_i32(one, mnem__kv_pages_for(&layout, o->pages_tokens)));
}

int32_t mnem__engine_snapshot_tokens(const mnem__setup *setup) {
    const int32_t asked = setup->options->snapshot_tokens;
    return asked ? asked : SNAPSHOT_TOKENS;
}

static bool has_states(const mnem_transformer *t) {
    for (int32_t layer = 0; layer < t->layers; layer++)
        if (mnem__layer_state_bytes(t, layer) > 0) return true;
    return false;
}

int32_t mnem__engine_states_live(const mnem__setup *setup) {
    const int32_t asked = setup->options->states;
    return asked ? mnem__min_i32(asked, setup->sequences) : setup->sequences;
}

int32_t mnem__engine_states(const mnem__setup *setup, int32_t context) {
    if (!has_states(&setup->map->shape)) return 0;
    if (setup->options->states) return mnem__engine_states_most(setup, context);
    return setup->options->pages_fill ? 1 : setup->sequences;
}

/* One at each multiple of the interval, and those of a few turns. */
int32_t mnem__engine_states_most(const mnem__setup *setup, int32_t context) {
    if (!has_states(&setup->map->shape)) return 0;
    const int32_t asked = setup->options->snapshots;
    const int32_t most = setup->sequences * MNEM__SNAPSHOTS_EACH;
    const int32_t each = context / mnem__engine_snapshot_tokens(setup) + SNAPSHOT_TURNS;
    const int32_t wanted = asked == MNEM_SNAPSHOTS_FILL ? setup->sequences * each : asked;
    return mnem__engine_states_live(setup) + mnem__min_i32(wanted, most);
}

static mnem__transformer_graph_options graph_options(const mnem__setup *setup,
                                                     const mnem__choice *choice, int32_t tokens) {
    return (mnem__transformer_graph_options){.map = setup->map,
                                             .adapters = setup->adapters,
                                             .tokens = tokens,
                                             .workers = setup->threads,
                                             .kv = mnem__engine_kv(setup, choice->kv),
                                             .context = choice->context,
                                             .guess_experts = true,
                                             .embedding_packed = mnem__embedding_packed(setup)};
}

mnem_status mnem__graphs_build(const mnem__setup *setup, const mnem__choice *choice,
                               mnem__graph_pair *pair) {
    *pair = (mnem__graph_pair){0};
    const mnem__transformer_graph_options body = graph_options(setup, choice, choice->chunk);
    const mnem__transformer_graph_options head = graph_options(setup, choice, setup->logits_rows);
    mnem_status status = mnem__transformer_body(&body, &pair->body, &pair->body_sizes);
    if (status == MNEM_OK) status = mnem__transformer_head(&head, &pair->head, &pair->head_sizes);
    if (status != MNEM_OK) mnem__graphs_destroy(pair);
    return status;
}

void mnem__graphs_destroy(mnem__graph_pair *pair) {
    mnem_graph_destroy(pair->body);
    mnem_graph_destroy(pair->head);
    *pair = (mnem__graph_pair){0};
}

mnem__choice mnem__engine_choice(const mnem_engine_plan *plan) {
    return (mnem__choice){.context = plan->context,
                          .chunk = plan->chunk,
                          .pages = plan->pages,
                          .states = plan->states,
                          .snapshots = plan->snapshots,
                          .kv = plan->kv,
                          .resident = plan->matrices_resident,
                          .order = plan->residency_order,
                          .expert_slots = plan->expert_slots,
                          .slots = plan->ring_slots,
                          .slot_bytes = plan->ring_slot_bytes};
}

mnem__weights_options mnem__engine_weights_options(const mnem__setup *setup,
                                                   const mnem__choice *choice) {
    return (mnem__weights_options){.model = setup->model,
                                   .tensors = setup->map->matrices,
                                   .rows = setup->map->rows,
                                   .resident = setup->flags,
                                   .body_count = setup->map->body_count,
                                   .head_count = setup->map->head_count,
                                   .extra_count = setup->map->extra_count,
                                   .slots = choice->slots,
                                   .slot_bytes = choice->slot_bytes,
                                   .expert_slots = choice->expert_slots,
                                   .page_cache = setup->options->page_cache,
                                   .on_experts = setup->options->on_experts,
                                   .on_experts_context = setup->options->on_experts_context};
}

/* A ring that is free after loading lies in the block that passes fill most of, which isn't used
 * before; that block is made larger if it must. So the bytes never shrink when anything grows. */
static void place_ring(const mnem__setup *setup, const mnem__weights_sizes *weights,
                       mnem__engine_parts *parts) {
    static const mnem__part passes[] = {MNEM__PART_PAGES, MNEM__PART_ACTIVATIONS, MNEM__PART_LOGITS,
                                        MNEM__PART_WORKSPACE};
    uint64_t *bytes = parts->all.bytes;
    mnem__part idle = setup->apart ? MNEM__PART_LOGITS : passes[0]; /* the host writes there */
    for (size_t i = 1; i < sizeof passes / sizeof *passes && !setup->apart; i++)
        if (bytes[passes[i]] > bytes[idle]) idle = passes[i];
    parts->ring = MNEM__PART_RING;
    parts->idle_bytes = bytes[idle];
    if (mnem__weights_stream(weights)) return;
    bytes[idle] = mnem__max_u64(bytes[idle], bytes[MNEM__PART_RING]);
    bytes[MNEM__PART_RING] = 0;
    parts->ring_extra_bytes = bytes[idle] - parts->idle_bytes;
    parts->ring = idle;
}

mnem__relay_shape mnem__engine_relay(const mnem__setup *setup, const mnem__choice *choice) {
    const mnem_comm *comm = setup->options->comm;
    return (mnem__relay_shape){.rank = comm ? mnem_comm_rank(comm) : 0,
                               .size = comm ? mnem_comm_size(comm) : 1,
                               .sequences = setup->sequences,
                               .chunk = choice->chunk,
                               .embd = setup->map->shape.embd,
                               .gather_bytes = setup->gather_bytes};
}

/* Of the rank that makes them, and rank 0, which gets them; where rows are cut each makes some. */
static int32_t logits_here(const mnem__setup *setup) {
    const mnem_transformer *t = &setup->map->shape;
    if (t->encoder || !(mnem__embedding_here(t) || mnem__head_here(t))) return 0;
    return t->rows.vocab.begin > 0 ? t->rows.vocab.end - t->rows.vocab.begin : t->vocab;
}

uint64_t mnem__engine_logits_bytes(const mnem__setup *setup) {
    return (uint64_t)setup->logits_rows * (uint64_t)logits_here(setup) * sizeof(float);
}

uint64_t mnem__engine_hidden_bytes(const mnem__setup *setup, int32_t chunk) {
    return mnem__align_up((uint64_t)chunk * (uint64_t)setup->map->shape.embd * sizeof(float), 64);
}

/* Pages of all kinds, and states. */
static void measure_kept(const mnem__setup *setup, const mnem__choice *choice, uint64_t *bytes) {
    const mnem_kv_layout kv = mnem__engine_kv(setup, choice->kv);
    for (int k = 0; k < MNEM__KV_KINDS; k++) {
        const mnem__kv_need need = mnem__kv_need_of(&setup->map->shape, &kv, (mnem__kv_kind)k,
                                                    choice->context, choice->chunk);
        bytes[need.one ? MNEM__PART_STATES : MNEM__PART_PAGES] +=
            need.page_bytes * mnem__engine_pages_of(setup, choice, &need);
        if (k == MNEM__KV_STATES)
            bytes[MNEM__PART_SNAPSHOTS] = need.page_bytes * (uint64_t)choice->snapshots;
    }
}

void mnem__engine_measure_graphs(const mnem__setup *setup, const mnem__choice *choice,
                                 const mnem_graph_sizes *body, const mnem_graph_sizes *head,
                                 mnem__engine_parts *parts) {
    const mnem__transformer_map *map = setup->map;
    const mnem_engine_options *o = setup->options;
    const mnem__adapter_set *adapters = setup->adapters;
    const mnem__transformer_graph_options graphs = graph_options(setup, choice, choice->chunk);
    const mnem__relay_shape relay = mnem__engine_relay(setup, choice);
    const uint64_t chunk = (uint64_t)choice->chunk;
    const uint64_t hidden = mnem__engine_hidden_bytes(setup, choice->chunk);
    *parts = (mnem__engine_parts){.hidden_bytes = hidden};
    uint64_t *bytes = parts->all.bytes;
    measure_kept(setup, choice, bytes);
    bytes[MNEM__PART_VECTORS] = map->vector_bytes;
    bytes[MNEM__PART_ADAPTERS] = adapters ? adapters->block_bytes : 0;
    bytes[MNEM__PART_ACTIVATIONS] = hidden + mnem__max_u64(body->block_bytes, head->block_bytes);
    bytes[MNEM__PART_LOGITS] = mnem__engine_logits_bytes(setup);
    bytes[MNEM__PART_WORKSPACE] = mnem__max_u64(body->workspace_bytes, head->workspace_bytes);
    bytes[MNEM__PART_ROWS] = chunk * mnem__transformer_embedding_row(map);
    bytes[MNEM__PART_LAYER_ROWS] = chunk * mnem__transformer_layer_row(&map->shape);
    bytes[MNEM__PART_RELAY] = mnem__relay_block_bytes(&relay);
    if (setup->apart) /* hidden rows on the host, and the norm that embeddings go through */
        bytes[MNEM__PART_STAGING] = hidden + 2 * (uint64_t)map->shape.embd * sizeof(float);
    bytes[MNEM__PART_HOST_SESSION] = mnem__engine_tables_lay_out(setup, choice, NULL, NULL) +
                                     mnem__transformer_map_bytes(map) +
                                     (adapters ? adapters->host_bytes : 0);
    bytes[MNEM__PART_HOST_GRAPH] = mnem__transformer_graphs_bytes(&graphs);
    if (o->scheduler_bytes)
        bytes[MNEM__PART_HOST_SCHEDULER] =
            o->scheduler_bytes(o->scheduler_context, choice->context);
    if (setup->draft > 0) bytes[MNEM__PART_HOST_DRAFT] = mnem_draft_bytes(choice->context);
    mnem__parts_complete(&parts->all, setup->device, setup->threads);
    if (o->shares_reserve) bytes[MNEM__PART_RESERVE] = 0;
    if (o->team) bytes[MNEM__PART_TEAM] = 0;
}

void mnem__engine_measure_weights(const mnem__setup *setup, const mnem__choice *choice,
                                  const mnem__weights_sizes *weights, mnem__engine_parts *parts) {
    uint64_t *bytes = parts->all.bytes;
    mnem_device *device = setup->device;
    bytes[MNEM__PART_MATRICES] = mnem__part_block_bytes(device, weights->resident_bytes);
    bytes[MNEM__PART_EXPERTS] = mnem__part_block_bytes(device, weights->expert_bytes);
    bytes[MNEM__PART_RING] = mnem__part_block_bytes(device, weights->ring_bytes);
    if (choice->embedding_packed) bytes[MNEM__PART_ROWS] = 0;
    bytes[MNEM__PART_HOST_WEIGHTS] = weights->host_bytes;
    bytes[MNEM__PART_READER] = weights->stack_bytes;
    place_ring(setup, weights, parts);
    mnem__parts_add_up(&parts->all);
}

void mnem__engine_measure(const mnem__setup *setup, const mnem__choice *choice,
                          const mnem_graph_sizes *body, const mnem_graph_sizes *head,
                          const mnem__weights_sizes *weights, mnem__engine_parts *parts) {
    mnem__engine_measure_graphs(setup, choice, body, head, parts);
    mnem__engine_measure_weights(setup, choice, weights, parts);
}
