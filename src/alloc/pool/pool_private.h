/* pool_private.h: the structure of a pool.
 *
 * All memory lies in one space of offsets, divided into units (2 MiB). A unit is absent, or has
 * memory and is unowned or belongs to one heap. A heap is the part of one stream: an offset
 * allocator over the whole space, which has the units that are granted to it. (The heap of the C
 * library is base/heap.h; comments here call it the C heap.)
 *
 * With memory in segments, a unit stays in place. Units of others are holes in a heap's
 * allocator, that is blocks that stay live until the units are granted:
 *
 *     units       |A A A|.|B B B B B|.|B - A A|          A, B: of heap A, B
 *     heap A      |free  [x] [ hole              ][y] |  -: unowned   .: absent, between segments
 *     heap B      |hole  | ...
 *
 * In a range (device.h) a unit's memory is a granule, which has an address only while a heap
 * owns it: granting maps it for that heap, contiguous with others, and withdrawing unmaps it
 * (pool_range.c). All heaps share one table of addresses (granule_space.h), and there are no
 * holes:
 *
 *     addresses   |3 7|.|5 1 9|. .|4|     granules 3 7 4 of heap A, 5 1 9 of B; 2 6 8 unowned
 *
 * So free memory of one stream merges and is reused at once. Streams exchange only whole units,
 * once the first stream has passed its frees:
 *
 *     device --grow--> unowned --grant--> heap --withdraw--> unowned --release--> device
 *
 * Files, down one column and then the other. Each calls only earlier ones, so there are no
 * cycles (a function that needs a later file is in the wrong file):
 *
 *     thread_cache  blocks that threads keep      grow       memory from the device, unowned
 *     lock          waiting for the lock          map        the contents of a heap
 *     units         the table of units            move       blocks copied elsewhere
 *     mark          progress of the streams       counters   counters and limits
 *     guard         debug mode                    report     the error of a refused request
 *     block         a block's row, its end        slow_path  requests that need more work
 *     stream        blocks that wait for streams  pool       alloc, free, use: the fast paths
 *     range         granules, mapped and remapped create     the life of a pool
 *     heap          units granted and withdrawn   upkeep     step, trim, defragment
 *     release       free units, to the device     check      checks of all invariants
 *
 * Invariants: mnem_pool_check. All functions are called with the lock held, and with the thread
 * caches closed, except for the immediate part of an allocation or a free. */
#ifndef MNEM_SRC_ALLOC_POOL_POOL_PRIVATE_H
#define MNEM_SRC_ALLOC_POOL_POOL_PRIVATE_H

#include <string.h>

#include "alloc/granule/granule_space.h"
#include "alloc/pool/pool_lock.h"
#include "alloc/track/guard.h"
#include "alloc/track/track.h"
#include "base/error.h"
#include "base/event.h"
#include "mnem/pool.h"

enum {
    MNEM__POOL_ALIGNMENT_MAX = 2 << 20,
    MNEM__POOL_HEAPS_MAX = 250,
    MNEM__POOL_MARKS = 8, /* the most pending events of a stream */
};
#define MNEM__POOL_BYTES_MOST (UINT64_C(1) << 56)

/* The owner of a unit: a heap's number, or one of these. */
enum {
    MNEM__UNIT_ABSENT = 0xffff, /* no memory */
    MNEM__UNIT_NOBODY = 0xfffe,
    MNEM__UNIT_LOST = 0xfffd, /* the device refused to unmap it */
};
#define MNEM__GRANULE_NONE UINT64_MAX

/* A block that waits until a stream has passed its `sequence`-th free. */
typedef struct mnem__pool_wait {
    struct mnem__pool_wait *next;
    uint64_t sequence;
    uint32_t slot;
    bool own; /* in the slot, made by a free; others come from mnem_pool_use */
} mnem__pool_wait;

typedef enum mnem__pool_slot_state {
    MNEM__POOL_SLOT_EMPTY,
    MNEM__POOL_SLOT_LIVE,
    MNEM__POOL_SLOT_PENDING, /* freed; waits for streams */
    MNEM__POOL_SLOT_KEPT,    /* freed; a cache has it (pool_thread_cache.h) */
} mnem__pool_slot_state;

