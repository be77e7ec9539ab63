/* test_trace.c: what the ledger did is in the trace, and other programs can read it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "mnem/trace.h"

static json_t *written(mnem_trace *trace) {
    const char *path = kit_path("trace.json");
    assert_int_equal(mnem_trace_write(trace, path), MNEM_OK);
    json_error_t error;
    json_t *json = json_load_file(path, 0, &error);
    if (!json) fail_msg("%d: %s", error.line, error.text);
    return json;
}

/* The i-th event of a phase whose name is name; NULL: none. */
static json_t *event(json_t *json, const char *phase, const char *name, size_t i) {
    size_t at;
    json_t *e;
    json_array_foreach(json_object_get(json, "traceEvents"), at, e) {
        if (strcmp(json_string_value(json_object_get(e, "ph")), phase) != 0) continue;
        if (strcmp(json_string_value(json_object_get(e, "name")), name) != 0) continue;
        if (i-- == 0) return e;
    }
    return NULL;
}

static json_int_t counter(json_t *json, const char *name, const char *tag, size_t i) {
    json_t *e = event(json, "C", name, i);
    return e ? json_integer_value(json_object_get(json_object_get(e, "args"), tag)) : -1;
}

static void charges_spans_and_refusals_are_written(void **state) {
    (void)state;
    mnem_ledger *ledger;
    mnem_trace *trace;
    assert_int_equal(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 100}, &ledger), 0);
    assert_int_equal(mnem_trace_create(64, &trace), MNEM_OK);
    mnem_trace_begin(trace, "a \"load\"");
    assert_int_equal(mnem_ledger_charge(ledger, MNEM_KIND_KV, "pages", 60), MNEM_OK);
    assert_int_equal(mnem_ledger_charge(ledger, MNEM_KIND_KV, "pages", 60), MNEM_OVER_BUDGET);
    mnem_ledger_release(ledger, MNEM_KIND_KV, "pages", 25);
    mnem_trace_end(trace, "a \"load\"");
    json_t *json = written(trace);
    assert_int_equal(counter(json, "kv bytes", "pages", 0), 60);
    assert_int_equal(counter(json, "kv bytes", "pages", 1), 35);
    assert_non_null(event(json, "i", "refused: kv pages", 0));
    assert_non_null(event(json, "B", "a \"load\"", 0));
    assert_non_null(event(json, "E", "a \"load\"", 0));
    mnem_trace_info info;
    mnem_trace_info_get(trace, &info);
    assert_int_equal(info.bytes_peak, 60);
    assert_int_equal(info.events, 5);
    json_decref(json);
    mnem_trace_destroy(trace);
    mnem_ledger_release(ledger, MNEM_KIND_KV, "pages", 35);
    assert_int_equal(mnem_ledger_destroy(ledger), MNEM_OK);
}

static void a_full_trace_counts_what_it_drops(void **state) {
    (void)state;
    mnem_ledger *ledger;
    mnem_trace *trace;
    assert_int_equal(mnem_ledger_create(NULL, &ledger), MNEM_OK);
    assert_int_equal(mnem_trace_create(3, &trace), MNEM_OK);
    for (int i = 0; i < 10; i++) mnem_ledger_charge(ledger, MNEM_KIND_IO, "ring", 1);
    mnem_trace_info info;
    mnem_trace_info_get(trace, &info);
    assert_int_equal(info.events, 3);
    assert_int_equal(info.dropped, 7);
    assert_int_equal(info.bytes_peak, 10);
    mnem_trace_destroy(trace);
    mnem_ledger_release(ledger, MNEM_KIND_IO, "ring", 10);
    assert_int_equal(mnem_ledger_destroy(ledger), MNEM_OK);
}

static void one_trace_listens_at_a_time(void **state) {
    (void)state;
    mnem_trace *first, *second;
    assert_int_equal(mnem_trace_create(1, &first), MNEM_OK);
    assert_int_equal(mnem_trace_create(1, &second), MNEM_BUSY);
    mnem_trace_destroy(first);
    assert_int_equal(mnem_trace_create(1, &second), MNEM_OK);
    mnem_trace_destroy(second);
}

static void a_failed_allocation_leaves_the_sink_free(void **state) {
    (void)state;
    mnem_trace *trace;
    mnem__heap_fail_at(1, false);
    assert_int_equal(mnem_trace_create(1, &trace), MNEM_NO_MEMORY);
    mnem__heap_fail_at(0, false);
    assert_int_equal(mnem_trace_create(1, &trace), MNEM_OK);
    mnem_trace_destroy(trace);
}

static void a_path_that_cannot_be_written_is_named(void **state) {
    (void)state;
    mnem_trace *trace;
    assert_int_equal(mnem_trace_create(1, &trace), MNEM_OK);
    assert_int_equal(mnem_trace_write(trace, "/nowhere/x.json"), MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), "/nowhere/x.json"));
    mnem_trace_destroy(trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(charges_spans_and_refusals_are_written),
        cmocka_unit_test(a_full_trace_counts_what_it_drops),
        cmocka_unit_test(one_trace_listens_at_a_time),
        cmocka_unit_test(a_failed_allocation_leaves_the_sink_free),
        cmocka_unit_test(a_path_that_cannot_be_written_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
