/* test_checkpoint.c: checkpoints that are whole or not there: damage, full disks, kills. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail_point.h"
#include "base/heap.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "train/checkpoint/checkpoint.h"

static const char *path;

/* ---- calls of the system that fail when asked: linked with --wrap ---- */

static mnem__fail_point calls;
static int error_now = ENOSPC; /* 0: writes are cut short instead */
static bool kills_now;         /* the call ends this process instead; writes do half before */

ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n) {
    if (!mnem__fail_point_hit(&calls)) return __real_write(fd, bytes, n);
    if (kills_now && __real_write(fd, bytes, n / 2) >= 0) raise(SIGKILL);
    if (error_now == 0) return __real_write(fd, bytes, (n + 1) / 2);
    errno = error_now;
    return -1;
}

ssize_t __real_pwrite(int fd, const void *bytes, size_t n, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t n, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t n, off_t offset) {
    if (!mnem__fail_point_hit(&calls)) return __real_pwrite(fd, bytes, n, offset);
    if (kills_now && __real_pwrite(fd, bytes, n / 2, offset) >= 0) raise(SIGKILL);
    if (error_now == 0) return __real_pwrite(fd, bytes, (n + 1) / 2, offset);
    errno = error_now;
    return -1;
}

static bool fails_now(void) {
    if (error_now == 0 || error_now == EINTR || !mnem__fail_point_hit(&calls)) return false;
    if (kills_now) raise(SIGKILL);
    errno = error_now;
    return true;
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) {
    return fails_now() ? -1 : __real_fsync(fd);
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to) {
    return fails_now() ? -1 : __real_rename(from, to);
}

int __real_fallocate(int fd, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes) {
    return fails_now() ? -1 : __real_fallocate(fd, mode, offset, bytes);
}

/* ---- a checkpoint of a step: everything in it follows from the number ---- */

enum { LARGE = 40000, SMALL = 7 };

typedef struct content {
    uint64_t large[LARGE];
    uint8_t small[SMALL];
    char text[64];
    mnem__checkpoint_entry entries[7];
} content;

static size_t content_make(content *c, uint64_t step) {
    for (uint64_t i = 0; i < LARGE; i++) c->large[i] = step * 1000003 + i;
    for (int i = 0; i < SMALL; i++) c->small[i] = (uint8_t)(step + (uint64_t)i);
    snprintf(c->text, sizeof c->text, "{\"step\": %llu}", (unsigned long long)step);
    const mnem__checkpoint_entry e[] = {
        {.name = "step", .type = MNEM__ENTRY_U64, .u = step},
        {.name = "small", .type = MNEM__ENTRY_BYTES, .data = c->small, .bytes = SMALL},
        {.name = "rate", .type = MNEM__ENTRY_F64, .f = 1.0 / (double)(step + 1)},
        {.name = "config", .type = MNEM__ENTRY_TEXT, .data = c->text, .bytes = strlen(c->text)},
        {.name = "empty", .type = MNEM__ENTRY_BYTES},
        {.name = "weights", .type = MNEM__ENTRY_BYTES, .data = c->large, .bytes = sizeof c->large},
        {.name = "offset", .type = MNEM__ENTRY_I64, .i = -(int64_t)step},
    };
    memcpy(c->entries, e, sizeof e);
    return sizeof e / sizeof *e;
}

static mnem_status write_step(uint64_t step) {
    static content c;
    const size_t n = content_make(&c, step);
    return mnem__checkpoint_write(path, c.entries, n);
}

