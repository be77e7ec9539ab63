/* fuzz_imatrix.c: any bytes as an importance matrix; what opens is written and reads back the same.
 *
 *     fuzz_imatrix -max_len=4096 -dict=fuzz/gguf.dict NEW_FOLDER fuzz/corpus/imatrix */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mnem/imatrix.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

static void check_same(const mnem_imatrix *a, const mnem_imatrix *b) {
    mnem_imatrix_entry x, y;
    for (int64_t i = 0; mnem_imatrix_entry_get(a, i, &x); i++) {
        const size_t bytes = (size_t)(x.matrices * x.columns) * sizeof *x.sums;
        CHECK(mnem_imatrix_find(b, x.tensor, &y));
        CHECK(x.matrices == y.matrices && x.columns == y.columns);
        CHECK(memcmp(x.sums, y.sums, bytes) == 0);
        for (int64_t j = 0; j < x.matrices * x.columns; j++) CHECK(x.sums[j] >= 0);
    }
}

/* Names that a GGUF file can't have make writing fail, with a text. */
static void check_again(const mnem_imatrix *m) {
    char path[64];
    mnem_imatrix *again;
    snprintf(path, sizeof path, "%s/mnem-fuzz-imatrix-%d",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
    if (mnem_imatrix_write(m, path) != MNEM_OK) {
        CHECK(*mnem_last_error());
        return;
    }
    if (mnem_imatrix_open(path, &again) == MNEM_OK) check_same(m, again);
    mnem_imatrix_destroy(again);
    CHECK(unlink(path) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    char path[32];
    mnem_imatrix *m;
    const int fd = memfd_create("imatrix", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, data, n) == (ssize_t)n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (mnem_imatrix_open(path, &m) == MNEM_OK)
        check_again(m);
    else
        CHECK(!m && *mnem_last_error());
    mnem_imatrix_destroy(m);
    close(fd);
    return 0;
}
