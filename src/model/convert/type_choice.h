/* type_choice.h: chooses a type per tensor so that the bytes fit and the sum of losses is least. */
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

/* Chooses an option per tensor. Exact if the differences in bytes are multiples of a unit of
 * which most_bytes has at most 65536 (fewer for very many tensors); else bytes are rounded to
 * such units, which can increase the loss. MNEM_OVER_BUDGET: the smallest options take more. */
mnem_status mnem__choose(mnem__choice *choice, uint32_t count, uint64_t most_bytes);

#endif