/* Opens and checks everything; the step. */
static uint64_t read_step(const char *from) {
    static content c, expected;
    mnem__checkpoint *checkpoint;
    uint64_t step;
    int64_t offset;
    double rate;
    char text[64];
    assert_int_equal(mnem__checkpoint_open(from, &checkpoint), MNEM_OK);
    assert_int_equal(mnem__checkpoint_u64(checkpoint, "step", &step), MNEM_OK);
    const size_t n = content_make(&expected, step);
    assert_int_equal(mnem__checkpoint_expect(checkpoint, expected.entries, n), MNEM_OK);
    assert_int_equal(mnem__checkpoint_read(checkpoint, "weights", c.large, sizeof c.large),
                     MNEM_OK);
    assert_memory_equal(c.large, expected.large, sizeof c.large);
    assert_int_equal(mnem__checkpoint_read(checkpoint, "small", c.small, SMALL), MNEM_OK);
    assert_memory_equal(c.small, expected.small, SMALL);
    assert_int_equal(mnem__checkpoint_read(checkpoint, "empty", c.small, 0), MNEM_OK);
    assert_int_equal(mnem__checkpoint_text(checkpoint, "config", text, sizeof text), MNEM_OK);
    assert_string_equal(text, expected.text);
    assert_int_equal(mnem__checkpoint_i64(checkpoint, "offset", &offset), MNEM_OK);
    assert_int_equal(offset, -(int64_t)step);
    assert_int_equal(mnem__checkpoint_f64(checkpoint, "rate", &rate), MNEM_OK);
    assert_true(rate == 1.0 / (double)(step + 1));
    mnem__checkpoint_close(checkpoint);
    return step;
}

static int setup(void **state) {
    (void)state;
    kit_folder_in("/dev/shm"); /* where flushing takes no time */
    path = kit_path("run");
    error_now = ENOSPC;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    mnem__fail_point_set(&calls, 0, false);
    unlink(path);
    unlink(kit_path("run.mnem-tmp"));
    return kit_folder_remove(); /* fails when something else was left */
}

static size_t get_file(uint8_t *bytes, size_t room) {
    const int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    const ssize_t n = read(fd, bytes, room);
    close(fd);
    assert_true(n >= 0 && (size_t)n < room);
    return (size_t)n;
}

/* ---- round trips ---- */

static void what_is_written_reads_back(void **state) {
    (void)state;
    static content c;
    uint64_t bytes;
    struct stat st;
    for (uint64_t step = 0; step < 3; step++) {
        assert_int_equal(write_step(step), MNEM_OK);
        assert_int_equal(read_step(path), step);
    }
    assert_int_equal(mnem__checkpoint_file_bytes(c.entries, content_make(&c, 1), &bytes), MNEM_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, bytes);
    assert_int_equal(kit_folder_count(), 1);
}

static void entries_come_in_their_order(void **state) {
    (void)state;
    static content c;
    mnem__checkpoint *checkpoint;
    mnem__checkpoint_entry e;
    const size_t n = content_make(&c, 9);
    assert_int_equal(write_step(9), MNEM_OK);
    assert_int_equal(mnem__checkpoint_open(path, &checkpoint), MNEM_OK);
    for (size_t i = 0; i < n; i++) {
        assert_true(mnem__checkpoint_entry_get(checkpoint, i, &e));
        assert_string_equal(e.name, c.entries[i].name);
        assert_int_equal(e.type, c.entries[i].type);
        if (e.type >= MNEM__ENTRY_U64)
            assert_true(e.u == c.entries[i].u && e.bytes == 8);
        else
            assert_int_equal(e.bytes, c.entries[i].bytes);
    }
    assert_false(mnem__checkpoint_entry_get(checkpoint, n, &e));
    mnem__checkpoint_close(checkpoint);
}

static void no_entries_are_a_checkpoint_too(void **state) {
    (void)state;
    mnem__checkpoint *checkpoint;
    mnem__checkpoint_entry e;
    assert_int_equal(mnem__checkpoint_write(path, NULL, 0), MNEM_OK);
    assert_int_equal(mnem__checkpoint_open(path, &checkpoint), MNEM_OK);
    assert_false(mnem__checkpoint_entry_get(checkpoint, 0, &e));
    mnem__checkpoint_close(checkpoint);
}

/* ---- damage ---- */

enum { FILE_ROOM = 2048 };

/* A small file: a number, bytes and a text. */
static size_t small_file(uint8_t *bytes) {
    const mnem__checkpoint_entry e[] = {
        {.name = "n", .type = MNEM__ENTRY_U64, .u = 77},
        {.name = "bytes", .type = MNEM__ENTRY_BYTES, .data = "0123456789", .bytes = 10},
        {.name = "text", .type = MNEM__ENTRY_TEXT, .data = "abc", .bytes = 3}};
    assert_int_equal(mnem__checkpoint_write(path, e, 3), MNEM_OK);
    return get_file(bytes, FILE_ROOM);
}

