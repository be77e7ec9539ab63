/* test_api_json.c: bodies as JSON inside fixed bytes: whatever a body is, it is parsed, or refused
 * with the bytes; and nothing outside of its block is read or taken. */
#include "kit/kit.h"

#include <stdlib.h>
#include <string.h>

#include "server/api/api_json.h"

enum { BODY = 1 << 20, BLOCK = 6 << 20 };

static char body[BODY + 256];

/* A body of about n bytes: begin, units, end. */
static size_t fill(size_t n, const char *begin, const char *unit, const char *end) {
    const size_t step = strlen(unit), last = strlen(end);
    size_t at = strlen(begin);
    memcpy(body, begin, at);
    for (; at + step + last <= n; at += step) memcpy(body + at, unit, step);
    memcpy(body + at, end, last + 1);
    return at + last;
}

/* 0: it was parsed. */
static int open_status(size_t n, size_t block, size_t *used) {
    api_error error = {0};
    api_json json;
    const bool fine = api_json_open(&json, body, n, block, &error);
    assert_true(fine ? error.status == 0 && json_is_object(json.root) : error.status != 0);
    assert_true(json.used <= json.bytes && json.bytes == block);
    if (error.status == 413) assert_non_null(strstr(error.message, "bytes of memory"));
    *used = json.used;
    api_json_close(&json);
    return error.status;
}

static const struct {
    const char *begin, *unit, *end;
} shapes[] = {
    {"{\"prompt\":\"", "abcdefgh", "\"}"},
    {"{\"prompt\":\"", "\\u00e9\\n", "\"}"},
    {"{\"prompt\":\"", "ab ", "\"}"},
    {"{\"", "k", "\":0}"},
    {"{\"a\":[", "0,", "0]}"},
    {"{\"a\":[", "\"\",", "0]}"},
    {"{\"a\":[", "{},", "0]}"},
    {"{\"a\":[", "{\"a\":{\"b\":0}},", "0]}"},
    {"{\"a\":0.", "1234567", "}"},
    {"{\"a\":", "9", "}"},
    {"{\"a\":[", "\"12345678901234567\",", "0]}"},
    {"{\"a\":", " \n", "0}"},
    {"{", "\"a\":0,", "\"a\":0}"},
    {"{\"a\":tru", "e", "}"},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* jansson's lexer used to read behind its buffer where that couldn't grow. */
static void a_body_of_1_mib_costs_its_block_at_the_most(void **state) {
    (void)state;
    for (size_t s = 0; s < SHAPES; s++) {
        const size_t n = fill(BODY, shapes[s].begin, shapes[s].unit, shapes[s].end);
        for (size_t block = 4096; block <= 16 * MIB; block *= 4) {
            size_t used;
            const int status = open_status(n, block, &used);
            assert_true(status == 0 || status == 400 || status == 413);
        }
    }
}

static void a_string_takes_its_copy_and_what_the_lexer_doubles(void **state) {
    (void)state;
    size_t used;
    const size_t n = fill(BODY, shapes[0].begin, shapes[0].unit, shapes[0].end);
    assert_int_equal(open_status(n, BLOCK, &used), 0);
    assert_true(used <= 5 * n);
    assert_int_equal(open_status(n, 2 * MIB, &used), 413);
}

/* Every allocation of a parse fails once. */
static void a_body_that_does_not_fit_is_413_at_any_byte(void **state) {
    (void)state;
    static const char small[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"And it came to pass in those days\"}],"
        "\"temperature\":0.25,\"stop\":[\"a\",\"bb\",\"ccc\"],\"a key of some length\":[1,2,[3]]}";
    size_t need, used;
    memcpy(body, small, sizeof small);
    assert_int_equal(open_status(sizeof small - 1, MIB, &need), 0);
    for (size_t block = 16; block < need; block += 16)
        assert_int_equal(open_status(sizeof small - 1, block, &used), 413);
    assert_int_equal(open_status(sizeof small - 1, need, &used), 0);
}

/* Texts within a body, as arguments of calls are, are parsed in what is left. */
static void what_is_parsed_later_shares_the_block(void **state) {
    (void)state;
    api_error error = {0};
    api_json json;
    const size_t n = fill(BODY / 4, "{\"x\":\"", "abcdefgh", "\"}");
    assert_true(api_json_open(&json, "{}", 2, n, &error));
    assert_null(api_json_value(body, n));
    assert_true(json.full);
    assert_false(api_json_check(&json, &error));
    assert_int_equal(error.status, 413);
    api_json_close(&json);
    error = (api_error){0};
    assert_true(api_json_open(&json, "{}", 2, 8 * n, &error));
    assert_non_null(api_json_value(body, n));
    assert_true(api_json_check(&json, &error));
    api_json_close(&json);
}

static int install(void **state) {
    (void)state;
    api_json_install();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_of_1_mib_costs_its_block_at_the_most),
        cmocka_unit_test(a_string_takes_its_copy_and_what_the_lexer_doubles),
        cmocka_unit_test(a_body_that_does_not_fit_is_413_at_any_byte),
        cmocka_unit_test(what_is_parsed_later_shares_the_block),
    };
    return cmocka_run_group_tests(tests, install, NULL);
}
