/* mnem/op_queue.h: queues that run operators asynchronously and in order, and a cache of prepared
 * operators.
 *
 * A queue is a stream of the host (device.h) whose runs are a team's: events are those of streams.
 * Threads: a queue and a cache belong to one thread at a time.
 *
 *     mnem_op_cache *cache;
 *     mnem_op_cache_create(1 << 20, &cache);
 *     mnem_op_queue *queue;
 *     mnem_op_queue_create(device, team, &queue);      // the team is the queue's from now on
 *     mnem_op op;
 *     mnem_op_cache_prepare(cache, &d, &op);           // as mnem_op_prepare, or found
 *     mnem_op_queue_submit(queue, &op, &args);         // returns at once
 *     mnem_event_record(event, mnem_op_queue_stream(queue));
 *     ...
 *     mnem_event_synchronize(event);                   // out is there
 *     mnem_op_queue_destroy(queue);
 *     mnem_op_cache_destroy(cache);
 */
#ifndef MNEM_OP_QUEUE_H
#define MNEM_OP_QUEUE_H

#include "mnem/device.h"
#include "mnem/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- runs in order ---- */

typedef struct mnem_op_queue mnem_op_queue;

/* device: "host", else MNEM_UNSUPPORTED. Both stay the caller's, and live longer than the queue. */
mnem_status mnem_op_queue_create(mnem_device *device, mnem_team *team, mnem_op_queue **queue);
void mnem_op_queue_destroy(mnem_op_queue *queue); /* finishes its runs first; NULL is fine */

/* Checks as mnem_op_check does, and queues a run: MNEM_INVALID where it is wrong, and nothing is
 * queued. args is copied; op and what args points at stay until the run is done. With
 * MNEM_STREAM_DEPTH runs queued the caller waits. Allocates nothing. */
mnem_status mnem_op_queue_submit(mnem_op_queue *queue, const mnem_op *op, const mnem_op_args *args);

/* Its stream, to record events on it, to let it wait for those of other queues, to synchronize.
 * Borrowed. */
mnem_stream *mnem_op_queue_stream(mnem_op_queue *queue);

/* ---- prepared operators ---- */

typedef struct mnem_op_cache mnem_op_cache;

typedef struct mnem_op_cache_info {
    uint64_t bytes; /* all that it takes, at most what it was created with */
    uint64_t hits, misses, dropped;
    int32_t operators, operators_max;
} mnem_op_cache_info;

/* bytes: at least what one operator needs (below 4 KiB), else MNEM_INVALID. All of it is taken at
 * once. */
mnem_status mnem_op_cache_create(uint64_t bytes, mnem_op_cache **cache);
void mnem_op_cache_destroy(mnem_op_cache *cache); /* NULL is fine */
/* As mnem_op_prepare. An equal descriptor (of what its operator reads, and all else) is found; what
 * isn't is prepared and kept, in the place of the one that was last asked for longest ago. */
mnem_status mnem_op_cache_prepare(mnem_op_cache *cache, const mnem_op_desc *desc, mnem_op *op);
void mnem_op_cache_info_get(const mnem_op_cache *cache, mnem_op_cache_info *info);

#ifdef __cplusplus
}
#endif
#endif
