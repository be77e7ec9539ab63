/* pool_private.h: how a pool is put together.
 *
 * All memory lies in one space of offsets, cut into units (2 MiB). A unit is absent, or has memory
 * and belongs to nobody or to one heap. A heap is what one stream has of the pool: an offset
 * allocator over the whole space, which has the units that are granted to it. (The heap of the C
 * library is base/heap.h; comments here call it the C heap.)
 *
 * Where memory comes in segments, a unit stays where it is. What isn't the heap's is a hole in its
 * allocator, that is a block that stays live until the units are granted:
 *
 *     units       |A A A|.|B B B B B|.|B - A A|          A, B: of heap A, B
 *     heap A      |free  [x] [ hole              ][y] |  -: of nobody   .: absent, between segments
 *     heap B      |hole  | ...
 *
 * In a range (device.h) a unit's memory is a granule, which has an address only while it is some
 * heap's: granting maps it where that heap wants it, in a row with others, withdrawing unmaps it
 * (pool_range.c). All heaps share one book of addresses (granule_space.h), and there are no holes:
 *
 *     addresses   |3 7|.|5 1 9|. .|4|     granules 3 7 4 of heap A, 5 1 9 of B, 2 6 8 of nobody
 *
 * So free memory of one stream merges and is reused at once, and what two streams share is whole
 * units, which pass from one to the other when the first has gone past its frees:
 *
 *     device --grow--> nobody --grant--> heap --withdraw--> nobody --release--> device
 *
 * Files, down one column and then the other: each calls only those before it, so that none of them
 * stand in a circle (a function that needs a later one is in the wrong file):
 *
 *     thread_cache  blocks that threads keep      grow       memory from the device, for nobody
 *     lock          waiting for the lock          map        what lies where in a heap
 *     units         the table of units            move       blocks copied elsewhere
 *     mark          how far the streams are       counters   counters and limits
 *     guard         debug mode                    report     why a request is refused
 *     block         a block's row, its end        slow_path  requests that aren't served at once
 *     stream        blocks that wait for streams  pool       alloc, free, use: the fast ways
 *     range         granules, mapped and remapped create     the life of a pool
 *     heap          units granted and withdrawn   upkeep     step, trim, defragment
 *     release       free units, to the device     check      the check of everything
 *
 * Invariants: mnem_pool_check. Everything here is called with the lock held, and with the thread
 * caches closed but for what an allocation or a free does at once. */
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
    MNEM__POOL_MARKS = 8, /* events of a stream that may be on their way */
};
#define MNEM__POOL_BYTES_MOST (UINT64_C(1) << 56)

/* Who a unit belongs to: a heap's number, or these. */
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
    bool own; /* the one in the slot: made by a free; others come from mnem_pool_use */
} mnem__pool_wait;

typedef enum mnem__pool_slot_state {
    MNEM__POOL_SLOT_EMPTY,
    MNEM__POOL_SLOT_LIVE,
    MNEM__POOL_SLOT_PENDING, /* freed; streams have yet to pass */
    MNEM__POOL_SLOT_KEPT,    /* freed; a cache has it (pool_thread_cache.h) */
} mnem__pool_slot_state;

/* Where a block lies; in the track's record of the same number, beside its bytes, tag and age. */
typedef struct mnem__pool_slot {
    uint64_t offset; /* of the owner's block, at or below the address; alone: the address */
    uint32_t handle; /* in the owner's allocator; empty: the next empty slot */
    uint32_t waits;  /* streams that have yet to pass; kept: the next of its bin */
    uint16_t owner;  /* heap of its memory */
    uint16_t stream; /* heap that it was taken on */
    uint8_t state;
    uint8_t alignment_log2; /* of the address */
    bool alone;             /* memory of its own from the device: planned or direct */
    bool planned;           /* charged by its own kind and tag */
    bool movable;
    uint32_t capacity; /* units of the pool's alignment, at least, from the offset on; 0: alone */
} mnem__pool_slot;
_Static_assert(sizeof(mnem__pool_slot) == sizeof((mnem__record *)0)->place, "in the record");