static void refused(const uint8_t *bytes, size_t n) {
    mnem__checkpoint *checkpoint = (void *)1;
    write_file(path, bytes, n);
    const mnem_status status = mnem__checkpoint_open(path, &checkpoint);
    assert_true(status == MNEM_BAD_FILE || status == MNEM_UNSUPPORTED);
    assert_null(checkpoint);
    assert_non_null(strstr(mnem_last_error(), path));
}

static void every_changed_byte_is_noticed(void **state) {
    (void)state;
    uint8_t bytes[FILE_ROOM];
    const size_t n = small_file(bytes);
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit += 3) {
            bytes[i] ^= (uint8_t)(1 << bit);
            refused(bytes, n);
            bytes[i] ^= (uint8_t)(1 << bit);
        }
}

static void every_other_length_is_noticed(void **state) {
    (void)state;
    uint8_t bytes[FILE_ROOM + 1] = {0};
    const size_t n = small_file(bytes);
    for (size_t length = 0; length < n; length++) refused(bytes, length);
    refused(bytes, n + 1);
    refused(bytes, n + 64);
}

static void damage_names_the_section(void **state) {
    (void)state;
    uint8_t bytes[FILE_ROOM];
    const size_t n = small_file(bytes);
    bytes[n - 64] ^= 1;
    refused(bytes, n);
    assert_non_null(strstr(mnem_last_error(), "section text: the section is damaged"));
}

static void other_files_are_refused(void **state) {
    (void)state;
    mnem__checkpoint *checkpoint;
    uint8_t bytes[FILE_ROOM];
    const size_t n = small_file(bytes);
    assert_int_equal(mnem__checkpoint_open(kit_path("run.none"), &checkpoint), MNEM_NOT_FOUND);
    assert_int_equal(mnem__checkpoint_open(kit_folder(), &checkpoint), MNEM_BAD_FILE);
    assert_int_equal(mnem__checkpoint_open("", &checkpoint), MNEM_INVALID);
    bytes[8] = 2;
    write_file(path, bytes, n);
    assert_int_equal(mnem__checkpoint_open(path, &checkpoint), MNEM_UNSUPPORTED);
    assert_non_null(strstr(mnem_last_error(), "format version 2, but this mnem reads version 1"));
    mnem__checkpoint_close(NULL);
}

static void what_changes_after_opening_is_noticed(void **state) {
    (void)state;
    uint8_t bytes[FILE_ROOM], out[10];
    mnem__checkpoint *checkpoint;
    const size_t n = small_file(bytes);
    assert_int_equal(mnem__checkpoint_open(path, &checkpoint), MNEM_OK);
    const int fd = open(path, O_WRONLY);
    assert_int_equal(__real_pwrite(fd, "x", 1, (off_t)n - 128), 1);
    assert_int_equal(mnem__checkpoint_read(checkpoint, "bytes", out, 10), MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "bytes: another program changed"));
    assert_int_equal(ftruncate(fd, 100), 0);
    assert_int_equal(mnem__checkpoint_read(checkpoint, "bytes", out, 10), MNEM_BAD_FILE);
    close(fd);
    mnem__checkpoint_close(checkpoint);
}

/* ---- what doesn't fit what is asked ---- */

static void wrong_names_sizes_and_types_are_named_with_numbers(void **state) {
    (void)state;
    uint8_t bytes[FILE_ROOM];
    uint64_t u;
    double f;
    char text[4];
    mnem__checkpoint *c;
    small_file(bytes);
    assert_int_equal(mnem__checkpoint_open(path, &c), MNEM_OK);
    assert_int_equal(mnem__checkpoint_read(c, "bytes", bytes, 9), MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "section bytes has 10 bytes, expected 9"));
    assert_int_equal(mnem__checkpoint_read(c, "byte", bytes, 9), MNEM_NOT_FOUND);
    assert_non_null(strstr(mnem_last_error(), "no section byte"));
    assert_int_equal(mnem__checkpoint_read(c, "n", bytes, 8), MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "section n has the type u64, expected bytes"));
    assert_int_equal(mnem__checkpoint_u64(c, "text", &u), MNEM_BAD_FILE);
    assert_int_equal(mnem__checkpoint_f64(c, "n", &f), MNEM_BAD_FILE);
    assert_int_equal(mnem__checkpoint_text(c, "text", text, 3), MNEM_BAD_FILE);
    assert_int_equal(mnem__checkpoint_text(c, "text", text, 0), MNEM_BAD_FILE);
    assert_int_equal(mnem__checkpoint_text(c, "text", text, 4), MNEM_OK);
    mnem__checkpoint_close(c);
}

