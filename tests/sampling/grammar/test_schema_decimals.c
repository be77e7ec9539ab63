/* test_schema_decimals.c: bounded numbers in the forms of the serialisers of Python and JavaScript.
 * The C library decides what lies between the bounds: decimals of up to 15 digits are distinct as
 * doubles. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sampling/grammar/match_case.h"

enum { BOUNDS = 60, NUMBERS = 120, DIGITS = 15 };

/* 0.digits * 10^power. */
typedef struct decimal {
    bool negative;
    char digits[DIGITS + 1];
    int power;
} decimal;

static uint64_t seed;
static uint32_t random_below(uint32_t n) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % n;
}

static decimal random_decimal(void) {
    decimal out = {.negative = random_below(4) == 0, .power = (int)random_below(27) - 8};
    const uint32_t n = 1 + random_below(random_below(2) ? 3 : DIGITS);
    for (uint32_t i = 0; i < n; i++) out.digits[i] = (char)('0' + random_below(10));
    if (out.digits[0] == '0') out.digits[0] = '1';
    for (size_t i = n; i > 1 && out.digits[i - 1] == '0'; i--) out.digits[i - 1] = 0;
    return out;
}

/* The same number, or one that differs in its last digit, its sign or its power. */
static decimal near_to(decimal d) {
    char *last = &d.digits[strlen(d.digits) - 1];
    switch (random_below(6)) {
    case 0: d.power += d.power < 18 ? 1 : 0; break;
    case 1: d.power -= d.power > -8 ? 1 : 0; break;
    case 2: *last = *last < '9' ? (char)(*last + 1) : '8'; break;
    case 3: *last = *last > '1' ? (char)(*last - 1) : '2'; break;
    case 4:
        if (strlen(d.digits) < DIGITS) last[1] = '1';
        break;
    default: break;
    }
    return d;
}

static void put_fixed(const decimal *d, bool point, uint32_t zeros, char *out) {
    const int n = (int)strlen(d->digits);
    if (d->negative) *out++ = '-';
    if (d->power <= 0) out += sprintf(out, "0.%.*s%s", -d->power, "00000000", d->digits);
    for (int i = 0; d->power > 0 && (i < n || i < d->power); i++) {
        if (i == d->power) *out++ = '.';
        *out++ = i < n ? d->digits[i] : '0';
    }
    if (d->power >= n && point) out += sprintf(out, ".0");
    if (d->power >= n && !point) zeros = 0;
    sprintf(out, "%.*s", (int)zeros, "000000");
}

static void put_exponent(const decimal *d, const char *exponent, uint32_t zeros, char *out) {
    const bool point = d->digits[1] || zeros;
    sprintf(out, "%s%c%s%s%.*s", d->negative ? "-" : "", d->digits[0], point ? "." : "",
            d->digits + 1, (int)zeros, "000000");
    sprintf(out + strlen(out), exponent, d->power - 1);
}

/* json.dumps's form of a double or of an int, or JSON.stringify's, with zeros behind it. */
static void put_number(const decimal *d, char *out) {
    const uint32_t zeros = random_below(2) ? random_below(7) : 0;
    const bool python = random_below(2);
    if (python && (d->power <= -4 || d->power > 16))
        put_exponent(d, "e%+03d", zeros, out);
    else if (!python && d->power <= -6)
        put_exponent(d, "e%+d", zeros, out);
    else
        put_fixed(d, python, zeros, out);
}

typedef struct bounds {
    double low, high;
    bool low_open, high_open;
} bounds;

static bool admits(const bounds *b, double x) {
    return (b->low_open ? x > b->low : x >= b->low) && (b->high_open ? x < b->high : x <= b->high);
}

/* Bounds between a and b, or only one of them. */
static bounds write_schema(const decimal *a, const decimal *b, char *out) {
    char first[80], second[80];
    put_number(a, first);
    put_number(b, second);
    bounds is = {strtod(first, NULL), strtod(second, NULL), random_below(2), random_below(2)};
    const bool swapped = is.low > is.high;
    if (swapped) is = (bounds){is.high, is.low, is.low_open, is.high_open};
    const uint32_t which = random_below(4);
    out += sprintf(out, "{\"type\":\"number\"");
    if (which != 0)
        out += sprintf(out, ",\"%s\":%s", is.low_open ? "exclusiveMinimum" : "minimum",
                       swapped ? second : first);
    if (which != 1)
        out += sprintf(out, ",\"%s\":%s", is.high_open ? "exclusiveMaximum" : "maximum",
                       swapped ? first : second);
    if (which == 0) is.low = -INFINITY;
    if (which == 1) is.high = INFINITY;
    sprintf(out, "}");
    return is;
}

