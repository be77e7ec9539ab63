/* follow.c: a rank that does what rank 0 says.
 *
 * A pass is a step of its own here, of parts that one pass holds: the engine deals it as rank 0
 * dealt it; tokens that run again are told, too. Invariant: sequences are opened, forked, cut and
 * ended, and snapshots of states taken, in the order of rank 0, so that they have the same numbers,
 * pages and snapshots. What a pass that failed has left is rank 0's to say. */
#include "base/error.h"
#include "engine/engine_private.h"

/* Logits go to rank 0. */
static bool pass_by(void *context, int32_t part, int32_t index, const float *logits) {
    (void)context, (void)part, (void)index, (void)logits;
    return true;
}

static mnem_status bad_order(const int32_t *order) {
    return mnem__fail(MNEM_IO,
                      "engine: rank 0 sent an invalid order: %d %d %d (do all ranks run the same "
                      "version of mnem?)",
                      order[0], order[1], order[2]);
}

static mnem_sequence *sequence_of(const mnem_engine *e, int32_t index) {
    return index >= 0 && index < e->sequences ? &e->tables.sequences[index] : NULL;
}

static mnem_status run_pass(mnem_engine *e, const int32_t *order) {
    const int32_t count = order[1], rows = order[2];
    const mnem__relay_segment *segments = mnem__relay_order_segments(order);
    if (count < 1 || count > e->sequences || rows < 1 || rows > e->choice.chunk)
        return bad_order(order);
    const int32_t *ids = mnem__relay_order_ids(order);
    int32_t row = 0;
    for (int32_t i = 0; i < count; i++) {
        const mnem__relay_segment *g = &segments[i];
        if (!sequence_of(e, g->sequence) || g->rows < 1 || g->rows > rows - row)
            return bad_order(order);
        e->tables.parts[i] = (mnem_step_part){.sequence = sequence_of(e, g->sequence),
                                              .ids = ids + row,
                                              .n = g->rows,
                                              .first_logits = g->rows - g->wanted};
        row += g->rows;
    }
    const mnem_status status =
        order[0] == MNEM__RELAY_HIDDEN
            ? mnem__engine_step_hidden(e, e->tables.parts, count, mnem__embed_follow, e)
            : mnem_engine_step(e, e->tables.parts, count, pass_by, NULL);
    return status == MNEM_CANCELLED ? MNEM_OK : status; /* rank 0 says what is left */
}

static mnem_status do_order(mnem_engine *e, const int32_t *order, bool *end) {
    mnem_sequence *made, *s = sequence_of(e, order[1]);
    if (order[0] > MNEM__RELAY_END)
        return e->on_order ? e->on_order(e->on_order_context, order) : bad_order(order);
    switch (order[0]) {
    case MNEM__RELAY_PASS:
    case MNEM__RELAY_HIDDEN: return run_pass(e, order);
    case MNEM__RELAY_CREATE: return mnem_sequence_create(e, &made);
    case MNEM__RELAY_END: *end = true; return MNEM_OK;
    default: break;
    }
    if (!s) return bad_order(order);
    switch (order[0]) {
    case MNEM__RELAY_FORK: return mnem_sequence_fork(s, order[2], &made);
    case MNEM__RELAY_TRUNCATE:
        return order[3] ? mnem__sequence_truncate_away(s, order[2])
                        : mnem_sequence_truncate(s, order[2]);
    case MNEM__RELAY_DESTROY: mnem_sequence_destroy(s); return MNEM_OK;
    case MNEM__RELAY_SNAPSHOT:
        return mnem__sequence_follow_snapshot(s, order[2] != 0) ? MNEM_OK : bad_order(order);
    case MNEM__RELAY_DOUBT:
        if (order[2] < 0 || order[2] > s->length) return bad_order(order);
        mnem__sequence_doubt(s, order[2]);
        return MNEM_OK;
    default: return bad_order(order);
    }
}

mnem_status mnem_engine_follow(mnem_engine *e) {
    mnem_comm *comm = e->relay.comm;
    const int32_t *order;
    mnem_status status = MNEM_OK;
    bool end = false;
    if (!comm)
        return mnem__fail(MNEM_INVALID, "engine: mnem_engine_follow needs an engine created with "
                                        "options.comm; this one has none");
    if (e->relay.rank == 0)
        return mnem__fail(MNEM_INVALID, "engine: mnem_engine_follow was called on rank 0; it is "
                                        "for the other ranks, which follow rank 0");
    while (status == MNEM_OK && !end) {
        status = mnem__relay_next(&e->relay, &order);
        if (status == MNEM_OK) status = do_order(e, order, &end);
        if (status == MNEM_OK && !end) status = mnem__relay_done(&e->relay);
    }
    if (status == MNEM_OK) status = mnem__relay_end(&e->relay);
    if (status != MNEM_OK) mnem_comm_abort(comm, mnem_last_error());
    return status;
}
