/* test_tool_place.c: `mnem place`: report, JSON, table, picture, exit codes and bad input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

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
    assert_non_null(strstr(r.out, "alive at 0, when most is: 3 buffers"));
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
    assert_non_null(strstr(r.err, "/nonexistent/t.csv: can't read it"));
    r = RUN("place", tool_file("bad.csv", "id,lower,upper,size\nx,1,2,many\n"));
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "line 2, column size: \"many\""));
    r = RUN("place", tool_file("bad.csv", "id,lower,upper,size\nx,2,2,1\n"));
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "lives from 2 to 2"));
    assert_int_equal(RUN("place", tool_scratch()).code, 1);
    r = RUN("place", tool_file("empty.csv", "id,lower,upper,size\n"));
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "0 buffers"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report_says_how_good_it_is),
        cmocka_unit_test(json_has_the_numbers),
        cmocka_unit_test(capacity_decides_the_exit_code),
        cmocka_unit_test(the_written_table_is_placed_already),
        cmocka_unit_test(the_picture_names_every_buffer),
        cmocka_unit_test(bad_tables_are_plain_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