/* What only some blocks need. */
typedef union mnem__pool_more {
    struct { /* live and movable */
        void (*moved)(void *context, const mnem_pool_block *from, const mnem_pool_block *to);
        void *context;
    };
    mnem__pool_wait wait; /* pending */
} mnem__pool_more;

/* Units that aren't the heap's, as a block of its allocator. */
typedef struct mnem__pool_hole {
    uint32_t first, count;
    uint32_t handle; /* UINT32_MAX: owed, there was no memory for the block */
} mnem__pool_hole;

typedef struct mnem__pool_heap {
    mnem_offset_allocator *ready; /* offsets, or NULL: nothing granted yet, or holes owed */
    mnem_offset_allocator *offsets;
    mnem_pool *pool;
    mnem_stream *stream;
    uint16_t number;
    bool immediate;                 /* its work is done when it is queued */
    bool orphan;                    /* its stream was forgotten */
    uint32_t units;                 /* that belong to it */
    uint64_t freed, marked, passed; /* frees: how many, up to an event, known to be passed */
    struct {
        mnem_event *event;
        uint64_t sequence;
    } marks[MNEM__POOL_MARKS]; /* a ring, the oldest at mark_first */
    uint32_t mark_first, mark_count;
    mnem__pool_wait *wait_first, *wait_last; /* in the order of sequence */
    mnem__pool_hole *holes;
    uint32_t hole_count, hole_room, owed;
    uint32_t end; /* its allocator knows the units before this one */
} mnem__pool_heap;

/* A granule of a pool in a range; the pool's number of it is its index. */
typedef struct mnem__pool_granule {
    uint64_t granule; /* the device's number, or MNEM__GRANULE_NONE */
    uint8_t idle;     /* nobody's: steps */
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
    uint64_t *unit_base;   /* [units]: address = base + offset */
    uint8_t *unit_touched; /* [units]: so many, from this one on, were used since the last step */
    uint32_t unit_shift;
    uint32_t spare; /* the first empty slot, MNEM__POOL_SLOT_END: none */
    uint64_t alignment;
    uint64_t gap_bytes;                /* debug: that every request is larger by */
    mnem__guard *guard;                /* debug, or NULL */
    const void *caller;                /* backtrace: where the call returns to */
    bool many;                         /* more than one stream */
    bool careful;                      /* debug, backtrace or limits: no call takes the short way */
    bool immediate, immediate_default; /* as the device's info says of streams */
    bool in_soft;
    mnem__rows more;
    uint32_t slots_used;
    mnem__track track;

    uint16_t *unit_owner; /* [units] */
    uint8_t *unit_idle;   /* [units]: steps without use */
    uint8_t *unit_free;   /* [units]: what mnem__pool_survey found */
    uint32_t units, units_room;
    uint32_t units_reserved, units_max, units_range;
    uintptr_t grower; /* the thread that asks the device for more, or 0 */
    mnem__pool_segment *segments;
    uint32_t segment_count, segment_room;
    mnem_range range; /* with what follows: a pool in a range */
    mnem__granule_space *space;
    mnem__pool_granule *granules; /* [granules_room] */
    uint64_t *granule_map;        /* scratch of a map */
    uint32_t granules_room, granules_taken, granules_nobody;
    uint32_t taken_below, owned_below; /* all before are taken; are somebody's, or not taken */
    mnem__pool_heap *heaps[MNEM__POOL_HEAPS_MAX];
    uint32_t heap_count;
    mnem__pool_wait *wait_spare;

    mnem_pool_options options; /* complete */
    /* Read without the lock, so it lies between what doesn't change. NULL: none yet. */
    mnem__thread_caches *_Atomic caches;
    mnem__thread_caches *caches_made;
    char tag[32];
    uint32_t number; /* in traces: of its blocks' names (base/event.h) */
    mnem__event_tellers tellers;
    uint64_t bytes_planned, bytes_direct; /* as the device rounds them */
    uint64_t bytes_alone;                 /* of live planned and direct blocks, as asked */
    uint64_t bytes_pending, bytes_reserved_peak;
    uint64_t defragmented_at; /* frees when it last did so by itself */
    uint64_t frees;
    uint32_t movable; /* live blocks that may be moved */
    mnem__pool_map map;
    mnem_pool_info counts; /* rungs, calls, moves: what isn't computed */
    pthread_mutex_t seat;  /* of the lock */
};

