/* fuzz_checkpoint.c: any bytes as a checkpoint, as they are and with checksums put right.
 *
 * What opens has one row for each section and no byte besides, so writing it again must give the
 * same file; reading must refuse other sizes and types.
 *
 *     fuzz_checkpoint -max_len=4096 NEW_FOLDER fuzz/corpus/checkpoint */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "train/checkpoint/checkpoint_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

enum { ENTRIES_MAX = 64 };

static void check_other_type(const mnem__checkpoint *c, const mnem__checkpoint_entry *e) {
    uint64_t u;
    int64_t i;
    double f;
    char none[1];
    CHECK((mnem__checkpoint_u64(c, e->name, &u) == MNEM_OK) == (e->type == MNEM__ENTRY_U64));
    CHECK((mnem__checkpoint_i64(c, e->name, &i) == MNEM_OK) == (e->type == MNEM__ENTRY_I64));
    CHECK((mnem__checkpoint_f64(c, e->name, &f) == MNEM_OK) == (e->type == MNEM__ENTRY_F64));
    CHECK(mnem__checkpoint_text(c, e->name, none, 0) == MNEM_BAD_FILE);
    CHECK(mnem__checkpoint_read(c, e->name, none, e->bytes + 1) == MNEM_BAD_FILE);
}

/* The section in memory of its own; a number stands in the entry. */
static void load(const mnem__checkpoint *c, mnem__checkpoint_entry *e) {
    if (e->type != MNEM__ENTRY_BYTES && e->type != MNEM__ENTRY_TEXT) return;
    char *data = malloc(e->bytes + 1); /* exactly, so that reading past is seen */
    CHECK(data);
    if (e->type == MNEM__ENTRY_BYTES)
        CHECK(mnem__checkpoint_read(c, e->name, data, e->bytes) == MNEM_OK);
    else
        CHECK(mnem__checkpoint_text(c, e->name, data, e->bytes + 1) == MNEM_OK);
    e->data = data;
}

/* Written again beside, compared, removed. */
static void check_again(const mnem__checkpoint_entry *e, size_t n, const uint8_t *data,
                        size_t bytes) {
    char path[64];
    uint64_t size;
    snprintf(path, sizeof path, "%s/mnem-fuzz-checkpoint-%d",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
    CHECK(mnem__checkpoint_file_bytes(e, n, &size) == MNEM_OK && size == bytes);
    CHECK(mnem__checkpoint_write(path, e, n) == MNEM_OK);
    const int fd = open(path, O_RDONLY);
    uint8_t *again = malloc(bytes + 1);
    CHECK(fd >= 0 && again && read(fd, again, bytes + 1) == (ssize_t)bytes);
    CHECK(memcmp(again, data, bytes) == 0);
    close(fd);
    free(again);
    CHECK(unlink(path) == 0);
}

static void check_open(mnem__checkpoint *c, const uint8_t *data, size_t bytes) {
    mnem__checkpoint_entry e[ENTRIES_MAX];
    size_t n = 0;
    for (; n < ENTRIES_MAX && mnem__checkpoint_entry_get(c, n, &e[n]); n++) {
        load(c, &e[n]);
        check_other_type(c, &e[n]);
    }
    CHECK(n == ENTRIES_MAX || mnem__checkpoint_expect(c, e, n) == MNEM_OK);
    if (n < ENTRIES_MAX) check_again(e, n, data, bytes);
    for (size_t i = 0; i < n; i++) free((void *)e[i].data);
}

static void try_bytes(const uint8_t *data, size_t n) {
    char path[32];
    mnem__checkpoint *c;
    const int fd = memfd_create("checkpoint", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, data, n) == (ssize_t)n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (mnem__checkpoint_open(path, &c) == MNEM_OK)
        check_open(c, data, n);
    else
        CHECK(!c && *mnem_last_error());
    mnem__checkpoint_close(c);
    close(fd);
}

/* Of every section that lies in the file; then of the rows and the header. */
static void repair(uint8_t *data, size_t n) {
    mnem__checkpoint_header h;
    if (n < sizeof h) return;
    memcpy(&h, data, sizeof h);
    const uint64_t front = mnem__checkpoint_front(h.rows);
    for (uint32_t i = 0; front <= n && i < h.rows; i++) {
        mnem__checkpoint_row row;
        uint8_t *at = data + sizeof h + i * sizeof row;
        memcpy(&row, at, sizeof row);
        if (mnem__checkpoint_is_number(row.type) || row.place > n || row.bytes > n - row.place)
            continue;
        const uint64_t bytes = mnem__align_up(row.bytes, MNEM__CHECKPOINT_ALIGN);
        if (bytes <= n - row.place) row.checksum = mnem__checksum_of(data + row.place, bytes);
        memcpy(at, &row, sizeof row);
    }
    if (front <= n) h.rows_checksum = mnem__checksum_of(data + sizeof h, front - sizeof h);
    h.file_bytes = n;
    h.checksum = mnem__checkpoint_header_checksum(&h);
    memcpy(data, &h, sizeof h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    try_bytes(data, n);
    uint8_t *copy = malloc(n ? n : 1);
    CHECK(copy);
    memcpy(copy, data, n);
    repair(copy, n);
    try_bytes(copy, n);
    free(copy);
    return 0;
}
