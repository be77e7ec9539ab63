/* site.h: whose bytes: tags and call sites as small numbers.
 *
 * A site is a tag, a place in the source (file:line) and a backtrace where one is asked for; so a
 * site has one tag and one kind, and its number says which. Both tables are bounded; what finds no
 * room goes to the site "others" of its tag, and to the tag "others" of its kind, so that sums stay
 * right. Numbers are never reused, and rows never move.
 * Threads: the caller's lock. */
#ifndef MNEM_SRC_ALLOC_TRACK_SITE_H
#define MNEM_SRC_ALLOC_TRACK_SITE_H

#include <string.h>

#include "alloc/track/track_rows.h"
#include "mnem/ledger.h"

enum {
    MNEM__TAGS_MAX = 256,
    MNEM__TAG_KEYS = 1024, /* a power of two */
    MNEM__TAG_TEXT = 31,   /* bytes of a tag that count */
    MNEM__SITES_MAX_DEFAULT = 4096,
    MNEM__SITE_ROW_BITS = 20, /* of a site's number; 8 bits of its tag and 4 of its kind above */
    MNEM__SITES_RECENT = 512, /* a power of two */
    MNEM__FRAMES_MAX = 32,
};

typedef struct mnem__count {
    uint64_t bytes_live, bytes_peak;
    uint64_t allocations;
    uint32_t blocks_live;
} mnem__count;

typedef struct mnem__tag {
    _Alignas(64) mnem__count count;
    mnem_kind kind;
    uint32_t others; /* the site for those that found no room, and for calls that name none */
    uint32_t text_bytes;
    char text[MNEM__TAG_TEXT + 1];
} mnem__tag;

typedef struct mnem__stack {
    uint32_t hash, frame_count;
    const void *frames[]; /* [frame_count], innermost first */
} mnem__stack;

/* What a query sums up; not in use between queries. */
typedef struct mnem__site_sum {
    uint64_t blocks, bytes, oldest_sequence;
    uint32_t oldest_step, oldest_block;
} mnem__site_sum;

typedef struct mnem__site {
    _Alignas(64) const char *file; /* the caller's pointer; part of the key */
    uint32_t line, tag, stack;
    uint32_t same;    /* the number that counts: its own, or of equal text at another address */
    const char *name; /* the file's name, copied; NULL: others */
    mnem__site_sum sum;
} mnem__site;
_Static_assert(sizeof(mnem__site) == 64, "a line of the cache");

/* What was looked up before, by addresses; the tag's text is compared with the tag. */
typedef struct mnem__site_recent {
    const char *text, *file;
    uint32_t line, stack;
    mnem_kind kind;
    uint32_t site;
} mnem__site_recent;

typedef struct mnem__file {
    struct mnem__file *next;
    char name[];
} mnem__file;

typedef struct mnem__sites {
    mnem__rows tags;   /* of mnem__tag; the first MNEM_KIND_COUNT are "others" of each kind */
    mnem__rows sites;  /* of mnem__site */
    mnem__rows stacks; /* of mnem__stack *; number 0: none */
    uint32_t tag_count, site_count, stack_count;
    uint32_t site_max, stack_max;
    uint16_t tag_keys[MNEM__TAG_KEYS]; /* open addressing: tag + 1 by hash; 0: empty */
    uint32_t *keys;                    /* the same for sites */
    uint32_t key_mask;                 /* size of keys - 1; at most 3/4 of them are in use */
    mnem__file *files;
    uint64_t lost; /* look-ups that ended in others for lack of room */
    mnem__site_recent recent[MNEM__SITES_RECENT];
} mnem__sites;

/* site_max 0: the default. MNEM_NO_MEMORY leaves nothing behind. */
mnem_status mnem__sites_init(mnem__sites *s, uint32_t site_max);
void mnem__sites_fini(mnem__sites *s);

static inline mnem__tag *mnem__tag_at(const mnem__sites *s, uint32_t tag) {
    return mnem__row(&s->tags, sizeof(mnem__tag), tag);
}

/* What a site's number says. */
static inline uint32_t mnem__site_row(uint32_t site) {
    return site & ((1u << MNEM__SITE_ROW_BITS) - 1);
}
static inline uint32_t mnem__site_tag(uint32_t site) {
    return site >> MNEM__SITE_ROW_BITS & 0xff;
}
static inline uint32_t mnem__site_kind(uint32_t site) {
    return site >> 28;
}

static inline mnem__site *mnem__site_at(const mnem__sites *s, uint32_t site) {
    return mnem__row(&s->sites, sizeof(mnem__site), mnem__site_row(site));
}

/* The number of a tag, made when it is new. text is compared and copied (its first 31 characters),
 * so it may lie anywhere. MNEM_INVALID for a kind or a text that isn't one; MNEM_NO_MEMORY. */
mnem_status mnem__tag_of(mnem__sites *s, mnem_kind kind, const char *text, uint32_t *tag);

/* The number of a call site; file: a string that keeps its text while the pool is there (__FILE__),
 * or NULL for none. Never fails: others when there's no room or no memory. */
uint32_t mnem__site_of(mnem__sites *s, uint32_t tag, const char *file, uint32_t line,
                       uint32_t stack);

/* For mnem__site_find: both of the above, remembered in the entry. */
mnem_status mnem__site_search(mnem__sites *s, const mnem__site_recent *wanted,
                              mnem__site_recent *entry, uint32_t *site);

/* Whether the tag's text is this one. In place, because most are shorter than a call. false too
 * for one that is longer than what counts. */
static inline bool mnem__tag_is(const mnem__tag *tag, const char *text) {
    const char *own = tag->text;
    for (; *own == *text; own++, text++)
        if (!*own) return true;
    return false;
}

static inline mnem__site_recent *mnem__site_recent_at(mnem__sites *s, const char *text,
                                                      const char *file, uint32_t line) {
    const uint64_t h = ((uintptr_t)text + ((uintptr_t)file ^ (uint64_t)line << 40) * 31) *
                       UINT64_C(0x9E3779B97F4A7C15);
    return &s->recent[h >> 48 & (MNEM__SITES_RECENT - 1)];
}

/* Whether the entry says what is asked. The text is there. */
static inline bool mnem__site_recent_is(const mnem__sites *s, const mnem__site_recent *e,
                                        mnem_kind kind, const char *text, const char *file,
                                        uint32_t line, uint32_t stack) {
    return e->text == text && e->file == file && e->line == line && e->kind == kind &&
           e->stack == stack && mnem__tag_is(mnem__tag_at(s, mnem__site_tag(e->site)), text);
}

/* Both of the above, and fast when it was asked before. */
static inline mnem_status mnem__site_find(mnem__sites *s, mnem_kind kind, const char *text,
                                          const char *file, uint32_t line, uint32_t stack,
                                          uint32_t *site) {
    mnem__site_recent *e = mnem__site_recent_at(s, text, file, line);
    if (text && mnem__site_recent_is(s, e, kind, text, file, line, stack)) {
        *site = e->site;
        return MNEM_OK;
    }
    const mnem__site_recent wanted = {text, file, line, stack, kind, 0};
    return mnem__site_search(s, &wanted, e, site);
}

/* The number of the backtrace from a return address of this stack on (NULL: from the caller on), of
 * at most frame_max frames. 0 when it can't be stored. Costs about a microsecond for each frame. */
uint32_t mnem__stack_capture(mnem__sites *s, uint32_t frame_max, const void *from);
/* The frames of a number; NULL and 0 for none. */
const void *const *mnem__stack_frames(const mnem__sites *s, uint32_t stack, uint32_t *count);

#endif
