/* fuzz_merge.c: any bytes as a model and an adapter for it: matching and merging.
 *
 * The input is a model's file; where "GGUF" occurs a second time, the adapter's begins. What is
 * merged opens, with the model's tensors; what isn't leaves no file.
 *
 *     fuzz_merge -max_len=4096 -dict=fuzz/gguf.dict NEW_FOLDER fuzz/corpus/merge */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mnem/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

static int write_memory(const uint8_t *data, size_t n, char path[32]) {
    const int fd = memfd_create("model", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, data, n) == (ssize_t)n);
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    return fd;
}

static void check_merged(const char *from, const char *to) {
    mnem_model *a, *b;
    mnem_model_info ours, theirs;
    CHECK(mnem_model_open(from, &a) == MNEM_OK && mnem_model_open(to, &b) == MNEM_OK);
    mnem_model_info_get(a, &ours);
    mnem_model_info_get(b, &theirs);
    CHECK(ours.tensors == theirs.tensors && ours.parameters == theirs.parameters);
    mnem_model_close(a);
    mnem_model_close(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const char *const types[] = {NULL, "same", "F32", "Q8_0"};
    const uint8_t *second = n > 4 ? memmem(data + 4, n - 4, "GGUF", 4) : NULL;
    char model[32], adapter[32], out[48];
    if (!second) return 0;
    const size_t first = (size_t)(second - data);
    const int fd[2] = {write_memory(data, first, model), write_memory(second, n - first, adapter)};
    snprintf(out, sizeof out, "/tmp/mnem-fuzz-merge-%d.gguf", (int)getpid());
    const mnem_merge_options options = {.type = types[n % 4], .threads = 1};
    if (mnem_merge_file(model, adapter, out, &options) == MNEM_OK) {
        check_merged(model, out);
        CHECK(unlink(out) == 0);
    } else {
        CHECK(*mnem_last_error() && access(out, F_OK) != 0);
    }
    close(fd[0]);
    close(fd[1]);
    return 0;
}
