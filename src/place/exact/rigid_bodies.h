/* rigid_bodies.h: buffers with constraints, as rigid bodies: sets of rectangles in time and bytes
 * that move together. */
#ifndef MNEM_SRC_PLACE_EXACT_RIGID_BODIES_H
#define MNEM_SRC_PLACE_EXACT_RIGID_BODIES_H

#include "mnem/place.h"

/* The largest offset, size and alignment, so that sums of a few can't overflow. */
#define MNEM__BODY_FAR (INT64_MAX / 8)
/* A pass takes time quadratic in this, and isn't interrupted before the first placement. */
enum { MNEM__PIECES_MAX = 4096 };

typedef struct mnem__piece { /* bytes [bottom, top) of a body during [lower, upper) */
    int64_t lower, upper, bottom, top;
} mnem__piece;

/* A buffer with its aliases (same_as); its pieces are [first, end). */
typedef struct mnem__body {
    int64_t offset, alignment, bytes;
    int64_t lower, upper;
    int64_t hint;    /* the preferred offset, or -1 */
    int32_t partner; /* the body that it may overlap, or -1 */
    uint32_t first, end;
    bool fixed, placed;
} mnem__body;

typedef struct mnem__bodies {
    mnem__body *bodies;
    mnem__piece *pieces;
    uint32_t *body_of; /* [buffers] */
    uint32_t count, piece_count;
    bool windows; /* some gap has a window */
} mnem__bodies;

/* Checks all constraints except fixed offsets. MNEM_INVALID, MNEM_NO_MEMORY. */
mnem_status mnem__bodies_create(const mnem_place_buffer *buffers,
                                const mnem_place_constraint *constraints, size_t n,
                                mnem__bodies *out);
void mnem__bodies_destroy(mnem__bodies *b);

/* MNEM_INVALID: fixed bodies of one space collide, or aren't aligned. space_of: [bodies]; NULL: all
 * are in one space. */
mnem_status mnem__bodies_check_fixed(const mnem__bodies *b, const uint32_t *space_of);

/* Whether bodies a and c don't collide at their offsets; an allowed overlap is no collision. */
bool mnem__bodies_agree(const mnem__bodies *b, const mnem__body *a, const mnem__body *c);

/* Scratch: ranges of offsets that a body can't have, both ends excluded. Initialize with zeros. */
typedef struct mnem__range {
    int64_t after, before;
} mnem__range;
typedef struct mnem__ranges {
    mnem__range *data;
    size_t count, room;
    bool no_memory; /* stays set */
} mnem__ranges;
void mnem__ranges_free(mnem__ranges *ranges);

/* Returns the body's lowest offset without a collision with placed bodies; with space_of [bodies],
 * only those of its space. */
int64_t mnem__bodies_lowest(const mnem__bodies *b, const mnem__body *body, const uint32_t *space_of,
                            mnem__ranges *ranges);

/* A lower bound of the peak of all placements. O(pieces^2). */
int64_t mnem__bodies_bound(const mnem__bodies *b);

#endif
