/* corpus_private.h: the cache file, and an open corpus.
 *
 *     [ cache_head | source, name ] ... | tokens ...        little endian
 *     0                                 head.header_bytes   .. end of file
 *
 * A name is padded with zeros to a multiple of 8 bytes. The header's checksum counts itself as 0
 * (corpus.c). */
#ifndef MNEM_SRC_TRAIN_DATA_CORPUS_PRIVATE_H
#define MNEM_SRC_TRAIN_DATA_CORPUS_PRIVATE_H

#include "base/error.h"
#include "mnem/corpus.h"
#include "model/text/text_reader.h"

#define MNEM__CORPUS_TAG     "corpus"
#define MNEM__CORPUS_MAGIC   "mnemtok"
#define MNEM__CORPUS_VERSION 1

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
    bool made;
};

uint64_t mnem__cache_header_checksum(const void *header, uint64_t bytes);

/* ---- corpus_make.c ---- */
mnem_status mnem__corpus_make(const mnem_corpus_options *options);

#endif
