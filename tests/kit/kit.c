/* kit.c: see kit.h. */
#include "kit/kit.h"

void kit_must(mnem_status status, const char *call, const char *file, int line) {
    if (status == MNEM_OK) return;
    print_error("%s: %s\n", call, mnem_last_error());
    _fail(file, line);
}
