/* test_location.c: bytes wherever they lie: moved by calls of the device, reached by the host only
 * where it may. State of a test: the device's name. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/location.h"
#include "kit/kit.h"
#include "kit/kit_apart.h"
#include "kit/kit_device.h"

enum { BYTES = 3 * 4096 };

static mnem_block take(mnem_device *device, mnem_space space) {
    mnem_block block;
    must(mnem_device_alloc(device, space, BYTES, 4096, &block));
    return block;
}

static void bytes_come_back_as_they_were_written_and_moved(void **state) {
    mnem_device *device = device_open(*state, 0);
    mnem_block block = take(device, MNEM_SPACE_DEVICE);
    const mnem__location at = mnem__location_of(&block);
    uint8_t all[BYTES] = {0}, got[BYTES];
    for (int i = 0; i < 1000; i++) all[5000 + i] = (uint8_t)(i * i + 1);
    must(mnem__location_write(mnem__location_at(at, 5000), all + 5000, 1000));
    must(mnem__location_read(got, at, BYTES));
    assert_memory_equal(got, all, BYTES);
    memmove(all + 5300, all + 5000, 1000); /* both overlap */
    must(mnem__location_move(mnem__location_at(at, 5300), mnem__location_at(at, 5000), 1000));
    must(mnem__location_read(got, at, BYTES));
    assert_memory_equal(got, all, BYTES);
    must(mnem__location_write(at, NULL, 0));
    mnem_device_free(&block);
    assert_int_equal(mnem_device_close(device), MNEM_OK);
}

/* Whether touching it ends a process: by a signal, or by a sanitizer's report of one. */
static bool faults(const volatile uint8_t *address) {
    enum { ALIVE = 42 };
    int status;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* not cmocka's */
        signal(SIGBUS, SIG_DFL);  /* of an address that no pointer can have */
        _exit(*address == 1 ? ALIVE + 1 : ALIVE);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return !WIFEXITED(status) || (WEXITSTATUS(status) != ALIVE && WEXITSTATUS(status) != ALIVE + 1);
}

static void only_operators_reach_what_the_host_may_not(void **state) {
    mnem_device *device = device_open(*state, 0);
    mnem_block block = take(device, MNEM_SPACE_DEVICE), pinned = take(device, MNEM_SPACE_PINNED);
    const mnem__location at = mnem__location_of(&block);
    const bool apart = strcmp(*state, "host") != 0, shut = !strcmp(*state, "apart");
    assert_true(mnem__device_runs(device));
    assert_int_equal(mnem__location_host(at) == NULL, apart);
    assert_int_equal(faults((const uint8_t *)(uintptr_t)block.address), apart);
    assert_int_equal(faults(mnem__location_bind(at)), shut);
    must(mnem__device_enter(device));
    assert_false(faults(mnem__location_bind(at)));
    must(mnem__device_enter(device)); /* they nest */
    mnem__device_leave(device);
    assert_false(faults(mnem__location_bind(at)));
    mnem__device_leave(device);
    assert_int_equal(faults(mnem__location_bind(at)), shut);
    assert_ptr_equal(mnem__location_host(mnem__location_of(&pinned)),
                     mnem__location_bind(mnem__location_of(&pinned)));
    assert_false(faults(mnem__location_host(mnem__location_of(&pinned))));
    mnem_device_free(&block);
    mnem_device_free(&pinned);
    assert_int_equal(mnem_device_close(device), MNEM_OK);
}

static void nothing_lies_nowhere(void **state) {
    (void)state;
    const mnem_block none = {0};
    mnem_device *null = device_open("null", 0);
    assert_false(mnem__device_runs(null));
    assert_null(mnem__location_bind(mnem__location_of(&none)));
    assert_null(mnem__location_host(mnem__location_at(mnem__location_of(&none), 100)));
    assert_int_equal(mnem_device_close(null), MNEM_OK);
}

#define ON(test, name)                                                                             \
    { #test " " name, test, NULL, NULL, (void *)(uintptr_t)name }
#define ON_ALL(test) ON(test, "host"), ON(test, "hidden"), ON(test, "apart")
int main(void) {
    const struct CMUnitTest tests[] = {
        ON_ALL(bytes_come_back_as_they_were_written_and_moved),
        ON_ALL(only_operators_reach_what_the_host_may_not),
        cmocka_unit_test(nothing_lies_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
