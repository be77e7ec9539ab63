/* replay_map.c: where each block lay, and when: a workload drawn in time and addresses.
 *
 *     offset ^      +--------+
 *            |      |  box 2 |          a box is told when its block is freed, or at the end
 *            |  +---+--+-----+
 *            |  | box 1|                a moment after each operation: live and reserved bytes
 *            +--+------+-------> operation
 *
 * Invariant: every block that was allocated is told once, also where the target refuses midway.
 * Cost: one pass; 48 bytes or so for each block of the workload. */
#include "base/error.h"
#include "base/heap.h"
#include "replay/replay_private.h"

static const char tag[] = "replay";

static void tell_box(mnem_replay_box *box, size_t now,
                     void (*on_box)(void *, const mnem_replay_box *), void *context) {
    box->died = now;
    if (on_box) on_box(context, box);
    box->bytes = 0;
}

typedef struct map_run {
    mnem_workload_info info;
    mnem_replay_target *target;
    mnem_replay_box *boxes; /* [allocations]; bytes 0: not live */
    uint64_t *asked;        /* [allocations] */
    uint64_t live;
} map_run;

static mnem_status map_op(map_run *m, size_t i, void (*on_box)(void *, const mnem_replay_box *),
                          void *context) {
    const mnem_workload_op *o = &m->info.ops[i];
    mnem_replay_box *box = &m->boxes[o->block];
    if (!o->bytes) {
        m->target->free(m->target, o->block, o->stream);
        m->live -= m->asked[o->block];
        tell_box(box, i, on_box, context);
        return MNEM_OK;
    }
    MNEM__TRY(m->target->alloc(m->target, o->block, o->bytes, o->stream));
    *box = (mnem_replay_box){.born = i, .block = o->block};
    box->offset = m->target->place(m->target, o->block, &box->bytes);
    m->asked[o->block] = o->bytes;
    m->live += o->bytes;
    return MNEM_OK;
}

static mnem_status map_all(map_run *m, void (*on_box)(void *, const mnem_replay_box *),
                           void (*on_moment)(void *, const mnem_replay_moment *), void *context) {
    mnem_status status = MNEM_OK;
    size_t i = 0;
    for (; i < m->info.count; i++) {
        status = map_op(m, i, on_box, context);
        if (status != MNEM_OK) break;
        if (!on_moment) continue;
        mnem_replay_usage used;
        m->target->usage(m->target, &used);
        on_moment(context, &(mnem_replay_moment){i, m->live, used.bytes_reserved});
    }
    for (size_t b = 0; b < m->info.allocations; b++)
        if (m->boxes[b].bytes) tell_box(&m->boxes[b], i, on_box, context);
    return status;
}

mnem_status mnem_replay_map(const mnem_workload *w, mnem_replay_target *target, uint64_t start,
                            uint64_t most,
                            void (*on_box)(void *context, const mnem_replay_box *box),
                            void (*on_moment)(void *context, const mnem_replay_moment *moment),
                            void *context) {
    map_run m = {.target = target};
    mnem_workload_info_get(w, &m.info);
    if (!target->place)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "replay: a map of memory can't be drawn for policy %s, because its "
                          "offsets are unknown; choose an offset policy, such as default",
                          target->name);
    m.boxes = mnem__calloc(tag, m.info.allocations, sizeof *m.boxes);
    m.asked = mnem__alloc(tag, m.info.allocations * sizeof *m.asked);
    mnem_status status = m.boxes && m.asked ? MNEM_OK : mnem__heap_status();
    if (status == MNEM_OK) {
        status = target->open(target, w, start, most);
        if (status == MNEM_OK) {
            status = map_all(&m, on_box, on_moment, context);
            target->close(target);
        }
    }
    mnem__free(m.boxes);
    mnem__free(m.asked);
    return status;
}
