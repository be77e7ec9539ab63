/* test_workload.c: the text format: what is read, what is refused, and that memory may run out. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "mnem/replay.h"

static mnem_status read_text(const char *text, mnem_workload **w) {
    char *copy = malloc(strlen(text) + 1); /* exactly as long, so that reading past it is seen */
    memcpy(copy, text, strlen(text));
    const mnem_status status = mnem_workload_read("t", copy, strlen(text), NULL, w);
    free(copy);
    return status;
}

static void operations_are_read_in_order(void **state) {
    (void)state;
    mnem_workload *w;
    assert_int_equal(read_text("# a comment\n"
                               "a 7 100 5\n"
                               "\n"
                               "  a\t9 50 # one more\r\n"
                               "f 7 3\n"
                               "f 9\n"
                               "a 18446744073709551615 20 5",
                               &w),
                     MNEM_OK);
    mnem_workload_info info;
    mnem_workload_info_get(w, &info);
    const mnem_workload_op expected[] = {{100, 0, 0}, {50, 1, 1}, {0, 0, 2}, {0, 1, 1}, {20, 2, 0}};
    assert_int_equal(info.count, 5);
    assert_memory_equal(info.ops, expected, sizeof expected);
    assert_int_equal(info.allocations, 3);
    assert_int_equal(info.prelude, 0);
    assert_int_equal(info.bytes_peak, 150);
    assert_int_equal(info.bytes_total, 170);
    assert_int_equal(info.bytes_end, 20);
    assert_int_equal(info.blocks_peak, 2);
    assert_int_equal(info.streams, 3);
    assert_string_equal(info.format, "text");
    assert_string_equal(mnem_workload_site(w, 0), "");
    mnem_workload_close(w);
}

static void refused(const char *text, mnem_status status, const char *why) {
    mnem_workload *w;
    assert_int_equal(read_text(text, &w), status);
    assert_null(w);
    if (!strstr(mnem_last_error(), why)) fail_msg("\"%s\" isn't in \"%s\"", why, mnem_last_error());
}

static void what_is_not_of_the_format_is_refused_with_its_line(void **state) {
    (void)state;
    refused("", MNEM_BAD_FILE, "t: the trace has no allocation");
    refused("# nothing\n\n", MNEM_BAD_FILE, "t: the trace has no allocation");
    refused("a 1 1 0\nb 1\n", MNEM_BAD_FILE, "t:2: \"b 1\"");
    refused("a 1", MNEM_BAD_FILE, "t:1: \"a 1\"");
    refused("a 1 2 3 4\n", MNEM_BAD_FILE, "t:1: ");
    refused("a 1 2\nf 1 2 3\n", MNEM_BAD_FILE, "t:2: ");
    refused("f\n", MNEM_BAD_FILE, "t:1: ");
    refused("a1 2\n", MNEM_BAD_FILE, "t:1: ");
    refused("a 1 2x\n", MNEM_BAD_FILE, "t:1: ");
    refused("a 1 -2\n", MNEM_BAD_FILE, "t:1: ");
    refused("a 1 18446744073709551616\n", MNEM_BAD_FILE, "t:1: ");
    refused("(dp0\nVsegments\np1\n", MNEM_BAD_FILE,
            "t: the file is a Python pickle of protocol 0 or 1");
    refused("(lp0\n.", MNEM_BAD_FILE, "t: the file is a Python pickle of protocol 0 or 1");
    refused("\x01\n", MNEM_BAD_FILE, "t:1: \"?\"");
    refused("a 1 0 0\n", MNEM_BAD_FILE, "t:1: an allocation has 0 bytes");
    refused("a 1 5\na 1 5\n", MNEM_BAD_FILE, "t:2: id 1 is allocated twice");
    refused("a 1 5\nf 1\na 1 5\n", MNEM_BAD_FILE, "t:3: id 1 is allocated twice");
    refused("a 1 5\nf 1\nf 1\n", MNEM_BAD_FILE, "t:3: a block is freed a second time");
    refused("a 1 5\nf 2\n", MNEM_BAD_FILE, "t:2: id 2 is freed, but was never allocated");
    refused("a 1 18446744073709551615\na 2 1\n", MNEM_BAD_FILE,
            "t:2: the sizes of all allocations up to this one, of 1 bytes, add up to 2^64 bytes or "
            "more");
    refused("\xfd"
            "7zXZ\0...",
            MNEM_UNSUPPORTED, "xz -dc");
    refused("\x1f\x8b", MNEM_UNSUPPORTED, "gzip -dc");
}

static void a_line_that_never_ends_is_refused(void **state) {
    (void)state;
    enum { N = 300000 };
    char *text = malloc(N + 1);
    memset(text, '#', N);
    text[N] = 0;
    refused(text, MNEM_BAD_FILE, "t:1: the line has more than 65536 bytes");
    free(text);
}

