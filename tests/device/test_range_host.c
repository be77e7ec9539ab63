/* test_range_host.c: granules of the host's memory, by what the kernel says of them. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/pages.h"
#include "base/process.h"
#include "device/range_case.h"
#include "kit/kit.h"

static mnem_device *host_open(void) {
    return device_open("host", 256 * MIB);
}

static uint64_t resident(void) {
    mnem_process_usage usage;
    must(mnem_process_usage_get(&usage));
    return usage.bytes_resident;
}

static bool uses_huge(mnem_device *device) {
    mnem_device_info info;
    mnem_device_info_get(device, &info);
    return !strcmp(info.granule_pages, "huge");
}

static void host_memory_is_there_when_taken_and_gone_when_given(void **state) {
    (void)state;
    enum { COUNT = 32 };
    mnem_device *device = host_open();
    mnem_range range;
    uint64_t g[COUNT];
    must(mnem_range_reserve(device, COUNT * GRANULE, &range));
    uint64_t before = resident();
    must(mnem_granules_take(device, MNEM_SPACE_DEVICE, g, COUNT));
    assert_int_equal(file_bytes(device), COUNT * GRANULE);
    must(mnem_range_map(&range, 0, g, COUNT));
    if (!uses_huge(device)) /* the kernel doesn't count those as resident */
        assert_true(resident() >= before + COUNT * GRANULE);
    must(mnem_range_unmap(&range, 0, COUNT));
    assert_true(resident() < before + 4 * MIB);
    assert_int_equal(file_bytes(device), COUNT * GRANULE);
    must(mnem_granules_give(device, g + 3, 5));
    assert_int_equal(file_bytes(device), (COUNT - 5) * GRANULE);
    must(mnem_granules_give(device, g, 3));
    must(mnem_granules_give(device, g + 8, COUNT - 8));
    assert_int_equal(file_bytes(device), 0);
    mnem_range_release(&range);
    must(mnem_device_close(device));
}

/* Whether the kernel can read a byte there. */
static bool is_readable(const char *p) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    ssize_t n = write(ends[1], p, 1);
    close(ends[0]);
    close(ends[1]);
    return n == 1;
}

static void host_places_fault_unless_something_is_mapped(void **state) {
    (void)state;
    mnem_device *device = host_open();
    mnem_range range;
    uint64_t g;
    must(mnem_range_reserve(device, 3 * GRANULE, &range));
    must(mnem_granules_take(device, MNEM_SPACE_DEVICE, &g, 1));
    char *p = mnem_range_host(&range);
    assert_false(is_readable(p + GRANULE));
    must(mnem_range_map(&range, GRANULE, &g, 1));
    assert_false(is_readable(p + GRANULE - 1));
    assert_true(is_readable(p + GRANULE));
    assert_true(is_readable(p + 2 * GRANULE - 1));
    assert_false(is_readable(p + 2 * GRANULE));
    must(mnem_range_unmap(&range, GRANULE, 1));
    assert_false(is_readable(p + GRANULE));
    must(mnem_granules_give(device, &g, 1));
    mnem_range_release(&range);
    must(mnem_device_close(device));
}

/* Takes a mapping for every other page until the kernel has no more of them. NULL when the limit is
 * too high to be reached. */
