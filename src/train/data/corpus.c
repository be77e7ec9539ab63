/* corpus.c: opens the cache of tokens if it is valid for the text, otherwise has it made; reads
 * it.
 *
 * The idea: the checks build on one another: first the file's size against the numbers of its
 * header, then the header's checksum, then whether it was made from these files with this
 * tokenizer, finally every token. Invariant: of an open corpus, file_bytes = header_bytes +
 * tokens * width; reads fail with a message if the file became shorter. Nothing is mapped: pages
 * of files would count as resident. Cost: opening reads the file once, at the speed of the disk;
 * reading is one pread for 64 KiB. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/file/checksum.h"
#include "base/file/file_bytes.h"
#include "base/heap.h"
#include "base/progress.h"
#include "mnem/tokenizer.h"
#include "train/data/corpus_private.h"

enum { READ_BYTES = 4096 };

/* ---- bytes ---- */

mnem_status mnem__corpus_read_at(const mnem_corpus *c, uint64_t at, void *out, uint64_t n) {
    const uint64_t got = mnem__file_read_at(c->fd, out, n, at);
    if (got == n) return MNEM_OK;
    return mnem__fail(MNEM_IO, "%s: %llu bytes at %llu can't be read (%s)", c->path,
                      (unsigned long long)(n - got), (unsigned long long)(at + got),
                      errno ? strerrordesc_np(errno) : "another program made the file shorter");
}

/* The checksum of the header with its own field set to zero. */
uint64_t mnem__cache_header_checksum(const void *header, uint64_t bytes) {
    mnem__cache_head head;
    mnem__checksum sum;
    memcpy(&head, header, sizeof head);
    head.header_checksum = 0;
    mnem__checksum_init(&sum);
    mnem__checksum_add(&sum, &head, sizeof head);
    mnem__checksum_add(&sum, (const char *)header + sizeof head, bytes - sizeof head);
    return mnem__checksum_get(&sum);
}

/* ---- the header ---- */

static mnem_status damaged(const mnem_corpus *c, const char *what) {
    return mnem__fail(MNEM_BAD_FILE, "%s: %s", c->path, what);
}

/* Checks that the numbers agree with each other and with the file's size. */
static mnem_status check_head(const mnem_corpus *c) {
    const mnem__cache_head *h = &c->head;
    uint64_t data, all;
    if (memcmp(h->magic, MNEM__CORPUS_MAGIC, sizeof h->magic) != 0)
        return damaged(c, "the file is not a token cache of mnem; give another path");
    const bool rows = h->version == MNEM__CORPUS_ROWS;
    if (h->version != MNEM__CORPUS_VERSION && !rows)
        return damaged(
            c, "the token cache is from another version of mnem; give its text to make it again");
    if (h->width != 2 && h->width != 4)
        return damaged(
            c,
            "the width of tokens is unknown: the cache is damaged; give its text to make it again");
    if (h->header_bytes < sizeof *h || h->header_bytes > MNEM__CORPUS_HEADER_MAX)
        return damaged(c, "the size of the header is wrong: the cache is damaged; give its text to "
                          "make it again");
    if (!mnem__mul_u64(h->tokens, h->width, &data) || !mnem__add_u64(data, h->header_bytes, &all) ||
        (rows ? all > c->file_bytes || (c->file_bytes - all) % sizeof(uint64_t)
              : all != c->file_bytes))
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: the file has %llu bytes, but its header says %llu tokens of %u "
                          "bytes: the cache is damaged; give its text to make it again",
                          c->path, (unsigned long long)c->file_bytes, (unsigned long long)h->tokens,
                          h->width);
    if (h->tokens == 0 || h->vocab == 0 || h->vocab > INT32_MAX)
        return damaged(c, "the number of tokens or the size of the vocabulary is invalid: the "
                          "cache is damaged; give its text to make it again");
    return MNEM_OK;
}

static mnem_status stale(const mnem_corpus *c, const char *name, const char *what) {
    return mnem__fail(MNEM_NOT_READY,
                      "%s: the token cache was made from other text: %s %s (another size or time)",
                      c->path, name, what);
}

/* Reads the next source of the header from [*at, end); false: it is missing. */
static bool next_source(const char **at, const char *end, mnem__cache_source *source,
                        mnem_text *name) {
    if ((size_t)(end - *at) < sizeof *source) return false;
    memcpy(source, *at, sizeof *source);
    *at += sizeof *source;
    const uint64_t left = (uint64_t)(end - *at);
    if (source->name_bytes > left || mnem__align_up(source->name_bytes, 8) > left) return false;
    *name = (mnem_text){*at, source->name_bytes};
    *at += mnem__align_up(source->name_bytes, 8);
    return true;
}