#define MNEM__POOL_SLOT_END UINT32_MAX

typedef struct mnem__pool_run {
    uint32_t first, count; /* units */
} mnem__pool_run;

/* What a request found. */
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

/* Bytes of a block, live or the last one of this number, as asked. */
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

/* Units of the pool's alignment, for slot.capacity. */
static inline uint32_t mnem__pool_capacity(const mnem_pool *pool, uint64_t bytes) {
    const uint64_t units = (bytes + pool->alignment - 1) >> __builtin_ctzll(pool->alignment);
    return units < UINT32_MAX ? (uint32_t)units : UINT32_MAX;
}

/* Units from the offset on were used. The first says how many, up to 255: no branch for the many
 * sizes of blocks. */
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

/* Whether all that the stream freed is passed, as known by the last poll. */
static inline bool mnem__pool_passed(const mnem__pool_heap *h) {
    return h->immediate || h->orphan || h->passed >= h->freed;
}

/* (reserved - live) / reserved, planned and direct blocks apart; 0 when nothing is reserved. */
static inline double mnem__pool_fragmentation(const mnem_pool *pool) {
    const double reserved = (double)mnem__pool_reserved(pool);
    const double live = (double)(pool->track.all.bytes_live - pool->bytes_alone);
    return reserved > 0 ? (reserved - live) / reserved : 0;
}

/* ---- pool_units.c ---- */

mnem_status mnem__pool_units_init(mnem_pool *pool);
void mnem__pool_units_fini(mnem_pool *pool);
/* Makes the table hold so many units; new ones are absent. */
bool mnem__pool_units_room(mnem_pool *pool, uint32_t count);
/* The first unit from `from` on that belongs to owner; or how many units there are. */
uint32_t mnem__pool_unit_next(const mnem_pool *pool, uint32_t from, uint16_t owner);

/* ---- pool_mark.c ---- */

/* In a call on the heap's stream: an event follows the frees so far. */
void mnem__pool_mark(mnem_pool *pool, mnem__pool_heap *h);
/* Looks which events were reached. */
void mnem__pool_marks_query(mnem__pool_heap *h);
/* In a call on the heap's stream: whether it has passed all its frees. Ends no block. */
bool mnem__pool_is_idle(mnem_pool *pool, mnem__pool_heap *h);

/* ---- pool_block.c ---- */

/* Rows for so many blocks. */
mnem_status mnem__pool_slots_grow(mnem_pool *pool, uint32_t count);
/* Memory of its own, charged to the ledger by the block's tag when it is planned. */
mnem_status mnem__pool_alone_take(mnem_pool *pool, const mnem_pool_request *request,
                                  const char *tag, mnem_block *memory);
/* Ends a block that is freed and passed: its memory is free, its slot empty. */
void mnem__pool_end(mnem_pool *pool, uint32_t id);
/* Gives memory of a block's own back. was: its kind, tag and bytes. */
void mnem__pool_alone_free(mnem_pool *pool, const mnem__pool_slot *slot,
                           const mnem_live_block *was);

/* ---- pool_stream.c ---- */

/* Looks how far the stream is; ends the blocks that waited for that. */
void mnem__pool_poll(mnem_pool *pool, mnem__pool_heap *h);
void mnem__pool_poll_all(mnem_pool *pool);
/* Waits until every stream has passed what was marked. The lock stays held. */
void mnem__pool_wait_all(mnem_pool *pool);
/* The slot is freed on h, and ends when h and all that use it have passed. */
void mnem__pool_defer(mnem_pool *pool, mnem__pool_heap *h, uint32_t id);
/* A block that was freed on h and waits for nobody but h, of about these bytes: taken again. */
bool mnem__pool_reclaim(mnem_pool *pool, mnem__pool_heap *h, uint64_t bytes,
                        mnem__pool_place *place);
