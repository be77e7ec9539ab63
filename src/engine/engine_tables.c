/* engine_tables.c: an engine and its tables, as one allocation.
 *
 * Invariant: what is measured (base NULL) is what is carved: the same code does both. */
#include "base/carve.h"
#include "engine/engine_private.h"

/* The books of one kind's pages. */
static void lay_out_kind(const mnem__setup *setup, const mnem__choice *choice, int kind,
                         uint8_t *base, uint64_t *at, mnem__engine_tables *t) {
    const mnem_transformer *shape = &setup->map->shape;
    const mnem_kv_layout kv = mnem__engine_kv(setup, choice->kv);
    const mnem__kv_need need =
        mnem__kv_need_of(shape, &kv, (mnem__kv_kind)kind, choice->context, choice->chunk);
    const uint64_t sequences = (uint64_t)setup->sequences;
    const uint64_t more = need.one && need.pages ? (uint64_t)choice->snapshots : 0;
    const uint64_t pages = mnem__engine_pages_of(setup, choice, &need) + more;
    const uint64_t entries = need.pages ? sequences * (uint64_t)t->table_pages : 0;
    t->kind[kind].need = need;
    t->kind[kind].count = (int32_t)pages;
    t->kind[kind].pages = mnem__carve(base, at, entries, sizeof(int32_t));
    t->kind[kind].free_pages = mnem__carve(base, at, pages, sizeof(int32_t));
    if (need.ids)
        t->kind[kind].ids =
            mnem__carve(base, at, pages * (uint64_t)kv.page_tokens, sizeof(int32_t));
    t->kind[kind].references = mnem__carve(base, at, pages, sizeof(uint16_t));
}

/* The books of snapshots. */
static void lay_out_snapshots(const mnem__setup *setup, const mnem__choice *choice, uint8_t *base,
                              uint64_t *at, mnem__engine_tables *t) {
    const uint64_t sequences = (uint64_t)setup->sequences;
    const uint64_t pages = (uint64_t)t->kind[MNEM__KV_STATES].count;
    mnem__snapshots *x = &t->snapshots;
    x->most = choice->snapshots;
    x->each = MNEM__SNAPSHOTS_EACH; /* also where all of them are in a store */
    x->list_count = setup->sequences;
    x->lists = mnem__carve(base, at, sequences, sizeof *x->lists);
    x->held = mnem__carve(base, at, pages, sizeof *x->held);
    x->cost = mnem__carve(base, at, pages, sizeof *x->cost);
    x->next = mnem__carve(base, at, pages, sizeof *x->next);
    mnem__snapshot *all = mnem__carve(base, at, sequences * (uint64_t)x->each, sizeof *all);
    for (int32_t i = 0; base && i < x->list_count; i++) x->lists[i].at = all + (int64_t)i * x->each;
}

uint64_t mnem__engine_tables_lay_out(const mnem__setup *setup, const mnem__choice *choice,
                                     uint8_t *base, mnem__engine_tables *tables) {
    const mnem_kv_layout kv = mnem__engine_kv(setup, choice->kv);
    const uint64_t each = (uint64_t)mnem__kv_pages_for(&kv, choice->context);
    const uint64_t chunk = (uint64_t)choice->chunk;
    const uint64_t kept = (uint64_t)mnem__kept_rows(&setup->map->shape);
    const uint64_t sequences = (uint64_t)setup->sequences;
    uint64_t at = sizeof(mnem_engine);
    mnem__engine_tables t = {.table_pages = (int32_t)each};
    t.resident = mnem__carve(base, &at, (uint64_t)setup->matrices, sizeof(bool));
    t.ids = mnem__carve(base, &at, chunk, sizeof(int32_t));
    t.positions = mnem__carve(base, &at, chunk, sizeof(int32_t));
    t.kv = mnem__carve(base, &at, kept * sequences, sizeof(mnem_kv_sequence));
    t.segments = mnem__carve(base, &at, sequences, sizeof(mnem__segment));
    t.sequences = mnem__carve(base, &at, sequences, sizeof(mnem_sequence));
    const uint64_t adapters = setup->adapters ? (uint64_t)setup->adapters->adapters : 0;
    t.low_rows = mnem__carve(base, &at, adapters ? sequences : 0, sizeof(mnem_low_rank_rows));
    t.scales = mnem__carve(base, &at, sequences * adapters, sizeof(float));
    const mnem__relay_shape relay = mnem__engine_relay(setup, choice);
    t.requests = mnem__carve(base, &at, mnem__relay_requests(&relay), sizeof(mnem_comm_request));
    t.parts = mnem__carve(base, &at, relay.size > 1 ? sequences : 0, sizeof(mnem_step_part));
    const bool leads = relay.size > 1 && relay.rank == 0;
    const uint64_t ahead = leads ? (uint64_t)mnem__relay_ahead(relay.size) : 0;
    t.awaited = mnem__carve(base, &at, ahead, sizeof(mnem__awaited));
    mnem__segment *rows = mnem__carve(base, &at, ahead * sequences, sizeof(mnem__segment));
    for (uint64_t i = 0; base && i < ahead; i++) t.awaited[i].segment = rows + i * sequences;
    for (int k = 0; k < MNEM__KV_KINDS; k++) {
        lay_out_kind(setup, choice, k, base, &at, &t);
        if (t.kind[k].need.forgets) t.window = setup->map->shape.window;
    }
    if (t.kind[MNEM__KV_STATES].need.pages > 0)
        t.history = mnem__carve(base, &at, sequences * (uint64_t)choice->context, sizeof(int32_t));
    if (t.kind[MNEM__KV_STATES].need.pages > 0) lay_out_snapshots(setup, choice, base, &at, &t);
    if (tables) *tables = t;
    return at;
}
