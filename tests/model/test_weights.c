/* test_weights.c: streamed and resident matrices equal the packed file, whatever the ring; errors
 * of the disk come out of acquire; planned bytes are the bytes taken. pread is wrapped by the
 * linker, so that reads can be short, interrupted or fail. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "model/weights/weights_idle.h"
#include "model/weights_case.h"

static char path[64];

/* ---- a disk that misbehaves ---- */

typedef enum disk_mode { DISK_GOOD, DISK_SHORT, DISK_BROKEN, DISK_NOT_DIRECT, DISK_CUT } disk_mode;
static atomic_int disk;
static atomic_int reads, good_reads; /* BROKEN and CUT begin after so many */

/* Where slots lie; a read that reaches beyond one is counted. */
static _Atomic uintptr_t ring;
static atomic_ullong ring_slot;
static atomic_int beyond;

ssize_t __real_pread(int fd, void *out, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *out, size_t n, off_t at);

ssize_t __wrap_pread(int fd, void *out, size_t n, off_t at) {
    const uintptr_t base = atomic_load(&ring), first = (uintptr_t)out - base;
    if (base && first / atomic_load(&ring_slot) != (first + n - 1) / atomic_load(&ring_slot))
        atomic_fetch_add(&beyond, 1);
    int read = atomic_fetch_add(&reads, 1);
    bool late = read >= atomic_load(&good_reads);
    switch ((disk_mode)atomic_load(&disk)) {
    case DISK_SHORT:
        if (read % 3 == 0) {
            errno = EINTR;
            return -1;
        }
        return __real_pread(fd, out, n > 8192 ? n / 2 / 512 * 512 : n, at);
    case DISK_BROKEN:
        if (!late) break;
        errno = EIO;
        return -1;
    case DISK_NOT_DIRECT:
        if (n % 4096 || (uintptr_t)out % 4096 || at % 4096) break;
        errno = EINVAL;
        return -1;
    case DISK_CUT:
        if (late) return 0;
        break;
    case DISK_GOOD: break;
    }
    return __real_pread(fd, out, n, at);
}

static void disk_set(disk_mode mode, int good) {
    atomic_store(&reads, 0);
    atomic_store(&good_reads, good);
    atomic_store(&disk, mode);
}

/* ---- */

static void must_load(weights_case *c) {
    must(mnem__weights_load(c->weights, &(mnem_progress){0}));
}

/* A run as a session makes it: two prompt chunks, the head, then decoding. */
static void passes_run(weights_case *c, bool two) {
    static const mnem__pass order[] = {MNEM__PASS_BODY, MNEM__PASS_BODY, MNEM__PASS_HEAD,
                                       MNEM__PASS_BODY, MNEM__PASS_HEAD, MNEM__PASS_HEAD};
    enum { N = sizeof order / sizeof *order };
    for (int i = 0; i < N; i++) {
        must(mnem__weights_schedule(c->weights, order[i]));
        if (i + 1 < N && i % 2 == 0) must(mnem__weights_schedule(c->weights, order[i + 1]));
        weights_case_pass(c, order[i], two, -1);
        if (i + 1 < N && i % 2 == 0) weights_case_pass(c, order[++i], two, -1);
    }
}

static void resident_check(weights_case *c) {
    for (int32_t i = 0; i < c->count; i++) {
        mnem_tensor_info info;
        mnem_model_tensor_get(c->model, (uint32_t)c->tensors[i], &info);
        const void *packed = mnem__weights_resident(c->weights, i);
        assert_true(!packed == !c->resident[i]);
        if (packed)
            assert_memory_equal(packed, c->packed[i],
                                mnem_pack_bytes(info.type, weights_case_rows(c, i), info.shape[1]));
    }
}

