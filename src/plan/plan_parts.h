/* plan_parts.h: all memory of engines, walks and trainers, as one list of parts: measured by a
 * plan, taken by create, freed by destroy.
 *
 *     declared    MNEM__PART_LIST: its line in the plan and the ledger (kind, tag), its location on
 *                 the owner's device (how), the options that change it (by)
 *     measured    by the owner: the bytes of each part; unused parts stay 0
 *     completed   mnem__parts_complete: common parts, the device's rounding, the sum
 *     printed     mnem__parts_add_lines
 *     taken       mnem__parts_take: exactly those bytes are charged and allocated
 * */
#ifndef MNEM_SRC_PLAN_PLAN_PARTS_H
#define MNEM_SRC_PLAN_PLAN_PARTS_H

#include "device/location.h"
#include "mnem/plan.h"
#include "plan/plan_lines.h"

typedef enum mnem__part_how {
    MNEM__HOW_BLOCK,  /* a block of the device's own memory */
    MNEM__HOW_PINNED, /* a block that host and device can both access */
    MNEM__HOW_HEAP,   /* host memory, charged by the watcher of the heap */
    MNEM__HOW_LOAD,   /* the same, taken by loading; charged here where nothing is loaded */
    MNEM__HOW_CHARGE, /* bytes that other code takes (stacks), charged here */
    MNEM__HOW_CALLER, /* bytes that the caller announces, takes and charges */
} mnem__part_how;

/* X(NAME, kind, tag, how, by): the parts, blocks first. The lines of a kind are printed in this
 * order. by: the knobs of refusals (mnem_knob_kind) that change the part if the way stays the
 * same otherwise; tests compare it with measurements, except BY(MODEL). */
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
    X(ACTIVATIONS, ACTIVATION, "graph", BLOCK, BY(CHUNK) | BY(CONTEXT) | BY(DRAFT) | BY_STEP)      \
    X(LOGITS, ACTIVATION, "logits", PINNED, BY(DRAFT))                                             \
    X(WORKSPACE, WORKSPACE, "operators", BLOCK, BY_PASS | BY(DRAFT) | BY_STEP)                     \
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
    X(HOST_DRAFT, HOST, "draft", CALLER, BY(CONTEXT) | BY(DRAFT))                                  \
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
    MNEM__PART_BLOCKS = MNEM__PART_BATCHES /* the number of blocks */
} mnem__part;

typedef struct mnem__part_info {
    mnem_kind kind;
    const char *tag;
    mnem__part_how how;
    unsigned knobs; /* bits: 1 << mnem_knob_kind */
} mnem__part_info;
extern const mnem__part_info mnem__part_infos[MNEM__PARTS];

enum { MNEM__PART_ALIGNMENT = 4096 };

/* The part `reserve` of every plan, for what is not counted byte by byte: the heap's rounding
 * and page tables. With it, every measured peak was 384 KiB to 1 MiB below its plan
 * (tests/tools/peaks.py; the kernel's count has an error of a quarter of that). */
enum { MNEM__RESERVE = 640 << 10 };

/* The bytes that an owner measured. */
typedef struct mnem__parts {
    uint64_t bytes[MNEM__PARTS];
    uint64_t total; /* the sum */
} mnem__parts;

/* The bytes that the device takes for a block; NULL: a device that rounds to pages. */
uint64_t mnem__part_block_bytes(mnem_device *device, uint64_t bytes);
/* Adds the parts of every owner (a team of `threads` threads, the reserve; a host device where
 * device is NULL), rounds the bytes of all blocks as the device does, and computes the total. */
void mnem__parts_complete(mnem__parts *parts, mnem_device *device, int32_t threads);
void mnem__parts_add_up(mnem__parts *parts);
/* Adds the lines of all parts, and sorts them. */
void mnem__parts_add_lines(const mnem__parts *parts, const mnem__plan_lines *lines);

/* The parts that an owner has taken, and their device. */
typedef struct mnem__taken {
    const mnem__parts *parts; /* as measured; the owner's */
    mnem_ledger *ledger;
    const char *name; /* follows the tags of weights and KV; NULL: nothing */
    mnem_device *device;
    bool owns_device;
    bool runs;            /* operators run on the device: loading takes its heap itself */
    bool apart;           /* mnem__device_is_apart */
    bool is[MNEM__PARTS]; /* the block exists, or the bytes are charged here */
    uint64_t address[MNEM__PART_BLOCKS]; /* of existing blocks */
} mnem__taken;
/* Sets the other fields; device NULL: a host device of its own. Takes nothing yet. */
mnem_status mnem__taken_open(mnem__taken *taken, mnem_device *device);
/* Frees everything, and closes its own device; accepts a zeroed object and one that failed to
 * open. */
void mnem__taken_close(mnem__taken *taken);

/* Takes the parts in order, up to the first failure; parts that were taken stay. */
mnem_status mnem__parts_take(mnem__taken *taken);
/* Takes or frees one part for a while; does nothing for a part without bytes. */
mnem_status mnem__part_take(mnem__taken *taken, mnem__part part);
void mnem__part_give(mnem__taken *taken, mnem__part part);

/* The location of a part; empty if it isn't taken. */
static inline mnem__location mnem__part_at(const mnem__taken *taken, mnem__part part) {
    if (part >= MNEM__PART_BLOCKS || !taken->is[part]) return (mnem__location){0};
    return (mnem__location){taken->device, taken->address[part]};
}
/* The address for operators, and that for the host (device/location.h). */
static inline void *mnem__part_bound(const mnem__taken *taken, mnem__part part) {
    return mnem__location_bind(mnem__part_at(taken, part));
}
static inline void *mnem__part_host(const mnem__taken *taken, mnem__part part) {
    return mnem__location_host(mnem__part_at(taken, part));
}

#endif