static void a_list_of_entries_that_differs_is_refused(void **state) {
    (void)state;
    uint8_t bytes[FILE_ROOM];
    mnem__checkpoint *c;
    const mnem__checkpoint_entry e[] = {{.name = "text", .type = MNEM__ENTRY_TEXT},
                                        {.name = "bytes", .type = MNEM__ENTRY_BYTES, .bytes = 10},
                                        {.name = "n", .type = MNEM__ENTRY_U64},
                                        {.name = "more", .type = MNEM__ENTRY_U64}};
    small_file(bytes);
    assert_int_equal(mnem__checkpoint_open(path, &c), MNEM_OK);
    assert_int_equal(mnem__checkpoint_expect(c, e, 3), MNEM_OK);
    assert_int_equal(mnem__checkpoint_expect(c, e, 4), MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "no section more"));
    assert_int_equal(mnem__checkpoint_expect(c, e, 2), MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "section n: this version of mnem does not know"));
    mnem__checkpoint_close(c);
}

static void entries_that_are_none_are_refused_and_the_file_stays(void **state) {
    (void)state;
    char longest[MNEM__CHECKPOINT_NAME + 1];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    const mnem__checkpoint_entry bad[][2] = {
        {{.name = "a"}, {.name = "a"}},
        {{.name = ""}, {.name = "b"}},
        {{.name = NULL}, {.name = "b"}},
        {{.name = longest}, {.name = "b"}},
        {{.name = "with space"}, {.name = "b"}},
        {{.name = "a", .bytes = 1}, {.name = "b"}},
        {{.name = "a", .type = MNEM__ENTRY_TYPES}, {.name = "b"}},
        {{.name = "a", .bytes = UINT64_MAX, .data = longest}, {.name = "b"}},
        {{.name = "a", .bytes = INT64_MAX, .data = longest}, {.name = "b"}}};
    uint64_t bytes;
    assert_int_equal(write_step(3), MNEM_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(mnem__checkpoint_write(path, bad[i], 2), MNEM_INVALID);
        assert_int_equal(mnem__checkpoint_file_bytes(bad[i], 2, &bytes), MNEM_INVALID);
    }
    assert_int_equal(mnem__checkpoint_write(path, bad[0], MNEM__CHECKPOINT_ENTRIES + 1),
                     MNEM_INVALID);
    assert_int_equal(read_step(path), 3);
    assert_int_equal(kit_folder_count(), 1);
}

/* ---- failures while writing ---- */

static void the_nth_call_that_fails_leaves_the_old_one(void **state) {
    (void)state;
    static const int errors[] = {ENOSPC, EIO, EDQUOT};
    uint64_t n = 1;
    assert_int_equal(write_step(1), MNEM_OK);
    for (;; n++) {
        error_now = errors[n % 3];
        mnem__fail_point_set(&calls, n, false);
        const mnem_status status = write_step(2);
        const bool hit = atomic_load(&calls.left) == 0;
        mnem__fail_point_set(&calls, 0, false);
        if (!hit) break;
        assert_int_equal(kit_folder_count(), 1);
        if (status == MNEM_OK) { /* what is best effort failed: EIO of fallocate, the folder */
            assert_int_equal(read_step(path), 2);
            assert_int_equal(write_step(1), MNEM_OK);
            continue;
        }
        assert_int_equal(status, MNEM_IO);
        assert_non_null(strstr(mnem_last_error(), path));
        assert_int_equal(read_step(path), 1);
    }
    print_message("%llu calls failed, one at a time\n", (unsigned long long)n - 1);
    assert_true(n > 10);
    assert_int_equal(read_step(path), 2);
}

