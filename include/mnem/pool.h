/* mnem/pool.h: a pool: allocates and frees blocks of a device's memory while a program runs.
 *
 * Stream-ordered: a block that is freed on a stream may be reused there at once, and on another
 * stream only after an event shows that the first one passed the free. The pool takes memory from
 * the device in a few large pieces, returns unused ones, counts every byte by kind and tag, and
 * reports the obstacles when it refuses a request. All metadata is on the host.
 * Not here: allocation of offsets without memory (offset.h), budgets of the process (ledger.h).
 * Threads: any thread may call any function except create and destroy. When threads contend often,
 * each keeps some of the blocks that it frees (at most 1/64 of the reserved bytes) for its next
 * requests; this memory counts as free and is available to all threads, and the order of
 * allocations of several threads is then known to within 64. A call that names a stream is a use of
 * that stream (device.h: one thread at a time); work that runs on a stream may not call the pool.
 * Blocks freed on a stream are visible to others from its next call on. Callbacks run on the thread
 * that made the call; on_soft may call the pool, the other callbacks get MNEM_BUSY if they do.
 *
 *     mnem_pool *pool;
 *     mnem_pool_create(&(mnem_pool_options){.device = device, .bytes_max = 1 << 30}, &pool);
 *     mnem_pool_block b;
 *     mnem_pool_request r = {.bytes = n, .kind = MNEM_KIND_KV, .tag = "pages", .stream = s};
 *     if (mnem_pool_alloc(pool, &r, &b) == MNEM_OK) {
 *         launch(s, mnem_block_host(&b.memory));
 *         mnem_pool_free(pool, &b, s);
 *     }
 *     mnem_pool_destroy(pool);
 */
#ifndef MNEM_POOL_H
#define MNEM_POOL_H

#include "mnem/live.h"
#include "mnem/offset.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_pool mnem_pool;
struct mnem_pool_block;

typedef enum mnem_pool_growth {
    MNEM_POOL_SEGMENTS, /* mnem_device_alloc: each segment at an address of its own */
    MNEM_POOL_RANGE, /* granules mapped into one reserved range, and mapped together elsewhere where
                        a request needs it (docs/pool.md); no policy is used, and bytes_max is below
                        2^32 alignments (1 TiB by default) */
} mnem_pool_growth;

/* The limit that is nearly reached: of one kind and tag, or of the pool (tag NULL). */
typedef struct mnem_pool_soft {
    mnem_kind kind;
    const char *tag;     /* NULL: all of the pool */
    uint64_t bytes_over; /* beyond the soft limit, if the request is served */
} mnem_pool_soft;

/* Zero means default. */
typedef struct mnem_pool_options {
    mnem_device *device; /* borrowed until destroy; no default */
    mnem_space space;
    mnem_pool_growth growth;
    mnem_offset_policy policy; /* one that can place at an offset: not buddy, not bump */
    uint64_t alignment;        /* of every block, a power of two (default 256) */
    uint64_t bytes_max;        /* limit of reserved bytes (default: the device's capacity) */
    uint64_t bytes_expected; /* of live blocks at the peak: min(1.2 times that, bytes_max) is taken
                                at once (default: nothing) */
    uint64_t unit_bytes;     /* streams share and give back whole units, a power of two (default:
                                2 MiB, less for a small bytes_max; a range: the granule) */
    uint32_t blocks_max;    /* while no more blocks are live, no call takes heap (default: grows) */
    uint32_t garbage_steps; /* segments unused for so many steps go first when the soft limit is
                                near (default 8) */
    mnem_ledger *ledger;    /* reserved bytes are charged there (default: nowhere) */
    mnem_kind kind;         /* with this kind */
    const char *tag;        /* and tag (default "pool") */
    double soft_fraction;   /* of bytes_max and of every limit, where on_soft is called
                                (default 0.85) */
    double defragment_above; /* a fragmentation of what is reserved, where the pool takes what other
                                streams have free and defragments before it grows, and defragments
                                at every step (default 0.3; 1: never) */
    bool direct;             /* a request that can't be served otherwise may take memory of its own,
                                beyond bytes_max, not beyond the ledger's budget */
    bool wait;               /* before a request is refused, waits until streams pass their frees */
    bool debug; /* finds misuse (mnem/live.h): poison, gaps around blocks, both call sites of a
                   wrong free. Costs memory and time; nothing is moved. A block's bytes are filled
                   in the order of its stream, so the host may write them only after that */
    uint32_t backtrace; /* so many return addresses are kept with the site of each block, at most 32
                           (default 0; costs a microsecond for each) */
    void (*on_misuse)(void *context, const mnem_misuse *misuse); /* debug: at the end of a call, for
                                                                    each that was found since */
    void (*on_soft)(void *context, const mnem_pool_soft *soft);  /* may free and trim */
    void *context;
} mnem_pool_options;

