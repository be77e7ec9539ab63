/* granule_plan.h: what a remap takes and where it puts it, before anything is changed.
 *
 * Collected: every LARGE free run, and of its granules
 *
 *     wholes   wholly free, in one run or in parts of several
 *     heads    the last part of a granule, with which a run begins: a place may begin there
 *     tails    the first part of a granule, with which a run ends: a place may end there
 *
 *     run  ...live][head|whole|whole|tail][live...
 */
#ifndef MNEM_SRC_ALLOC_GRANULE_GRANULE_PLAN_H
#define MNEM_SRC_ALLOC_GRANULE_GRANULE_PLAN_H

#include "alloc/granule/granule_private.h"

enum { MNEM__GRANULE_PLACES = 64 };

/* A free run, and which of its ends leave it. */
typedef struct mnem__granule_source {
    uint32_t run;
    bool head, tail;
} mnem__granule_source;

/* What will be one free run, from `start` units after the first new slot. */
typedef struct mnem__granule_place {
    uint64_t start;
    uint32_t units;
} mnem__granule_place;

typedef struct mnem__granule_plan {
    uint32_t *units_free;          /* [numbers] in LARGE runs */
    uint8_t *taken;                /* [numbers] wholly, from every slot */
    uint32_t *wholes;              /* [numbers] wholly free ones, those of small runs first */
    uint32_t *map;                 /* [numbers + 2 * PLACES] what the new slots show */
    mnem__granule_source *sources; /* [room] */
    uint64_t *heads, *tails;       /* [room] units << 32 | source; tails sorted */
    mnem__granule_range *unmaps;   /* [slots] */
    uint32_t room;
    uint32_t wholes_count, wholes_used, map_count, sources_count, heads_count, tails_count;
    uint32_t unmaps_count, places_count;
    uint64_t runs_needed;
    mnem__granule_place places[MNEM__GRANULE_PLACES];
} mnem__granule_plan;

/* granule_collect.c: room for so many sources, and what there is now. */
mnem_status mnem__granule_sources_room(mnem__granule_plan *plan, uint32_t runs);
mnem_status mnem__granule_collect(mnem__granule_fit *f);

/* granule_order.c: carries out f->plan, whose give_count granules (wholes[0..)) go back to the
 * device. *run: the first place's free run. */
mnem_status mnem__granule_carry_out(mnem__granule_fit *f, uint32_t give_count, uint32_t *run);

#endif
