/* models_choice.h: which of several models are in memory, as numbers: how many bytes each takes,
 * and which ones make room for one that is wanted. Pure functions, without clocks.
 *
 * Room is what the budget has for all models together. A model takes the same bytes at each load:
 * they are decided once (models_share), so that a decision compares numbers that hold. */
#ifndef MNEM_TOOLS_MNEM_VERBS_SERVE_MODELS_MODELS_CHOICE_H
#define MNEM_TOOLS_MNEM_VERBS_SERVE_MODELS_MODELS_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

enum { MODELS_MOST = 64 }; /* a set of them is the bits of a word */

typedef struct models_fact {
    uint64_t bytes; /* that it takes while it is loaded */
    int64_t used;   /* its last use: the lowest is the least recent */
    bool loaded, busy;
    bool pinned;  /* never leaves; its bytes are kept for it even if it isn't loaded */
    bool leaving; /* it goes as soon as it isn't busy */
} models_fact;

typedef enum models_act {
    MODELS_LOAD,  /* there is room */
    MODELS_LEAVE, /* the models of `who` are to go first */
    MODELS_WAIT,  /* for those that are leaving, or that answer requests */
    MODELS_NEVER  /* it needs more than there can be: `room_bytes` */
} models_act;

typedef struct models_choice {
    models_act act;
    uint64_t who;        /* bits */
    uint64_t room_bytes; /* the most that it could have */
} models_choice;

/* For a model that is wanted and not loaded. The least recently used go first, of these only as
 * many as are needed; a busy one only if the wanted one is overdue: it has waited too long. */
models_choice models_choose(const models_fact *fact, int count, int wanted, uint64_t room,
                            bool overdue);

/* In fact[].bytes: what each takes at least with all weights in memory; becomes what it takes. Any
 * models that fit together before do so afterwards; each gets the same part of what the fullest of
 * its sets leaves free. One that doesn't fit beside the pinned ones gets all that they leave. */
void models_share(models_fact *fact, int count, uint64_t room);

#endif
