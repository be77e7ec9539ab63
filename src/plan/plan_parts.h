/* plan_parts.h: everything that engines, walks and trainers take: one list of parts, measured for a
 * plan, taken by create, given back by destroy.
 *
 *     declared    MNEM__PART_LIST: its line in the plan and the ledger (kind, tag), its location on
 *                 the device of who takes it (how), the options that change it (by)
 *     measured    by the owner: the bytes of each part; those that it has no use for stay 0
 *     completed   mnem__parts_complete: what every owner takes, as the device rounds it, the sum
 *     printed     mnem__parts_add_lines
 *     taken       mnem__parts_take: charged and allocated, just those bytes
 */
#ifndef MNEM_SRC_PLAN_PLAN_PARTS_H
#define MNEM_SRC_PLAN_PLAN_PARTS_H

#include "device/location.h"
#include "mnem/plan.h"
#include "plan/plan_lines.h"

typedef enum mnem__part_how {
    MNEM__HOW_BLOCK,  /* a block of the device's own memory */
    MNEM__HOW_PINNED, /* a block that the host and the device both reach */
    MNEM__HOW_HEAP,   /* host memory, which the watcher of the heap charges */
    MNEM__HOW_LOAD,   /* the same, taken by loading: charged here where nothing is loaded */
    MNEM__HOW_CHARGE, /* bytes that others take (stacks), charged here */
    MNEM__HOW_CALLER, /* what the caller said that it takes, and charges */
} mnem__part_how;

/* X(NAME, kind, tag, how, by): the parts, blocks first. Of one kind lines are in this order.
 * by: the knobs of refusals (mnem_knob_kind) that change the part, where the way stays the same
 * otherwise; tests compare that with what is measured, but for BY(MODEL). */
#define MNEM__PART_LIST(X)                                                                         \
    X(MATRICES, WEIGHTS, "matrices", BLOCK, BY(MODEL))                                             \
    X(EXPERTS, WEIGHTS, "experts", PINNED, BY(MODEL))                                              \
    X(VECTORS, WEIGHTS, "norms and biases", BLOCK, 0)                                              \
    X(TRAINED, WEIGHTS, "weights", BLOCK, 0)                                                       \
    X(FROZEN, WEIGHTS, "frozen", BLOCK, BY(MODEL))                                                 \
    X(ADAPTERS, WEIGHTS, "adapters", PINNED, 0)                                                    \
    X(TEACHER, WEIGHTS, "teacher", BLOCK, 0)                                                       \
    X(PAGES, KV, "pages", BLOCK, BY_PASS)                                                          \
    X(STATES, KV, "live states", BLOCK, 0)                                                         \
    X(SNAPSHOTS, KV, "state snapshots", BLOCK, 0)                                                  \
    X(TEXT, ACTIVATION, "states", PINNED, 0)                                                       \
    X(ACTIVATIONS, ACTIVATION, "graph", BLOCK, BY(CHUNK) | BY(CONTEXT) | BY_STEP)                  \
    X(LOGITS, ACTIVATION, "logits", PINNED, 0)                                                     \
    X(WORKSPACE, WORKSPACE, "operators", BLOCK, BY_PASS | BY_STEP)                                 \
    X(GRADIENTS, GRADIENT, "gradients", BLOCK, 0)                                                  \
    X(WAITING, GRADIENT, "waiting", BLOCK, BY(MICRO_BATCH))                                        \
    X(MOMENTS, OPTIMIZER, "moments", BLOCK, BY(MOMENTS))                                           \
    X(MASKS, OPTIMIZER, "masks", BLOCK, 0)                                                         \
    X(RING, IO, "ring", PINNED, 0)                                                                 \
    X(ROWS, IO, "embedding rows", PINNED, BY(CHUNK) | BY(MODEL))                                   \
    X(LAYER_ROWS, IO, "rows of layers", PINNED, BY(CHUNK))                                         \
    X(RELAY, IO, "hidden rows of ranks", PINNED, BY(CHUNK))                                        \
    X(EXCHANGE, IO, "exchange", PINNED, 0)                                                         \
    X(STAGING, IO, "staging", PINNED, BY(CHUNK) | BY(MICRO_BATCH))                                 \
    X(TEACHER_RING, IO, "teacher", PINNED, 0)                                                      \
    X(BATCHES, IO, "batches", CALLER, BY(MICRO_BATCH))                                             \
    X(HOST_SESSION, HOST, "session", HEAP, BY(CONTEXT) | BY(CHUNK))                                \
    X(HOST_TRAIN, HOST, "train", HEAP, BY(MICRO_BATCH))                                            \
    X(HOST_GRAPH, HOST, "graph", HEAP, BY(CONTEXT) | BY(MICRO_BATCH))                              \
    X(HOST_WEIGHTS, HOST, "weights", LOAD, 0)                                                      \
    X(HOST_WATCHER, HOST, "watcher", CALLER, 0)                                                    \
    X(HOST_SCHEDULER, HOST, "scheduler", CALLER, BY(CONTEXT))                                      \
    X(HOST_OPTIMIZER, HOST, "optimizer", HEAP, 0)                                                  \
    X(HOST_DEVICE, HOST, "device", HEAP, 0)                                                        \
    X(CHECKPOINT, HOST, "checkpoints", CHARGE, 0)                                                  \
    X(TEAM, RUNTIME, "team stacks", CHARGE, 0)                                                     \
    X(READER, RUNTIME, "reader stack", CHARGE, 0)                                                  \
    X(TEACHER_READER, RUNTIME, "teacher's reader", CHARGE, 0)                                      \
    X(RESERVE, RUNTIME, "reserve", CHARGE, 0)