/* A request. Zero means default, except for bytes. */
typedef struct mnem_pool_request {
    uint64_t bytes;
    uint64_t alignment; /* a power of two up to 2 MiB (default: the pool's) */
    mnem_kind kind;
    const char *tag;     /* copied, at most 31 characters (default "block") */
    mnem_stream *stream; /* NULL: the device's default stream */
    bool planned;        /* placed by a plan: memory of its own, exactly the bytes of
                            mnem_device_alloc_bytes, charged to the ledger under its own kind and
                            tag; not counted in bytes_max and the soft limits; returned to the
                            device when freed */
    /* Not NULL: the block may be moved by calls that name its stream. Its bytes were then copied on
     * that stream; *to replaces *from, and work that is queued from now on must use *to. */
    void (*moved)(void *context, const struct mnem_pool_block *from,
                  const struct mnem_pool_block *to);
    void *context;
} mnem_pool_request;

typedef struct mnem_pool_block {
    mnem_block memory; /* address and bytes as asked; don't give it to mnem_device_free */
    uint32_t id;
    uint32_t generation; /* of the id: distinguishes a freed block from its successor */
} mnem_pool_block;

/* MNEM_INVALID, MNEM_UNSUPPORTED (a policy or growth that isn't possible), MNEM_NO_MEMORY,
 * MNEM_OVER_BUDGET (of the ledger, by bytes_expected). */
mnem_status mnem_pool_create(const mnem_pool_options *options, mnem_pool **pool);
/* MNEM_BUSY while blocks are live: the text lists them, the oldest first, with tag and call site.
 * Streams that were used must still exist; their pending work with freed blocks is waited for. NULL
 * is fine. */
mnem_status mnem_pool_destroy(mnem_pool *pool);
/* Destroys the pool and all its live blocks. */
void mnem_pool_destroy_forced(mnem_pool *pool);

/* Allocates a block. Sources, in this order: free memory of the stream, more memory from the
 * device, then the ladder: trim, blocks that other streams finished, defragment, memory of its own
 * (options.direct). MNEM_OVER_BUDGET: a limit, bytes_max or the ledger; MNEM_NO_MEMORY: the device
 * or the heap. The text names the bytes, the largest free run, the fragmentation, the blocks in the
 * way and their tags, and the option that would help. *block is unchanged then. */
mnem_status mnem_pool_alloc_from(mnem_pool *pool, const char *file, int line,
                                 const mnem_pool_request *request, mnem_pool_block *block);
/* mnem_pool_alloc(pool, request, block) */
#define mnem_pool_alloc(pool, ...) mnem_pool_alloc_from((pool), __FILE__, __LINE__, __VA_ARGS__)
/* Frees a block after the work that is queued on stream now, and clears *block. A cleared block is
 * fine. MNEM_INVALID for a block that is not live: nothing changes; with options.debug the text
 * names where it was allocated and freed. With options.debug also MNEM_INVALID when a byte next to
 * the block was overwritten: the block is freed all the same. */
mnem_status mnem_pool_free_from(mnem_pool *pool, const char *file, int line, mnem_pool_block *block,
                                mnem_stream *stream);
/* mnem_pool_free(pool, block, stream) */
#define mnem_pool_free(pool, ...) mnem_pool_free_from((pool), __FILE__, __LINE__, __VA_ARGS__)
/* States that the work queued on stream so far uses the block too: its free waits for that work.
 * Call it again after more work. */
mnem_status mnem_pool_use(mnem_pool *pool, const mnem_pool_block *block, mnem_stream *stream);

/* Call it before the stream is destroyed: finishes the stream's work in the pool and forgets the
 * stream. Blocks that were allocated on it stay live. */
mnem_status mnem_pool_forget(mnem_pool *pool, mnem_stream *stream);

