/* test_open_metrics.c: the text that dashboards read, to the byte. PyPI's prometheus-client reads
 * the server's whole answer in tests/clients/viewers. */
#include "kit/kit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "server/open_metrics.h"

static char text[4096];

static void keep(void *context, const char *bytes, size_t n) {
    (void)context;
    strncat(text, bytes, n);
}

static open_metrics begin(void) {
    text[0] = 0;
    return (open_metrics){.put = keep};
}

static void counters_end_in_total_and_the_text_in_eof(void **state) {
    (void)state;
    open_metrics m = begin();
    open_metrics_family(&m, "mnem_", "steps", OPEN_METRICS_COUNTER, "Steps of the engine");
    open_metrics_count(&m, NULL, 7);
    open_metrics_family(&m, "mnem_", "ledger_bytes", OPEN_METRICS_GAUGE, "An account");
    open_metrics_count(&m, (open_metrics_label[]){{"kind", "kv"}, {"tag", "pages"}, {0}},
                       UINT64_MAX);
    open_metrics_end(&m);
    assert_string_equal(text, "# TYPE mnem_steps counter\n"
                              "# HELP mnem_steps Steps of the engine.\n"
                              "mnem_steps_total 7\n"
                              "# TYPE mnem_ledger_bytes gauge\n"
                              "# HELP mnem_ledger_bytes An account.\n"
                              "mnem_ledger_bytes{kind=\"kv\",tag=\"pages\"} 18446744073709551615\n"
                              "# EOF\n");
}

static void labels_escape_three_characters_and_are_utf8(void **state) {
    (void)state;
    static const struct {
        const char *value, *written;
    } rows[] = {{"a\"b\\c\nd\te", "a\\\"b\\\\c\\nd\te"},
                {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
                {"cut\xe2\x82", "cut??"},
                {"\xc0\x80\xed\xa0\x80\xff", "??????"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char wanted[256];
        open_metrics m = begin();
        open_metrics_family(&m, "", "x", OPEN_METRICS_GAUGE, "X");
        open_metrics_count(&m, (open_metrics_label[]){{"tag", rows[i].value}, {0}}, 1);
        snprintf(wanted, sizeof wanted, "# TYPE x gauge\n# HELP x X.\nx{tag=\"%s\"} 1\n",
                 rows[i].written);
        assert_string_equal(text, wanted);
    }
}

static void reals_have_the_formats_words_for_what_is_no_number(void **state) {
    (void)state;
    open_metrics m = begin();
    open_metrics_family(&m, "", "x", OPEN_METRICS_GAUGE, "X");
    open_metrics_real(&m, NULL, 0.25);
    open_metrics_real(&m, NULL, (double)INFINITY);
    open_metrics_real(&m, NULL, -(double)INFINITY);
    open_metrics_real(&m, NULL, (double)NAN);
    assert_non_null(strstr(text, "\nx 0.25\nx +Inf\nx -Inf\nx NaN\n"));
}

static void buckets_add_up_and_end_at_infinity(void **state) {
    (void)state;
    mnem_histogram h = {.count = 3, .sum = 1.5};
    h.bucket[0] = 2;
    h.bucket[MNEM_HISTOGRAM_BUCKETS - 1] = 1;
    open_metrics m = begin();
    open_metrics_family(&m, "mnem_", "step_seconds", OPEN_METRICS_HISTOGRAM, "A step");
    open_metrics_histogram(&m, NULL, &h);
    char first[64];
    snprintf(first, sizeof first, "\nmnem_step_seconds_bucket{le=\"%.10g\"} 2\n",
             mnem_histogram_bound(0));
    assert_non_null(strstr(text, first));
    assert_non_null(strstr(text, "\nmnem_step_seconds_bucket{le=\"+Inf\"} 3\n"
                                 "mnem_step_seconds_count 3\nmnem_step_seconds_sum 1.5\n"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_end_in_total_and_the_text_in_eof),
        cmocka_unit_test(labels_escape_three_characters_and_are_utf8),
        cmocka_unit_test(reals_have_the_formats_words_for_what_is_no_number),
        cmocka_unit_test(buckets_add_up_and_end_at_infinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
