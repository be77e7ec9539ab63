/* granule_plan.h: plans a remap (its granules and their new offset) before anything is changed.
 *
 * It collects every LARGE free run, and of its granules
 *
 *     wholes   completely free ones, in one run or in parts of several
 *     heads    last parts of granules at the start of a run: a place may begin there
 *     tails    first parts of granules at the end of a run: a place may end there
 *
 *     run  ...live][head|whole|whole|tail][live...
 */
#ifndef MNEM_SRC_ALLOC_GRANULE_GRANULE_PLAN_H
#define MNEM_SRC_ALLOC_GRANULE_GRANULE_PLAN_H

#include "alloc/granule/granule_private.h"

enum { MNEM__GRANULE_PLACES = 64 };

/* A free run, and the ends that it gives away. */
typedef struct mnem__granule_source {
    uint32_t run;
    bool head, tail;
} mnem__granule_source;

/* A future free run, from `start` units after the first new slot. */
typedef struct mnem__granule_place {
    uint64_t start;
    uint32_t units;
} mnem__granule_place;

typedef struct mnem__granule_plan {
    uint32_t *units_free;          /* [numbers] in LARGE runs */
    uint8_t *taken;                /* [numbers] taken completely, from every slot */
    uint32_t *wholes;              /* [numbers] completely free ones, those of small runs first */
    uint32_t *map;                 /* [numbers + 2 * PLACES] the granules of the new slots */
    mnem__granule_source *sources; /* [room] */
    uint64_t *heads, *tails;       /* [room] units << 32 | source; tails sorted */
    mnem__granule_range *unmaps;   /* [slots] */
    uint32_t room;
    uint32_t wholes_count, wholes_used, map_count, sources_count, heads_count, tails_count;
    uint32_t unmaps_count, places_count;
    uint64_t runs_needed;
    mnem__granule_place places[MNEM__GRANULE_PLACES];
} mnem__granule_plan;

/* granule_collect.c: makes room for this many sources; collects the present ones. */
mnem_status mnem__granule_sources_room(mnem__granule_plan *plan, uint32_t runs);
mnem_status mnem__granule_collect(mnem__granule_fit *f);

/* granule_order.c: carries out f->plan, and frees its first give_count wholes to the device.
 * *run: the free run of the first place. */
mnem_status mnem__granule_carry_out(mnem__granule_fit *f, uint32_t give_count, uint32_t *run);

#endif
