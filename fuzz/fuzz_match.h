/* fuzz_match.h: what every grammar that compiles must keep. */
#ifndef MNEM_FUZZ_FUZZ_MATCH_H
#define MNEM_FUZZ_FUZZ_MATCH_H

#include <stdint.h>
#include <stdlib.h>

#include "mnem/grammar.h"

#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

extern const mnem_grammar_options fuzz_match_limits;
void fuzz_match(mnem_grammar *grammar, const char *text, size_t n);

#endif