static bool is_taken(mnem_match *m, const char *text) {
    size_t fits;
    mnem_match_reset(m);
    must(mnem_match_accept_text(m, text, strlen(text), &fits));
    return fits == strlen(text) && mnem_match_may_end(m);
}

static void exactly_the_numbers_between_the_bounds_are_admitted(void **state) {
    (void)state;
    uint32_t inside = 0, outside = 0;
    seed = 33;
    for (int i = 0; i < BOUNDS; i++) {
        char schema[300], text[100];
        mnem_grammar *g;
        mnem_match *m;
        const decimal a = random_decimal(), b = random_below(2) ? near_to(a) : random_decimal();
        const bounds is = write_schema(&a, &b, schema);
        if (is.low == is.high && (is.low_open || is.high_open)) continue;
        if (mnem_grammar_create_schema(NULL, schema, strlen(schema), NULL, &g) != MNEM_OK) {
            /* Nothing of 15 digits may lie between neighbours. */
            assert_non_null(strstr(mnem_last_error(), "no value fits"));
            assert_true(is.low_open && is.high_open && nextafter(is.low, is.high) != is.high);
            assert_true(is.high - is.low <= fabs(is.high) * 1e-14);
            continue;
        }
        must(mnem_match_create(g, &m));
        for (int k = 0; k < NUMBERS; k++) {
            const decimal n = k % 3 == 0 ? random_decimal() : near_to(k % 3 == 1 ? a : b);
            put_number(&n, text);
            const bool expected = admits(&is, strtod(text, NULL));
            if (is_taken(m, text) != expected) fail_msg("%s: %s, not %d", schema, text, expected);
            *(expected ? &inside : &outside) += 1;
        }
        mnem_match_destroy(m);
        mnem_grammar_destroy(g);
    }
    assert_in_range(inside, 1000, BOUNDS * NUMBERS);
    assert_in_range(outside, 1000, BOUNDS * NUMBERS);
}

static const match_case cases[] = {
    {"{\"type\":\"number\",\"minimum\":0.1,\"maximum\":1.0}",
     {"0.1", "1", "1.0", "0.55", "0.100000", "0.999999999999999"},
     {"0.09", "0.0999999999999999", "1.01", "1.000000001", "0", "0.0", "-0.5"}},
    {"{\"type\":\"number\",\"minimum\":0,\"maximum\":0.5}",
     {"0", "0.0", "0.5", "0.50000", "1e-9", "0.49"},
     {"0.51", "1", "-0.1"}},
    {"{\"type\":\"number\",\"minimum\":0.1,\"maximum\":0.9}", {"0.1", "0.9"}, {"0", "1", "0.95"}},
    {"{\"type\":\"number\",\"minimum\":1e-7}",
     {"0.5", "1e-7", "1e-07", "1.0000000e-07", "1e+18", "1000000000000000000", "45.00"},
     {"0", "9e-8", "9e-08", "-1", "0.0", "1e-9", "0.00"}},
    {"{\"type\":\"number\",\"exclusiveMinimum\":0,\"exclusiveMaximum\":100}",
     {"45.00", "45.000000", "99.99", "99.9999999999999", "1e-9", "0.000001"},
     {"0", "0.0", "-0.0", "100", "100.0", "0e0"}},
    {"{\"type\":\"number\",\"minimum\":-0.25,\"maximum\":-1e-3}",
     {"-0.25", "-0.2500", "-0.001", "-0.0010"},
     {"-0.251", "-0.0009", "0", "0.1", "-1e-05", "-1", "0.0"}},
    {"{\"type\":\"integer\",\"minimum\":0.5,\"maximum\":2.5}", {"1", "2"}, {"0", "3", "1.5"}},
    {"{\"type\":\"integer\",\"minimum\":1e18}", {"1000000000000000000"}, {"999999999999999999"}},
    {"{\"type\":\"number\"}",
     {"0.00000123456789012345000000", "1000000000000000000", "1.5e-07", "45.000000"},
     {"1."}},
};

