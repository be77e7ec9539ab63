/* site.c: tags and call sites as small numbers, bounded.
 *
 * The idea: three look-ups, from fast to sure. What was asked before is remembered by the addresses
 * of tag and file (inline, in site.h). Then the tag is found by its text, and the site by the
 * file's address. The same text at another address (a header's inline function in two objects) gets
 * a row that only points to the first.
 *
 *     recent: { tag's address, file's address, line } -> site
 *     keys:   [ . 3 . . 1 . 2 . ]       row + 1 by hash, 0 empty, open addressing
 *     sites:  0: others of kind 0 ...   { file, line, tag, stack | same | name | sum }
 *     number: kind 4 | tag 8 | row 20
 *
 * Invariant: at most 3/4 of the keys are used; a number's tag and kind are those of its row.
 * Cost: about 3 ns when it was asked before, otherwise 20; making a site walks all sites once. */
#include "alloc/track/site.h"

#include <string.h>
#include <unwind.h>

#include "base/error.h"
#include "base/heap.h"

enum { KEYS_FIRST = 128, STACKS_MAX = 4096, SITES_MOST = (1 << MNEM__SITE_ROW_BITS) - 1024 };
#define NOBODY UINT32_MAX /* no number of a site: there is no such kind */

/* ---- tags ---- */

/* A hash of a short text: its words, the last one overlapping. */
static uint32_t tag_hash(mnem_kind kind, const char *text, size_t n) {
    uint64_t a = 0, b = 0, h = ((uint64_t)kind << 8 | n) * UINT64_C(0x9E3779B97F4A7C15);
    if (n >= 8) {
        for (size_t i = 8; i < n; i += 8) {
            memcpy(&a, text + i - 8, 8);
            h = (h ^ a) * UINT64_C(0xD6E8FEB86659FD93);
            h ^= h >> 32;
        }
        memcpy(&b, text + n - 8, 8);
    } else if (n >= 4) {
        memcpy(&a, text, 4);
        memcpy(&b, text + n - 4, 4);
        b ^= a << 32;
    } else if (n) {
        b = (uint64_t)(uint8_t)text[0] << 16 | (uint64_t)(uint8_t)text[n / 2] << 8 |
            (uint8_t)text[n - 1];
    }
    h = (h ^ b) * UINT64_C(0xD6E8FEB86659FD93);
    return (uint32_t)(h >> 32);
}

/* A row for a site, without a key; same 0: its own. Returns its row, UINT32_MAX: no memory. */
static uint32_t site_add(mnem__sites *s, const mnem__site *site, mnem_kind kind) {
    uint32_t id = s->site_count;
    if (!mnem__rows_reserve(&s->sites, sizeof *site, id + 1)) return UINT32_MAX;
    mnem__site *row = mnem__site_at(s, id);
    *row = *site;
    if (row->same == NOBODY)
        row->same = (uint32_t)kind << 28 | site->tag << MNEM__SITE_ROW_BITS | id;
    s->site_count++;
    return id;
}

static void tag_key_put(mnem__sites *s, uint32_t tag) {
    const mnem__tag *row = mnem__tag_at(s, tag);
    uint32_t i = tag_hash(row->kind, row->text, row->text_bytes);
    while (s->tag_keys[i % MNEM__TAG_KEYS]) i++;
    s->tag_keys[i % MNEM__TAG_KEYS] = (uint16_t)(tag + 1);
}

/* A tag and its site for others: both or none. */
static mnem_status tag_add(mnem__sites *s, mnem_kind kind, const char *text, uint32_t *tag) {
    uint32_t id = s->tag_count;
    if (!mnem__rows_reserve(&s->tags, sizeof(mnem__tag), id + 1)) return mnem__heap_status();
    uint32_t others = site_add(s, &(mnem__site){.tag = id, .same = NOBODY}, kind);
    if (others == UINT32_MAX) return mnem__heap_status();
    mnem__tag *row = mnem__tag_at(s, id);
    *row = (mnem__tag){.kind = kind,
                       .others = mnem__site_at(s, others)->same,
                       .text_bytes = (uint32_t)strnlen(text, MNEM__TAG_TEXT)};
    memcpy(row->text, text, row->text_bytes);
    s->tag_count++;
    tag_key_put(s, id);
    *tag = id;
    return MNEM_OK;
}

static mnem_status tag_make(mnem__sites *s, mnem_kind kind, const char *text, uint32_t *tag) {
    if ((unsigned)kind >= MNEM_KIND_COUNT || !text || !*text)
        return mnem__fail(MNEM_INVALID,
                          "track: kind %d or tag %s is invalid: expected a constant of mnem_kind "
                          "and a text that isn't empty",
                          (int)kind, text ? "\"\"" : "NULL");
    if (s->tag_count < MNEM__TAGS_MAX) return tag_add(s, kind, text, tag);
    *tag = (uint32_t)kind;
    s->lost++;
    return MNEM_OK;
}

