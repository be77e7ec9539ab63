/* test_new_file.c: checksums against published values; files that appear whole or not at all; bytes
 * at an offset. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file/checksum.h"
#include "base/file/file_bytes.h"
#include "base/file/new_file.h"
#include "kit/full_disk.h"
#include "kit/kit.h"
#include "kit/kit_file.h"

static const char *path, *temporary;

static int setup(void **state) {
    (void)state;
    path = kit_path("whole");
    temporary = kit_path("whole.mnem-tmp");
    return 0;
}

static int teardown(void **state) {
    (void)state;
    disk_room = SIZE_MAX;
    unlink(path);
    return kit_folder_remove(); /* fails when something else was left */
}

static size_t read_into(char *out, size_t n) {
    const int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    const ssize_t got = read(fd, out, n);
    close(fd);
    assert_true(got >= 0);
    return (size_t)got;
}

static void write_text(const char *text) {
    mnem__new_file file;
    mnem_status status = mnem__new_file_create(&file, path);
    if (status == MNEM_OK) status = mnem__new_file_put(&file, text, strlen(text));
    assert_int_equal(mnem__new_file_end(&file, status), MNEM_OK);
}

static void checksum_is_xxh64(void **state) {
    (void)state;
    assert_true(mnem__checksum_of("", 0) == 0xEF46DB3751D8E999u);
    assert_true(mnem__checksum_of("abc", 3) == 0x44BC2CF5AD770999u);
}

static void checksum_does_not_depend_on_the_cuts(void **state) {
    (void)state;
    unsigned char bytes[1000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * 37 + i / 7);
    const uint64_t whole = mnem__checksum_of(bytes, sizeof bytes);
    for (size_t step = 1; step < sizeof bytes; step += 13) {
        mnem__checksum sum;
        mnem__checksum_init(&sum);
        for (size_t at = 0; at < sizeof bytes; at += step)
            mnem__checksum_add(&sum, bytes + at,
                               sizeof bytes - at < step ? sizeof bytes - at : step);
        assert_true(mnem__checksum_get(&sum) == whole);
        assert_true(mnem__checksum_get(&sum) == whole); /* asking changes nothing */
    }
    bytes[500] ^= 1;
    assert_true(mnem__checksum_of(bytes, sizeof bytes) != whole);
}

static void file_appears_when_it_ends(void **state) {
    (void)state;
    mnem__new_file file;
    char text[32];
    assert_int_equal(mnem__new_file_create(&file, path), MNEM_OK);
    assert_int_equal(mnem__new_file_reserve(&file, 100), MNEM_OK);
    assert_int_equal(mnem__new_file_put(&file, "????one", 7), MNEM_OK);
    assert_int_equal(mnem__new_file_put_at(&file, "head", 4, 0), MNEM_OK);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(mnem__new_file_end(&file, MNEM_OK), MNEM_OK);
    assert_int_equal(read_into(text, sizeof text), 7);
    assert_memory_equal(text, "headone", 7);
    assert_int_not_equal(access(temporary, F_OK), 0);
}

static void failure_leaves_the_old_file(void **state) {
    (void)state;
    mnem__new_file file;
    char text[32];
    write_text("old");
    assert_int_equal(mnem__new_file_create(&file, path), MNEM_OK);
    assert_int_equal(mnem__new_file_put(&file, "newer", 5), MNEM_OK);
    assert_int_equal(mnem__new_file_end(&file, MNEM_CANCELLED), MNEM_CANCELLED);
    assert_int_equal(read_into(text, sizeof text), 3);
    assert_memory_equal(text, "old", 3);
    assert_int_not_equal(access(temporary, F_OK), 0);
}

static void full_disk_is_an_error_that_names_the_file(void **state) {
    (void)state;
    mnem__new_file file;
    assert_int_equal(mnem__new_file_create(&file, path), MNEM_OK);
    disk_room = 3;
    const mnem_status status = mnem__new_file_put(&file, "12345", 5);
    assert_int_equal(mnem__new_file_end(&file, status), MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), "whole"));
    assert_non_null(strstr(mnem_last_error(), "No space left"));
    assert_int_not_equal(access(path, F_OK), 0);
}

static void left_over_temporary_is_replaced_and_links_are_not_followed(void **state) {
    (void)state;
    char text[32];
    const char *target = kit_path("target");
    const int fd = open(target, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(symlink(target, temporary), 0);
    write_text("mine");
    assert_int_equal(read_into(text, sizeof text), 4);
    struct stat st;
    assert_int_equal(stat(target, &st), 0);
    assert_int_equal(st.st_size, 0);
    unlink(target);
}

static void impossible_paths_are_refused(void **state) {
    (void)state;
    mnem__new_file file;
    char *longest = malloc(PATH_MAX);
    assert_non_null(longest);
    memset(longest, 'x', PATH_MAX - 1);
    longest[PATH_MAX - 1] = 0;
    assert_int_equal(mnem__new_file_create(&file, ""), MNEM_INVALID);
    assert_int_equal(mnem__new_file_create(&file, longest), MNEM_INVALID);
    const mnem_status status = mnem__new_file_create(&file, kit_path("nowhere/file"));
    assert_int_equal(mnem__new_file_end(&file, status), MNEM_IO); /* not created: fine */
    assert_non_null(strstr(mnem_last_error(), "nowhere"));
    free(longest);
}

static void bytes_come_up_to_the_end_of_the_file(void **state) {
    (void)state;
    char bytes[8] = "";
    write_text("0123456789");
    const int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(mnem__file_read_at(fd, bytes, 4, 3), 4);
    assert_memory_equal(bytes, "3456", 4);
    assert_int_equal(mnem__file_read_at(fd, bytes, 8, 7), 3);
    assert_int_equal(errno, 0);
    assert_int_equal(mnem__file_write_at(fd, "ab", 2, 10), 2);
    assert_int_equal(mnem__file_read_at(fd, bytes, 8, 7), 5);
    assert_memory_equal(bytes, "789ab", 5);
    close(fd);
}

static void bytes_that_cannot_move_say_why(void **state) {
    (void)state;
    char bytes[8] = "";
    write_text("0123456789");
    const int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(mnem__file_write_at(fd, bytes, 8, 0), 0);
    assert_int_equal(errno, EBADF);
    assert_int_equal(mnem__file_fail(path, "be written"), MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), "whole: can't be written (Bad file descriptor)"));
    close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksum_is_xxh64),
        cmocka_unit_test(checksum_does_not_depend_on_the_cuts),
        TEST(file_appears_when_it_ends),
        TEST(failure_leaves_the_old_file),
        TEST(full_disk_is_an_error_that_names_the_file),
        TEST(left_over_temporary_is_replaced_and_links_are_not_followed),
        TEST(impossible_paths_are_refused),
        TEST(bytes_come_up_to_the_end_of_the_file),
        TEST(bytes_that_cannot_move_say_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
