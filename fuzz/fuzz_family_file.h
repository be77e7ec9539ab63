/* fuzz_family_file.h: a model of some family, with lies that an input chooses. */
#ifndef MNEM_FUZZ_FUZZ_FAMILY_FILE_H
#define MNEM_FUZZ_FUZZ_FAMILY_FILE_H

#include <stddef.h>
#include <stdint.h>

/* The file of family number `family`, of any number, with edits of four bytes each out of data;
 * what is left over doesn't count. *bytes is borrowed until the next call.
 *
 *     what, which, a, b    what % FAMILY_EDITS says what is done to key or tensor number `which` */
size_t fuzz_family_file(uint8_t family, const uint8_t *data, size_t n, const uint8_t **bytes);

#endif
