/* plan_parts.h: everything that a plan's owner takes, as a table of parts: measured for a plan,
 * taken by create, given back by destroy.
 *
 * The owner (an engine, a walk, a trainer) has a list X(NAME, kind, tag, how), from which its enum
 * and its table are made, and fills an array of bytes, one for each part. Here are the walks over
 * both, and what was taken: a block is known by its location. */
#ifndef MNEM_SRC_PLAN_PLAN_PARTS_H
#define MNEM_SRC_PLAN_PLAN_PARTS_H

#include "device/location.h"
#include "plan/plan_lines.h"

typedef enum mnem__part_how {
    MNEM__HOW_BLOCK,  /* a block of the device's own memory */
    MNEM__HOW_PINNED, /* a block that the host and the device both reach */
    MNEM__HOW_HEAP,   /* host memory, which the watcher of the heap charges */
    MNEM__HOW_LOAD,   /* the same, taken by loading: charged here where nothing is loaded */
    MNEM__HOW_CHARGE, /* bytes that others take (stacks), charged here */
    MNEM__HOW_CALLER, /* what the caller said that it takes, and charges */
} mnem__part_how;

typedef struct mnem__part_info {
    mnem_kind kind;
    const char *tag;
    mnem__part_how how;
} mnem__part_info;
static inline bool mnem__how_is_block(mnem__part_how how) {
    return how == MNEM__HOW_BLOCK || how == MNEM__HOW_PINNED;
}
/* A row of the table, from a list's X. */
#define MNEM__PART_INFO(name, kind, tag, how) {MNEM_KIND_##kind, tag, MNEM__HOW_##how},

typedef struct mnem__part_table {
    const mnem__part_info *info;
    int count;
} mnem__part_table;

enum { MNEM__PART_ALIGNMENT = 4096 };

/* The part `reserve` of every plan, for what isn't counted byte by byte: the heap's own rounding,
 * and page tables. With it no measured peak came nearer to its plan than 384 KiB, or was farther
 * away than 1 MiB (tests/tools/peaks.py; the kernel's own count is a quarter of that off). */
enum { MNEM__RESERVE = 640 << 10 };

/* What the device takes for a block; NULL: any that rounds to pages. */
uint64_t mnem__part_block_bytes(mnem_device *device, uint64_t bytes);
/* Makes the bytes of all blocks what the device takes for them. */
void mnem__parts_round(const mnem__part_table *table, mnem_device *device, uint64_t *bytes);
uint64_t mnem__parts_total(const mnem__part_table *table, const uint64_t *bytes);
/* Adds the lines of all parts, and sorts them. */
void mnem__parts_add_lines(const mnem__part_table *table, const uint64_t *bytes,
                           const mnem__plan_lines *lines);

enum { MNEM__PARTS_MOST = 21 }; /* of a table */

/* What an owner took of its parts, and the device on which they lie. */
typedef struct mnem__taken {
    const mnem__part_table *table;
    const uint64_t *bytes; /* [table->count], as measured: the owner's */
    mnem_ledger *ledger;
    mnem_device *device;
    bool owns_device;
    bool runs;  /* operators run on the device: what loading takes of the heap, it takes itself */
    bool apart; /* mnem__device_is_apart */
    bool is[MNEM__PARTS_MOST]; /* blocks that are there, bytes that are charged here */
    mnem_block block[MNEM__PARTS_MOST];
} mnem__taken;
/* Fills in the rest; device NULL: a host of its own. Nothing is taken yet. */
mnem_status mnem__taken_open(mnem__taken *taken, mnem_device *device);
/* Gives back all, and closes a device of its own; zeros, or what failed to open, are fine. */
void mnem__taken_close(mnem__taken *taken);

/* In order, up to the first that fails; what was taken stays. */
mnem_status mnem__parts_take(mnem__taken *taken);
/* One part, for a while: what isn't there to be taken or given is fine. */
mnem_status mnem__part_take(mnem__taken *taken, int part);
void mnem__part_give(mnem__taken *taken, int part);

/* Where a part lies; no bytes where it isn't taken. */
static inline mnem__location mnem__part_at(const mnem__taken *taken, int part) {
    return mnem__location_of(&taken->block[part]);
}
/* For operators, and for the host (device/location.h). */
static inline void *mnem__part_bound(const mnem__taken *taken, int part) {
    return mnem__location_bind(mnem__part_at(taken, part));
}
static inline void *mnem__part_host(const mnem__taken *taken, int part) {
    return mnem__location_host(mnem__part_at(taken, part));
}

#endif
