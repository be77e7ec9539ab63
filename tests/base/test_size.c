/* test_size.c: sizes from and to text. */
#include <string.h>

#include "kit/kit.h"
#include "mnem/base.h"

static void units_are_powers_of_two_or_ten(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"4096", 4096},
        {"1", 1},
        {"12B", 12},
        {"64M", 64 << 20},
        {"64MiB", 64 << 20},
        {"64mib", 64 << 20},
        {"64MB", 64000000},
        {"2k", 2048},
        {"2kB", 2000},
        {"2G", UINT64_C(2) << 30},
        {"1T", UINT64_C(1) << 40},
        {"1TB", UINT64_C(1000000000000)},
        {"1.5GiB", UINT64_C(3) << 29},
        {"0.5K", 512},
        {".5K", 512},
        {"1.1K", 1126},
        {"8388607T", (UINT64_C(8388607) << 40)},
        {"9223372036854775807", INT64_MAX},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t bytes = 0;
        if (mnem_size_parse(good[i].text, &bytes) != MNEM_OK) fail_msg("%s", mnem_last_error());
        assert_int_equal(bytes, good[i].bytes);
    }
}

static void what_is_no_size_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"",        "0",    "0.0M",
                                      "-1",      "+1",   " 1",
                                      "1 M",     "M",    "1X",
                                      "1.5",     "1.5B", "1..5",
                                      "1.M",     ".",    "8388608T",
                                      "1MBB",    "1MiX", "9223372036854775808",
                                      "1e3",     "0x10", "99999999999999999999999",
                                      "0.00001K"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t bytes = 7;
        if (mnem_size_parse(bad[i], &bytes) != MNEM_INVALID) fail_msg("\"%s\" passed", bad[i]);
        assert_int_equal(bytes, 7);
        assert_non_null(strstr(mnem_last_error(), bad[i]));
    }
}

static void sizes_print_with_three_digits(void **state) {
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {512, "512 B"},
        {1023, "1023 B"},
        {1024, "1 KiB"},
        {1536, "1.5 KiB"},
        {64 << 20, "64 MiB"},
        {64000000, "61 MiB"},
        {(UINT64_C(1) << 20) - 1, "1 MiB"},
        {UINT64_C(1256277606), "1.17 GiB"},
        {UINT64_C(624951296), "596 MiB"},
        {UINT64_MAX, "16 EiB"},
    };
    char out[24];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(mnem_size_format(cases[i].bytes, out, sizeof out), cases[i].text);
    assert_string_equal(mnem_size_format(64 << 20, out, 4), "64 ");
}

/* Exactly: the bytes rounded up to 4 KiB, and no more. */
static void a_budget_is_read_as_it_is_written(void **state) {
    (void)state;
    static const struct {
        uint64_t needed;
        const char *text;
    } cases[] = {{1, "4K"},
                 {4096, "4K"},
                 {4097, "8K"},
                 {6 << 20, "6M"},
                 {(6 << 20) + 1, "6148K"},
                 {(6 << 20) + (128 << 10), "6.125M"},
                 {9870330, "9640K"}};
    char out[24];
    uint64_t bytes;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(mnem_size_budget(cases[i].needed, out, sizeof out), cases[i].text);
    for (uint64_t needed = 1, i = 0; i < 50; i++, needed = needed * 2 + 12345) {
        mnem_size_budget(needed, out, sizeof out);
        assert_int_equal(mnem_size_parse(out, &bytes), MNEM_OK);
        if (bytes % 4096 || bytes < needed || bytes - needed >= 4096)
            fail_msg("%llu: %s", (unsigned long long)needed, out);
    }
    assert_int_equal(mnem_size_parse(mnem_size_budget(0, out, sizeof out), &bytes), MNEM_OK);
    assert_int_equal(mnem_size_parse(mnem_size_budget(UINT64_MAX, out, sizeof out), &bytes),
                     MNEM_OK);
    assert_true(strlen(out) < sizeof out - 1);
}

static void statuses_have_texts(void **state) {
    (void)state;
    for (int i = 0; i < MNEM_STATUS_COUNT; i++)
        assert_string_not_equal(mnem_status_text((mnem_status)i), "unknown status");
    assert_string_equal(mnem_status_text((mnem_status)99), "unknown status");
    assert_string_equal(mnem_version(), MNEM_VERSION);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_are_powers_of_two_or_ten),
        cmocka_unit_test(what_is_no_size_is_refused),
        cmocka_unit_test(sizes_print_with_three_digits),
        cmocka_unit_test(a_budget_is_read_as_it_is_written),
        cmocka_unit_test(statuses_have_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