/* The bounds of C's integer types, and their neighbours. */
static const match_case integers[] = {
    {"{\"type\":\"integer\"}",
     {"9223372036854775807", "-9223372036854775808", "9223372036854775799", "8999999999999999999",
      "1000000000000000001", "-9223372036854775807", "999999999999999999", "0"},
     {"9223372036854775808", "-9223372036854775809", "9300000000000000000", "10000000000000000000",
      "9223372036854775810", "9999999999999999999"}},
    {"{\"type\":\"integer\",\"minimum\":-9223372036854775808,\"maximum\":9223372036854775807}",
     {"9223372036854775807", "-9223372036854775808", "-1", "0", "5000000000000000000"},
     {"9223372036854775808", "-9223372036854775809", "-0"}},
    {"{\"type\":\"integer\",\"exclusiveMinimum\":-9223372036854775808,"
     "\"exclusiveMaximum\":9223372036854775807}",
     {"9223372036854775806", "-9223372036854775807"},
     {"9223372036854775807", "-9223372036854775808"}},
    {"{\"type\":\"integer\",\"minimum\":9223372036854775807}",
     {"9223372036854775807"},
     {"9223372036854775806", "9223372036854775808", "-9223372036854775807"}},
    {"{\"type\":\"integer\",\"maximum\":-9223372036854775808}",
     {"-9223372036854775808"},
     {"-9223372036854775807", "0"}},
    {"{\"type\":\"integer\",\"minimum\":0,\"maximum\":18446744073709551615}",
     {"18446744073709551615", "9223372036854775808", "0", "18446744073709551609"},
     {"18446744073709551616", "18446744073709551620", "20000000000000000000", "-1"}},
    {"{\"type\":\"integer\",\"format\":\"uint64\",\"minimum\":0}",
     {"18446744073709551615", "9223372036854775808", "0"},
     {"18446744073709551616", "-1"}},
    {"{\"type\":\"integer\",\"minimum\":9223372036854775808}",
     {"9223372036854775808", "10000000000000000000", "18446744073709551615"},
     {"9223372036854775807", "18446744073709551616"}},
    {"{\"type\":\"integer\",\"maximum\":99999999999999999999999}",
     {"18446744073709551615", "-9223372036854775808"},
     {"18446744073709551616", "-9223372036854775809"}},
    {"{\"type\":\"integer\",\"minimum\":-2147483648,\"maximum\":2147483647}",
     {"-2147483648", "2147483647", "1999999999", "2000000000", "-2147483640"},
     {"-2147483649", "2147483648", "2147483650", "2200000000", "10000000000"}},
    {"{\"type\":\"integer\",\"maximum\":9223372036854775807,\"multipleOf\":7}",
     {"9223372036854775807", "7", "9223372036854775800"},
     {"9223372036854775806", "9223372036854775814"}},
    {"{\"type\":\"number\",\"maximum\":9499999999999999999}",
     {"9499999999999999999", "9499999999999990000.0"},
     {"9500000000000000000", "9500000000000000000.0"}},
};

static void whole_numbers_of_64_bits_are_written_up_to_their_bounds(void **state) {
    (void)state;
    match_cases_check(integers, sizeof integers / sizeof *integers, true);
}

/* Numbers between two random ones of any length, decided by comparing them as C does. */
static uint64_t random_whole(void) {
    const uint64_t wide = (uint64_t)random_below(UINT32_MAX) << 32 | random_below(UINT32_MAX) << 1;
    return (wide | random_below(2)) >> random_below(64);
}

static void exactly_the_integers_between_the_bounds_are_admitted(void **state) {
    (void)state;
    uint32_t inside = 0;
    seed = 64;
    for (int i = 0; i < BOUNDS; i++) {
        char schema[200], text[40];
        mnem_grammar *g;
        mnem_match *m;
        const uint64_t a = random_whole(), b = random_below(3) ? random_whole() : a + 1 + a / 9;
        const uint64_t low = a < b ? a : b, high = a < b ? b : a;
        snprintf(schema, sizeof schema,
                 "{\"type\":\"integer\",\"minimum\":%" PRIu64 ",\"maximum\":%" PRIu64 "}", low,
                 high);
        must(mnem_grammar_create_schema(NULL, schema, strlen(schema), NULL, &g));
        must(mnem_match_create(g, &m));
        for (uint32_t k = 0; k < NUMBERS; k++) {
            const uint64_t near = k % 2 ? low : high, step = k < 20 ? k / 2 : random_whole();
            const uint64_t n = k % 4 < 2 ? near + step : near - step;
            const bool expected = n >= low && n <= high;
            snprintf(text, sizeof text, "%" PRIu64, n);
            if (is_taken(m, text) != expected) fail_msg("%s: %s, not %d", schema, text, expected);
            inside += expected;
        }
        mnem_match_destroy(m);
        mnem_grammar_destroy(g);
    }
    assert_in_range(inside, BOUNDS * NUMBERS / 4, BOUNDS * NUMBERS * 3 / 4);
}

static void fractional_bounds_are_kept(void **state) {
    (void)state;
    match_cases_check(cases, sizeof cases / sizeof *cases, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fractional_bounds_are_kept),
        cmocka_unit_test(exactly_the_numbers_between_the_bounds_are_admitted),
        cmocka_unit_test(whole_numbers_of_64_bits_are_written_up_to_their_bounds),
        cmocka_unit_test(exactly_the_integers_between_the_bounds_are_admitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
