/* mnem/mnem.h: all of libmnem. */
#ifndef MNEM_H
#define MNEM_H

#include "mnem/alloc.h"
#include "mnem/arena.h"
#include "mnem/base.h"
#include "mnem/checkpoint.h"
#include "mnem/device.h"
#include "mnem/granule.h"
#include "mnem/graph.h"
#include "mnem/infer.h"
#include "mnem/live.h"
#include "mnem/loss_scale.h"
#include "mnem/model.h"
#include "mnem/offset.h"
#include "mnem/ops.h"
#include "mnem/optimizer.h"
#include "mnem/plan.h"
#include "mnem/plan_adapt.h"
#include "mnem/plan_csv.h"
#include "mnem/plan_recompute.h"
#include "mnem/plan_split.h"
#include "mnem/pool.h"
#include "mnem/replay.h"
#include "mnem/team.h"
#include "mnem/tensor.h"
#include "mnem/tokenizer.h"
#include "mnem/trace.h"
#include "mnem/vocabulary.h"
#include "mnem/workload.h"

#endif
