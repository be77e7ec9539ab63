/* ranks_walk.h: ranks that run a model as threads, of which rank 0 lets sequences follow streams of
 * ids at random, and compares the logits with those of one rank.
 *
 * Steps of random parts, forks, cuts, steps that are stopped, steps that are under way while others
 * begin, or while texts are embedded; of recurrent states snapshots at random places. */
#ifndef MNEM_TESTS_ENGINE_RANKS_RANKS_WALK_H
#define MNEM_TESTS_ENGINE_RANKS_RANKS_WALK_H

#include <pthread.h>

#include "engine/engine_case.h"
#include "kit/kit.h"

enum { STREAMS = 4, LENGTH = 80, CONTEXT = 128, RANKS_MAX = 5, SEQUENCES = 6 };

extern int32_t streams[STREAMS][LENGTH];
/* Streams' beginnings that are embedded, alone and all together. */
enum { TEXTS = 5, EMBD_MOST = 512 };
extern const mnem_embed_text texts[TEXTS];
extern const mnem_embed_options mean;

typedef struct rank {
    pthread_t id;
    mnem_comm *comm;
    const char *path;              /* of the model */
    const float *alone, *embedded; /* [STREAMS][LENGTH][vocab], [TEXTS][embd]: what is right */
    uint64_t budget, seed;
    bool apart;      /* its device */
    bool plans_only; /* nothing runs */
    mnem_engine_options options;
    mnem_engine_plan plan;
    mnem_engine_pages pages; /* at the end */
    uint64_t books;          /* of its states, then */
    mnem_status status;      /* of the plan */
    int wrong;
    int flown, beside; /* steps that were under way, texts embedded beside them */
    char text[400];
} rank;

/* Plans and runs all of them; what each found wrong is in it. link: NULL, or how slow it is. */
void run_ranks(rank *ranks, int32_t size, const mnem_comm_link *link);
/* Nothing was wrong, and the books of all are the same. */
void check_ranks(const rank *ranks, int32_t size, uint64_t seed);

#endif
