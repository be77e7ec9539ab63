/* serve_ranks.h: an engine over ranks that are threads; rank 0 is the test's. */
#ifndef MNEM_TESTS_SERVE_SERVE_RANKS_H
#define MNEM_TESTS_SERVE_SERVE_RANKS_H

#include <pthread.h>
#include <stdbool.h>

#include "mnem/serve.h"
#include "serve/serve_case.h"

enum { SERVE_RANKS_MAX = 3 };

typedef struct serve_rank {
    pthread_t thread;
    const char *path, *swap; /* of the model; where a rank that follows puts pages, or NULL */
    mnem_comm *comm;
    bool keeps_comm; /* until serve_ranks_close: another thread aborts it */
    mnem_engine_options options;
    mnem_engine_plan plan;
    mnem_ledger *ledger;
    mnem_model *model;
    mnem_engine *engine;
    mnem_status status; /* of following */
} serve_rank;

/* Those with a swap of their own have it set before, all else is zero. Rank 0 is open then. */
void serve_ranks_open(serve_rank *ranks, int32_t count, const char *path,
                      const mnem_engine_options *options);
/* Closes rank 0's engine; every rank ends with this status, and with no page left. */
void serve_ranks_close(serve_rank *ranks, int32_t count, mnem_status status);

#endif