/* The place of a block; the track's record of the same number has its bytes, tag and age. */
typedef struct mnem__pool_slot {
    uint64_t offset; /* of the owner's block, at or below the address; alone: the address */
    uint32_t handle; /* in the owner's allocator; empty: the next empty slot */
    uint32_t waits;  /* streams that it waits for; kept: the next of its bin */
    uint16_t owner;  /* heap of its memory */
    uint16_t stream; /* heap on which it was taken */
    uint8_t state;
    uint8_t alignment_log2; /* of the address */
    bool alone;             /* memory of its own from the device: planned or direct */
    bool planned;           /* charged by its own kind and tag */
    bool movable;
    uint32_t capacity; /* units of the pool's alignment, at least, from the offset on; 0: alone */
} mnem__pool_slot;
_Static_assert(sizeof(mnem__pool_slot) == sizeof((mnem__record *)0)->place, "in the record");

/* Data that only some blocks need. */
typedef union mnem__pool_more {
    struct { /* live and movable */
        void (*moved)(void *context, const mnem_pool_block *from, const mnem_pool_block *to);
        void *context;
    };
    mnem__pool_wait wait; /* pending */
} mnem__pool_more;

/* Units of others, as a block of the heap's allocator. */
typedef struct mnem__pool_hole {
    uint32_t first, count;
    uint32_t handle; /* UINT32_MAX: missing, because there was no memory for the block */
} mnem__pool_hole;

typedef struct mnem__pool_heap {
    mnem_offset_allocator *ready; /* offsets, or NULL: nothing granted yet, or holes are missing */
    mnem_offset_allocator *offsets;
    mnem_pool *pool;
    mnem_stream *stream;
    uint16_t number;
    bool immediate;                 /* its work is done as soon as it is queued */
    bool orphan;                    /* its stream was forgotten */
    uint32_t units;                 /* owned units */
    uint64_t freed, marked, passed; /* numbers of frees: all, up to an event, passed */
    struct {
        mnem_event *event;
        uint64_t sequence;
    } marks[MNEM__POOL_MARKS]; /* a ring, the oldest at mark_first */
    uint32_t mark_first, mark_count;
    mnem__pool_wait *wait_first, *wait_last; /* in the order of sequence */
    mnem__pool_hole *holes;
    uint32_t hole_count, hole_room, owed;
    uint32_t end; /* its allocator covers the units before this one */
} mnem__pool_heap;

/* A granule of a pool in a range; its index is the pool's number of it. */
typedef struct mnem__pool_granule {
    uint64_t granule; /* the device's number, or MNEM__GRANULE_NONE */
    uint8_t idle;     /* steps for which it has been unowned */
    bool fresh;       /* never mapped */
} mnem__pool_granule;

typedef struct mnem__pool_segment {
    mnem_block memory; /* bytes 0: not in use */
    uint32_t first, count;
} mnem__pool_segment;

typedef struct mnem__pool_limits {
    uint64_t tag_hard[MNEM__TAGS_MAX], kind_hard[MNEM_KIND_COUNT]; /* UINT64_MAX: none */
} mnem__pool_limits;

/* A run of a heap. */
typedef struct mnem__pool_entry {
    uint64_t offset, bytes;
    uint32_t slot;          /* MNEM__POOL_FREE, MNEM__POOL_HOLE */
    mnem_offset_block held; /* scratch of pool_move.c */
} mnem__pool_entry;
#define MNEM__POOL_FREE UINT32_MAX
#define MNEM__POOL_HOLE (UINT32_MAX - 1)

typedef struct mnem__pool_map {
    mnem__pool_entry *entries;
    uint32_t count, room;
    uint32_t *table; /* slots by the hash of their offsets */
    uint32_t table_size;
    bool failed; /* while it is made: no memory */
} mnem__pool_map;

struct mnem_pool {
    mnem__pool_lock lock;
    mnem__pool_heap *last; /* of the last call */
    mnem__pool_limits *limits;
    uint64_t *unit_base; /* [units]: address = base + offset */
    uint8_t *
        unit_touched; /* [units]: the number of units, from this one on, used since the last step */
    uint32_t unit_shift;
    uint32_t spare; /* the first empty slot, MNEM__POOL_SLOT_END: none */
    uint64_t alignment;
    uint64_t gap_bytes; /* debug: added to every request */
    mnem__guard *guard; /* debug, or NULL */
    const void *caller; /* backtrace: the call's return address */
    bool many;          /* more than one stream */
    bool careful;       /* debug, backtrace or limits: no call takes the short path */
    bool immediate, immediate_default; /* of streams, by the device's info */
    bool in_soft;
    mnem__rows more;
    uint32_t slots_used;
    mnem__track track;