static char *mappings_use_up(size_t *bytes) {
    char text[32];
    must(mnem__file_read_small("/proc/sys/vm/max_map_count", text, sizeof text));
    size_t pages = strtoull(text, NULL, 10) + 100, page = mnem__page_size();
    if (pages > 300000) return NULL;
    *bytes = pages * page;
    char *p = mmap(NULL, *bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    for (size_t i = 0; i < pages; i += 2)
        if (mprotect(p + i * page, page, PROT_READ)) return p;
    fail_msg("the machine has more mappings than it says");
    return NULL;
}

static void host_without_further_mappings_refuses_and_changes_nothing(void **state) {
    (void)state;
    mnem_device *device = host_open();
    mnem_range range;
    uint64_t g[3];
    size_t bytes = 0;
    must(mnem_range_reserve(device, 16 * GRANULE, &range));
    must(mnem_granules_take(device, MNEM_SPACE_DEVICE, g, 3));
    must(mnem_range_map(&range, 2 * GRANULE, g, 3));
    char *p = mnem_range_host(&range), *all = mappings_use_up(&bytes);
    if (!all) skip();
    memset(p + 2 * GRANULE, 5, 3 * GRANULE);
    mnem_status mapped = mnem_range_map(&range, 8 * GRANULE, g, 3);
    mnem_status mixed = mnem_range_map(&range, 8 * GRANULE, (uint64_t[]){g[2], g[0], g[1]}, 3);
    mnem_status unmapped = mnem_range_unmap(&range, 3 * GRANULE, 1);
    bool kept = p[3 * GRANULE] == 5;
    munmap(all, bytes);
    assert_int_equal(mapped, MNEM_NO_MEMORY);
    assert_int_equal(mixed, MNEM_NO_MEMORY);
    assert_int_equal(unmapped, MNEM_NO_MEMORY);
    assert_true(kept);
    assert_false(is_readable(p + 8 * GRANULE));
    must(mnem_range_unmap(&range, 3 * GRANULE, 1));
    must(mnem_range_map(&range, 8 * GRANULE, (uint64_t[]){g[2], g[0], g[1]}, 3));
    assert_int_equal(p[9 * GRANULE], 5);
    mnem_range_release(&range);
    must(mnem_granules_give(device, g, 3));
    must(mnem_device_close(device));
}

/* Lowers a limit of the process to what is soft, and back. */
static struct rlimit limit_lower(int resource, uint64_t soft) {
    struct rlimit old, low;
    assert_int_equal(getrlimit((__rlimit_resource_t)resource, &old), 0);
    low = (struct rlimit){.rlim_cur = soft, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit((__rlimit_resource_t)resource, &low), 0);
    return old;
}

static void host_under_a_limit_of_the_process_refuses(void **state) {
    (void)state;
    mnem_device *device = host_open();
    uint64_t g[2];
    struct rlimit old = limit_lower(RLIMIT_NOFILE, 0);
    mnem_status files = mnem_granules_take(device, MNEM_SPACE_DEVICE, g, 1);
    setrlimit(RLIMIT_NOFILE, &old);
    assert_int_equal(files, MNEM_NO_MEMORY);
    old = limit_lower(RLIMIT_FSIZE, 3 * MIB); /* the kernel's own answer is a signal */
    mnem_status first = mnem_granules_take(device, MNEM_SPACE_DEVICE, g, 1);
    mnem_status second = mnem_granules_take(device, MNEM_SPACE_DEVICE, g + 1, 1);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(first, MNEM_OK);
    assert_int_equal(second, MNEM_NO_MEMORY);
    must(mnem_granules_give(device, g, 1));
    old = limit_lower(RLIMIT_FSIZE, 1 * MIB); /* the file is open and larger now */
    first = mnem_granules_take(device, MNEM_SPACE_DEVICE, g, 1);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(first, MNEM_NO_MEMORY);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ /* they use all addresses */
    mnem_range range;
    old = limit_lower(RLIMIT_AS, UINT64_C(4) << 30);
    mnem_status addresses = mnem_range_reserve(device, UINT64_C(8) << 30, &range);
    setrlimit(RLIMIT_AS, &old);
    assert_int_equal(addresses, MNEM_NO_MEMORY);
#endif
    assert_int_equal(available(device), 256 * MIB);
    must(mnem_device_close(device));
}

/* Two takes leave a hole between: the next fits it, or goes to the end. */
static void host_granules_taken_together_are_one_mapping(void **state) {
    (void)state;
    mnem_device *device = host_open();
    uint64_t a[4], b[4], c[4], d[2];
    must(mnem_granules_take(device, MNEM_SPACE_DEVICE, a, 4));
    must(mnem_granules_take(device, MNEM_SPACE_DEVICE, b, 4));
    must(mnem_granules_give(device, a + 1, 2));
    must(mnem_granules_take(device, MNEM_SPACE_DEVICE, c, 4));
    must(mnem_granules_take(device, MNEM_SPACE_DEVICE, d, 2));
    for (uint64_t i = 0; i < 4; i++) assert_int_equal(c[i], c[0] + i);
    assert_int_equal(d[0], a[1]);
    assert_int_equal(d[1], a[2]);
    must(mnem_granules_give(device, (uint64_t[]){a[0], d[0], d[1], a[3]}, 4));
    must(mnem_granules_give(device, c, 4));
    must(mnem_granules_give(device, b, 4));
    must(mnem_device_close(device));
}

/* How a child ended, which writes a byte there. */
static int write_in_child(char *p) {
    int state;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL); /* not cmocka's */
        *(volatile char *)p = 'c';
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &state, 0), pid);
    return state;
}

