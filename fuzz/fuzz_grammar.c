/* fuzz_grammar.c: any bytes as a grammar and, behind a zero, a text.
 *
 * What compiles must match as it promises: a text fits byte by byte as it does at once, and what
 * may still go on can: one of all bytes does, or it may end. What doesn't compile must say so.
 *
 *     fuzz_grammar -max_len=2048 -dict=fuzz/gbnf.dict NEW_FOLDER fuzz/corpus/grammar */
#include <string.h>

#include "fuzz_match.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const size_t length = n ? strnlen((const char *)data, n) : 0;
    const size_t from = length < n ? length + 1 : n;
    mnem_grammar *grammar = NULL;
    const mnem_status status =
        mnem_grammar_create(NULL, (const char *)data, length, &fuzz_match_limits, &grammar);
    if (status == MNEM_OK)
        fuzz_match(grammar, (const char *)data + from, n - from);
    else
        FUZZ_CHECK(!grammar && strstr(mnem_last_error(), "grammar: "));
    mnem_grammar_destroy(grammar);
    return 0;
}
