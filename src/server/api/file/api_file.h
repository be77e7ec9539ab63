/* api_file.h: the digest, date and kind of a model's file, for clients of Ollama's API. */
#ifndef MNEM_SRC_SERVER_API_FILE_API_FILE_H
#define MNEM_SRC_SERVER_API_FILE_API_FILE_H

#include "mnem/tokenizer.h"
#include "server/api/file/sha256.h"

typedef struct api_file {
    /* Of the header (keys, vocabulary, tensors), the file's size, and some bytes of some tensors:
     * all of a large file would take minutes. Two files with one digest hold the same model,
     * unless one was forged. */
    char digest[SHA256_TEXT];
    int64_t modified;         /* seconds since 1970 began; 0: not known */
    int32_t modified_part;    /* nanoseconds of it */
    uint64_t bytes;           /* of all parts */
    const char *format;       /* "gguf" or "safetensors" */
    const char *architecture; /* "llama" */
    char parameters[16];      /* "1.5B" */
    char level[16];           /* "Q4_K_M" */
} api_file;

/* Reads a few hundred bytes of tensors; unreadable ones are skipped. tokenizer: NULL for a file
 * without a vocabulary, such as an adapter. */
void api_file_read(const mnem_model *model, const mnem_tokenizer *tokenizer, api_file *file);

#endif
