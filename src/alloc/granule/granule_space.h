/* granule_space.h: the addresses to which granules are mapped, for one or several allocators.
 *
 * Each allocator of a space owns granules, by number, and slots; all share the tables and the
 * scratch of plans, so only one may be used at a time.
 *
 *     slot_granule   | 3 | 4 | - | 9 | 3 | lost | - ...      a granule may be mapped twice
 *     owner          of granule 3: allocator 1, of 9: allocator 2, of 5: none (0)
 * */
#ifndef MNEM_SRC_ALLOC_GRANULE_GRANULE_SPACE_H
#define MNEM_SRC_ALLOC_GRANULE_GRANULE_SPACE_H

#include "mnem/base.h"

/* Special values of slot_granule. LOST: it couldn't be unmapped, and is no longer used. In
 * slot_home: lost as soon as it is no byte's home. */
#define MNEM__GRANULE_SLOT_FREE UINT32_MAX
#define MNEM__GRANULE_SLOT_LOST (UINT32_MAX - 1)
#define MNEM__HOME_LOST         (UINT32_C(1) << 31)

typedef struct mnem__granule_space {
    uint32_t *slot_granule; /* [slots] */
    uint32_t *slot_home;    /* [slots] units whose home it is */
    uint16_t *owner;        /* [numbers] */
    uint32_t slots, slot_cursor;
    uint32_t slots_low; /* slots below are reserved for growth while there are others */
    uint32_t numbers;   /* granules have numbers below */
    struct mnem__granule_plan *plan;
} mnem__granule_space;

/* runs: plans with up to this many free runs need no heap. */
mnem_status mnem__granule_space_create(uint32_t numbers, uint32_t slots, uint32_t runs,
                                       mnem__granule_space **space);
void mnem__granule_space_destroy(mnem__granule_space *space);
/* Makes the tables larger, not smaller. MNEM_NO_MEMORY: nothing changed. */
mnem_status mnem__granule_space_room(mnem__granule_space *space, uint32_t numbers, uint32_t slots);

#endif