    uint16_t *unit_owner; /* [units] */
    uint8_t *unit_idle;   /* [units]: steps without use */
    uint8_t *unit_free;   /* [units]: the result of mnem__pool_survey */
    uint32_t units, units_room;
    uint32_t units_reserved, units_max, units_range;
    uintptr_t grower; /* the thread that is taking memory from the device, or 0 */
    mnem__pool_segment *segments;
    uint32_t segment_count, segment_room;
    mnem_range range; /* this and the following fields: of a pool in a range */
    mnem__granule_space *space;
    mnem__pool_granule *granules; /* [granules_room] */
    uint64_t *granule_map;        /* scratch of a map */
    uint32_t granules_room, granules_taken, granules_nobody;
    uint32_t taken_below, owned_below; /* all before are taken; all before are owned or not taken */
    mnem__pool_heap *heaps[MNEM__POOL_HEAPS_MAX];
    uint32_t heap_count;
    mnem__pool_wait *wait_spare;

    mnem_pool_options options; /* complete */
    /* Read without the lock, so it lies among fields that don't change. NULL: none yet. */
    mnem__thread_caches *_Atomic caches;
    mnem__thread_caches *caches_made;
    char tag[32];
    uint32_t number; /* the owner of its blocks' names in traces (base/event.h) */
    mnem__event_tellers tellers;
    uint64_t bytes_planned, bytes_direct; /* as the device rounds them */
    uint64_t bytes_alone;                 /* of live planned and direct blocks, as asked */
    uint64_t bytes_pending, bytes_reserved_peak;
    uint64_t defragmented_at; /* the number of frees at the last automatic defragmentation */
    uint64_t frees;
    uint32_t movable; /* live blocks that may be moved */
    mnem__pool_map map;
    mnem_pool_info counts; /* counters that aren't computed: rungs, calls, moves */
    pthread_mutex_t seat;  /* of the lock */
};

#define MNEM__POOL_SLOT_END UINT32_MAX

typedef struct mnem__pool_run {
    uint32_t first, count; /* units */
} mnem__pool_run;

/* The result of a request. */
typedef struct mnem__pool_place {
    mnem__pool_heap *owner;
    mnem_offset_block at;
} mnem__pool_place;

static inline mnem__pool_slot *mnem__pool_slot_at(const mnem_pool *pool, uint32_t id) {
    return (mnem__pool_slot *)mnem__record_at(&pool->track, id)->place;
}

static inline mnem__pool_more *mnem__pool_more_at(const mnem_pool *pool, uint32_t id) {
    return mnem__row(&pool->more, sizeof(mnem__pool_more), id);
}

/* The requested bytes of a block, live or the last one of this number. */
static inline uint64_t mnem__pool_bytes_of(const mnem_pool *pool, uint32_t id) {
    return mnem__record_at(&pool->track, id)->bytes;
}

static inline uint64_t mnem__pool_address(const mnem_pool *pool, uint64_t offset,
                                          uint32_t alignment_log2) {
    const uint64_t address = pool->unit_base[offset >> pool->unit_shift] + offset;
    const uint64_t mask = (UINT64_C(1) << alignment_log2) - 1;
    return (address + mask) & ~mask;
}

static inline uint64_t mnem__pool_unit_bytes(const mnem_pool *pool) {
    return UINT64_C(1) << pool->unit_shift;
}

/* Bytes in units of the pool's alignment, for slot.capacity. */
static inline uint32_t mnem__pool_capacity(const mnem_pool *pool, uint64_t bytes) {
    const uint64_t units = (bytes + pool->alignment - 1) >> __builtin_ctzll(pool->alignment);
    return units < UINT32_MAX ? (uint32_t)units : UINT32_MAX;
}

/* Marks the units from the offset on as used. The first one stores their number, up to 255,
 * which needs no branches for the sizes of blocks. */
