/* gguf_forge.h: GGUF files made byte by byte, so that they can lie. */
#ifndef MNEM_TESTS_MODEL_GGUF_FORGE_H
#define MNEM_TESTS_MODEL_GGUF_FORGE_H

#include "mnem/model.h"

enum { FORGE_BYTES = 1 << 16 };

typedef struct forge {
    uint8_t bytes[FORGE_BYTES];
    size_t n;
} forge;

void forge_put(forge *f, const void *data, size_t n);
void forge_u32(forge *f, uint32_t number);
void forge_u64(forge *f, uint64_t number);
void forge_text(forge *f, const char *text);
/* "GGUF", version, counts. */
void forge_head(forge *f, uint32_t version, uint64_t tensors, uint64_t keys);
void forge_key_u32(forge *f, const char *key, uint32_t number);
void forge_key_text(forge *f, const char *key, const char *text);
/* A key with an array's head; the elements follow. */
void forge_key_array(forge *f, const char *key, uint32_t element, uint64_t count);
/* A declaration; shape as in the file, fastest first. */
void forge_tensor(forge *f, const char *name, uint32_t dims, const uint64_t *shape, uint32_t type,
                  uint64_t offset);
void forge_pad(forge *f, size_t alignment);
void forge_zeros(forge *f, size_t n);

void forge_write(const forge *f, const char *path);

#endif