/* The block, when it is freed, waits for what is queued on h so far. */
mnem_status mnem__pool_await(mnem_pool *pool, mnem__pool_heap *h, uint32_t id);
/* The stream of h has done its work and is no more; h waits for another stream. */
void mnem__pool_orphan(mnem_pool *pool, mnem__pool_heap *h);

/* ---- pool_range.c: a pool in a range ---- */

mnem_status mnem__pool_range_init(mnem_pool *pool);
void mnem__pool_range_fini(mnem_pool *pool);
/* Granules that were taken are nobody's. */
mnem_status mnem__pool_range_install(mnem_pool *pool, const uint64_t *granules, uint32_t count);
/* Granules that the heap needs, besides what it has free, so that bytes fit without a remap. */
uint32_t mnem__pool_range_need(const mnem_pool *pool, const mnem__pool_heap *h, uint64_t bytes);
/* The same as those without range in their names. */
bool mnem__pool_range_grant_for(mnem_pool *pool, mnem__pool_heap *h, uint64_t bytes);
uint32_t mnem__pool_range_survey(mnem_pool *pool, const mnem__pool_heap *except);
uint32_t mnem__pool_range_release(mnem_pool *pool, uint32_t keep, uint32_t idle);
/* A step: nobody's granules get older. */
void mnem__pool_range_age(mnem_pool *pool);
/* Wholly free granules of other heaps become nobody's, at most so many. How many. */
uint32_t mnem__pool_range_withdraw(mnem_pool *pool, const mnem__pool_heap *except, uint32_t most);
/* Takes bytes after free granules, of the heap, nobody and then others, were mapped together. */
bool mnem__pool_remap(mnem_pool *pool, mnem__pool_heap *h, uint64_t bytes, mnem_offset_block *at);

/* ---- pool_heap.c ---- */

/* The heap of a stream, or NULL. */
mnem__pool_heap *mnem__pool_heap_known(const mnem_pool *pool, const mnem_stream *stream);
/* The heap of a stream, made when it is new. MNEM_NO_MEMORY, MNEM_UNSUPPORTED (too many). */
mnem_status mnem__pool_heap_find(mnem_pool *pool, mnem_stream *stream, mnem__pool_heap **h);
void mnem__pool_heap_destroy(mnem_pool *pool, mnem__pool_heap *h);
/* Makes the holes that are owed. */
mnem_status mnem__pool_heap_repair(mnem_pool *pool, mnem__pool_heap *h);
/* Gives nobody's units first..first + count - 1 to the heap. */
mnem_status mnem__pool_grant(mnem_pool *pool, mnem__pool_heap *h, uint32_t first, uint32_t count);
/* Grants units of nobody such that bytes fit. false: there are none. */
bool mnem__pool_grant_for(mnem_pool *pool, mnem__pool_heap *h, uint64_t bytes);
/* Takes free units away: they are nobody's. false, with nothing changed: no memory for the hole. */
bool mnem__pool_withdraw(mnem_pool *pool, mnem__pool_heap *h, uint32_t first, uint32_t count);
/* mnem__pool_heap_find for the stream of a call: that of the last call, as a rule. */
static inline mnem_status mnem__pool_heap_of(mnem_pool *pool, mnem_stream *stream,
                                             mnem__pool_heap **out) {
    mnem__pool_heap *h = *out = pool->last;
    if (__builtin_expect(h && h->stream == stream && !h->orphan, 1)) return MNEM_OK;
    const mnem_status status = mnem__pool_heap_find(pool, stream, out);
    if (status == MNEM_OK) pool->last = *out;
    return status;
}

/* ---- pool_release.c ---- */

/* Marks in unit_free which units nobody needs: nobody's, and wholly free ones of heaps that
 * passed their frees (but not those of `except`, may be NULL). Returns how many. */
