/* run_gather.c: GATHER nodes: collects columns of rows that the programs of other ranks compute.
 *
 * Idea: worker 0 copies this program's columns to the full rows, unless they were computed there,
 * and calls args.gather for the rest; the other members go on to the next meeting, where nodes that
 * need the rows wait. Invariant: worker 0 reports a failure at that meeting, so that all members
 * end at the same node. */
#include "base/clock.h"
#include "base/team/team.h"
#include "graph/run/run_private.h"

mnem_status mnem__run_gather(mnem__walk *w, const mnem__graph_step *step, mnem_op_args *args) {
    const mnem_op_desc *d = &step->op.desc;
    const mnem_graph_gather *gather = w->run->args->gather;
    if (w->worker->index != 0 || args->tokens <= 0 || w->run->status != MNEM_OK) return MNEM_OK;
    mnem_op_run(&step->op, args, &(mnem_worker){NULL, 0, 1});
    mnem_graph_gathered all = {.what = step->what,
                               .type = d->out.type,
                               .rows = (uint8_t *)args->out + d->out.offset,
                               .count = args->tokens,
                               .stride = d->out.stride[0],
                               .begin = d->axis,
                               .end = d->axis + d->in[0].shape[1]};
    if (step->in[1]) {
        all.routes = (const uint8_t *)args->in[1] + d->in[1].offset;
        all.routes_stride = d->in[1].stride[0];
        all.routes_used = (int32_t)(d->in[1].shape[1] / 2);
    }
    const uint64_t begun = mnem__nanoseconds();
    w->run->status = gather->run(gather->context, &all);
    mnem__team_waited(w->worker, mnem__nanoseconds() - begun);
    return MNEM_OK;
}
