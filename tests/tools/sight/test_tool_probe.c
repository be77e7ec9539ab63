/* test_tool_probe.c: `mnem probe`: what it prints, keeps and refuses. How fast the machine is, and
 * whether it is busy, makes no difference. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "kit/kit.h"
#include "tools/tool_run.h"

static json_t *whole(const tool_result *r) {
    json_error_t error;
    assert_int_equal(r->code, 0);
    assert_ptr_equal(strchr(r->out, '\n'), r->out + r->out_bytes - 1); /* one line */
    json_t *object = json_loads(r->out, 0, &error);
    if (!object) fail_msg("%s", error.text);
    return object;
}

static void json_is_one_object_within_the_budget(void **state) {
    (void)state;
    tool_result r = RUN("probe", "--seconds", "0.5", "--memory", "64M", "--json", "-q", "-t", "2");
    json_t *probe = whole(&r);
    assert_int_equal(r.err_bytes, 0);
    assert_string_equal(json_string_value(json_object_get(probe, "type")), "probe");
    const json_t *levels = json_object_get(probe, "levels");
    const size_t count = json_array_size(levels);
    assert_in_range(count, 2, 4);
    const json_t *memory = json_array_get(levels, count - 1);
    assert_string_equal(json_string_value(json_object_get(memory, "name")), "memory");
    assert_int_equal(
        json_array_size(json_object_get(json_object_get(memory, "bytes_per_s"), "load")),
        json_array_size(json_object_get(probe, "teams")));
    assert_true(json_array_size(json_object_get(probe, "peaks")) >= 2);
#if MNEM_RELEASE
    assert_true(json_integer_value(json_object_get(probe, "vmhwm")) <= 64 << 20);
#endif
    json_decref(probe);
}

static void the_tables_have_every_level(void **state) {
    (void)state;
    tool_result r = RUN("probe", "--seconds", "0.3", "--memory", "80M", "-t", "1");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "\nL1 "));
    assert_non_null(strstr(r.out, "\nmemory "));
    assert_non_null(strstr(r.out, "FLOP a byte at the ridge"));
    assert_non_null(strstr(r.out, "\nf32 "));
    assert_non_null(strstr(r.out, "\nint8 "));
    assert_non_null(strstr(r.out, "weights, pages of keys and values"));
}

static void too_little_is_refused_with_the_bytes(void **state) {
    (void)state;
    tool_result r = RUN("probe", "--memory", "1M");
    assert_int_equal(r.code, 3);
    assert_int_equal(r.out_bytes, 0);
#if MNEM_RELEASE
    r = RUN("probe", "--memory", "10M", "-t", "9");
    assert_int_equal(r.code, 3);
    assert_non_null(strstr(r.err, "9 threads and a block"));
#endif
}

static void wrong_usage_is_said(void **state) {
    (void)state;
    assert_int_equal(RUN("probe", "--seconds", "0").code, 2);
    assert_int_equal(RUN("probe", "--seconds", "61").code, 2);
    assert_int_equal(RUN("probe", "--threads", "0").code, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_one_object_within_the_budget),
        cmocka_unit_test(the_tables_have_every_level),
        cmocka_unit_test(too_little_is_refused_with_the_bytes),
        cmocka_unit_test(wrong_usage_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
