/* mnem/runtime.h: for programs that run their own operators or models: memory (device, pool,
 * offset, place), programs of operators (ops, graph, comm), tools (trace, replay, leaks). */
#ifndef MNEM_RUNTIME_H
#define MNEM_RUNTIME_H

#include "mnem/base.h"
#include "mnem/comm.h"
#include "mnem/device.h"
#include "mnem/graph.h"
#include "mnem/leaks.h"
#include "mnem/live.h"
#include "mnem/offset.h"
#include "mnem/op_query.h"
#include "mnem/op_queue.h"
#include "mnem/ops.h"
#include "mnem/place.h"
#include "mnem/pool.h"
#include "mnem/replay.h"
#include "mnem/snapshot.h"
#include "mnem/tensor.h"
#include "mnem/thread_heap.h"
#include "mnem/trace.h"
#include "mnem/trace_read.h"

#endif