static void short_writes_and_signals_are_gone_over(void **state) {
    (void)state;
    static const int errors[] = {0, EINTR};
    for (int i = 0; i < 2; i++)
        for (uint64_t n = 1; n < 12; n++) {
            error_now = errors[i];
            mnem__fail_point_set(&calls, n, false);
            assert_int_equal(write_step(n), MNEM_OK);
            mnem__fail_point_set(&calls, 0, false);
            assert_int_equal(read_step(path), n);
        }
}

static void a_stray_temporary_is_ignored_and_replaced(void **state) {
    (void)state;
    write_file(kit_path("run.mnem-tmp"), "half of a checkpoint", 20);
    mnem__checkpoint *checkpoint;
    assert_int_equal(mnem__checkpoint_open(path, &checkpoint), MNEM_NOT_FOUND);
    assert_int_equal(write_step(5), MNEM_OK);
    assert_int_equal(read_step(path), 5);
    assert_int_equal(kit_folder_count(), 1);
}

/* ---- memory ---- */

static void no_memory_anywhere_is_reported(void **state) {
    (void)state;
    mnem__checkpoint *checkpoint;
    mnem_heap_usage before, after;
    assert_int_equal(write_step(1), MNEM_OK);
    mnem_heap_usage_get(&before);
    mnem__heap_fail_at(1, false);
    assert_int_equal(write_step(2), MNEM_NO_MEMORY);
    for (uint64_t n = 1;; n++) {
        mnem__heap_fail_at(n, false);
        const mnem_status status = mnem__checkpoint_open(path, &checkpoint);
        mnem__heap_fail_at(0, false);
        if (status == MNEM_OK) {
            assert_int_equal(n, 4);
            break;
        }
        assert_int_equal(status, MNEM_NO_MEMORY);
        assert_null(checkpoint);
    }
    mnem_heap_usage_get(&after);
    assert_true(after.bytes_live - before.bytes_live <= mnem__checkpoint_host_bytes(7));
    mnem__checkpoint_close(checkpoint);
    mnem_heap_usage_get(&after);
    assert_int_equal(after.bytes_live, before.bytes_live);
    assert_int_equal(read_step(path), 1);
}

/* ---- kills ---- */

/* Writes steps, and is killed in the n-th call of the system. */
static pid_t write_until(uint64_t n, uint64_t steps) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) return child;
    kills_now = true;
    mnem__fail_point_set(&calls, n, false);
    for (uint64_t step = 1; step <= steps; step++)
        if (write_step(step) != MNEM_OK) _exit(1);
    _exit(0);
}

/* A call later it is the same one, or the next. */
static void killed_in_any_call_one_is_whole(void **state) {
    (void)state;
    enum { STEPS = 3 };
    uint64_t last = 0, n = 0;
    int between = 0, status;
    for (;;) {
        assert_int_equal(write_step(0), MNEM_OK);
        const pid_t child = write_until(++n, STEPS);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status)) break;
        assert_int_equal(WTERMSIG(status), SIGKILL);
        const uint64_t step = read_step(path);
        assert_in_range(step, last, last + 1);
        last = step;
        between += access(kit_path("run.mnem-tmp"), F_OK) == 0;
    }
    assert_true(WEXITSTATUS(status) == 0 && last == STEPS);
    print_message("%llu kills, %d of them while a file was written\n", (unsigned long long)n - 1,
                  between);
    assert_true(between > 3 * STEPS && n - 1 > (uint64_t)between);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_is_written_reads_back),
        TEST(entries_come_in_their_order),
        TEST(no_entries_are_a_checkpoint_too),
        TEST(every_changed_byte_is_noticed),
        TEST(every_other_length_is_noticed),
        TEST(damage_names_the_section),
        TEST(other_files_are_refused),
        TEST(what_changes_after_opening_is_noticed),
        TEST(wrong_names_sizes_and_types_are_named_with_numbers),
        TEST(a_list_of_entries_that_differs_is_refused),
        TEST(entries_that_are_none_are_refused_and_the_file_stays),
        TEST(the_nth_call_that_fails_leaves_the_old_one),
        TEST(short_writes_and_signals_are_gone_over),
        TEST(a_stray_temporary_is_ignored_and_replaced),
        TEST(no_memory_anywhere_is_reported),
        TEST(killed_in_any_call_one_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
