/* type_choice.h: one type for each tensor, so that the bytes fit and the losses add up to least. */
#ifndef MNEM_SRC_MODEL_CONVERT_TYPE_CHOICE_H
#define MNEM_SRC_MODEL_CONVERT_TYPE_CHOICE_H

#include "mnem/base.h"

enum { MNEM__CHOICE_OPTIONS_MAX = 12 };

typedef struct mnem__choice {
    int options; /* 1 or more */
    uint64_t bytes[MNEM__CHOICE_OPTIONS_MAX];
    double loss[MNEM__CHOICE_OPTIONS_MAX]; /* finite */
    int chosen;                            /* out */
} mnem__choice;

/* Chooses an option of each. Exact where the differences in bytes are whole numbers of a unit of
 * which most_bytes has at most 65536 (fewer for very many); else the loss may be above the least by
 * what a rounding of each to such units costs. MNEM_OVER_BUDGET: the smallest options take more. */
mnem_status mnem__choose(mnem__choice *choice, uint32_t count, uint64_t most_bytes);

#endif
