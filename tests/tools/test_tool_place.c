/* test_tool_place.c: `mnem place`: report, JSON, table, picture, exit codes and bad input. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/kit.h"
#include "tools/kit/tool_moment.h"
#include "tools/tool_run.h"

/* MiniMalloc's example: 12 bytes are enough, and needed. */
static const char table[] = "id,lower,upper,size\n"
                            "b1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n";

static double number(json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("%s is no number", key);
    return json_number_value(value);
}

static void report_says_how_good_it_is(void **state) {
    (void)state;
    tool_result r = RUN("place", tool_file("t.csv", table));
    assert_int_equal(r.code, 0);
    assert_int_equal(r.err_bytes, 0);
    assert_non_null(strstr(r.out, "5 buffers"));
    assert_non_null(strstr(r.out, "optimal: no placement takes less"));
    assert_non_null(strstr(r.out, "busiest  at time 0, with 3 live buffers"));
    assert_non_null(strstr(r.out, "b3, 0 to 9"));
}

static void json_has_the_numbers(void **state) {
    (void)state;
    tool_result r = RUN("place", tool_file("t.csv", table), "--json", "--seed", "3");
    json_t *root = json_loads(r.out, 0, NULL);
    assert_non_null(root);
    assert_int_equal(number(root, "buffers"), 5);
    assert_int_equal(number(root, "peak_bytes"), 12);
    assert_int_equal(number(root, "lower_bound_bytes"), 12);
    assert_int_equal(number(root, "total_bytes"), 20);
    assert_string_equal(json_string_value(json_object_get(root, "verdict")), "optimal");
    assert_int_equal(json_array_size(json_object_get(root, "alive")), 3);
    json_decref(root);
}

static void capacity_decides_the_exit_code(void **state) {
    (void)state;
    assert_int_equal(RUN("place", tool_file("t.csv", table), "--capacity", "12").code, 0);
    tool_result r = RUN("place", tool_file("t.csv", table), "--capacity", "11");
    assert_int_equal(r.code, 3);
    assert_non_null(strstr(r.out, "infeasible: no placement fits 11"));
}

static void the_written_table_is_placed_already(void **state) {
    (void)state;
    tool_result r = RUN("place", tool_file("t.csv", table), "-o", "-");
    assert_int_equal(r.code, 0);
    assert_memory_equal(r.out, "id,lower,upper,size,offset\nb1,0,3,4,", 36);
    static char again[TOOL_RUN_BYTES];
    strcpy(again, r.out);
    r = RUN("place", tool_file("again.csv", again), "-o", "-");
    assert_string_equal(r.out, again);
    assert_string_equal(RUN_INPUT(again, "place", "-", "-o", "-").out, again);
}

static void the_picture_names_every_buffer(void **state) {
    (void)state;
    char path[300];
    snprintf(path, sizeof path, "%s/map.svg", tool_scratch());
    const char *in = tool_file("g.csv", "id,lower,upper,size,gaps\n"
                                        "a<b,-5,30,40,2-9@0:8\nc,0,40,24,\n");
    tool_result r = RUN("place", in, "--svg", path, "--capacity", "1K");
    assert_int_equal(r.code, 0);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    static char svg[40000];
    svg[fread(svg, 1, sizeof svg - 1, file)] = 0;
    fclose(file);
    assert_non_null(strstr(svg, "<title>a&lt;b: 40 bytes at "));
    assert_non_null(strstr(svg, "<title>c: 24 bytes at "));
    assert_non_null(strstr(svg, "capacity 1,024"));
    assert_non_null(strstr(svg, "bound "));
    assert_non_null(strstr(svg, "</svg>"));
    assert_int_equal(RUN("place", in, "--svg", "/nonexistent/map.svg").code, 1);
}

static void bad_tables_are_plain_errors(void **state) {
    (void)state;
    tool_result r = RUN("place", "/nonexistent/t.csv");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "can't read /nonexistent/t.csv"));
    r = RUN("place", tool_file("bad.csv", "id,lower,upper,size\nx,1,2,many\n"));
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "line 2, column size: \"many\""));
    r = RUN("place", tool_file("bad.csv", "id,lower,upper,size\nx,2,2,1\n"));
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "the lifetime from 2 to 2"));
    assert_int_equal(RUN("place", tool_scratch()).code, 1);
    r = RUN("place", tool_file("empty.csv", "id,lower,upper,size\n"));
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "0 buffers"));
}

/* ---- several spaces ---- */

static const char spread[] = "id,lower,upper,size,accesses,spaces\n"
                             "a,0,4,600,5,\nb,0,2,500,4,chip main\nc,1,4,500,1,main\n"
                             "d,2,6,400,9,chip\ne,5,8,900,2,\n";

static void spaces_are_filled_by_cost(void **state) {
    (void)state;
    const char *in = tool_file("s.csv", spread);
    tool_result r = RUN("place", in, "--space", "chip=1K", "--space", "main:20");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "cost     86,000, bound 86,000"));
    assert_non_null(strstr(r.out, "optimal: no placement costs less"));
    assert_non_null(strstr(r.out, "chip, d, 2 to 6"));
    r = RUN("place", in, "--space", "chip=1K", "--space", "main:20", "--json");
    json_t *root = json_loads(r.out, 0, NULL);
    assert_non_null(root);
    assert_int_equal(number(root, "cost"), 86000);
    assert_int_equal(json_array_size(json_object_get(root, "placed")), 5);
    json_t *chip = json_array_get(json_object_get(root, "spaces"), 0);
    assert_int_equal(number(chip, "capacity_bytes"), 1024);
    assert_int_equal(number(chip, "peak_bytes"), 1000);
    assert_int_equal(number(chip, "buffers"), 2);
    json_decref(root);
}

