/* example_generate.c: text from a model inside a budget, through the public interface alone.
 *
 *     example_generate model.gguf 64M "In the beginning God created" 32
 */
#include <stdio.h>
#include <stdlib.h>

#include "mnem/mnem.h"

static void check(mnem_status status) {
    if (status == MNEM_OK) return;
    fprintf(stderr, "example_generate: %s\n", mnem_last_error());
    exit(status == MNEM_OVER_BUDGET ? 3 : 1);
}

static bool print(void *context, const char *text, size_t bytes) {
    (void)context;
    return fwrite(text, 1, bytes, stdout) == bytes;
}

int main(int argc, char **argv) {
    if (argc != 5) return fprintf(stderr, "example_generate MODEL BUDGET PROMPT TOKENS\n"), 2;
    uint64_t budget;
    check(mnem_size_parse(argv[2], &budget));

    // What doesn't fit is refused before a weight is read; the whole process counts.
    mnem_opened o;
    check(mnem_open(argv[1], budget, &(mnem_engine_options){.context = 256}, &o));
    check(mnem_continue(&o, argv[3], atoi(argv[4]), NULL, print, NULL));
    putchar('\n');

    mnem_ledger_info account;
    mnem_ledger_info_get(o.ledger, &account);
    fprintf(stderr, "peak %llu of %llu bytes\n", (unsigned long long)account.bytes_peak,
            (unsigned long long)budget);
    mnem_close(&o);
    return 0;
}