static void case_run(weights_case *c, int32_t n, int32_t slots, uint64_t slot_bytes, bool cache) {
    must(weights_case_open(c, n, slots, slot_bytes, cache));
    atomic_store(&ring_slot, c->sizes.slot_bytes);
    atomic_store(&ring, (uintptr_t)mnem_block_host(&c->ring_block));
    must_load(c);
    resident_check(c);
    passes_run(c, false);
    passes_run(c, true);
    atomic_store(&ring, 0);
    weights_case_close(c);
    assert_int_equal(atomic_load(&beyond), 0);
}

static void every_chunk_equals_the_packed_file(void **state) {
    (void)state;
    weights_case c;
    weights_case_init(&c, path, 3, 2);
    for (int32_t slots = 2; slots <= 5; slots++)
        for (int32_t n = 0; n <= 3; n++) {
            case_run(&c, n, slots, (uint64_t)(106 + 37 * slots) << 12, false);
            case_run(&c, n, slots, 27 << 12, n == 1);
        }
    case_run(&c, 0, 0, 0, false);
    case_run(&c, 1, 0, 0, true);
    weights_case_fini(&c);
}

/* The smallest slots that hold 16 rows of each. */
static uint64_t least_slot(weights_case *c) {
    uint64_t bytes = 4096;
    while (weights_case_open(c, 0, 3, bytes, false) != MNEM_OK) {
        weights_case_close(c);
        bytes += 4096;
    }
    weights_case_close(c);
    return bytes;
}

/* Spans begin and end anywhere: in a group of 16, in a chunk, in a unit of a direct read. */
static void rows_in_spans_equal_those_of_the_file(void **state) {
    (void)state;
    weights_case c;
    weights_case_init(&c, path, 3, 2);
    for (int seed = 1; seed <= 8; seed++) {
        weights_case_cut(&c, (uint64_t)seed);
        case_run(&c, 0, 3, least_slot(&c), false);
        case_run(&c, seed % 4, 2 + seed % 3, (uint64_t)(30 + 11 * (seed % 3)) << 12, seed % 4 == 0);
        disk_set(seed % 2 ? DISK_SHORT : DISK_NOT_DIRECT, 0);
        case_run(&c, seed % 3, 3, 30 << 12, false);
        disk_set(DISK_GOOD, 0);
    }
    weights_case_fini(&c);
}

static void file_run(const char *file, uint64_t slot_bytes) {
    weights_case c;
    if (access(file, R_OK)) return;
    weights_case_init(&c, file, 1, 0);
    for (int32_t slots = 2; slots <= 4; slots++) case_run(&c, slots - 2, slots, slot_bytes, false);
    weights_case_fini(&c);
}

static void fixture_models_stream(void **state) {
    (void)state;
    file_run(MNEM_TEST_DATA "/model/kjv-5m-f16.gguf", 49 << 12);
    file_run(MNEM_TEST_DATA "/model/kjv-5m-q4_0.gguf", 17 << 12);
    file_run(MNEM_TEST_DATA "/model/kjv-5m-q4_k_m.gguf", 31 << 12);
}

static void streaming_survives_interruptions_and_short_reads(void **state) {
    (void)state;
    weights_case c;
    weights_case_init(&c, path, 3, 2);
    disk_set(DISK_SHORT, 0);
    case_run(&c, 3, 3, 60 << 12, false);
    case_run(&c, 3, 3, 60 << 12, true);
    disk_set(DISK_NOT_DIRECT, 0);
    case_run(&c, 3, 3, 60 << 12, false);
    disk_set(DISK_GOOD, 0);
    weights_case_fini(&c);
}