mnem_status mnem__tag_of(mnem__sites *s, mnem_kind kind, const char *text, uint32_t *tag) {
    size_t n = text ? strnlen(text, MNEM__TAG_TEXT) : 0;
    for (uint32_t i = tag_hash(kind, text, n);; i++) {
        uint32_t key = s->tag_keys[i % MNEM__TAG_KEYS];
        if (!key) return tag_make(s, kind, text, tag);
        const mnem__tag *row = mnem__tag_at(s, key - 1);
        if (row->text_bytes != n || row->kind != kind || memcmp(row->text, text, n) != 0) continue;
        *tag = key - 1;
        return MNEM_OK;
    }
}

/* ---- sites ---- */

static uint32_t key_hash(uint32_t tag, const char *file, uint32_t line, uint32_t stack) {
    uint64_t h = ((uintptr_t)file ^ (uint64_t)line << 40) + tag * UINT64_C(0x9E3779B97F4A7C15) +
                 stack * UINT64_C(0xD6E8FEB86659FD93);
    h = (h ^ h >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return (uint32_t)(h >> 32);
}

static void key_put(mnem__sites *s, uint32_t site) {
    const mnem__site *row = mnem__site_at(s, site);
    uint32_t i = key_hash(row->tag, row->file, row->line, row->stack);
    while (s->keys[i & s->key_mask]) i++;
    s->keys[i & s->key_mask] = site + 1;
}

/* Room for one more key; rows that have none (others) count too, which only makes it earlier. */
static bool keys_reserve(mnem__sites *s) {
    uint32_t size = s->key_mask + 1;
    if ((s->site_count + 1) * 4 <= size * 3) return true;
    uint32_t *keys = mnem__calloc("track", (size_t)size * 2, sizeof *keys);
    if (!keys) return false;
    uint32_t *old = s->keys;
    s->keys = keys;
    s->key_mask = size * 2 - 1;
    for (uint32_t i = 0; i < size; i++)
        if (old[i]) key_put(s, old[i] - 1);
    mnem__free(old);
    return true;
}

/* The library's copy of a file's name; NULL: no memory. */
static const char *file_name(mnem__sites *s, const char *file) {
    for (const mnem__file *f = s->files; f; f = f->next)
        if (!strcmp(f->name, file)) return f->name;
    size_t bytes = strlen(file) + 1;
    mnem__file *f = mnem__alloc("track", sizeof *f + bytes);
    if (!f) return NULL;
    memcpy(f->name, file, bytes);
    f->next = s->files;
    s->files = f;
    return f->name;
}

/* The number of a site with the same text, by the one copy of its name; NOBODY: none. */
static uint32_t site_same(const mnem__sites *s, const mnem__site *wanted) {
    for (uint32_t i = 0; i < s->site_count; i++) {
        const mnem__site *row = mnem__site_at(s, i);
        if (row->name == wanted->name && row->line == wanted->line && row->tag == wanted->tag &&
            row->stack == wanted->stack && mnem__site_row(row->same) == i)
            return row->same;
    }
    return NOBODY;
}

/* Makes the site, or finds it under another address of the same text. */
static uint32_t site_make(mnem__sites *s, uint32_t tag, const char *file, uint32_t line,
                          uint32_t stack) {
    const mnem__tag *of = mnem__tag_at(s, tag);
    if (!file && !stack) return of->others;
    mnem__site site = {.file = file, .line = line, .tag = tag, .stack = stack};
    uint32_t id = NOBODY;
    if (s->site_count < s->site_max && keys_reserve(s) &&
        (!file || (site.name = file_name(s, file)))) {
        site.same = site_same(s, &site);
        id = site_add(s, &site, of->kind);
    }
    if (id == NOBODY) {
        s->lost++;
        return of->others;
    }
    key_put(s, id);
    return mnem__site_at(s, id)->same;
}

uint32_t mnem__site_of(mnem__sites *s, uint32_t tag, const char *file, uint32_t line,
                       uint32_t stack) {
    for (uint32_t i = key_hash(tag, file, line, stack);; i++) {
        const uint32_t key = s->keys[i & s->key_mask];
        if (!key) return site_make(s, tag, file, line, stack);
        const mnem__site *site = mnem__site_at(s, key - 1);
        if (site->file == file && site->line == line && site->tag == tag && site->stack == stack)
            return site->same;
    }
}

static bool recent_is(const mnem__sites *s, const mnem__site_recent *e,
                      const mnem__site_recent *wanted) {
    return wanted->text && e->text == wanted->text && e->file == wanted->file &&
           e->line == wanted->line && e->kind == wanted->kind && e->stack == wanted->stack &&
           !strncmp(mnem__tag_at(s, mnem__site_tag(e->site))->text, wanted->text, MNEM__TAG_TEXT);
}

/* The entry beside holds what was remembered in this one before. */
mnem_status mnem__site_search(mnem__sites *s, const mnem__site_recent *wanted,
                              mnem__site_recent *entry, uint32_t *site) {
    mnem__site_recent *beside = &s->recent[(entry - s->recent) ^ 1];
    const mnem__site_recent before = *entry;
    if (recent_is(s, beside, wanted)) {
        *site = beside->site;
    } else {
        uint32_t tag;
        MNEM__TRY(mnem__tag_of(s, wanted->kind, wanted->text, &tag));
        *site = mnem__site_of(s, tag, wanted->file, wanted->line, wanted->stack);
    }
    *entry = *wanted;
    entry->site = *site;
    *beside = before;
    return MNEM_OK;
}

/* ---- backtraces ---- */

typedef struct capture {
    const void *frames[MNEM__FRAMES_MAX];
    uint32_t count, max;
    const void *from; /* NULL: met */
} capture;

static _Unwind_Reason_Code capture_frame(struct _Unwind_Context *context, void *to) {
    capture *c = to;
    const void *address = (const void *)(uintptr_t)_Unwind_GetIP(context);
    if (!address || c->count == c->max) return _URC_END_OF_STACK;
    if (address == c->from) c->from = NULL;
    if (!c->from) c->frames[c->count++] = address;
    return _URC_NO_REASON;
}

static uint32_t capture_hash(const capture *c) {
    uint64_t h = c->count;
    for (uint32_t i = 0; i < c->count; i++)
        h = (h ^ (uintptr_t)c->frames[i]) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(h >> 32);
}

static mnem__stack **stack_at(const mnem__sites *s, uint32_t stack) {
    return mnem__row(&s->stacks, sizeof(mnem__stack *), stack);
}

static uint32_t stack_add(mnem__sites *s, const capture *c, uint32_t hash) {
    size_t bytes = c->count * sizeof *c->frames;
    if (s->stack_count >= s->stack_max ||
        !mnem__rows_reserve(&s->stacks, sizeof(mnem__stack *), s->stack_count + 1))
        return 0;
    mnem__stack *stack = mnem__alloc("track", sizeof *stack + bytes);
    if (!stack) return 0;
    stack->hash = hash;
    stack->frame_count = c->count;
    memcpy(stack->frames, c->frames, bytes);
    *stack_at(s, s->stack_count) = stack;
    return s->stack_count++;
}

uint32_t mnem__stack_capture(mnem__sites *s, uint32_t frame_max, const void *from) {
    capture c = {.max = frame_max < MNEM__FRAMES_MAX ? frame_max : MNEM__FRAMES_MAX,
                 .from = from ? from : __builtin_return_address(0)};
    if (!c.max) return 0;
    _Unwind_Backtrace(capture_frame, &c);
    if (!c.count) return 0;
    uint32_t hash = capture_hash(&c);
    for (uint32_t i = 1; i < s->stack_count; i++) {
        const mnem__stack *stack = *stack_at(s, i);
        if (stack->hash == hash && stack->frame_count == c.count &&
            !memcmp(stack->frames, c.frames, c.count * sizeof *c.frames))
            return i;
    }
    return stack_add(s, &c, hash);
}

const void *const *mnem__stack_frames(const mnem__sites *s, uint32_t stack, uint32_t *count) {
    const mnem__stack *row = stack ? *stack_at(s, stack) : NULL;
    *count = row ? row->frame_count : 0;
    return row ? row->frames : NULL;
}

/* ---- init and fini ---- */

mnem_status mnem__sites_init(mnem__sites *s, uint32_t site_max) {
    if (!site_max) site_max = MNEM__SITES_MAX_DEFAULT;
    *s = (mnem__sites){.site_max = site_max < SITES_MOST ? site_max : SITES_MOST,
                       .stack_max = STACKS_MAX,
                       .stack_count = 1,
                       .key_mask = KEYS_FIRST - 1};
    s->keys = mnem__calloc("track", KEYS_FIRST, sizeof *s->keys);
    mnem_status status = s->keys ? MNEM_OK : mnem__heap_status();
    uint32_t tag;
    for (unsigned kind = 0; kind < MNEM_KIND_COUNT && status == MNEM_OK; kind++)
        status = tag_add(s, (mnem_kind)kind, "others", &tag);
    if (status != MNEM_OK) mnem__sites_fini(s);
    return status;
}

void mnem__sites_fini(mnem__sites *s) {
    for (uint32_t i = 1; i < s->stack_count; i++) mnem__free(*stack_at(s, i));
    for (mnem__file *f = s->files, *next; f; f = next) {
        next = f->next;
        mnem__free(f);
    }
    mnem__rows_free(&s->stacks);
    mnem__rows_free(&s->sites);
    mnem__rows_free(&s->tags);
    mnem__free(s->keys);
    *s = (mnem__sites){0};
}
