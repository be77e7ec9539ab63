/* gguf_split.c: the names of the parts of a split model: PREFIX-00001-of-00003.gguf, from 1. */
#include <stdio.h>
#include <string.h>

#include "model/gguf/gguf.h"

static void suffix(uint32_t part, uint32_t parts, char out[40]) {
    snprintf(out, 40, "-%05u-of-%05u.gguf", part + 1, parts);
}

size_t mnem__gguf_split_prefix(const char *path, uint32_t part, uint32_t parts) {
    char end[40];
    suffix(part, parts, end);
    size_t n = strlen(path), m = strlen(end);
    return n > m && strcmp(path + n - m, end) == 0 ? n - m : 0;
}

bool mnem__gguf_split_path(const char *path, size_t prefix, uint32_t part, uint32_t parts,
                           char *out, size_t n) {
    char end[40];
    suffix(part, parts, end);
    int length = snprintf(out, n, "%.*s%s", (int)prefix, path, end);
    return length >= 0 && (size_t)length < n;
}