typedef enum mnem__part {
#define MNEM__PART_ENUM(name, kind, tag, how, by) MNEM__PART_##name,
    MNEM__PART_LIST(MNEM__PART_ENUM)
#undef MNEM__PART_ENUM
        MNEM__PARTS,
    MNEM__PART_BLOCKS = MNEM__PART_BATCHES /* how many are blocks */
} mnem__part;

typedef struct mnem__part_info {
    mnem_kind kind;
    const char *tag;
    mnem__part_how how;
    unsigned knobs; /* bits: 1 << mnem_knob_kind */
} mnem__part_info;
extern const mnem__part_info mnem__part_infos[MNEM__PARTS];

enum { MNEM__PART_ALIGNMENT = 4096 };

/* The part `reserve` of every plan, for what isn't counted byte by byte: the heap's own rounding,
 * and page tables. With it no measured peak came nearer to its plan than 384 KiB, or was farther
 * away than 1 MiB (tests/tools/peaks.py; the kernel's own count is a quarter of that off). */
enum { MNEM__RESERVE = 640 << 10 };

/* What an owner measured. */
typedef struct mnem__parts {
    uint64_t bytes[MNEM__PARTS];
    uint64_t total; /* the sum */
} mnem__parts;

/* What the device takes for a block; NULL: any that rounds to pages. */
uint64_t mnem__part_block_bytes(mnem_device *device, uint64_t bytes);
/* Adds what every owner takes (a team of so many threads, the reserve; a host device where device
 * is NULL), makes the bytes of all blocks what the device takes for them, and adds up. */
void mnem__parts_complete(mnem__parts *parts, mnem_device *device, int32_t threads);
void mnem__parts_add_up(mnem__parts *parts);
/* Adds the lines of all parts, and sorts them. */
void mnem__parts_add_lines(const mnem__parts *parts, const mnem__plan_lines *lines);

/* What an owner took of its parts, and the device on which they lie. */
typedef struct mnem__taken {
    const mnem__parts *parts; /* as measured: the owner's */
    mnem_ledger *ledger;
    mnem_device *device;
    bool owns_device;
    bool runs;  /* operators run on the device: what loading takes of the heap, it takes itself */
    bool apart; /* mnem__device_is_apart */
    bool is[MNEM__PARTS];                /* blocks that are there, bytes that are charged here */
    uint64_t address[MNEM__PART_BLOCKS]; /* of blocks that are there */
} mnem__taken;
/* Fills in the rest; device NULL: a host of its own. Nothing is taken yet. */
mnem_status mnem__taken_open(mnem__taken *taken, mnem_device *device);
/* Gives back all, and closes a device of its own; zeros, or what failed to open, are fine. */
void mnem__taken_close(mnem__taken *taken);

/* In order, up to the first that fails; what was taken stays. */
mnem_status mnem__parts_take(mnem__taken *taken);
/* One part, for a while: what isn't there to be taken or given is fine. */
mnem_status mnem__part_take(mnem__taken *taken, mnem__part part);
void mnem__part_give(mnem__taken *taken, mnem__part part);

/* Where a part lies; no bytes where it isn't taken. */
static inline mnem__location mnem__part_at(const mnem__taken *taken, mnem__part part) {
    if (part >= MNEM__PART_BLOCKS || !taken->is[part]) return (mnem__location){0};
    return (mnem__location){taken->device, taken->address[part]};
}
/* For operators, and for the host (device/location.h). */
static inline void *mnem__part_bound(const mnem__taken *taken, mnem__part part) {
    return mnem__location_bind(mnem__part_at(taken, part));
}
static inline void *mnem__part_host(const mnem__taken *taken, mnem__part part) {
    return mnem__location_host(mnem__part_at(taken, part));
}

#endif
