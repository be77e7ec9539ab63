/* test_buffer.c: bytes between host and device: zero-copy, staged, and where there are none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/heap.h"
#include "device/backend/backend.h"
#include "kit/kit.h"
#include "kit/kit_device.h"
#include "mnem/device.h"

static mnem_device_info info_of(mnem_device *device) {
    mnem_device_info info;
    mnem_device_info_get(device, &info);
    return info;
}

/* ---- conformance ---- */

static void buffers_take_what_they_say(void **state) {
    mnem_device *device = device_open(*state, 64 * MIB);
    mnem_buffer buffer = {0};
    static const uint64_t sizes[] = {1, 4096, 5000, 3 << 20};
    for (int i = 0; i < 4; i++) {
        uint64_t before = info_of(device).available_bytes;
        must(mnem_buffer_alloc(device, sizes[i], 64, &buffer));
        assert_int_equal(buffer.bytes, sizes[i]);
        assert_int_equal(buffer.host.space, MNEM_SPACE_PINNED);
        assert_int_equal(before - info_of(device).available_bytes,
                         mnem_buffer_alloc_bytes(device, sizes[i]));
        assert_int_equal(mnem_device_close(device), MNEM_BUSY);
        mnem_buffer_free(&buffer);
        assert_int_equal(info_of(device).available_bytes, before);
    }
    mnem_buffer_free(&buffer); /* cleared: nothing happens */
    must(mnem_device_close(device));
}

static void handing_over_is_checked_and_counted(void **state) {
    mnem_device *device = device_open(*state, 64 * MIB), *other = device_open(*state, 64 * MIB);
    mnem_buffer buffer, cleared = {0};
    mnem_stream *stream;
    must(mnem_stream_create(other, &stream));
    must(mnem_buffer_alloc(device, 5000, 64, &buffer));
    must(mnem_buffer_to_device(&buffer, NULL, 0, 5000));
    must(mnem_buffer_to_host(&buffer, NULL, 4000, 1000));
    must(mnem_buffer_to_host(&buffer, NULL, 5000, 0));
    assert_int_equal(mnem_buffer_to_device(&buffer, NULL, 1, 5000), MNEM_INVALID);
    assert_int_equal(mnem_buffer_to_device(&buffer, NULL, 8, UINT64_MAX - 4), MNEM_INVALID);
    assert_int_equal(mnem_buffer_to_host(&buffer, NULL, 5001, 0), MNEM_INVALID);
    assert_int_equal(mnem_buffer_to_host(&buffer, stream, 0, 1), MNEM_INVALID);
    assert_int_equal(mnem_buffer_to_host(&cleared, NULL, 0, 1), MNEM_INVALID);
    mnem_device_info info = info_of(device);
    assert_int_equal(info.bytes_zero_copy, buffer.zero_copy ? 6000 : 0);
    assert_int_equal(info.bytes_staged, buffer.zero_copy ? 0 : 6000);
    mnem_buffer_free(&buffer);
    mnem_stream_destroy(stream);
    must(mnem_device_close(device));
    must(mnem_device_close(other));
}

/* fail_at is one of the two: of the heap and the pages, or of the device's calls. */
static void fail_everywhere(void **state, void (*fail_at)(uint64_t n, bool sticky)) {
    mnem_device *device = device_open(*state, 64 * MIB);
    for (uint64_t n = 1;; n++) {
        mnem_buffer buffer = {.bytes = 7};
        fail_at(n, false);
        mnem_status status = mnem_buffer_alloc(device, 100, 64, &buffer);
        fail_at(0, false);
        if (status == MNEM_OK) {
            mnem_buffer_free(&buffer);
            break;
        }
        assert_int_equal(status, MNEM_NO_MEMORY);
        assert_int_equal(buffer.bytes, 7);
        assert_int_equal(info_of(device).available_bytes, 64 << 20);
        assert_true(n < 10);
    }
    must(mnem_device_close(device));
}

static void failures_leave_nothing_taken(void **state) {
    fail_everywhere(state, mnem__heap_fail_at);
    fail_everywhere(state, mnem__device_fail_at);
}

/* ---- what only one of them promises ---- */

static void host_buffers_are_one_piece_of_memory(void **state) {
    (void)state;
    mnem_device *device = device_open("host", 64 * MIB);
    mnem_buffer buffer;
    must(mnem_buffer_alloc(device, 100, 64, &buffer));
    assert_true(buffer.zero_copy);
    assert_int_equal(buffer.host.address, buffer.device.address);
    uint8_t *host = mnem_block_host(&buffer.host);
    must(mnem_stream_fill(device, NULL, &buffer.device, 10, 5, 3));
    assert_int_equal(host[9], 0);
    assert_int_equal(host[14], 3);
    mnem_buffer_free(&buffer);
    must(mnem_device_close(device));
}

/* Work on the device: adds 1 to each byte. It sees the hidden memory as a kernel would. */
typedef struct increment {
    mnem_block block;
    uint64_t bytes;
} increment;

static void increment_run(void *context) {
    increment *work = context;
    uint8_t *p = (uint8_t *)(uintptr_t)(work->block.address & ~MNEM__HIDDEN_BIT);
    for (uint64_t i = 0; i < work->bytes; i++) p[i]++;
}

