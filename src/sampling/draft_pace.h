/* draft_pace.h: how many drafted tokens are worth their rows in a pass. */
#ifndef MNEM_SRC_SAMPLING_DRAFT_PACE_H
#define MNEM_SRC_SAMPLING_DRAFT_PACE_H

#include "mnem/draft.h"

enum { MNEM__DRAFT_CLASSES = 8, MNEM__DRAFT_ROWS = MNEM_DRAFT_MOST + 2 };

typedef struct mnem__draft_pace {
    double right[MNEM__DRAFT_CLASSES], seen[MNEM__DRAFT_CLASSES]; /* by tokens that agree */
    double seconds[MNEM__DRAFT_ROWS];                             /* of a pass of so many rows */
    int32_t samples[MNEM__DRAFT_ROWS];                            /* 0: not measured */
    int32_t since_plain; /* passes since the last one of one row */
    double lost;         /* by drafts, in passes of one row; below 0: gained */
} mnem__draft_pace;

/* The token that followed a match of `agreed` tokens was the expected one, or not. */
void mnem__draft_pace_saw(mnem__draft_pace *pace, int32_t agreed, bool right);
/* A pass of so many rows, 1 to MNEM_DRAFT_MOST + 1, gave so many tokens, and took so long. */
void mnem__draft_pace_took(mnem__draft_pace *pace, int32_t rows, int32_t tokens, double seconds);
/* The best length of a draft behind a match of `agreed` tokens, 0 to most. */
int32_t mnem__draft_pace_length(mnem__draft_pace *pace, int32_t agreed, int32_t most);

#endif
