/* checksum.h: a 64-bit checksum of bytes, against damage (not against forgery).
 *
 * XXH64 with seed 0: the value depends neither on the machine nor on the division of the bytes into
 * calls. */
#ifndef MNEM_SRC_BASE_FILE_CHECKSUM_H
#define MNEM_SRC_BASE_FILE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

typedef struct mnem__checksum {
    uint64_t state[12];
} mnem__checksum;

void mnem__checksum_init(mnem__checksum *checksum);
void mnem__checksum_add(mnem__checksum *checksum, const void *bytes, size_t n);
/* The checksum of all bytes so far; more may follow. */
uint64_t mnem__checksum_get(const mnem__checksum *checksum);
/* The checksum of n bytes. */
uint64_t mnem__checksum_of(const void *bytes, size_t n);

#endif
