/* granule_space.h: the addresses that granules are mapped to, for one allocator or several.
 *
 * Allocators of one space have granules of their own, by number, and slots of their own; they share
 * the tables and the scratch of plans, so one of them at a time.
 *
 *     slot_granule   | 3 | 4 | - | 9 | 3 | lost | - ...      a granule may be shown twice
 *     owner          of granule 3: allocator 1, of 9: allocator 2, of 5: nobody (0)
 */
#ifndef MNEM_SRC_ALLOC_GRANULE_GRANULE_SPACE_H
#define MNEM_SRC_ALLOC_GRANULE_GRANULE_SPACE_H

#include "mnem/base.h"

/* In slot_granule, beside the numbers of granules. Lost: it couldn't be unmapped, and isn't used
 * any more. In slot_home: lost as soon as nothing is at home. */
#define MNEM__GRANULE_SLOT_FREE UINT32_MAX
#define MNEM__GRANULE_SLOT_LOST (UINT32_MAX - 1)
#define MNEM__HOME_LOST         (UINT32_C(1) << 31)

typedef struct mnem__granule_space {
    uint32_t *slot_granule; /* [slots] */
    uint32_t *slot_home;    /* [slots] units at home */
    uint16_t *owner;        /* [numbers] */
    uint32_t slots, slot_cursor;
    uint32_t slots_low; /* below: left to growth as long as there are others */
    uint32_t numbers;   /* granules are numbers below */
    struct mnem__granule_plan *plan;
} mnem__granule_space;

/* runs: plans of so many free runs take no heap. */
mnem_status mnem__granule_space_create(uint32_t numbers, uint32_t slots, uint32_t runs,
                                       mnem__granule_space **space);
void mnem__granule_space_destroy(mnem__granule_space *space);
/* Makes the tables larger, not smaller. MNEM_NO_MEMORY: nothing changed. */
mnem_status mnem__granule_space_room(mnem__granule_space *space, uint32_t numbers, uint32_t slots);

#endif