uint32_t mnem__pool_survey(mnem_pool *pool, const mnem__pool_heap *except);
/* Makes a run of marked units nobody's; how many of them, from the first on. */
uint32_t mnem__pool_run_withdraw(mnem_pool *pool, uint32_t first, uint32_t count);
/* Gives back units that nobody needs, idle for so many steps at least, until at most keep are
 * reserved; marks them first, where there are segments. */
uint32_t mnem__pool_release(mnem_pool *pool, uint32_t keep, uint32_t idle);
/* Gives back what was unused for long. */
void mnem__pool_garbage(mnem_pool *pool);

/* ---- pool_grow.c ---- */

/* Takes units for nobody, enough that bytes fit for the heap; more where that saves calls. Gives
 * the lock up meanwhile. */
mnem_status mnem__pool_grow(mnem_pool *pool, mnem__pool_heap *h, uint64_t bytes);
/* Exactly so many units, for nobody. */
mnem_status mnem__pool_reserve(mnem_pool *pool, uint32_t count);

/* ---- pool_map.c ---- */

/* Makes pool->map: what lies in the heap, in the order of offsets, with the slots. Its memory is
 * kept for the next time. false: no memory. */
bool mnem__pool_map_make(mnem_pool *pool, const mnem__pool_heap *h);
void mnem__pool_map_fini(mnem_pool *pool);
/* The entries first..last of the map that are a window of at least these bytes, without holes,
 * with the fewest live bytes (of movable blocks only, where asked). false: there is none. */
bool mnem__pool_window(const mnem_pool *pool, uint64_t bytes, bool movable, uint32_t *first,
                       uint32_t *last);
/* Whether a block may be moved now, in a call on the stream that it was taken on. */
bool mnem__pool_movable(const mnem__pool_slot *s);

/* ---- pool_move.c ---- */

/* Moves blocks of the heap out of a window of these bytes. */
bool mnem__pool_clear_for(mnem_pool *pool, mnem__pool_heap *h, uint64_t bytes);
/* Moves blocks down; returns the bytes copied. */
uint64_t mnem__pool_compact(mnem_pool *pool, mnem__pool_heap *h);

/* ---- pool_counters.c ---- */

void mnem__pool_info_fill(mnem_pool *pool, mnem_pool_info *info);
/* Lets a request of the tag pass its limits; calls on_soft. May give the lock up. */
mnem_status mnem__pool_limits_pass(mnem_pool *pool, uint32_t tag, uint64_t bytes);
/* Calls on_soft without the lock. */
void mnem__pool_soft_call(mnem_pool *pool, const mnem_pool_soft *soft);

/* ---- pool_report.c ---- */

/* Sets the last error: why the request was refused. why: what the last rung said. */
mnem_status mnem__pool_refuse(mnem_pool *pool, mnem__pool_heap *h, const mnem_pool_request *request,
                              uint64_t bytes, mnem_status status, const char *why);

/* ---- pool_slow_path.c ---- */

/* Finds bytes that weren't there at once: every rung, or the refusal. May give the lock up. */
mnem_status mnem__pool_slow_path(mnem_pool *pool, mnem__pool_heap *h,
                                 const mnem_pool_request *request, uint64_t bytes,
                                 mnem__pool_place *place, mnem_pool_rung *rung);

/* ---- pool_tell.c: for a trace, where somebody listens ---- */

/* What: ALLOC, FREE. The block is live: its row says whose it is. */
void mnem__pool_tell(mnem_pool *pool, mnem__event_what what, const mnem_pool_block *block);
/* No lock is held. */
void mnem__pool_tell_refused(mnem_pool *pool, const mnem_pool_request *request, const char *file,
                             int line, mnem_status status);
/* A site's name, the first time. */
uint32_t mnem__pool_tell_name(mnem__event_sink *sink, const mnem_pool *pool, uint32_t site);
/* Bytes of 4 GiB and more take an event before the block's. */
void mnem__pool_tell_upper(uint64_t bytes);

/* mnem__pool_tell of a block whose record is at hand; inline, since each nanosecond counts. */
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
