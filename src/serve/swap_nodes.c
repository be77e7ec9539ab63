/* swap_nodes.c: the nodes of a swap file that an engine alone has, and how nodes run
 * (swap_nodes.h). */
#include "serve/swap_nodes.h"

#include "base/error.h"
#include "engine/saved/saved_private.h"

static const struct {
    mnem_status (*run)(mnem__swap_move *move);
    mnem__swap_stage stage;
} swap_node[] = {
#define MNEM__SWAP_NODE_ROW(name, stage, function) {function, MNEM__SWAP_STAGE_##stage},
    MNEM__SWAP_NODE_LIST(MNEM__SWAP_NODE_ROW)
#undef MNEM__SWAP_NODE_ROW
};

static uint32_t bit(mnem__swap_node node) {
    return UINT32_C(1) << node;
}

uint32_t mnem__swap_compile(bool ranks) {
    const uint32_t of_ranks = bit(MNEM__SWAP_NODE_TELL_WRITE) | bit(MNEM__SWAP_NODE_HEAR) |
                              bit(MNEM__SWAP_NODE_TELL_READ) | bit(MNEM__SWAP_NODE_TELL_JOIN) |
                              bit(MNEM__SWAP_NODE_TELL_DROP);
    const uint32_t all = bit(MNEM__SWAP_NODES) - 1;
    return ranks ? all : all & ~of_ranks;
}

mnem_status mnem__swap_run_stage(mnem__swap_move *move, mnem__swap_stage stage) {
    for (int node = 0; node < MNEM__SWAP_NODES; node++)
        if (swap_node[node].stage == stage && move->file->nodes & bit(node))
            MNEM__TRY(swap_node[node].run(move));
    return MNEM_OK;
}

mnem_status mnem__swap_run_write(mnem__swap_move *m) {
    mnem__swap_write(m->file, m->job, m->sequence, m->ids, 0, m->lane);
    return MNEM_OK;
}

mnem_status mnem__swap_run_wait(mnem__swap_move *m) {
    return mnem__swap_is_done(m->file, m->job, m->wait) ? MNEM_OK : MNEM_NOT_READY;
}

mnem_status mnem__swap_run_read(mnem__swap_move *m) {
    return mnem__swap_read(m->file, m->job, m->sequence);
}

/* The sequence has what was read, on all ranks, or none has it. */
mnem_status mnem__swap_run_join(mnem__swap_move *m) {
    m->status = mnem_sequence_load_end(m->job->sequence, &m->job->saved, m->job->status);
    return MNEM_OK;
}

mnem_status mnem__swap_run_drop(mnem__swap_move *m) {
    mnem__swap_drop(m->file, m->job);
    return MNEM_OK;
}
