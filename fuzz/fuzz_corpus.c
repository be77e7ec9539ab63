/* fuzz_corpus.c: arbitrary bytes as a cache of tokens.
 *
 * The first byte chooses: odd, the checksums of what looks like a header are made right first, so
 * that what they hide is reached. A cache that opens must be as long as it says, and every token
 * that is read must be of its vocabulary. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file/checksum.h"
#include "train/data/corpus_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

static void make_right(uint8_t *data, size_t n) {
    mnem__cache_head head;
    if (n < sizeof head) return;
    memcpy(&head, data, sizeof head);
    if (head.header_bytes < sizeof head || head.header_bytes > n) return;
    head.data_checksum = mnem__checksum_of(data + head.header_bytes, n - head.header_bytes);
    memcpy(data, &head, sizeof head);
    head.header_checksum = mnem__cache_header_checksum(data, head.header_bytes);
    memcpy(data, &head, sizeof head);
}

static void read_all(const mnem_corpus *corpus, const mnem_corpus_info *info) {
    int32_t ids[100];
    for (uint64_t at = 0, count; at < info->tokens; at += count) {
        count = info->tokens - at < 100 ? info->tokens - at : 100;
        CHECK(mnem_corpus_read(corpus, at, count, ids) == MNEM_OK);
        for (uint64_t i = 0; i < count; i++) CHECK(ids[i] >= 0 && ids[i] < info->vocab);
    }
    CHECK(mnem_corpus_read(corpus, info->tokens, 1, ids) == MNEM_INVALID);
    CHECK(mnem_corpus_read(corpus, 1, UINT64_MAX, ids) == MNEM_INVALID);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n == 0) return 0;
    const int fd = memfd_create("tokens", MFD_CLOEXEC);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    uint8_t *copy = malloc(n);
    CHECK(fd >= 0 && copy);
    memcpy(copy, data + 1, n - 1);
    if (data[0] % 2) make_right(copy, n - 1);
    CHECK(write(fd, copy, n - 1) == (ssize_t)n - 1);
    mnem_corpus *corpus;
    mnem_corpus_info info;
    if (mnem_corpus_open(&(mnem_corpus_options){.cache = path}, &corpus) == MNEM_OK) {
        mnem_corpus_info_get(corpus, &info);
        CHECK(info.file_bytes == n - 1 && info.tokens <= n && !info.made);
        read_all(corpus, &info);
        mnem_corpus_close(corpus);
    }
    free(copy);
    close(fd);
    return 0;
}
