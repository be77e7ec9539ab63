/* plan_parts.h: everything that engines, walks and trainers take: one list of parts, measured for a
 * plan, taken by create, given back by destroy.
 *
 * A part has its line in the plan and the ledger (kind, tag), and lies where `how` says, on the
 * device of who took it: that is its location. An owner fills an array of bytes, one for each part;
 * those that it has no use for stay 0. */
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

/* X(NAME, kind, tag, how): the parts, blocks first. Of one kind lines are in this order. */
#define MNEM__PART_LIST(X)                                                                         \
    X(MATRICES, WEIGHTS, "matrices", BLOCK)                                                        \
    X(EXPERTS, WEIGHTS, "experts", PINNED)                                                         \
    X(VECTORS, WEIGHTS, "norms and biases", BLOCK)                                                 \
    X(TRAINED, WEIGHTS, "weights", BLOCK)                                                          \
    X(FROZEN, WEIGHTS, "frozen", BLOCK)                                                            \
    X(ADAPTERS, WEIGHTS, "adapters", PINNED)                                                       \
    X(TEACHER, WEIGHTS, "teacher", BLOCK)                                                          \
    X(PAGES, KV, "pages", BLOCK)                                                                   \
    X(STATES, KV, "live states", BLOCK)                                                            \
    X(SNAPSHOTS, KV, "state snapshots", BLOCK)                                                     \
    X(TEXT, ACTIVATION, "states", PINNED)                                                          \
    X(ACTIVATIONS, ACTIVATION, "graph", BLOCK)                                                     \
    X(LOGITS, ACTIVATION, "logits", PINNED)                                                        \
    X(WORKSPACE, WORKSPACE, "operators", BLOCK)                                                    \
    X(GRADIENTS, GRADIENT, "gradients", BLOCK)                                                     \
    X(WAITING, GRADIENT, "waiting", BLOCK)                                                         \
    X(MOMENTS, OPTIMIZER, "moments", BLOCK)                                                        \
    X(MASKS, OPTIMIZER, "masks", BLOCK)                                                            \
    X(RING, IO, "ring", PINNED)                                                                    \
    X(ROWS, IO, "embedding rows", PINNED)                                                          \
    X(LAYER_ROWS, IO, "rows of layers", PINNED)                                                    \
    X(RELAY, IO, "states of ranks", PINNED)                                                        \
    X(EXCHANGE, IO, "exchange", PINNED)                                                            \
    X(STAGING, IO, "staging", PINNED)                                                              \
    X(TEACHER_RING, IO, "teacher", PINNED)                                                         \
    X(BATCHES, IO, "batches", CALLER)                                                              \
    X(HOST_SESSION, HOST, "session", HEAP)                                                         \
    X(HOST_TRAIN, HOST, "train", HEAP)                                                             \
    X(HOST_GRAPH, HOST, "graph", HEAP)                                                             \
    X(HOST_WEIGHTS, HOST, "weights", LOAD)                                                         \
    X(HOST_WATCHER, HOST, "watcher", CALLER)                                                       \
    X(HOST_OPTIMIZER, HOST, "optimizer", HEAP)                                                     \
    X(HOST_DEVICE, HOST, "device", HEAP)                                                           \
    X(CHECKPOINT, HOST, "checkpoints", CHARGE)                                                     \
    X(TEAM, RUNTIME, "team stacks", CHARGE)                                                        \
    X(READER, RUNTIME, "reader stack", CHARGE)                                                     \
    X(TEACHER_READER, RUNTIME, "teacher's reader", CHARGE)                                         \
    X(RESERVE, RUNTIME, "reserve", CHARGE)
typedef enum mnem__part {
#define MNEM__PART_ENUM(name, kind, tag, how) MNEM__PART_##name,
    MNEM__PART_LIST(MNEM__PART_ENUM)
#undef MNEM__PART_ENUM
        MNEM__PARTS,
    MNEM__PART_BLOCKS = MNEM__PART_BATCHES /* how many are blocks */
} mnem__part;

typedef struct mnem__part_info {
    mnem_kind kind;
    const char *tag;
    mnem__part_how how;
} mnem__part_info;
extern const mnem__part_info mnem__part_infos[MNEM__PARTS];

enum { MNEM__PART_ALIGNMENT = 4096 };

/* The part `reserve` of every plan, for what isn't counted byte by byte: the heap's own rounding,
 * and page tables. With it no measured peak came nearer to its plan than 384 KiB, or was farther
 * away than 1 MiB (tests/tools/peaks.py; the kernel's own count is a quarter of that off). */
enum { MNEM__RESERVE = 640 << 10 };

/* What the device takes for a block; NULL: any that rounds to pages. */
uint64_t mnem__part_block_bytes(mnem_device *device, uint64_t bytes);
/* Adds what every owner takes (a team of so many threads, the reserve; a host device where device
 * is NULL), and makes the bytes of all blocks what the device takes for them. */
void mnem__parts_complete(mnem_device *device, int32_t threads, uint64_t *bytes);
uint64_t mnem__parts_total(const uint64_t *bytes);
/* Adds the lines of all parts, and sorts them. */
void mnem__parts_add_lines(const uint64_t *bytes, const mnem__plan_lines *lines);

/* What an owner took of its parts, and the device on which they lie. */
typedef struct mnem__taken {
    const uint64_t *bytes; /* [MNEM__PARTS], as measured: the owner's */
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
