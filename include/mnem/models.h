/* mnem/models.h: for programs that use models: open, plan, generate, chat, serve, train. The budget
 * that all of it keeps is in ledger.h. */
#ifndef MNEM_MODELS_H
#define MNEM_MODELS_H

#include "mnem/advice.h"
#include "mnem/base.h"
#include "mnem/chat.h"
#include "mnem/compress.h"
#include "mnem/corpus.h"
#include "mnem/draft.h"
#include "mnem/engine.h"
#include "mnem/forecast.h"
#include "mnem/grammar.h"
#include "mnem/history.h"
#include "mnem/imatrix.h"
#include "mnem/ledger.h"
#include "mnem/model.h"
#include "mnem/monitor.h"
#include "mnem/plan.h"
#include "mnem/probe.h"
#include "mnem/prune.h"
#include "mnem/report.h"
#include "mnem/sampler.h"
#include "mnem/saved.h"
#include "mnem/serve.h"
#include "mnem/session.h"
#include "mnem/supports.h"
#include "mnem/template.h"
#include "mnem/tokenizer.h"
#include "mnem/train.h"

#endif