/* Many lines through a pipe and a file: longer than the window, so that lines straddle its end. */
static void a_file_longer_than_the_window_is_read(void **state) {
    (void)state;
    const char *path = kit_path("workload");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    enum { N = 100000 };
    for (int i = 0; i < N; i++) fprintf(file, "a %d %d 0\n", i * 3, i + 1);
    for (int i = 0; i < N; i += 2) fprintf(file, "f %d\n", i * 3);
    fclose(file);
    mnem_workload *w;
    assert_int_equal(mnem_workload_open(path, NULL, &w), MNEM_OK);
    mnem_workload_info info;
    mnem_workload_info_get(w, &info);
    assert_int_equal(info.count, N + N / 2);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(info.ops[i].bytes, i + 1);
        assert_int_equal(info.ops[i].block, i);
    }
    for (uint32_t i = 0; i < N / 2; i++) assert_int_equal(info.ops[N + i].block, 2 * i);
    assert_int_equal(info.bytes_peak, (uint64_t)N * (N + 1) / 2);
    mnem_workload_close(w);
}

static void a_file_that_cannot_be_read_is_named(void **state) {
    (void)state;
    mnem_workload *w;
    assert_int_equal(mnem_workload_open("/nowhere/x.trace", NULL, &w), MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), "/nowhere/x.trace"));
    assert_null(w);
    assert_int_equal(mnem_workload_open("/tmp", NULL, &w), MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), "/tmp: can't be read"));
    assert_null(w);
}

/* ---- sites ---- */

static void a_comment_may_say_a_blocks_site(void **state) {
    (void)state;
    mnem_workload *w;
    must(read_text("# site 7 early.c:1 early\n"
                   "a 1 10\n"
                   "a 2 20 # 7\n"
                   "a 3 30 0 #  12 \n"
                   "a 4 40 # 13\n"
                   "a 5 50 # 12 blocks\n"
                   "f 2 # 12\n"
                   "# site 12 later.c:3 \tlater < main\n"
                   "# site 12\n"
                   "# site twelve x\n"
                   "# site 0 x\n",
                   &w));
    assert_string_equal(mnem_workload_site(w, 0), "");
    assert_string_equal(mnem_workload_site(w, 1), "early.c:1 early");
    assert_string_equal(mnem_workload_site(w, 2), "later.c:3 ?later < main");
    assert_string_equal(mnem_workload_site(w, 3), ""); /* nobody says what 13 is */
    assert_string_equal(mnem_workload_site(w, 4), ""); /* a comment like others */
    assert_string_equal(mnem_workload_site(w, 5), "");
    mnem_workload_close(w);
    must(read_text("a 1 10 # 7\nf 1\n", &w));
    assert_string_equal(mnem_workload_site(w, 0), "");
    mnem_workload_close(w);
}

static void a_sites_text_is_cut(void **state) {
    (void)state;
    enum { N = 5000 };
    static char text[N + 64];
    const int n = snprintf(text, sizeof text, "a 1 10 # 1\n# site 1 ");
    memset(text + n, 'x', N);
    mnem_workload *w;
    must(read_text(text, &w));
    assert_int_equal(strlen(mnem_workload_site(w, 0)), 200);
    mnem_workload_close(w);
}

static bool stop_at_once(void *context, const char *what, uint64_t bytes, uint64_t total) {
    assert_string_equal(what, "reading");
    assert_int_equal(total, 0);
    *(uint64_t *)context = bytes;
    return false;
}

static void reading_can_be_cancelled(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "a 1 1 0\n", 8), 8);
    close(ends[1]);
    uint64_t seen = 0;
    const mnem_workload_options options = {.progress = {stop_at_once, &seen}};
    mnem_workload *w;
    assert_int_equal(mnem_workload_open_fd("-", ends[0], &options, &w), MNEM_CANCELLED);
    assert_null(w);
    assert_int_equal(seen, 8);
    close(ends[0]);
}

static void memory_may_run_out_at_any_allocation(void **state) {
    (void)state;
    static char text[200 * 48];
    char *p = text;
    for (int i = 0; i < 200; i++)
        p += sprintf(p, "a %d 1 %d # %d\n# site %d s\n", i, i, i + 1, i + 1);
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    mnem_status status = MNEM_NO_MEMORY;
    for (uint64_t n = 1; status == MNEM_NO_MEMORY; n++) {
        mnem_workload *w;
        mnem__heap_fail_at(n, false);
        status = mnem_workload_read("t", text, (size_t)(p - text), NULL, &w);
        mnem__heap_fail_at(0, false);
        if (status == MNEM_OK) assert_true(n > 8);
        mnem_workload_close(w);
        mnem_heap_usage_get(&after);
        assert_int_equal(after.bytes_live, before.bytes_live);
    }
    assert_int_equal(status, MNEM_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_comment_may_say_a_blocks_site),
        cmocka_unit_test(a_sites_text_is_cut),
        cmocka_unit_test(operations_are_read_in_order),
        cmocka_unit_test(what_is_not_of_the_format_is_refused_with_its_line),
        cmocka_unit_test(a_line_that_never_ends_is_refused),
        cmocka_unit_test(a_file_longer_than_the_window_is_read),
        cmocka_unit_test(a_file_that_cannot_be_read_is_named),
        cmocka_unit_test(reading_can_be_cancelled),
        cmocka_unit_test(memory_may_run_out_at_any_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
