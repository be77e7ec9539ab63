/* weights_experts.c: experts that aren't resident, read when they are acquired.
 *
 * The idea: the owner says which experts a layer wants, and takes them one after another; each is
 * read and packed then, by the owner itself, into one of two places. Matrices of an expert that are
 * resident stay where they are.
 * Invariant: a place that is held isn't written to. Cost: the disk is waited for. */
#include "base/error.h"
#include "model/weights/weights_private.h"

static mnem_status want(void *context, int32_t gates, const int32_t *numbers, int32_t count,
                        bool in_order) {
    mnem__weights *w = context;
    (void)in_order;
    if (gates < 0 || gates + 2 >= w->matrix_count || !w->matrices[gates].expert_groups)
        return mnem__fail(MNEM_INVALID, "weights: no experts at matrix %d", gates);
    w->experts.wanted = numbers;
    w->experts.count = count;
    w->experts.at = 0;
    return MNEM_OK;
}

/* One matrix of an expert, read and packed at place; *next: behind it. */
static mnem_status read_matrix(mnem__weights *w, const mnem__matrix *m, int32_t number,
                               uint8_t *place, uint8_t **next) {
    const int64_t rows = m->expert_groups * MNEM_PACK_ROWS;
    const uint64_t bytes = (uint64_t)rows * m->row_bytes;
    uint64_t raw_at;
    uint8_t *raw;
    *next = place + mnem__matrix_place(m, m->expert_groups, &raw_at);
    mnem_status status =
        mnem__weights_part_read(&w->parts[m->file], w->page_cache,
                                m->offset + (uint64_t)number * bytes, bytes, place + raw_at, &raw);
    if (status == MNEM_OK)
        status = mnem__gguf_part_check(w->parts[m->file].file, w->parts[m->file].fd);
    if (status != MNEM_OK) return mnem__fail_in(status, "%s", m->name);
    mnem__weights_pack(m, rows, raw, place);
    pthread_mutex_lock(&w->lock);
    w->stats.bytes_read += bytes;
    w->stats.bytes_streamed += bytes;
    pthread_mutex_unlock(&w->lock);
    return MNEM_OK;
}

static mnem_status acquire(void *context, int32_t gates, mnem_graph_expert *expert) {
    mnem__weights *w = context;
    mnem__expert_reads *e = &w->experts;
    if (e->at == e->count) return mnem__fail(MNEM_INVALID, "weights: no more experts are wanted");
    int32_t slot = 0;
    while (slot < MNEM__EXPERT_PLACES && e->held[slot]) slot++;
    if (slot == MNEM__EXPERT_PLACES)
        return mnem__fail(MNEM_INVALID, "weights: %d experts are held", MNEM__EXPERT_PLACES);
    expert->slot = slot;
    expert->expert.number = e->wanted[e->at];
    uint8_t *place = e->base + (uint64_t)slot * e->place_bytes;
    for (int i = 0; i < 3; i++) {
        const mnem__matrix *m = &w->matrices[gates + i];
        expert->expert.packed[i] = place;
        if (m->resident)
            expert->expert.packed[i] =
                w->resident + m->place +
                (uint64_t)(expert->expert.number * m->expert_groups) * m->packed_bytes;
        else
            MNEM__TRY(read_matrix(w, m, expert->expert.number, place, &place));
    }
    e->at++;
    e->held[slot] = true;
    return MNEM_OK;
}

static void release(void *context, const mnem_graph_expert *expert) {
    ((mnem__weights *)context)->experts.held[expert->slot] = false;
}

const mnem_graph_experts mnem__weights_experts = {want, acquire, release, NULL};