static void staged_copies_carry_every_byte_in_stream_order(void **state) {
    (void)state;
    enum { BYTES = 300001, ROUNDS = 40 };
    mnem_device *device = device_open("hidden", 64 * MIB);
    mnem_buffer buffer;
    mnem_stream *stream;
    must(mnem_buffer_alloc(device, BYTES, 64, &buffer));
    must(mnem_stream_create(device, &stream));
    assert_false(buffer.zero_copy);
    assert_null(mnem_block_host(&buffer.device));
    assert_false(info_of(device).host_visible);
    uint8_t *host = mnem_block_host(&buffer.host);
    uint8_t *expected = malloc(BYTES);
    increment work = {buffer.device, BYTES};
    memset(expected, 0, BYTES);
    srand(1);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t at = (uint64_t)rand() % BYTES, n = (uint64_t)rand() % (BYTES - at + 1);
        for (uint64_t i = 0; i < BYTES; i++) host[i] = (uint8_t)rand();
        memcpy(expected + at, host + at, n); /* only these go over; all are incremented there */
        for (uint64_t i = 0; i < BYTES; i++) expected[i]++;
        must(mnem_buffer_to_device(&buffer, stream, at, n));
        must(mnem_stream_launch(device, stream, increment_run, &work));
        must(mnem_buffer_to_host(&buffer, stream, 0, BYTES));
        must(mnem_stream_synchronize(stream));
        assert_memory_equal(host, expected, BYTES);
    }
    free(expected);
    mnem_stream_destroy(stream);
    mnem_buffer_free(&buffer);
    must(mnem_device_close(device));
}

static void hidden_memory_is_hidden_in_one_space_only(void **state) {
    (void)state;
    mnem_device *device = device_open("hidden", 64 * MIB);
    mnem_block block, pinned;
    must(mnem_device_alloc(device, MNEM_SPACE_DEVICE, 100, 64, &block));
    must(mnem_device_alloc(device, MNEM_SPACE_PINNED, 100, 64, &pinned));
    assert_null(mnem_block_host(&block));
    assert_non_null(mnem_block_host(&pinned));
    memset(mnem_block_host(&pinned), 5, 100);
    must(mnem_stream_copy(device, NULL, &block, 0, &pinned, 0, 100));
    memset(mnem_block_host(&pinned), 6, 100);
    must(mnem_stream_copy(device, NULL, &pinned, 0, &block, 0, 50));
    assert_int_equal(((uint8_t *)mnem_block_host(&pinned))[49], 5);
    assert_int_equal(((uint8_t *)mnem_block_host(&pinned))[50], 6);
    mnem_device_free(&block);
    mnem_device_free(&pinned);
    must(mnem_device_close(device));
}

static void null_buffers_have_no_bytes(void **state) {
    (void)state;
    mnem_device *device = device_open("null", 64 * MIB);
    mnem_buffer buffer;
    must(mnem_buffer_alloc(device, 100, 64, &buffer));
    assert_false(buffer.zero_copy);
    assert_false(buffer.locked);
    assert_null(mnem_block_host(&buffer.host));
    mnem_buffer_free(&buffer);
    must(mnem_device_close(device));
}

/* In a process without the right to lock more than nothing. 0: all is well. */
static int buffer_without_locking(void) {
    const struct rlimit none = {0, 0};
    mnem_device *device;
    mnem_buffer buffer;
    if (setrlimit(RLIMIT_MEMLOCK, &none)) return 1;
    if (!getuid() && setresuid(65534, 65534, 65534)) return 2;
    if (mnem_device_open("host", NULL, &device) != MNEM_OK) return 3;
    if (mnem_buffer_alloc(device, 10000, 64, &buffer) != MNEM_OK) return 4;
    if (buffer.locked || !buffer.zero_copy) return 5;
    memset(mnem_block_host(&buffer.host), 1, 10000);
    mnem_buffer_free(&buffer);
    return mnem_device_close(device) == MNEM_OK ? 0 : 6;
}

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ /* they make mlock do nothing */
enum { LOCKS_ARE_REAL = 0 };
#else
enum { LOCKS_ARE_REAL = 1 };
#endif

static uint64_t locked_kib(void) {
    char text[4096], *line;
    FILE *f = fopen("/proc/self/status", "r");
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    line = strstr(text, "VmLck:");
    return line ? strtoull(line + 6, NULL, 10) : 0;
}

static void buffers_are_locked_where_the_process_may(void **state) {
    (void)state;
    if (!LOCKS_ARE_REAL) skip();
    mnem_device *device = device_open("host", 64 * MIB);
    mnem_buffer buffer;
    uint64_t before = locked_kib();
    must(mnem_buffer_alloc(device, 10000, 64, &buffer));
    if (buffer.locked) assert_int_equal(locked_kib() - before, 12);
    mnem_buffer_free(&buffer);
    assert_int_equal(locked_kib(), before);
    must(mnem_device_close(device));
    pid_t child = fork();
    if (!child) _exit(buffer_without_locking());
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define ON(test, name)                                                                             \
    { #test " (" name ")", test, NULL, NULL, (void *)(uintptr_t)name }
#define ON_ALL(test) ON(test, "host"), ON(test, "hidden"), ON(test, "null")

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_ALL(buffers_take_what_they_say),
        ON_ALL(handing_over_is_checked_and_counted),
        ON_ALL(failures_leave_nothing_taken),
        cmocka_unit_test(host_buffers_are_one_piece_of_memory),
        cmocka_unit_test(staged_copies_carry_every_byte_in_stream_order),
        cmocka_unit_test(hidden_memory_is_hidden_in_one_space_only),
        cmocka_unit_test(null_buffers_have_no_bytes),
        cmocka_unit_test(buffers_are_locked_where_the_process_may),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