/* The pass in which reads begin to fail, and every later call, say so. */
static void broken_run(weights_case *c, disk_mode mode, int good, const char *text) {
    must(weights_case_open(c, 0, 3, 60 << 12, false));
    must_load(c);
    disk_set(mode, good);
    mnem_status status = mnem__weights_schedule(c->weights, MNEM__PASS_BODY);
    mnem_graph_chunk chunk = {.last = true};
    for (int32_t i = -1; status == MNEM_OK;) {
        i += chunk.last;
        assert_true(i < c->body);
        status = mnem__weights_acquire(c->weights, i, &chunk);
        if (status == MNEM_OK) mnem__weights_release(c->weights, &chunk);
    }
    disk_set(DISK_GOOD, 0);
    assert_int_equal(status, MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), text));
    must(mnem__weights_rewind(c->weights));
    must(mnem__weights_schedule(c->weights, MNEM__PASS_BODY));
    assert_int_equal(mnem__weights_acquire(c->weights, 0, &chunk), MNEM_IO);
    weights_case_close(c);
}

static void acquire_says_what_the_disk_said(void **state) {
    (void)state;
    weights_case c;
    weights_case_init(&c, path, 3, 2);
    for (int good = 0; good < 12; good += 3) {
        broken_run(&c, DISK_BROKEN, good, "Input/output error");
        broken_run(&c, DISK_CUT, good, "another program made the file shorter");
    }
    must(weights_case_open(&c, 1, 3, 60 << 12, false));
    disk_set(DISK_BROKEN, 5);
    assert_int_equal(mnem__weights_load(c.weights, &(mnem_progress){0}), MNEM_IO);
    disk_set(DISK_GOOD, 0);
    weights_case_fini(&c);
}

static void rewind_forgets_and_goes_on(void **state) {
    (void)state;
    weights_case c;
    weights_case_init(&c, path, 3, 2);
    must(weights_case_open(&c, 4, 4, 60 << 12, false));
    must_load(&c);
    for (int stop = 0; stop < 30; stop++) {
        must(mnem__weights_schedule(c.weights, stop % 5 ? MNEM__PASS_BODY : MNEM__PASS_HEAD));
        must(mnem__weights_schedule(c.weights, MNEM__PASS_HEAD));
        weights_case_pass(&c, stop % 5 ? MNEM__PASS_BODY : MNEM__PASS_HEAD, stop % 2, stop);
        must(mnem__weights_rewind(c.weights));
    }
    passes_run(&c, true);
    weights_case_fini(&c);
}

static void destroy_at_any_moment(void **state) {
    (void)state;
    weights_case c;
    weights_case_init(&c, path, 3, 2);
    for (int stop = 0; stop < 25; stop++) {
        must(weights_case_open(&c, stop % 3, 2 + stop % 3, 60 << 12, false));
        if (stop % 4) {
            must_load(&c);
            must(mnem__weights_schedule(c.weights, MNEM__PASS_BODY));
            weights_case_pass(&c, MNEM__PASS_BODY, false, stop);
        }
        weights_case_close(&c);
    }
    weights_case_fini(&c);
}

/* The file that was checked is the one that is read, though its name is gone. */
static void a_file_that_lost_its_name_streams(void **state) {
    (void)state;
    char other[80];
    weights_case c;
    snprintf(other, sizeof other, "%s.gone", path);
    weights_file_write(other);
    weights_case_init(&c, other, 3, 2);
    remove(other);
    case_run(&c, 2, 3, 60 << 12, false);
    weights_case_fini(&c);
}

/* Overwrites the middle of the last matrix in place, and sets the time of writing back where that
 * is asked for. */
static void write_over(const char *file, bool hide) {
    struct stat st;
    static char other[64 << 10];
    memset(other, 0x5a, sizeof other);
    const int fd = open(file, O_WRONLY);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    assert_int_equal(pwrite(fd, other, sizeof other, st.st_size - 2 * (off_t)sizeof other),
                     sizeof other);
    const struct timespec times[2] = {st.st_atim, st.st_mtim};
    if (hide) assert_int_equal(futimens(fd, times), 0);
    assert_int_equal(close(fd), 0);
}

/* It was written long ago: what is written to it now has another time, however coarse the clock is
 * that files are stamped with. */
static void make_old(const char *file) {
    static const struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, file, times, 0), 0);
}

