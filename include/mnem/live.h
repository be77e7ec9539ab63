/* mnem/live.h: live blocks of a pool by owner and age, and misuse that a pool detected.
 *
 * A group is live blocks that have a tag, or a tag and a call site, in common. These are the rows
 * of the leak list, of the difference to a mark, of the top consumers, and of a refusal's report;
 * the calls that fill them are the pool's (pool.h). Not here: budgets (ledger.h).
 * Threads: plain data. Texts and frames are borrowed until the pool that filled them is destroyed.
 *
 *     mnem_live_group groups[16];
 *     uint64_t mark = mnem_pool_mark(pool);
 *     ...
 *     size_t n = mnem_pool_live(pool, &(mnem_live_query){.since = mark}, groups, 16);
 *     char text[4096];
 *     puts(mnem_live_text(groups, n < 16 ? n : 16, text, sizeof text));
 */
#ifndef MNEM_LIVE_H
#define MNEM_LIVE_H

#include "mnem/ledger.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mnem_live_by {
    MNEM_LIVE_BY_SITE, /* tag and call site (and backtrace, where one was asked for) */
    MNEM_LIVE_BY_TAG,  /* kind and tag */
    MNEM_LIVE_BY_KIND,
} mnem_live_by;

typedef enum mnem_live_order {
    MNEM_LIVE_OLDEST_FIRST, /* by the oldest block of the group */
    MNEM_LIVE_MOST_BYTES_FIRST,
} mnem_live_order;

/* Zero means default: all that is live, by site, oldest first. */
typedef struct mnem_live_query {
    uint64_t since; /* a mark: only blocks allocated after it */
    mnem_live_by by;
    mnem_live_order order;
} mnem_live_query;

typedef struct mnem_live_group {
    mnem_kind kind;
    const char *tag;  /* NULL: of the whole kind */
    const char *file; /* NULL: unknown, or one of more sites than the table holds */
    uint32_t line;
    uint32_t frame_count;      /* of the backtrace; 0: none */
    const void *const *frames; /* return addresses, innermost first */
    uint64_t blocks, bytes;    /* as asked for */
    uint64_t bytes_peak;       /* the most that its tag, or by kind its kind, had at one time */
    uint64_t allocations;      /* of its tag or kind, since the start */
    uint64_t oldest_sequence;  /* of the group's oldest block: the how-manieth allocation */
    uint32_t oldest_step;      /* when that was */
    uint32_t oldest_block;     /* its id in the pool */
} mnem_live_group;

/* One block. */
typedef struct mnem_live_block {
    mnem_kind kind;
    const char *tag, *file;
    uint32_t line;
    uint32_t frame_count;
    const void *const *frames;
    uint64_t bytes;    /* as asked for */
    uint64_t sequence; /* the how-manieth allocation of the pool */
    uint32_t step, stream, block;
} mnem_live_block;

/* A place in the source; file NULL: unknown. */
typedef struct mnem_source {
    const char *file;
    uint32_t line;
} mnem_source;

/* X(NAME, text): what a pool in debug mode finds. */
#define MNEM_MISUSE_LIST(X)                                                                        \
    X(DOUBLE_FREE, "double free")                                                                  \
    X(FOREIGN_FREE, "free of a foreign block")                                                     \
    X(USE_AFTER_FREE, "write after free")                                                          \
    X(WRITE_BEFORE, "write before the start")                                                      \
    X(WRITE_PAST, "write past the end")

typedef enum mnem_misuse_what {
#define MNEM_MISUSE_ENUM(name, text) MNEM_MISUSE_##name,
    MNEM_MISUSE_LIST(MNEM_MISUSE_ENUM)
#undef MNEM_MISUSE_ENUM
        MNEM_MISUSE_COUNT
} mnem_misuse_what;

const char *mnem_misuse_what_text(mnem_misuse_what what);

typedef struct mnem_misuse {
    mnem_misuse_what what;
    mnem_kind kind;
    const char *tag;    /* of the block; NULL: it isn't known (freed too long ago) */
    uint64_t bytes;     /* of the block, as asked for */
    uint64_t sequence;  /* the how-manieth allocation of its pool it was */
    uint64_t address;   /* of the first wrong byte; for frees, of the block as the caller said it */
    int64_t offset;     /* of the first wrong byte, from the block's start */
    uint64_t wrong;     /* how many bytes are wrong in the part that was looked at */
    mnem_source taken;  /* where the block was allocated */
    mnem_source freed;  /* and freed, if it was */
    mnem_source caller; /* the call that found it; unknown: a check did */
} mnem_misuse;

/* One line without its end, such as "write past the end of weights embed (4096 bytes, taken at
 * model.c:120): 3 bytes, the first 1 past the end; found by the free at model.c:140". Returns out
 * (at most n bytes with the zero). */
char *mnem_misuse_text(const mnem_misuse *misuse, char *out, size_t n);

/* Writes a line for each group into out (at most n bytes with the zero) and returns out:
 * "weights embed  3 blocks 12 MiB  at model.c:120 (oldest: step 17)". Backtraces follow their
 * line, a frame each, with the function's name where the dynamic linker knows it. What doesn't fit
 * is left out, by whole lines, and counted in the last one. */
char *mnem_live_text(const mnem_live_group *groups, size_t count, char *out, size_t n);

#ifdef __cplusplus
}
#endif
#endif
