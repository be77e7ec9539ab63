/* spaces.h: declarations shared by the files of the search over several spaces (memories). */
#ifndef MNEM_SRC_PLACE_SPACES_SPACES_H
#define MNEM_SRC_PLACE_SPACES_SPACES_H

#include "mnem/place.h"
#include "place/exact/rigid_bodies.h"
#include "place/exact/solve.h"

/* The space of a body that fits in none. */
#define MNEM__NOWHERE UINT32_MAX

/* A body and the data for choosing its space. */
typedef struct mnem__mover {
    uint64_t use;     /* accesses times bytes */
    uint32_t allowed; /* a bit per allowed space */
    int32_t item;     /* its item in cliques, or -1: the loads don't count it */
    double density;   /* cost that the cheapest space saves, per byte and unit of time */
    double worth;     /* the same relative to the prices of the bound, once they are known */
} mnem__mover;

/* Compares placements: fewer bytes over the capacity first, then less cost. */
typedef struct mnem__score {
    uint64_t over, cost;
} mnem__score;

typedef enum mnem__packed {
    MNEM__PACKED,
    MNEM__PACKED_NEVER, /* proved impossible */
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
    mnem__mover *movers; /* [bodies] */
    uint32_t *cheapest;  /* [spaces]: in ascending order of cost */
    int64_t *loads;      /* [spaces][cliques]: bytes alive */
    uint32_t *space_of;  /* [bodies]: the current spaces; the current offsets are in the bodies */
    uint32_t *best_space_of; /* [bodies] */
    int64_t *best_offset;
    mnem__score score, best;
    uint64_t bound; /* lower bound of the cost */
    bool proved;    /* the best is optimal, or no placement fits */
    /* scratch for packing: [n] */
    mnem_place_buffer *part;
    mnem_place_constraint *part_wishes;
    uint32_t *part_of, *part_index;
    mnem__ranges ranges;
    uint64_t random, nodes;
    mnem__search_limits limits;
    mnem_status status; /* the heap's status after a failure */
} mnem__spaces;

uint64_t mnem__spaces_cost(const mnem__spaces *x, uint32_t body, uint32_t space);
bool mnem__spaces_less(mnem__score a, mnem__score b);
/* Stores the current placement as the best, if it is better. */
void mnem__spaces_keep(mnem__spaces *x);
/* Removes all bodies from their spaces, except fixed ones. */
void mnem__spaces_clear(mnem__spaces *x);
/* Whether body fits into space by the sum of bytes alive with it. */
bool mnem__spaces_has_room(const mnem__spaces *x, uint32_t body, uint32_t space);
/* Assigns body to a space, or removes it (MNEM__NOWHERE); updates loads and score. The caller sets
 * the body's offset. */
void mnem__spaces_put(mnem__spaces *x, uint32_t body, uint32_t space);
void mnem__spaces_take(mnem__spaces *x, uint32_t body);
/* Searches offsets for all bodies in space, within its capacity (0: as low as possible); with
 * MNEM__PACKED they are stored in the bodies. */
mnem__packed mnem__spaces_pack(mnem__spaces *x, uint32_t space, mnem__search_limits *limits);
/* The same with a step limit. */
mnem__packed mnem__spaces_try_pack(mnem__spaces *x, uint32_t space, uint64_t steps);

/* spaces_greedy.c: greedy placements by value density; once worths are known, also by worth and by
 * size. */
void mnem__spaces_greedy(mnem__spaces *x);
void mnem__spaces_greedy_again(mnem__spaces *x);
/* Removes a few bodies and inserts them again, rounds times; keeps improvements. */
void mnem__spaces_improve(mnem__spaces *x, uint64_t rounds);

/* spaces_prove.c: computes x->bound by Lagrangian relaxation, and the bodies' worths at its
 * prices. */
void mnem__spaces_bound(mnem__spaces *x);
/* Branches over all assignments of bodies to spaces, up to nodes_max decisions; sets x->proved if
 * none is left. */
void mnem__spaces_prove(mnem__spaces *x, uint64_t nodes_max);

#endif
