/* spaces.h: what the files of the search over several spaces share. */
#ifndef MNEM_SRC_PLACE_SPACES_SPACES_H
#define MNEM_SRC_PLACE_SPACES_SPACES_H

#include "mnem/place.h"
#include "place/exact/rigid_bodies.h"
#include "place/exact/solve.h"

/* Of a body that no space has room for. */
#define MNEM__NOWHERE UINT32_MAX

/* A body, as something that goes to one space or another. */
typedef struct mnem__mover {
    uint64_t use;     /* accesses x bytes */
    uint32_t allowed; /* bit per space */
    int32_t item;     /* of cliques, or -1: sums don't know that it takes room */
    double density;   /* costs that the cheapest space saves, for a byte and a moment */
    double worth;     /* the same for what it covers at the prices of the bound, once known */
} mnem__mover;

/* How good it is to be so: first less over, then less cost. */
typedef struct mnem__score {
    uint64_t over, cost;
} mnem__score;

typedef enum mnem__packed {
    MNEM__PACKED,
    MNEM__PACKED_NEVER, /* a proof */
    MNEM__PACKED_UNKNOWN,
} mnem__packed;

typedef struct mnem__spaces {
    const mnem_place_buffer *buffers;
    const mnem_place_constraint *constraints; /* [n] */
    size_t n;
    const mnem_place_space *spaces;
    uint32_t count;
    mnem__bodies b;
    mnem__cliques cliques;
    mnem__mover *movers;     /* [bodies] */
    uint32_t *cheapest;      /* [spaces]: by cost */
    int64_t *loads;          /* [spaces][cliques]: sums alive */
    uint32_t *space_of;      /* [bodies]: as it is now; offsets are those of the bodies */
    uint32_t *best_space_of; /* [bodies] */
    int64_t *best_offset;
    mnem__score score, best;
    uint64_t bound; /* no placement costs less */
    bool proved;    /* that the best is, or that nothing fits */
    /* scratch of packing: [n] */
    mnem_place_buffer *part;
    mnem_place_constraint *part_wishes;
    uint32_t *part_of, *part_index;
    mnem__ranges ranges;
    uint64_t random, nodes;
    mnem__search_limits limits;
    mnem_status status; /* of the heap, once it failed */
} mnem__spaces;

uint64_t mnem__spaces_cost(const mnem__spaces *x, uint32_t body, uint32_t space);
bool mnem__spaces_less(mnem__score a, mnem__score b);
/* The best so far becomes what is now, if that is better. */
void mnem__spaces_keep(mnem__spaces *x);
/* Nothing has a space but what is fixed. */
void mnem__spaces_clear(mnem__spaces *x);
/* Does the sum of what is alive with body leave room for it? */
bool mnem__spaces_has_room(const mnem__spaces *x, uint32_t body, uint32_t space);
/* Gives body a space (or MNEM__NOWHERE), or takes it away; keeps loads and score. The body's offset
 * is the caller's. */
void mnem__spaces_put(mnem__spaces *x, uint32_t body, uint32_t space);
void mnem__spaces_take(mnem__spaces *x, uint32_t body);
/* Looks for offsets of all that is in space, within its capacity (0: as low as possible); on
 * MNEM__PACKED they are the bodies' offsets. */
mnem__packed mnem__spaces_pack(mnem__spaces *x, uint32_t space, mnem__search_limits *limits);
/* The same with a limit of steps. */
mnem__packed mnem__spaces_try_pack(mnem__spaces *x, uint32_t space, uint64_t steps);

/* spaces_greedy.c: placements in one go: by value density; when worths are known, by these and by
 * size. */
void mnem__spaces_greedy(mnem__spaces *x);
void mnem__spaces_greedy_again(mnem__spaces *x);
/* Takes a few bodies out and puts them back, so many times; what is better is kept. */
void mnem__spaces_improve(mnem__spaces *x, uint64_t rounds);

/* spaces_prove.c: x->bound by Lagrangian relaxation, and what bodies are worth at its prices. */
void mnem__spaces_bound(mnem__spaces *x);
/* Tries all ways to spread the bodies over spaces, up to so many decisions; when there are no more,
 * x->proved. */
void mnem__spaces_prove(mnem__spaces *x, uint64_t nodes_max);

#endif
