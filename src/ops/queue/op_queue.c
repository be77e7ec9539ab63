/* op_queue.c: a stream whose work is a team's runs.
 *
 * A run is copied into a ring that has two places more than the stream's queue: when a place comes
 * round again, its run has left the queue and another one after it has, so it is done. */
#include <string.h>

#include "base/heap.h"
#include "mnem/op_query.h"
#include "mnem/op_queue.h"
#include "ops/core/op_impl.h"

enum { PLACES = MNEM_STREAM_DEPTH + 2 };

typedef struct queued {
    mnem_team *team;
    const mnem_op *op;
    mnem_op_args args;
} queued;

struct mnem_op_queue {
    mnem_device *device;
    mnem_stream *stream;
    mnem_team *team;
    uint32_t next;
    queued places[PLACES];
};

static void run_member(const mnem_worker *worker, void *context) {
    const queued *run = context;
    mnem_op_run(run->op, &run->args, worker);
}

static void run_all(void *context) {
    const queued *run = context;
    mnem_team_run(run->team, run_member, context);
}

mnem_status mnem_op_queue_create(mnem_device *device, mnem_team *team, mnem_op_queue **queue) {
    mnem_device_info info;
    mnem_device_info_get(device, &info);
    if (strcmp(info.name, "host") != 0)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "device %s can't run operators; use the device \"host\"", info.name);
    mnem_op_queue *q = mnem__calloc("metadata", 1, sizeof *q);
    if (!q) return mnem__heap_status();
    q->device = device;
    q->team = team;
    const mnem_status status = mnem_stream_create(device, &q->stream);
    if (status != MNEM_OK) {
        mnem__free(q);
        return status;
    }
    *queue = q;
    return MNEM_OK;
}

void mnem_op_queue_destroy(mnem_op_queue *queue) {
    if (!queue) return;
    mnem_stream_destroy(queue->stream);
    mnem__free(queue);
}

mnem_status mnem_op_queue_submit(mnem_op_queue *queue, const mnem_op *op,
                                 const mnem_op_args *args) {
    MNEM__TRY(mnem_op_check(op, args, mnem_team_count(queue->team)));
    queued *place = &queue->places[queue->next % PLACES];
    *place = (queued){queue->team, op, *args};
    MNEM__TRY(mnem_stream_launch(queue->device, queue->stream, run_all, place));
    queue->next = (queue->next + 1) % PLACES;
    return MNEM_OK;
}

mnem_stream *mnem_op_queue_stream(mnem_op_queue *queue) {
    return queue->stream;
}
