/* fuzz_monitor.c: any bytes as a status file: what is taken can be printed, all of it.
 *
 *     fuzz_monitor -max_len=7000 NEW_FOLDER fuzz/corpus/monitor */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mnem/monitor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

static void check_text(const char *text, size_t n) {
    CHECK(memchr(text, 0, n));
    for (; *text; text++) CHECK((unsigned char)*text >= 32 && *text != 127);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    mnem_monitor_view v;
    if (mnem_monitor_read_bytes("input", data, n, &v) != MNEM_OK) {
        CHECK(*mnem_last_error() && !v.pid);
        return 0;
    }
    CHECK(n == sizeof(mnem_monitor_file) && v.accounts <= MNEM_MONITOR_ACCOUNTS);
    check_text(v.program, sizeof v.program);
    check_text(v.model, sizeof v.model);
    check_text(v.numbers.phase, sizeof v.numbers.phase);
    for (uint32_t i = 0; i < MNEM_MONITOR_ACCOUNTS; i++) {
        check_text(v.account[i].kind, sizeof v.account[i].kind);
        check_text(v.account[i].tag, sizeof v.account[i].tag);
    }
    CHECK(v.models <= MNEM_MONITOR_MODELS);
    for (uint32_t i = 0; i < MNEM_MONITOR_MODELS; i++) {
        check_text(v.served[i].name, sizeof v.served[i].name);
        check_text(v.served[i].state, sizeof v.served[i].state);
    }
    CHECK(isfinite(v.numbers.tokens_per_s) && isfinite(v.numbers.loss));
    mnem_monitor_alive(&v);
    return 0;
}