/* A pass before, one after: MNEM_BAD_FILE comes out of acquire. */
static void written_over(bool hide, bool page_cache) {
    char other[80];
    weights_case c;
    mnem_graph_chunk chunk = {.last = true};
    snprintf(other, sizeof other, "%s.over", path);
    weights_file_write(other);
    make_old(other);
    weights_case_init(&c, other, 0, 0);
    must(weights_case_open(&c, 0, 3, 60 << 12, page_cache));
    must_load(&c);
    must(mnem__weights_schedule(c.weights, MNEM__PASS_BODY));
    weights_case_pass(&c, MNEM__PASS_BODY, false, -1);
    weights_idle(c.weights); /* nothing is read while the time is wrong */
    write_over(other, hide);
    mnem_status status = mnem__weights_schedule(c.weights, MNEM__PASS_BODY);
    for (int32_t i = -1; status == MNEM_OK;) {
        i += chunk.last;
        assert_true(i < c.body);
        status = mnem__weights_acquire(c.weights, i, &chunk);
        if (status == MNEM_OK) mnem__weights_release(c.weights, &chunk);
    }
    assert_int_equal(status, MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "while mnem used it"));
    assert_non_null(strstr(mnem_last_error(), other));
    remove(other);
    weights_case_fini(&c);
}

static void a_file_that_is_written_over_is_noticed(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) written_over(i & 1, i & 2);
}

/* So it is where rows are read one by one. */
static void a_row_of_a_file_that_was_written_to_is_refused(void **state) {
    (void)state;
    char other[80];
    mnem_model *model;
    uint8_t byte;
    snprintf(other, sizeof other, "%s.row", path);
    weights_file_write(other);
    make_old(other);
    must(mnem_model_open(other, &model));
    must(mnem_model_tensor_read(model, 0, 0, 1, &byte));
    write_over(other, false);
    assert_int_equal(mnem_model_tensor_read(model, 0, 0, 1, &byte), MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), other));
    mnem_model_close(model);
    remove(other);
}

static void what_is_not_next_is_refused(void **state) {
    (void)state;
    weights_case c;
    mnem_graph_chunk chunk;
    weights_case_init(&c, path, 3, 2);
    must(weights_case_open(&c, 0, 2, 60 << 12, false));
    assert_int_equal(mnem__weights_acquire(c.weights, 0, &chunk), MNEM_NOT_READY);
    must_load(&c);
    assert_int_equal(mnem__weights_load(c.weights, &(mnem_progress){0}), MNEM_INVALID);
    assert_int_equal(mnem__weights_acquire(c.weights, 0, &chunk), MNEM_INVALID);
    must(mnem__weights_schedule(c.weights, MNEM__PASS_BODY));
    assert_int_equal(mnem__weights_acquire(c.weights, 1, &chunk), MNEM_INVALID);
    assert_int_equal(mnem__weights_acquire(c.weights, -1, &chunk), MNEM_INVALID);
    assert_int_equal(mnem__weights_acquire(c.weights, c.count, &chunk), MNEM_INVALID);
    mnem_status status = MNEM_OK;
    for (int i = 0; i < 100 && status == MNEM_OK; i++)
        status = mnem__weights_schedule(c.weights, MNEM__PASS_HEAD);
    assert_int_equal(status, MNEM_BUSY);
    weights_case_fini(&c);
}

static void a_ring_too_small_is_refused(void **state) {
    (void)state;
    weights_case c;
    weights_case_init(&c, path, 3, 2);
    assert_int_equal(weights_case_open(&c, 0, 2, 4096, false), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "slots have 4096"));
    assert_int_equal(weights_case_open(&c, 0, 1, 1 << 20, false), MNEM_INVALID);
    assert_int_equal(weights_case_open(&c, 0, 2, 5000, false), MNEM_INVALID);
    weights_case_fini(&c);
}

typedef struct progress {
    uint64_t done, total, stop_at;
} progress;

