/* mnem/mnem.h: all of libmnem. */
#ifndef MNEM_H
#define MNEM_H

#include "mnem/base.h"
#include "mnem/corpus.h"
#include "mnem/device.h"
#include "mnem/engine.h"
#include "mnem/graph.h"
#include "mnem/ledger.h"
#include "mnem/live.h"
#include "mnem/model.h"
#include "mnem/offset.h"
#include "mnem/ops.h"
#include "mnem/place.h"
#include "mnem/plan.h"
#include "mnem/pool.h"
#include "mnem/replay.h"
#include "mnem/session.h"
#include "mnem/template.h"
#include "mnem/tensor.h"
#include "mnem/tokenizer.h"
#include "mnem/trace.h"
#include "mnem/train.h"

#endif
