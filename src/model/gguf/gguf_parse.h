/* gguf_parse.h: the parser of a GGUF header, which runs twice: to measure, then to fill. */
#ifndef MNEM_SRC_MODEL_GGUF_GGUF_PARSE_H
#define MNEM_SRC_MODEL_GGUF_GGUF_PARSE_H

#include "model/gguf/gguf.h"

/* One run over one part. */
typedef struct mnem__gguf_parse {
    mnem__cursor c;
    mnem_model *model; /* NULL: measure */
    bool keep_keys;    /* of the first part only */
    uint32_t part;
    uint32_t version, keys, tensors, first_tensor;
    uint64_t pool_used;
    uint64_t alignment, split_no, split_count, split_tensors;
} mnem__gguf_parse;

/* Reads the header at the cursor, which is open. The caller has set model, keep_keys, part and
 * first_tensor; pool_used goes on from the part before. MNEM_BAD_FILE, MNEM_UNSUPPORTED or
 * MNEM_IO. */
mnem_status mnem__gguf_parse_part(mnem__gguf_parse *parse);

/* What a file that isn't GGUF seems to be, by the n bytes that it begins with, and what to do:
 * "a zip archive, ...". Any bytes will do. */
enum { MNEM__MISTAKEN_TEXT = 160 };
void mnem__gguf_mistaken(const uint8_t *head, uint32_t n, char text[MNEM__MISTAKEN_TEXT]);

#endif
