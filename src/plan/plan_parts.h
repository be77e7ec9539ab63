/* plan_parts.h: everything that a plan's owner takes, as a table of parts: measured for a plan,
 * taken by create, given back by destroy.
 *
 * The owner (a session, a trainer) has a list X(NAME, kind, tag, how), from which its enum and its
 * table are made, and fills an array of bytes, one for each part. Here are the walks over both. */
#ifndef MNEM_SRC_PLAN_PLAN_PARTS_H
#define MNEM_SRC_PLAN_PLAN_PARTS_H

#include "mnem/device.h"
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

/* What the device takes for a block; NULL: any that rounds to pages. */
uint64_t mnem__part_block_bytes(mnem_device *device, uint64_t bytes);
/* Makes the bytes of all blocks what the device takes for them. */
void mnem__parts_round(const mnem__part_table *table, mnem_device *device, uint64_t *bytes);
uint64_t mnem__parts_total(const mnem__part_table *table, const uint64_t *bytes);
/* Adds the lines of all parts, and sorts them. */
void mnem__parts_add_lines(const mnem__part_table *table, const uint64_t *bytes,
                           const mnem__plan_lines *lines);

/* Who takes them, and from where: blocks from the owner's own calls. */
typedef struct mnem__taker {
    mnem__part_table table;
    const uint64_t *bytes; /* [table.count] */
    bool *taken;           /* [table.count]: blocks that are there, bytes that are charged here */
    mnem_ledger *ledger;
    bool loads; /* what loading takes of the heap, it takes itself */
    void *owner;
    mnem_status (*block_take)(void *owner, int part, uint64_t bytes);
    void (*block_give)(void *owner, int part);
} mnem__taker;
/* In order, up to the first that fails; what was taken stays. */
mnem_status mnem__parts_take(const mnem__taker *taker);
void mnem__parts_give(const mnem__taker *taker); /* all that is taken */
/* One part, for a while: what isn't there to be taken or given is fine. */
mnem_status mnem__part_take(const mnem__taker *taker, int part);
void mnem__part_give(const mnem__taker *taker, int part);

#endif
