/* kit_model.c: see kit_model.h. */
#include "kit/kit_model.h"

#include <stdio.h>
#include <stdlib.h>

#include "kit/kit.h"
#include "mnem/mnem.h"

#define SMALL "--embd 64 --layers 2 --ff 96 --vocab 384 --context 128"

void make_model(const char *path, const char *arguments) {
    char command[1024];
    const int n =
        snprintf(command, sizeof command, "%s %s %s %s", MAKE_MODEL, path, SMALL, arguments);
    assert_in_range(n, 0, sizeof command - 1);
    assert_int_equal(system(command), 0);
}

void make_taught_model(const char *path, int layers) {
    const mnem_prune_options options = {
        .heads = 0.5, .ffn = 2.0 / 3, .layers = 1 - layers / 6.0, .threads = 1};
    must(mnem_prune_file(MNEM_TEST_DATA "/model/kjv-5m-f16.gguf", path, &options));
}
