/* rigid_bodies.h: buffers with constraints, as rigid bodies of boxes in time and bytes. */
#ifndef MNEM_SRC_PLACE_EXACT_RIGID_BODIES_H
#define MNEM_SRC_PLACE_EXACT_RIGID_BODIES_H

#include "mnem/place.h"

/* The most that an offset, a size or an alignment may be: sums of a few can't overflow. */
#define MNEM__BODY_FAR (INT64_MAX / 8)
/* A pass takes the square of it, and can't be cut short before there is a placement. */
enum { MNEM__PIECES_MAX = 4096 };

typedef struct mnem__piece { /* bytes [bottom, top) of a body during [lower, upper) */
    int64_t lower, upper, bottom, top;
} mnem__piece;

/* Buffers that are the same are one body; its pieces are [first, end). */
typedef struct mnem__body {
    int64_t offset, alignment, bytes;
    int64_t lower, upper;
    int64_t hint;    /* or -1 */
    int32_t partner; /* the body that it may lie over, or -1 */
    uint32_t first, end;
    bool fixed, placed;
} mnem__body;

typedef struct mnem__bodies {
    mnem__body *bodies;
    mnem__piece *pieces;
    uint32_t *body_of; /* [buffers] */
    uint32_t count, piece_count;
    bool windows; /* some gap has one */
} mnem__bodies;

/* Checks the constraints but for fixed offsets. MNEM_INVALID, or as the heap. */
mnem_status mnem__bodies_create(const mnem_place_buffer *buffers,
                                const mnem_place_constraint *constraints, size_t n,
                                mnem__bodies *out);
void mnem__bodies_destroy(mnem__bodies *b);

/* MNEM_INVALID where fixed bodies of one space collide, or are not aligned. space_of: [bodies], or
 * NULL when there is one space. */
mnem_status mnem__bodies_check_fixed(const mnem__bodies *b, const uint32_t *space_of);

/* Could a and b, at their offsets, lie so? True also when one lies over the other as it may. */
bool mnem__bodies_agree(const mnem__bodies *b, const mnem__body *a, const mnem__body *c);

/* Scratch: offsets that a body can't have, (after, before). Starts as zeros. */
typedef struct mnem__range {
    int64_t after, before;
} mnem__range;
typedef struct mnem__ranges {
    mnem__range *data;
    size_t count, room;
    bool no_memory; /* stays */
} mnem__ranges;
void mnem__ranges_free(mnem__ranges *ranges);

/* The lowest offset of body that agrees with all that is placed; where space_of [bodies] is given,
 * in the body's space. */
int64_t mnem__bodies_lowest(const mnem__bodies *b, const mnem__body *body, const uint32_t *space_of,
                            mnem__ranges *ranges);

/* What no placement can be below. O(pieces^2). */
int64_t mnem__bodies_bound(const mnem__bodies *b);

#endif