static void a_child_cannot_write_into_a_range(void **state) {
    (void)state;
    mnem_device *device = host_open();
    mnem_range range;
    uint64_t g[2];
    must(mnem_range_reserve(device, 2 * GRANULE, &range));
    must(mnem_granules_take(device, MNEM_SPACE_DEVICE, g, 2));
    must(mnem_range_map(&range, 0, g, 2));
    char *p = mnem_range_host(&range);
    p[0] = p[GRANULE] = 'p';
    const int ended = write_in_child(p + GRANULE);
#ifndef __SANITIZE_THREAD__ /* in a child it maps memory of its own, which may be there */
    assert_false(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
#else
    (void)ended;
#endif
    assert_int_equal(p[GRANULE], 'p');
    must(mnem_range_unmap(&range, 0, 2));
    must(mnem_granules_give(device, g, 2));
    mnem_range_release(&range);
    must(mnem_device_close(device));
}

/* What a child does with a device of its parent; a bit for each answer that isn't as it should. A
 * part that was mapped is no part of the child: what the child maps there is its own. */
static int use_in_child(mnem_device *device, mnem_range *range, uint64_t *g) {
    uint64_t more;
    mnem_range other;
    int wrong = 0;
    char *own = mmap(mnem_range_host(range), GRANULE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (own != MAP_FAILED) own[0] = 'c'; /* else something is there already, as under TSan */
    if (mnem_granules_take(device, MNEM_SPACE_DEVICE, &more, 1) != MNEM_INVALID) wrong |= 1;
    if (!strstr(mnem_last_error(), "forked child")) wrong |= 2;
    if (mnem_range_unmap(range, 0, 1) != MNEM_OK) wrong |= 4;
    if (mnem_range_map(range, 0, g, 1) != MNEM_INVALID) wrong |= 8;
    if (mnem_granules_give(device, g, 1) != MNEM_OK) wrong |= 16;
    if (mnem_range_reserve(device, GRANULE, &other) != MNEM_INVALID) wrong |= 32;
    mnem_range_release(range);
    if (own != MAP_FAILED && own[0] != 'c') wrong |= 64;
    return wrong;
}

static void a_child_cannot_give_back_what_its_parent_took(void **state) {
    (void)state;
    mnem_device *device = host_open();
    mnem_range range;
    uint64_t g;
    int ended;
    must(mnem_range_reserve(device, GRANULE, &range));
    must(mnem_granules_take(device, MNEM_SPACE_DEVICE, &g, 1));
    must(mnem_range_map(&range, 0, &g, 1));
    char *p = mnem_range_host(&range);
    memset(p, 'p', GRANULE);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(use_in_child(device, &range, &g));
    assert_int_equal(waitpid(pid, &ended, 0), pid);
    assert_int_equal(ended, 0);
    assert_int_equal(file_bytes(device), GRANULE);
    for (uint64_t i = 0; i < GRANULE; i++) assert_int_equal(p[i], 'p');
    must(mnem_range_unmap(&range, 0, 1));
    must(mnem_granules_give(device, &g, 1));
    mnem_range_release(&range);
    must(mnem_device_close(device));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_memory_is_there_when_taken_and_gone_when_given),
        cmocka_unit_test(host_places_fault_unless_something_is_mapped),
        cmocka_unit_test(host_without_further_mappings_refuses_and_changes_nothing),
        cmocka_unit_test(host_under_a_limit_of_the_process_refuses),
        cmocka_unit_test(host_granules_taken_together_are_one_mapping),
        cmocka_unit_test(a_child_cannot_write_into_a_range),
        cmocka_unit_test(a_child_cannot_give_back_what_its_parent_took),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
