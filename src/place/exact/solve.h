/* solve.h: the search behind mnem_place_solve, for callers with further facts about the buffers. */
#ifndef MNEM_SRC_PLACE_EXACT_SOLVE_H
#define MNEM_SRC_PLACE_EXACT_SOLVE_H

#include "place/exact/search_limits.h"
#include "place/greedy/cliques.h"

typedef struct mnem__task {
    mnem_place_buffer *buffers;
    size_t n;
    uint64_t capacity; /* 0: as low as possible */
    uint64_t seed;
    /* Lifetimes with gaps, inside those of the buffers; NULL: no gaps. With gaps the search makes
     * dives only, for placements below peak_known: if it finds none, result->peak_bytes is
     * peak_known and the offsets are undefined. */
    const mnem__lives *lives;
    uint64_t peak_known;
} mnem__task;

/* As mnem_place_solve. */
mnem_status mnem__solve(const mnem__task *task, mnem__search_limits *limits,
                        mnem_place_result *result);
/* As mnem_place_solve_constrained; constraints may be NULL, lives must be. */
mnem_status mnem__solve_constrained(const mnem__task *task,
                                    const mnem_place_constraint *constraints,
                                    mnem__search_limits *limits, mnem_place_result *result);

#endif