static mnem_status compare_source(const mnem_corpus *c, const mnem__cache_source *source,
                                  mnem_text name, const char *path) {
    mnem__text_stamp stamp;
    MNEM__TRY(mnem__text_stamp_get(path, &stamp));
    if (name.length != strlen(path) || memcmp(name.bytes, path, name.length) != 0)
        return stale(c, path, "is new");
    return memcmp(&stamp, &source->stamp, sizeof stamp) == 0 ? MNEM_OK
                                                             : stale(c, path, "has changed");
}

/* A cache may be opened without naming its files (count 0): then its sources are only parsed, to
 * check that the header is complete. */
static mnem_status check_sources(const mnem_corpus *c, const mnem_corpus_options *o,
                                 const char *header) {
    const char *at = header + sizeof c->head, *end = header + c->head.header_bytes;
    mnem_status status = MNEM_OK;
    for (uint32_t i = 0; i < c->head.sources && status == MNEM_OK; i++) {
        mnem__cache_source source;
        mnem_text name;
        if (!next_source(&at, end, &source, &name))
            return damaged(c, "a source in the header is cut off: the cache is damaged; give its "
                              "text to make it again");
        if (i < o->count) status = compare_source(c, &source, name, o->files[i]);
    }
    if (status == MNEM_OK && at != end)
        status = damaged(c, "the header is longer than its sources: the cache is damaged; give its "
                            "text to make it again");
    if (status == MNEM_OK && o->count > 0 && o->count != c->head.sources)
        status = mnem__fail(MNEM_NOT_READY,
                            "%s: the token cache was made from %u file%s, but %zu are given now",
                            c->path, c->head.sources, c->head.sources == 1 ? "" : "s", o->count);
    return status;
}

static mnem_status check_header(const mnem_corpus *c, const mnem_corpus_options *o) {
    char *header = mnem__alloc(MNEM__CORPUS_TAG, c->head.header_bytes);
    if (!header) return mnem__heap_status();
    mnem_status status = mnem__corpus_read_at(c, 0, header, c->head.header_bytes);
    if (status == MNEM_OK &&
        mnem__cache_header_checksum(header, c->head.header_bytes) != c->head.header_checksum)
        status = damaged(c, "the header of the cache is damaged; give its text to make it again");
    if (status == MNEM_OK) status = check_sources(c, o, header);
    mnem__free(header);
    if (status == MNEM_OK && (c->head.version == MNEM__CORPUS_ROWS) != mnem__corpus_has_rows(o) &&
        o->count > 0)
        status = mnem__fail(
            MNEM_NOT_READY,
            mnem__corpus_has_rows(o)
                ? "%s: the token cache was made from plain text, but rows of tokens are given now"
                : "%s: the token cache was made from rows of tokens, but plain text is given now",
            c->path);
    if (status == MNEM_OK && o->tokenizer && mnem__corpus_maker(o) != c->head.tokenizer)
        status = mnem__fail(MNEM_NOT_READY, "%s: the token cache was made with another tokenizer%s",
                            c->path, mnem__corpus_has_rows(o) ? " or template" : "");
    return status;
}

/* ---- the tokens ---- */

/* Widens n tokens; returns the number of tokens up to the first that isn't in the vocabulary.
 * marked: tokens without a mark become their complement. */
static uint64_t widen(const mnem_corpus *c, const uint8_t *raw, uint64_t n, bool marked,
                      int32_t *ids) {
    const uint32_t mark = mnem__cache_mark(&c->head);
    for (uint64_t i = 0; i < n; i++) {
        uint16_t narrow;
        uint32_t id;
        if (c->head.width == 2) {
            memcpy(&narrow, raw + 2 * i, 2);
            id = narrow;
        } else {
            memcpy(&id, raw + 4 * i, 4);
        }
        const bool counted = !marked || (id & mark);
        id &= ~mark;
        if (id >= c->head.vocab) return i;
        ids[i] = counted ? (int32_t)id : ~(int32_t)id;
    }
    return n;
}

