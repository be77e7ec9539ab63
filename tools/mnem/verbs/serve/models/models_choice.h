/* models_choice.h: decides, from numbers only, how many bytes each of several models takes, and
 * which models are unloaded to make room for another. Pure functions, without clocks.
 *
 * `room` is the part of the budget for all models together. The bytes of a model are decided once
 * (models_share) and are the same at each load, so that choices compare fixed numbers. */
#ifndef MNEM_TOOLS_MNEM_VERBS_SERVE_MODELS_MODELS_CHOICE_H
#define MNEM_TOOLS_MNEM_VERBS_SERVE_MODELS_MODELS_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

enum { MODELS_MOST = 64 }; /* a set of models is the bits of one word */

typedef struct models_fact {
    uint64_t bytes; /* its size while it is loaded */
    int64_t used;   /* time of its last use */
    bool loaded, busy;
    bool begins;  /* it is loaded, and its waiting requests are about to start: it can't leave */
    bool pinned;  /* it is never unloaded; its bytes are reserved even while it isn't loaded */
    bool leaving; /* it is unloaded as soon as it isn't busy */
} models_fact;

typedef enum models_act {
    MODELS_LOAD,  /* load it: there is room */
    MODELS_LEAVE, /* unload the models of `who` first */
    MODELS_WAIT,  /* wait for models that are leaving, or busy */
    MODELS_NEVER  /* it needs more than it can ever get, which is `room_bytes` */
} models_act;

typedef struct models_choice {
    models_act act;
    uint64_t who;        /* set of models, as bits */
    uint64_t room_bytes; /* the room beside the pinned models */
} models_choice;

/* Chooses for a model that is wanted and not loaded. The least recently used models are unloaded
 * first, and only as many as are needed. A busy model is unloaded only if `overdue` is set: the
 * wanted one has waited too long. */
models_choice models_choose(const models_fact *fact, int count, int wanted, uint64_t room,
                            bool overdue);

/* Replaces fact[].bytes, the least bytes in which each model is as fast as in all of the room, by
 * the bytes it gets. Models that fit together before fit together afterwards: of the sets that fit
 * and contain a model, one leaves the smallest free part per member, and the model grows by that
 * part. A model that doesn't fit beside the pinned ones gets all the room that they leave. */
void models_share(models_fact *fact, int count, uint64_t room);

#endif