static inline void mnem__pool_touch(mnem_pool *pool, uint64_t offset, uint64_t bytes) {
    const uint64_t first = offset >> pool->unit_shift,
                   count = ((offset + bytes - 1) >> pool->unit_shift) - first + 1;
    uint8_t *touched = &pool->unit_touched[first];
    if (__builtin_expect(count > UINT8_MAX, 0))
        memset(touched, 1, count);
    else
        *touched = count > *touched ? (uint8_t)count : *touched;
}

static inline uint32_t mnem__pool_units_for(const mnem_pool *pool, uint64_t bytes) {
    return (uint32_t)((bytes + mnem__pool_unit_bytes(pool) - 1) >> pool->unit_shift);
}

static inline uint64_t mnem__pool_reserved(const mnem_pool *pool) {
    return (uint64_t)pool->units_reserved << pool->unit_shift;
}

/* ---- rows and numbers ---- */

static inline void mnem__pool_slot_give(mnem_pool *pool, uint32_t id) {
    mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
    s->state = MNEM__POOL_SLOT_EMPTY;
    s->handle = pool->spare;
    pool->spare = id;
}

static inline bool mnem__pool_in_range(const mnem_pool *pool) {
    return pool->options.growth == MNEM_POOL_RANGE;
}

/* Whether the stream has passed all its frees, as of the last poll. */
static inline bool mnem__pool_passed(const mnem__pool_heap *h) {
    return h->immediate || h->orphan || h->passed >= h->freed;
}

/* (reserved - live) / reserved, without planned and direct blocks; 0: nothing is reserved. */
static inline double mnem__pool_fragmentation(const mnem_pool *pool) {
    const double reserved = (double)mnem__pool_reserved(pool);
    const double live = (double)(pool->track.all.bytes_live - pool->bytes_alone);
    return reserved > 0 ? (reserved - live) / reserved : 0;
}

/* ---- pool_units.c ---- */

mnem_status mnem__pool_units_init(mnem_pool *pool);
void mnem__pool_units_fini(mnem_pool *pool);
/* Makes room for this many units; new ones are absent. */
bool mnem__pool_units_room(mnem_pool *pool, uint32_t count);
/* The first unit from `from` on that belongs to owner; none: the number of units. */
uint32_t mnem__pool_unit_next(const mnem_pool *pool, uint32_t from, uint16_t owner);

/* ---- pool_mark.c ---- */

/* In a call on the heap's stream: records an event behind the frees so far. */
void mnem__pool_mark(mnem_pool *pool, mnem__pool_heap *h);
/* Checks which events were reached. */
void mnem__pool_marks_query(mnem__pool_heap *h);
/* In a call on the heap's stream: whether it has passed all its frees. Ends no block. */
bool mnem__pool_is_idle(mnem_pool *pool, mnem__pool_heap *h);

/* ---- pool_block.c ---- */

/* Makes rows for this many blocks. */
mnem_status mnem__pool_slots_grow(mnem_pool *pool, uint32_t count);
/* Takes separate memory for a block, charged to the ledger by its tag if it is planned. */
mnem_status mnem__pool_alone_take(mnem_pool *pool, const mnem_pool_request *request,
                                  const char *tag, mnem_block *memory);
/* Ends a freed block that streams have passed: frees its memory and its slot. */
void mnem__pool_end(mnem_pool *pool, uint32_t id);
/* Frees the separate memory of a block. was: its kind, tag and bytes. */
void mnem__pool_alone_free(mnem_pool *pool, const mnem__pool_slot *slot,
                           const mnem_live_block *was);

/* ---- pool_stream.c ---- */

/* Checks the progress of the stream, and ends the blocks that waited for it. */
void mnem__pool_poll(mnem_pool *pool, mnem__pool_heap *h);
void mnem__pool_poll_all(mnem_pool *pool);
/* Waits until every stream has passed its marks, with the lock held. */
void mnem__pool_wait_all(mnem_pool *pool);
/* Frees the slot on h; it ends when h and all streams that use it have passed. */
void mnem__pool_defer(mnem_pool *pool, mnem__pool_heap *h, uint32_t id);
/* Takes again a block of about these bytes that was freed on h and waits only for h. */
bool mnem__pool_reclaim(mnem_pool *pool, mnem__pool_heap *h, uint64_t bytes,
                        mnem__pool_place *place);