static mnem_status bad_id(const mnem_corpus *c, uint64_t index) {
    return mnem__fail(
        MNEM_BAD_FILE,
        "%s: token number %llu (from 0), at byte %llu, has an id outside the vocabulary "
        "of %u: the cache is damaged; open it with its text files to make it again",
        c->path, (unsigned long long)index,
        (unsigned long long)(c->head.header_bytes + index * c->head.width), c->head.vocab);
}

static mnem_status read_tokens(const mnem_corpus *c, uint64_t first, uint64_t count, bool marked,
                               int32_t *ids) {
    uint8_t raw[READ_BYTES];
    if (first > c->head.tokens || count > c->head.tokens - first)
        return mnem__fail(MNEM_INVALID,
                          "%s: can't read %llu tokens from token %llu on, because the token cache "
                          "has %llu tokens",
                          c->path, (unsigned long long)count, (unsigned long long)first,
                          (unsigned long long)c->head.tokens);
    while (count > 0) {
        const uint64_t most = sizeof raw / c->head.width, n = count < most ? count : most;
        MNEM__TRY(mnem__corpus_read_at(c, c->head.header_bytes + first * c->head.width, raw,
                                       n * c->head.width));
        const uint64_t good = widen(c, raw, n, marked, ids);
        if (good < n) return bad_id(c, first + good);
        first += n;
        count -= n;
        ids += n;
    }
    return MNEM_OK;
}

mnem_status mnem_corpus_read(const mnem_corpus *c, uint64_t first, uint64_t count, int32_t *ids) {
    return read_tokens(c, first, count, false, ids);
}

mnem_status mnem__corpus_read_marked(const mnem_corpus *c, uint64_t first, uint64_t count,
                                     int32_t *ids) {
    return read_tokens(c, first, count, true, ids);
}

/* The first of n tokens that isn't in the vocabulary, or n. */
static uint64_t find_bad(const mnem_corpus *c, const uint8_t *raw, uint64_t n) {
    uint32_t most = 0;
    const uint32_t bits = ~mnem__cache_mark(&c->head);
    const uint16_t *narrow = (const void *)raw;
    const uint32_t *wide = (const void *)raw;
    if (c->head.width == 2)
        for (uint64_t i = 0; i < n; i++) most = (narrow[i] & bits) > most ? narrow[i] & bits : most;
    else
        for (uint64_t i = 0; i < n; i++) most = (wide[i] & bits) > most ? wide[i] & bits : most;
    if (most < c->head.vocab) return n;
    for (uint64_t i = 0;; i++)
        if (((c->head.width == 2 ? narrow[i] : wide[i]) & bits) >= c->head.vocab) return i;
}

static mnem_status verify(mnem_corpus *c, const mnem_corpus_options *o, uint8_t *buffer) {
    const uint64_t bytes = c->head.tokens * c->head.width;
    mnem_status status = MNEM_OK;
    mnem__checksum sum;
    mnem__checksum_init(&sum);
    for (uint64_t at = 0, n; at < bytes && status == MNEM_OK; at += n) {
        n = bytes - at < MNEM__CORPUS_BUFFER_BYTES ? bytes - at : MNEM__CORPUS_BUFFER_BYTES;
        status = mnem__corpus_read_at(c, c->head.header_bytes + at, buffer, n);
        if (status != MNEM_OK) return status;
        mnem__checksum_add(&sum, buffer, n);
        const uint64_t count = n / c->head.width, bad = find_bad(c, buffer, count);
        if (bad < count) return bad_id(c, at / c->head.width + bad);
        if (!mnem__progress_tell(&o->progress, "verifying", at + n, bytes))
            return mnem__fail(MNEM_CANCELLED, "%s: stopped by the caller", c->path);
    }
    if (c->head.version == MNEM__CORPUS_ROWS) MNEM__TRY(mnem__corpus_rows_check(c, &sum));
    return mnem__checksum_get(&sum) == c->head.data_checksum
               ? MNEM_OK
               : damaged(c, "the tokens of the cache are damaged (their checksum differs); give "
                            "its text to make it again");
}

static mnem_status check_tokens(mnem_corpus *c, const mnem_corpus_options *o) {
    uint8_t *buffer = mnem__alloc(MNEM__CORPUS_TAG, MNEM__CORPUS_BUFFER_BYTES);
    if (!buffer) return mnem__heap_status();
    const mnem_status status = verify(c, o, buffer);
    mnem__free(buffer);
    return status;
}

/* ---- life ---- */

