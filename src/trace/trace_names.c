/* trace_names.c: a hash of chains over a table that only grows. A site's entry follows that of its
 * account, which is added with it, so that readers of the site know its account.
 *
 * Cost: one walk of a chain, about one entry long. */
#include "trace/trace_names.h"

#include <stdio.h>
#include <string.h>

#if defined __SSE2__
#include <emmintrin.h>
#endif

enum { TEXT_EACH = 40 }; /* bytes of text for each name, on average */

static uint32_t hash_bits(uint32_t room) {
    uint32_t bits = 1;
    while (bits < 20 && (1u << bits) < room) bits++;
    return bits;
}

size_t mnem__trace_names_bytes(uint32_t room) {
    return room * (sizeof(mnem__trace_name) + sizeof(uint32_t) + TEXT_EACH) +
           ((size_t)1 << hash_bits(room)) * sizeof(uint32_t);
}

/* What is asked for, as it is compared. */
typedef struct wanted {
    uint32_t owner, bytes;
    uint8_t sort, kind;
    const char *text;
} wanted;

/* A word at a time; the last one may hold bytes of the one before again. */
static uint32_t hash_of(const mnem__trace_names *n, const wanted *w) {
    const uint64_t golden = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t h = ((uint64_t)w->owner << 16 | (uint32_t)w->kind << 8 | w->sort) + 1, word = 0;
    uint32_t i = 0, half[2];
    for (; i + sizeof word < w->bytes; i += (uint32_t)sizeof word) {
        memcpy(&word, w->text + i, sizeof word);
        h = (h ^ word) * golden;
        h ^= h >> 32;
    }
    if (w->bytes >= sizeof word) {
        memcpy(&word, w->text + w->bytes - sizeof word, sizeof word);
    } else if (w->bytes >= sizeof half[0]) {
        memcpy(&half[0], w->text, sizeof half[0]);
        memcpy(&half[1], w->text + w->bytes - sizeof half[1], sizeof half[1]);
        word = (uint64_t)half[1] << 32 | half[0];
    } else {
        for (; i < w->bytes; i++) word = word << 8 | (unsigned char)w->text[i];
    }
    return (uint32_t)((h ^ word) * golden >> (64 - n->hash_bits));
}

static bool is(const mnem__trace_names *n, uint32_t name, const wanted *w) {
    const mnem__trace_name *e = &n->entry[name];
    const char *text = n->texts + e->text;
    return e->bytes == w->bytes && e->sort == w->sort && e->kind == w->kind &&
           e->owner == w->owner && !memcmp(text, w->text, w->bytes);
}

/* The names from `first` on; 0: none of them. */
static uint32_t find(const mnem__trace_names *n, uint32_t first, const wanted *w) {
    while (first && !is(n, first, w)) first = n->entry[first].next;
    return first;
}

/* The lock is held. */
static uint32_t add(mnem__trace_names *n, uint32_t at, const wanted *w, uint32_t account) {
    if (n->count == n->room || n->text_room - n->text_used < w->bytes + 1u) return MNEM__NAME_NONE;
    const uint32_t name = n->count++;
    mnem__trace_name *e = &n->entry[name];
    memcpy(n->texts + n->text_used, w->text, w->bytes);
    *e = (mnem__trace_name){.text = n->text_used,
                            .owner = w->owner,
                            .next = atomic_load_explicit(&n->hash[at], memory_order_relaxed),
                            .account = account,
                            .bytes = (uint16_t)w->bytes,
                            .sort = w->sort,
                            .kind = w->kind};
    n->text_used += w->bytes + 1;
    if (w->sort == MNEM__NAME_ACCOUNT || w->sort == MNEM__NAME_POOL) {
        e->account = n->account_count;
        n->accounts[n->account_count++] = name;
    }
    atomic_store_explicit(&n->hash[at], name, memory_order_release);
    return name;
}

static uint32_t find_or_add(mnem__trace_names *n, const wanted *w, uint32_t account) {
    const uint32_t at = hash_of(n, w);
    uint32_t name = find(n, atomic_load_explicit(&n->hash[at], memory_order_acquire), w);
    if (name) return name;
    pthread_mutex_lock(&n->lock);
    name = find(n, atomic_load_explicit(&n->hash[at], memory_order_acquire), w);
    if (!name) name = add(n, at, w, account);
    pthread_mutex_unlock(&n->lock);
    return name;
}

