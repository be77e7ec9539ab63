/* sha256.h: SHA-256 (FIPS 180-4), for digests that clients see. */
#ifndef MNEM_SRC_SERVER_API_FILE_SHA256_H
#define MNEM_SRC_SERVER_API_FILE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_TEXT = 65 };

typedef struct sha256 {
    uint32_t state[8];
    uint64_t bytes; /* so far */
    unsigned char block[64];
} sha256;

void sha256_init(sha256 *digest);
void sha256_add(sha256 *digest, const void *bytes, size_t n);
/* Writes hexadecimal digits; digest can't be used afterwards. */
void sha256_end(sha256 *digest, char text[SHA256_TEXT]);

#endif