uint64_t mnem__corpus_maker(const mnem_corpus_options *o) {
    const uint64_t tokenizer = mnem_tokenizer_checksum(o->tokenizer);
    return o->rows.next ? tokenizer ^ o->rows.key : tokenizer;
}

static mnem_status open_file(mnem_corpus *c) {
    struct stat st;
    c->fd = open(c->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (c->fd < 0 && errno == ENOENT)
        return mnem__fail(MNEM_NOT_FOUND, "%s: there is no token cache yet", c->path);
    if (c->fd < 0) return mnem__file_fail(c->path, "be opened");
    if (fstat(c->fd, &st) != 0) return mnem__file_fail(c->path, "be examined");
    if (!S_ISREG(st.st_mode))
        return mnem__fail(MNEM_INVALID,
                          S_ISDIR(st.st_mode) ? "%s is a folder, expected the file of a token cache"
                                              : "%s is not a regular file, expected the file of a "
                                                "token cache: remove it, or give another path",
                          c->path);
    c->file_bytes = (uint64_t)st.st_size;
    if (c->file_bytes < sizeof c->head)
        return damaged(c, "the file is too short for a cache of tokens, so it is damaged or of "
                          "another kind; delete it, or give another path");
    return mnem__corpus_read_at(c, 0, &c->head, sizeof c->head);
}

/* checked: this call has just written the tokens. */
static mnem_status load(const mnem_corpus_options *o, bool checked, mnem_corpus **corpus) {
    mnem_corpus *c = mnem__calloc(MNEM__CORPUS_TAG, 1, sizeof *c);
    if (!c) return mnem__heap_status();
    c->fd = -1;
    c->path = mnem__strndup(MNEM__CORPUS_TAG, o->cache, strlen(o->cache));
    mnem_status status = c->path ? open_file(c) : mnem__heap_status();
    if (status == MNEM_OK) status = check_head(c);
    if (status == MNEM_OK) status = check_header(c, o);
    if (status == MNEM_OK && !checked) status = check_tokens(c, o);
    if (status == MNEM_OK && checked && c->head.version == MNEM__CORPUS_ROWS)
        status = mnem__corpus_rows_check(c, NULL);
    if (status != MNEM_OK) {
        mnem_corpus_close(c);
        return status;
    }
    *corpus = c;
    return MNEM_OK;
}

/* Keeps the reason why the old cache is invalid for mnem_corpus_info, before making a new one
 * replaces the last error. */
static mnem_status make(const mnem_corpus_options *o, mnem_corpus **corpus) {
    const char *why = mnem_last_error();
    char *reason = mnem__strndup(MNEM__CORPUS_TAG, why, strlen(why));
    if (!reason) return mnem__heap_status();
    mnem_status status = mnem__corpus_make(o);
    if (status == MNEM_OK) status = load(o, true, corpus);
    if (status != MNEM_OK) {
        mnem__free(reason);
        return status;
    }
    (*corpus)->reason = reason;
    (*corpus)->made = true;
    return MNEM_OK;
}

mnem_status mnem_corpus_open(const mnem_corpus_options *o, mnem_corpus **corpus) {
    *corpus = NULL;
    if (!o->cache || !*o->cache)
        return mnem__fail(MNEM_INVALID, "corpus: options.cache, the path of the cache, is missing");
    if (o->count > 0 && !o->tokenizer)
        return mnem__fail(MNEM_INVALID, "corpus: options.tokenizer is missing");
    const mnem_status status = load(o, false, corpus);
    const bool fits = status != MNEM_NOT_FOUND && status != MNEM_BAD_FILE &&
                      status != MNEM_NOT_READY; /* or an error that a new cache can't fix */
    return fits || o->count == 0 ? status : make(o, corpus);
}

void mnem_corpus_close(mnem_corpus *c) {
    if (!c) return;
    if (c->fd >= 0) close(c->fd);
    mnem__free(c->path);
    mnem__free(c->reason);
    mnem__free(c);
}

void mnem_corpus_info_get(const mnem_corpus *c, mnem_corpus_info *info) {
    *info = (mnem_corpus_info){.tokens = c->head.tokens,
                               .text_bytes = c->head.text_bytes,
                               .file_bytes = c->file_bytes,
                               .checksum = c->head.data_checksum,
                               .files = c->head.sources,
                               .width = c->head.width,
                               .rows = c->rows,
                               .row_most = c->row_most,
                               .vocab = (int32_t)c->head.vocab,
                               .made = c->made,
                               .reason = c->reason ? c->reason : ""};
}