/* Makes the block, when it is freed, wait for the work queued on h so far. */
mnem_status mnem__pool_await(mnem_pool *pool, mnem__pool_heap *h, uint32_t id);
/* The stream of h has done its work and is destroyed; h waits for another stream. */
void mnem__pool_orphan(mnem_pool *pool, mnem__pool_heap *h);

/* ---- pool_range.c: a pool in a range ---- */

mnem_status mnem__pool_range_init(mnem_pool *pool);
void mnem__pool_range_fini(mnem_pool *pool);
/* Adds taken granules as unowned ones. */
mnem_status mnem__pool_range_install(mnem_pool *pool, const uint64_t *granules, uint32_t count);
/* The granules that the heap needs, besides its free ones, so that bytes fit without a remap. */
uint32_t mnem__pool_range_need(const mnem_pool *pool, const mnem__pool_heap *h, uint64_t bytes);
/* Like the functions without range in their names. */
bool mnem__pool_range_grant_for(mnem_pool *pool, mnem__pool_heap *h, uint64_t bytes);
uint32_t mnem__pool_range_survey(mnem_pool *pool, const mnem__pool_heap *except);
uint32_t mnem__pool_range_release(mnem_pool *pool, uint32_t keep, uint32_t idle);
/* Counts a step for unowned granules. */
void mnem__pool_range_age(mnem_pool *pool);
/* Makes at most `most` completely free granules of other heaps unowned; returns their number. */
uint32_t mnem__pool_range_withdraw(mnem_pool *pool, const mnem__pool_heap *except, uint32_t most);
/* Maps free granules (the heap's, unowned ones, then those of others) together, and takes bytes. */
bool mnem__pool_remap(mnem_pool *pool, mnem__pool_heap *h, uint64_t bytes, mnem_offset_block *at);

/* ---- pool_heap.c ---- */

/* The heap of a stream, or NULL. */
mnem__pool_heap *mnem__pool_heap_known(const mnem_pool *pool, const mnem_stream *stream);
/* The heap of a stream, which is made if it is new. MNEM_NO_MEMORY, MNEM_UNSUPPORTED (too many). */
mnem_status mnem__pool_heap_find(mnem_pool *pool, mnem_stream *stream, mnem__pool_heap **h);
void mnem__pool_heap_destroy(mnem_pool *pool, mnem__pool_heap *h);
/* Makes the missing holes. */
mnem_status mnem__pool_heap_repair(mnem_pool *pool, mnem__pool_heap *h);
/* Gives the unowned units first..first + count - 1 to the heap. */
mnem_status mnem__pool_grant(mnem_pool *pool, mnem__pool_heap *h, uint32_t first, uint32_t count);
/* Grants unowned units so that bytes fit. false: there are none. */
bool mnem__pool_grant_for(mnem_pool *pool, mnem__pool_heap *h, uint64_t bytes);
/* Withdraws free units, which become unowned. false: no memory for the hole; nothing has
 * changed. */
bool mnem__pool_withdraw(mnem_pool *pool, mnem__pool_heap *h, uint32_t first, uint32_t count);
/* mnem__pool_heap_find for the stream of a call, usually that of the last call. */
static inline mnem_status mnem__pool_heap_of(mnem_pool *pool, mnem_stream *stream,
                                             mnem__pool_heap **out) {
    mnem__pool_heap *h = *out = pool->last;
    if (__builtin_expect(h && h->stream == stream && !h->orphan, 1)) return MNEM_OK;
    const mnem_status status = mnem__pool_heap_find(pool, stream, out);
    if (status == MNEM_OK) pool->last = *out;
    return status;
}

/* ---- pool_release.c ---- */

/* Marks the unneeded units in unit_free: unowned ones, and completely free ones of heaps that
 * have passed their frees (except those of `except`; NULL: none). Returns their number. */
uint32_t mnem__pool_survey(mnem_pool *pool, const mnem__pool_heap *except);
/* Makes a run of marked units unowned; returns how many, from the first on. */
uint32_t mnem__pool_run_withdraw(mnem_pool *pool, uint32_t first, uint32_t count);
/* Releases unneeded units that were idle for at least `idle` steps, until at most `keep` are
 * reserved; marks them first, with segments. */
uint32_t mnem__pool_release(mnem_pool *pool, uint32_t keep, uint32_t idle);
/* Releases units that were unused for long. */
void mnem__pool_garbage(mnem_pool *pool);

