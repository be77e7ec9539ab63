/* gguf_forge.c: see gguf_forge.h. */
#include "model/gguf_forge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *what) {
    perror(what);
    abort();
}

void forge_put(forge *f, const void *data, size_t n) {
    if (f->n + n > FORGE_BYTES) die("forge: full");
    if (n) memcpy(f->bytes + f->n, data, n);
    f->n += n;
}

void forge_u32(forge *f, uint32_t number) {
    forge_put(f, &number, sizeof number);
}

void forge_u64(forge *f, uint64_t number) {
    forge_put(f, &number, sizeof number);
}

void forge_text(forge *f, const char *text) {
    forge_u64(f, strlen(text));
    forge_put(f, text, strlen(text));
}

void forge_head(forge *f, uint32_t version, uint64_t tensors, uint64_t keys) {
    f->n = 0;
    forge_put(f, "GGUF", 4);
    forge_u32(f, version);
    forge_u64(f, tensors);
    forge_u64(f, keys);
}

void forge_key_u32(forge *f, const char *key, uint32_t number) {
    forge_text(f, key);
    forge_u32(f, MNEM_VALUE_U32);
    forge_u32(f, number);
}

void forge_key_text(forge *f, const char *key, const char *text) {
    forge_text(f, key);
    forge_u32(f, MNEM_VALUE_STRING);
    forge_text(f, text);
}

void forge_key_array(forge *f, const char *key, uint32_t element, uint64_t count) {
    forge_text(f, key);
    forge_u32(f, MNEM_VALUE_ARRAY);
    forge_u32(f, element);
    forge_u64(f, count);
}

void forge_tensor(forge *f, const char *name, uint32_t dims, const uint64_t *shape, uint32_t type,
                  uint64_t offset) {
    forge_text(f, name);
    forge_u32(f, dims);
    for (uint32_t i = 0; i < dims && i < 8; i++) forge_u64(f, shape[i]);
    forge_u32(f, type);
    forge_u64(f, offset);
}

void forge_pad(forge *f, size_t alignment) {
    while (f->n % alignment) forge_put(f, "", 1);
}

void forge_zeros(forge *f, size_t n) {
    for (size_t i = 0; i < n; i++) forge_put(f, "", 1);
}

void forge_write(const forge *f, const char *path) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(f->bytes, 1, f->n, file) != f->n || fclose(file)) die(path);
}
