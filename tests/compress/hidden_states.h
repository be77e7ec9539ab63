/* hidden_states.h: hidden states of a model's last layer for a text, and their distance from
 * another model's. */
#ifndef MNEM_TESTS_COMPRESS_HIDDEN_STATES_H
#define MNEM_TESTS_COMPRESS_HIDDEN_STATES_H

#include "mnem/mnem.h"

typedef struct hidden_states {
    const int32_t *ids; /* [sequences][chunk] */
    int32_t chunk;
    int64_t sequences;
    int64_t n;   /* numbers of one sequence */
    float *rows; /* of all */
} hidden_states;

/* Fills n and rows of a model. */
void hidden_states_walk(hidden_states *states, const char *path);
void hidden_states_free(hidden_states *states);
/* Sum of squares of what the model in path differs by, over that of states. */
double hidden_states_distance(const hidden_states *states, const char *path);

#endif