/* ---- pool_grow.c ---- */

/* Takes unowned units, so that bytes fit in the heap, and more if that saves calls. Releases the
 * lock meanwhile. */
mnem_status mnem__pool_grow(mnem_pool *pool, mnem__pool_heap *h, uint64_t bytes);
/* Takes exactly this many unowned units. */
mnem_status mnem__pool_reserve(mnem_pool *pool, uint32_t count);

/* ---- pool_map.c ---- */

/* Makes pool->map: the contents of the heap in the order of offsets, with the slots. Its memory
 * is kept for the next call. false: no memory. */
bool mnem__pool_map_make(mnem_pool *pool, const mnem__pool_heap *h);
void mnem__pool_map_fini(mnem_pool *pool);
/* The entries first..last of the map that form a window of at least these bytes without holes,
 * with the fewest live bytes (movable: of movable blocks only). false: there is none. */
bool mnem__pool_window(const mnem_pool *pool, uint64_t bytes, bool movable, uint32_t *first,
                       uint32_t *last);
/* Whether a block may be moved now, in a call on its stream. */
bool mnem__pool_movable(const mnem__pool_slot *s);

/* ---- pool_move.c ---- */

/* Moves blocks of the heap out of a window of these bytes. */
bool mnem__pool_clear_for(mnem_pool *pool, mnem__pool_heap *h, uint64_t bytes);
/* Moves blocks down; returns the bytes copied. */
uint64_t mnem__pool_compact(mnem_pool *pool, mnem__pool_heap *h);

/* ---- pool_counters.c ---- */

void mnem__pool_info_fill(mnem_pool *pool, mnem_pool_info *info);
/* Checks a request of the tag against its limits; calls on_soft. May release the lock. */
mnem_status mnem__pool_limits_pass(mnem_pool *pool, uint32_t tag, uint64_t bytes);
/* Calls on_soft without the lock. */
void mnem__pool_soft_call(mnem_pool *pool, const mnem_pool_soft *soft);

/* ---- pool_report.c ---- */

/* Sets the error of a refused request. why: the error of the last rung. */
mnem_status mnem__pool_refuse(mnem_pool *pool, mnem__pool_heap *h, const mnem_pool_request *request,
                              uint64_t bytes, mnem_status status, const char *why);

/* ---- pool_slow_path.c ---- */

/* Finds bytes through every rung, or refuses. May release the lock. */
mnem_status mnem__pool_slow_path(mnem_pool *pool, mnem__pool_heap *h,
                                 const mnem_pool_request *request, uint64_t bytes,
                                 mnem__pool_place *place, mnem_pool_rung *rung);

/* ---- pool_tell.c: events for a trace ---- */

/* what: ALLOC or FREE. The block is live, so its row is valid. */
void mnem__pool_tell(mnem_pool *pool, mnem__event_what what, const mnem_pool_block *block);
/* No lock is held. */
void mnem__pool_tell_refused(mnem_pool *pool, const mnem_pool_request *request, const char *file,
                             int line, mnem_status status);
/* Makes a site's name. */
uint32_t mnem__pool_tell_name(mnem__event_sink *sink, const mnem_pool *pool, uint32_t site);
/* Emits the extra event of blocks of 4 GiB and more. */
void mnem__pool_tell_upper(uint64_t bytes);

/* mnem__pool_tell for a block whose record is known; inline, because each nanosecond counts. */
static inline void mnem__pool_tell_at(mnem_pool *pool, mnem__event_what what, const mnem__record *r,
                                      const mnem_pool_block *block) {
    const uint64_t bytes = block->memory.bytes;
    const uint64_t where =
        (uint64_t)r->stream << 56 | (block->memory.address & ((UINT64_C(1) << 56) - 1));
    if (__builtin_expect(bytes >> 32 != 0, 0)) mnem__pool_tell_upper(bytes);
    mnem__event_sink *sink = mnem__event_enter();
    if (!sink) return;
    uint32_t name = mnem__event_name_known(sink, pool->number, mnem__site_row(r->site));
    if (__builtin_expect(!name, 0)) name = mnem__pool_tell_name(sink, pool, r->site);
    mnem__event_put_ordered(sink, &pool->tellers, what, name, (uint32_t)bytes, where);
}

#endif