static void the_written_table_of_spaces_is_placed_already(void **state) {
    (void)state;
    tool_result r = RUN("place", tool_file("s.csv", spread), "--space", "chip=1K", "--space",
                        "main:20", "--out=-");
    assert_memory_equal(r.out, "id,lower,upper,size,accesses,spaces,space,offset\n", 49);
    assert_non_null(strstr(r.out, "d,2,6,400,9,chip,chip,"));
    static char again[TOOL_RUN_BYTES];
    strcpy(again, r.out);
    r = RUN("place", tool_file("s2.csv", again), "--space", "chip=1K", "--space", "main:20", "-o",
            "-");
    assert_string_equal(r.out, again);
}

static void what_fits_no_space_is_infeasible(void **state) {
    (void)state;
    const char *in = tool_file("s.csv", spread);
    tool_result r = RUN("place", in, "--space", "chip=300", "--space", "main");
    assert_int_equal(r.code, 3);
    assert_non_null(strstr(r.out, "infeasible: nothing fits these capacities"));
    r = RUN("place", in, "--space", "chip=300");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "line 3, column spaces: \"chip main\""));
    r = RUN("place", tool_file("bad.csv", "id,lower,upper,size,accesses\nx,1,2,3,-4\n"), "--space",
            "chip");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "line 2, column accesses: \"-4\""));
    r = RUN("place",
            tool_file("bad.csv", "id,lower,upper,size,accesses\nx,1,2,9,18446744073709551615\n"),
            "--space", "chip");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "the costs of buffers"));
}

static void the_picture_has_a_band_for_each_space(void **state) {
    (void)state;
    char path[300];
    snprintf(path, sizeof path, "%s/spaces.svg", tool_scratch());
    tool_result r = RUN("place", tool_file("s.csv", spread), "--space", "chip=1K", "--space",
                        "main:20", "--svg", path);
    assert_int_equal(r.code, 0);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    static char svg[40000];
    svg[fread(svg, 1, sizeof svg - 1, file)] = 0;
    fclose(file);
    assert_non_null(strstr(svg, "chip<title>peak 1,000 of 1,024 bytes</title>"));
    assert_non_null(strstr(svg, "main<title>peak 1,000 of any number of bytes</title>"));
    assert_non_null(strstr(svg, "<title>e: 900 bytes at "));
    assert_non_null(strstr(svg, "</svg>"));
}

/* ---- signals ---- */

/* Sizes that alignment wastes: the bound is out of reach and no better one is proved. */
static const char *endless_table(void) {
    static char text[20000];
    size_t n = (size_t)sprintf(text, "id,lower,upper,size,alignment\n");
    uint32_t random = 7;
    for (int i = 0; i < 200; i++) {
        random = random * 1664525u + 1013904223u;
        const unsigned lower = random >> 8 & 63, life = 1 + (random >> 14 & 15);
        n += (size_t)sprintf(text + n, "%d,%u,%u,%u,%u\n", i, lower, lower + life,
                             1 + (random >> 18 & 8191), 1u << (random >> 29) << 6);
    }
    return tool_file("endless.csv", text);
}

static void assert_stopped(int signal, const char *space, const char *other) {
    char csv[300], svg[300], text[65536];
    snprintf(csv, sizeof csv, "%s/stopped.csv", tool_scratch());
    snprintf(svg, sizeof svg, "%s/stopped.svg", tool_scratch());
    unlink(csv);
    unlink(svg);
    int out, err;
    const pid_t pid = tool_start((const char *const[]){"place", endless_table(), "--time", "100",
                                                       "-o", csv, "--svg", svg, space, other, NULL},
                                 &out, &err);
    moment_handles(pid, signal); /* from then on it ends the search, and nothing else */
    kill(pid, signal);
    assert_int_equal(tool_wait(pid), 128 + signal);
    size_t n = 0;
    for (ssize_t got; (got = read(out, text + n, sizeof text - 1 - n)) > 0;) n += (size_t)got;
    text[n] = 0;
    close(out);
    close(err);
    assert_non_null(strstr(text, "stopped  by a signal: the best so far"));
    assert_int_equal(access(svg, R_OK), 0);
    FILE *file = fopen(csv, "r");
    assert_non_null(file);
    int lines = 0;
    while (fgets(text, sizeof text, file)) lines++;
    fclose(file);
    assert_int_equal(lines, 201);
}

static void a_signal_ends_the_search_and_keeps_the_best(void **state) {
    (void)state;
    assert_stopped(SIGINT, NULL, NULL);
    assert_stopped(SIGTERM, NULL, NULL);
    assert_stopped(SIGINT, "--space=chip=64K", "--space=main");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report_says_how_good_it_is),
        cmocka_unit_test(json_has_the_numbers),
        cmocka_unit_test(capacity_decides_the_exit_code),
        cmocka_unit_test(the_written_table_is_placed_already),
        cmocka_unit_test(the_picture_names_every_buffer),
        cmocka_unit_test(bad_tables_are_plain_errors),
        cmocka_unit_test(spaces_are_filled_by_cost),
        cmocka_unit_test(the_written_table_of_spaces_is_placed_already),
        cmocka_unit_test(what_fits_no_space_is_infeasible),
        cmocka_unit_test(the_picture_has_a_band_for_each_space),
        cmocka_unit_test(a_signal_ends_the_search_and_keeps_the_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