static wanted want(uint8_t sort, uint32_t owner, uint32_t kind, const char *text) {
    return (wanted){.owner = owner,
                    .bytes = (uint32_t)strnlen(text, MNEM__NAME_TEXT),
                    .sort = sort,
                    .kind = (uint8_t)kind,
                    .text = text};
}

static uint32_t site_of(mnem__trace_names *n, const mnem__event_key *key) {
    char text[MNEM__NAME_TEXT];
    wanted w = want(MNEM__NAME_POOL, key->owner, key->kind, key->text);
    const uint32_t owner = find_or_add(n, &w, 0);
    if (owner == MNEM__NAME_NONE) return owner;
    *text = 0;
    if (key->more) snprintf(text, sizeof text, "%s:%u", key->more, key->line);
    w = want(MNEM__NAME_SITE, owner, key->kind, text);
    return find_or_add(n, &w, n->entry[owner].account);
}

uint32_t mnem__trace_name_of(mnem__trace_names *n, const mnem__event_key *key) {
    if (key->sort == MNEM__NAME_SITE) return site_of(n, key);
    char text[MNEM__NAME_TEXT];
    const char *whole = key->text;
    if (key->more) {
        snprintf(text, sizeof text, "%s %s", key->text, key->more);
        whole = text;
    }
    const wanted w = want((uint8_t)key->sort, key->owner, key->kind, whole);
    const uint32_t name = find_or_add(n, &w, 0);
    return name == MNEM__NAME_NONE && key->sort == MNEM__NAME_PLAIN ? 0 : name;
}

#if defined __SSE2__
/* strcmp's call takes longer than all else here. 16 bytes that begin 16 before a page's end can be
 * read whatever the text's length; texts that are kept have as many behind them, which another
 * thread may be writing, and which decide nothing. */
static __attribute__((no_sanitize("address", "thread"))) bool same_text(const char *kept,
                                                                        const char *text) {
    if (((uintptr_t)text & 4095) > 4096 - 16) return !strcmp(kept, text);
    const __m128i a = _mm_loadu_si128((const __m128i *)(const void *)kept);
    const __m128i b = _mm_loadu_si128((const __m128i *)(const void *)text);
    const uint32_t differs = ~(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(a, b)) & 0xffff;
    const uint32_t ends = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(a, _mm_setzero_si128()));
    if (ends) return !(differs & (ends ^ (ends - 1))); /* up to the end, with it */
    return !differs && !strcmp(kept + 16, text + 16);
}
#else
static bool same_text(const char *kept, const char *text) {
    return !strcmp(kept, text);
}
#endif

uint32_t mnem__trace_name_plain(mnem__trace_names *n, const char *text) {
    const uint64_t at = (uint64_t)(uintptr_t)text * UINT64_C(0x9E3779B97F4A7C15) >> 56;
    const uint32_t recent = atomic_load_explicit(&n->recent[at], memory_order_acquire);
    if (__builtin_expect(recent && same_text(mnem__trace_name_text(n, recent), text), 1))
        return recent;
    const mnem__event_key key = {.sort = MNEM__NAME_PLAIN, .text = text};
    const uint32_t name = mnem__trace_name_of(n, &key);
    atomic_store_explicit(&n->recent[at], name, memory_order_release);
    return name;
}

void mnem__trace_names_init(mnem__trace_names *n, uint32_t room, void *memory) {
    *n = (mnem__trace_names){.entry = memory, .room = room, .hash_bits = hash_bits(room)};
    pthread_mutex_init(&n->lock, NULL);
    n->hash = (_Atomic uint32_t *)(void *)(n->entry + room);
    n->accounts = (uint32_t *)(void *)n->hash + ((size_t)1 << n->hash_bits);
    n->texts = (char *)(n->accounts + room);
    n->text_room = room * TEXT_EACH;
    memcpy(n->texts, "others", 7);
    n->text_used = 7;
    n->count = 1;
}

void mnem__trace_names_fini(mnem__trace_names *n) {
    pthread_mutex_destroy(&n->lock);
}
