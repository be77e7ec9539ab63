/* fuzz_schema.c: any bytes as a JSON schema and, behind a zero, a text: as fuzz_grammar.
 *
 *     fuzz_schema -max_len=2048 -dict=fuzz/schema.dict NEW_FOLDER fuzz/corpus/schema */
#include <string.h>

#include "fuzz_match.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const size_t length = n ? strnlen((const char *)data, n) : 0;
    const size_t from = length < n ? length + 1 : n;
    mnem_grammar *grammar = NULL;
    const mnem_status status =
        mnem_grammar_create_schema(NULL, (const char *)data, length, &fuzz_match_limits, &grammar);
    if (status == MNEM_OK)
        fuzz_match(grammar, (const char *)data + from, n - from);
    else
        FUZZ_CHECK(!grammar && (strstr(mnem_last_error(), "schema: ") ||
                                strstr(mnem_last_error(), "grammar: ")));
    mnem_grammar_destroy(grammar);
    return 0;
}