static bool on_progress(void *context, const char *what, uint64_t done, uint64_t total) {
    progress *p = context;
    assert_string_equal(what, "loading");
    assert_true(done >= p->done && done <= total);
    p->done = done;
    p->total = total;
    return done < p->stop_at;
}

static void loading_tells_its_progress_and_stops(void **state) {
    (void)state;
    weights_case c;
    weights_case_init(&c, path, 3, 2);
    must(weights_case_open(&c, 1, 3, 60 << 12, false));
    progress p = {.stop_at = 100000};
    assert_int_equal(mnem__weights_load(c.weights, &(mnem_progress){on_progress, &p}),
                     MNEM_CANCELLED);
    p = (progress){.stop_at = UINT64_MAX};
    must(mnem__weights_load(c.weights, &(mnem_progress){on_progress, &p}));
    assert_int_equal(p.done, p.total);
    resident_check(&c);
    mnem__weights_stats stats;
    mnem__weights_stats_get(c.weights, &stats);
    assert_true(stats.bytes_read >= p.total);
    weights_case_fini(&c);
}

static void measured_is_taken_to_the_byte(void **state) {
    (void)state;
    weights_case c;
    weights_case_init(&c, path, 3, 2);
    for (int32_t n = 0; n < 4; n++) {
        mnem_heap_usage before, after;
        mnem_heap_usage_get(&before);
        must(weights_case_open(&c, n, 3, 60 << 12, false));
        mnem_heap_usage_get(&after);
        assert_int_equal(after.bytes_live - before.bytes_live, c.sizes.host_bytes);
        must_load(&c);
        must(mnem__weights_schedule(c.weights, MNEM__PASS_BODY));
        mnem_heap_usage_get(&before);
        weights_case_pass(&c, MNEM__PASS_BODY, true, -1);
        mnem_heap_usage_get(&after);
        assert_int_equal(after.calls, before.calls);
        weights_case_close(&c);
    }
    weights_case_fini(&c);
}

static void no_memory_at_any_allocation_leaks_nothing(void **state) {
    (void)state;
    weights_case c;
    weights_case_init(&c, path, 3, 2);
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    for (uint64_t n = 1;; n++) {
        mnem__heap_fail_at(n, false);
        mnem_status status = weights_case_open(&c, 2, 3, 60 << 12, false);
        mnem__heap_fail_at(0, false);
        if (status == MNEM_OK) break;
        assert_int_equal(status, MNEM_NO_MEMORY);
        assert_null(c.weights);
        weights_case_close(&c);
        mnem_heap_usage_get(&after);
        assert_int_equal(after.bytes_live, before.bytes_live);
        assert_true(n < 100);
    }
    must_load(&c);
    resident_check(&c);
    weights_case_fini(&c);
}

int main(void) {
    snprintf(path, sizeof path, "weights-%d.gguf", (int)getpid());
    weights_file_write(path);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_chunk_equals_the_packed_file),
        cmocka_unit_test(rows_in_spans_equal_those_of_the_file),
        cmocka_unit_test(fixture_models_stream),
        cmocka_unit_test(streaming_survives_interruptions_and_short_reads),
        cmocka_unit_test(acquire_says_what_the_disk_said),
        cmocka_unit_test(rewind_forgets_and_goes_on),
        cmocka_unit_test(destroy_at_any_moment),
        cmocka_unit_test(a_file_that_lost_its_name_streams),
        cmocka_unit_test(a_file_that_is_written_over_is_noticed),
        cmocka_unit_test(a_row_of_a_file_that_was_written_to_is_refused),
        cmocka_unit_test(what_is_not_next_is_refused),
        cmocka_unit_test(a_ring_too_small_is_refused),
        cmocka_unit_test(loading_tells_its_progress_and_stops),
        cmocka_unit_test(measured_is_taken_to_the_byte),
        cmocka_unit_test(no_memory_at_any_allocation_leaks_nothing),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove(path);
    return failed;
}
