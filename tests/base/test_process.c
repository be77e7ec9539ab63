/* test_process.c: what is available under control groups of both versions, in trees of files made
 * here; and that a settled process doesn't grow. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/pages.h"
#include "base/process.h"
#include "kit/kit.h"
#include "kit/kit_file.h"

/* ---- a machine made of files ---- */

static const char *root;

static void file_write(const char *path, const char *text) {
    char full[512], command[600];
    snprintf(full, sizeof full, "%s%s", root, path);
    snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s')\"", full);
    assert_int_equal(system(command), 0);
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void machine_make(const char *cgroup, const char *mountinfo) {
    root = kit_path("machine");
    file_write("/proc/meminfo", "MemTotal: 999 kB\nMemFree: 1 kB\nMemAvailable:  1048576 kB\n");
    file_write("/proc/self/cgroup", cgroup);
    file_write("/proc/self/mountinfo", mountinfo);
}

static uint64_t machine_available(void) {
    uint64_t bytes = 0;
    mnem_status status = mnem__process_available_at(root, &bytes);
    if (status != MNEM_OK) fail_msg("%s", mnem_last_error());
    kit_remove(root);
    return bytes;
}

static void without_groups_it_is_what_the_machine_has(void **state) {
    (void)state;
    machine_make("", "");
    assert_int_equal(machine_available(), 1024 * MIB);
}

static void a_group_of_version_2_limits(void **state) {
    (void)state;
    machine_make("0::/a/b\n", "22 1 0:5 / /proc rw - proc proc rw\n"
                              "31 23 0:28 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n");
    file_write("/sys/fs/cgroup/a/memory.max", "314572800\n"); /* 300 MiB, of the parent */
    file_write("/sys/fs/cgroup/a/memory.current", "157286400\n");
    file_write("/sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 52428800\n");
    file_write("/sys/fs/cgroup/a/b/memory.max", "max\n");
    file_write("/sys/fs/cgroup/a/b/memory.current", "1\n");
    assert_int_equal(machine_available(), 200 * MIB);
}

static void a_group_of_version_1_limits(void **state) {
    (void)state;
    machine_make("4:cpu,cpuacct:/\n3:memory:/box/x\n0::/\n",
                 "35 31 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
                 "36 31 0:33 /box /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                 "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    file_write("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "104857600\n");
    file_write("/sys/fs/cgroup/memory/x/memory.usage_in_bytes", "41943040\n");
    file_write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    file_write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "41943040\n");
    assert_int_equal(machine_available(), 60 * MIB);
}

static void a_group_over_its_limit_leaves_nothing(void **state) {
    (void)state;
    machine_make("0::/\n", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    file_write("/sys/fs/cgroup/memory.max", "1000\n");
    file_write("/sys/fs/cgroup/memory.current", "2000\n");
    assert_int_equal(machine_available(), 0);
}

static void no_meminfo_is_an_error(void **state) {
    (void)state;
    uint64_t bytes;
    assert_int_equal(mnem__process_available_at("/nowhere", &bytes), MNEM_IO);
}

/* ---- this process ---- */

static void the_kernel_says_what_is_used(void **state) {
    (void)state;
    mnem_process_usage usage;
    uint64_t available;
    assert_int_equal(mnem_process_usage_get(&usage), MNEM_OK);
    assert_true(usage.bytes_resident > 100000 && usage.bytes_resident <= usage.bytes_peak);
    assert_int_equal(mnem_process_available(&available), MNEM_OK);
    assert_true(available > MIB);
}

static uint64_t resident(void) {
    mnem_process_usage usage;
    assert_int_equal(mnem_process_usage_get(&usage), MNEM_OK);
    return usage.bytes_resident;
}

/* Code that hasn't run before doesn't make the process grow. Sanitizers take memory of their
 * own. */
static void a_settled_process_stays_as_large_as_it_is(void **state) {
    (void)state;
    if (MNEM_SANITIZED) skip();
    mnem_process_settle();
    uint64_t before = resident();
    char text[200];
    double x = 0;
    for (int i = 0; i < 100; i++) {
        snprintf(text, sizeof text, "%a %s %ld", x, "abc", (long)i);
        x += strtod(text, NULL) + (double)strspn(text, "0x");
    }
    assert_true(resident() <= before + 256 * 1024);
}

static void pages_are_resident_when_they_are_touched(void **state) {
    (void)state;
    uint64_t before = resident();
    char *p = mnem__pages_map(32 * MIB, false);
    assert_true(resident() < before + 4 * MIB);
    assert_true(mnem__pages_touch(p, 16 * MIB));
    assert_true(resident() >= before + 15 * MIB);
    mnem__pages_unmap(p, 32 * MIB);
}

/* Bytes behind its end are a signal for who reads them, as those of an unmapped file are. */
static void a_mapped_file_may_become_shorter(void **state) {
    (void)state;
    const char *path = kit_path("shorter");
    write_file(path, "\177ELF", 4);
    const int fd = open(path, O_RDWR);
    void *p = mmap(NULL, 4, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    assert_int_equal(ftruncate(fd, 0), 0);
    mnem_process_settle();
    munmap(p, 4);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_groups_it_is_what_the_machine_has),
        cmocka_unit_test(a_group_of_version_2_limits),
        cmocka_unit_test(a_group_of_version_1_limits),
        cmocka_unit_test(a_group_over_its_limit_leaves_nothing),
        cmocka_unit_test(no_meminfo_is_an_error),
        cmocka_unit_test(the_kernel_says_what_is_used),
        cmocka_unit_test(a_settled_process_stays_as_large_as_it_is),
        cmocka_unit_test(pages_are_resident_when_they_are_touched),
        cmocka_unit_test(a_mapped_file_may_become_shorter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
