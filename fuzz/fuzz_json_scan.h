/* fuzz_json_scan.h: whether a text is JSON, by its grammar (RFC 8259), without taking memory: a
 * third of what a fuzzed request cost went into building what a parser builds and freeing it. */
#ifndef MNEM_FUZZ_JSON_SCAN_H
#define MNEM_FUZZ_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

/* An object or an array, and nothing behind it; text[n] can be read. Strings are UTF-8, surrogates
 * come in pairs. */
bool json_scan(const char *text, size_t n);

#endif
