/* corpus_private.h: the cache file, and an open corpus.
 *
 *     [ cache_head | source, name ] ... | tokens ...        little endian
 *     0                                 head.header_bytes   .. end of file
 *
 * A name is padded with zeros to a multiple of 8 bytes. The header's checksum treats itself as 0
 * (corpus.c). A cache of rows (version 2) has, behind the tokens, the end of each row as a u64;
 * tokens that count for the loss have their highest bit set. */
#ifndef MNEM_SRC_TRAIN_DATA_CORPUS_PRIVATE_H
#define MNEM_SRC_TRAIN_DATA_CORPUS_PRIVATE_H

#include "base/error.h"
#include "base/file/checksum.h"
#include "mnem/corpus.h"
#include "text/text_reader.h"

#define MNEM__CORPUS_TAG     "corpus"
#define MNEM__CORPUS_MAGIC   "mnemtok"
#define MNEM__CORPUS_VERSION 1
#define MNEM__CORPUS_ROWS    2 /* the version of a cache of rows */

enum { MNEM__CORPUS_HEADER_MAX = 64 << 20, MNEM__CORPUS_BUFFER_BYTES = 1 << 18 };

typedef struct mnem__cache_head {
    char magic[8];
    uint32_t version, width;
    uint64_t header_bytes, header_checksum;
    uint64_t tokens, text_bytes, data_checksum, tokenizer;
    uint32_t vocab, sources;
} mnem__cache_head;
_Static_assert(sizeof(mnem__cache_head) == 72, "no padding");

typedef struct mnem__cache_source {
    mnem__text_stamp stamp;
    uint64_t name_bytes;
} mnem__cache_source;
_Static_assert(sizeof(mnem__cache_source) == 32, "no padding");

struct mnem_corpus {
    int fd;
    char *path;
    char *reason;
    mnem__cache_head head;
    uint64_t file_bytes;
    uint64_t rows, row_most; /* of a cache of rows */
    bool made;
};

/* The bit of a token that counts; 0: the cache is one text. */
static inline uint32_t mnem__cache_mark(const mnem__cache_head *h) {
    return h->version != MNEM__CORPUS_ROWS ? 0 : h->width == 2 ? 1u << 15 : 1u << 31;
}
/* The position of the index of rows. */
static inline uint64_t mnem__cache_index_at(const mnem__cache_head *h) {
    return h->header_bytes + h->tokens * h->width;
}

uint64_t mnem__cache_header_checksum(const void *header, uint64_t bytes);

/* ---- corpus.c ---- */
/* Whether the cache has rows, instead of one text. */
static inline bool mnem__corpus_has_rows(const mnem_corpus_options *options) {
    return options->rows.next && !options->rows.joined;
}
/* Identifies how files become tokens: the tokenizer's checksum, and the key of rows. */
uint64_t mnem__corpus_maker(const mnem_corpus_options *options);
mnem_status mnem__corpus_read_at(const mnem_corpus *corpus, uint64_t at, void *out, uint64_t n);
/* Like mnem_corpus_read, but a token that doesn't count is its complement, below zero. */
mnem_status mnem__corpus_read_marked(const mnem_corpus *corpus, uint64_t first, uint64_t count,
                                     int32_t *ids);

/* ---- corpus_rows.c ---- */
/* Counts the rows and finds the longest; MNEM_BAD_FILE: they don't cover the tokens. Adds the
 * index to sum, unless that is NULL. */
mnem_status mnem__corpus_rows_check(mnem_corpus *corpus, mnem__checksum *sum);

/* ---- corpus_make.c ---- */
mnem_status mnem__corpus_make(const mnem_corpus_options *options);

#endif