/* A step of the caller's work ends: ages what is unused, defragments when there is need. */
mnem_status mnem_pool_step(mnem_pool *pool, mnem_stream *stream);
/* Returns free memory to the device until at most bytes_keep are reserved; *given (may be NULL) is
 * the number of bytes returned. Only whole segments or granules that no stream uses are returned.
 */
mnem_status mnem_pool_trim(mnem_pool *pool, uint64_t bytes_keep, uint64_t *given);
/* Compacts free bytes into large runs: movable blocks of this stream move down. *moved (may be
 * NULL) is the number of bytes copied. */
mnem_status mnem_pool_defragment(mnem_pool *pool, mnem_stream *stream, uint64_t *moved);

/* A hard limit of live bytes for one kind and tag (tag NULL: all of the kind); 0 removes it. */
mnem_status mnem_pool_limit_set(mnem_pool *pool, mnem_kind kind, const char *tag, uint64_t bytes);
/* Accounts in the order of first use (bytes as asked); false past the last. */
bool mnem_pool_account_get(mnem_pool *pool, unsigned index, mnem_account_info *info);

/* X(NAME, text): how requests were served. Each request counts once, where it ended. */
#define MNEM_POOL_RUNG_LIST(X)                                                                     \
    X(REUSE, "reuse")                                                                              \
    X(GROW, "grow")                                                                                \
    X(TRIM, "trim")                                                                                \
    X(OTHERS, "other streams")                                                                     \
    X(DEFRAGMENT, "defragment")                                                                    \
    X(DIRECT, "direct")                                                                            \
    X(PLANNED, "planned")                                                                          \
    X(REFUSE, "refuse")

typedef enum mnem_pool_rung {
#define MNEM_POOL_RUNG_ENUM(name, text) MNEM_POOL_RUNG_##name,
    MNEM_POOL_RUNG_LIST(MNEM_POOL_RUNG_ENUM)
#undef MNEM_POOL_RUNG_ENUM
        MNEM_POOL_RUNGS
} mnem_pool_rung;

const char *mnem_pool_rung_text(mnem_pool_rung rung);

typedef struct mnem_pool_info {
    uint64_t bytes_max, unit_bytes;
    uint64_t bytes_live, bytes_peak; /* as asked, of all blocks */
    uint64_t bytes_reserved,
        bytes_reserved_peak;     /* from the device, without planned and direct blocks */
    uint64_t bytes_planned;      /* live planned blocks */
    uint64_t bytes_direct;       /* live blocks of the rung DIRECT */
    uint64_t bytes_pending;      /* freed, but a stream may not have passed the free yet */
    uint64_t bytes_largest_free; /* largest request that needs no more memory of the device */
    double fragmentation;        /* (reserved - live) / reserved; 0 when nothing is reserved */
    double fragmentation_free;   /* 1 - largest free / all free */
    uint32_t blocks_live, segments, streams;
    uint64_t rungs[MNEM_POOL_RUNGS]; /* requests served by each */
    uint64_t device_calls;           /* allocations and maps asked of the device */
    uint64_t device_frees;
    uint64_t soft_calls;
    uint64_t bytes_moved, blocks_moved; /* copied by defragmenting */
    uint64_t bytes_remapped;            /* mapped at other addresses, or to another
                                           stream, without copying */
    uint64_t bytes_garbage;             /* returned to the device because of age */
    uint64_t steps;
} mnem_pool_info;

void mnem_pool_info_get(mnem_pool *pool, mnem_pool_info *info);

/* Live blocks (mnem/live.h). A mark is a point in time: blocks that are allocated later are newer.
 */
uint64_t mnem_pool_mark(mnem_pool *pool);
/* Gets the groups of a query (NULL: all live blocks, by site, oldest first), at most the first max
 * of them. Returns the number of all groups; 0 when a callback of the pool calls this function. */
size_t mnem_pool_live(mnem_pool *pool, const mnem_live_query *query, mnem_live_group *groups,
                      size_t max);

/* Gets the index-th misuse that was found, the oldest first; false past the last (the first 256 are
 * kept), and without options.debug. */
bool mnem_pool_misuse_get(mnem_pool *pool, uint64_t index, mnem_misuse *misuse);

/* Checks every invariant: no overlap, equal sums, no lost bytes; with options.debug also the gaps
 * of all blocks and all free memory, for which it waits for the streams. MNEM_INVALID: the text
 * names the invariant that failed, or the misuse that was found now or on a stream since the last
 * call. For tests; slow. */
mnem_status mnem_pool_check(mnem_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
