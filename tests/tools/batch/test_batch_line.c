/* test_batch_line.c: lines of `mnem batch` without the command: what is a request, what an answer,
 * which ids are the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "tools/batch/line_check.h"
#include "verbs/batch/batch_ids.h"

static batch_slice slice(const char *text) {
    return (batch_slice){text, strlen(text)};
}

static void ids_are_texts_however_they_are_written(void **state) {
    (void)state;
    static const char *const same[][2] = {{"\"a\"", "\"\\u0061\""},
                                          {"\"\xc3\xa9\"", "\"\\u00E9\""},
                                          {"\"\xf0\x9f\x98\x80\"", "\"\\ud83d\\uDE00\""},
                                          {"\"/\\n\"", "\"\\/\\u000a\""}};
    static const char *const bad[] = {"\"\\u12\"",
                                      "\"\\ud800\"",
                                      "\"\\udc00\"",
                                      "\"\\ud800\\u0041\"",
                                      "\"\\x\"",
                                      "\"\xff\"",
                                      "\"\xc0\x80\"",
                                      "\"\xed\xa0\x80\"",
                                      "\"\xf5\x80\x80\x80\"",
                                      "\"\xe2\x82\"",
                                      "7",
                                      "\""};
    char decoded[BATCH_ID_MOST];
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        assert_true(batch_key(slice(same[i][0])) == batch_key(slice(same[i][1])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_true(batch_text_decode(slice(bad[i]), decoded) == -1);
    assert_true(batch_key(slice("\"a\"")) != batch_key(slice("\"b\"")));
    assert_true(batch_key_refused(1, slice("\"a\"")) != batch_key_refused(2, slice("\"a\"")));
    assert_true(batch_key_refused(1, slice("\"a\"")) != batch_key(slice("\"a\"")));
}

static unsigned draw(unsigned *state) {
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

/* A line, some of whose bytes are another's, or gone, or there twice. */
static void any_bytes_are_a_request_or_none(void **state) {
    (void)state;
    static const char *const lines[] = {
        "{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/completions\", \"body\": "
        "{\"prompt\": \"}]\\\"{\", \"x\": [[1, -2.5e3], {\"y\": null}]}}",
        " { \"body\" : { } , "
        "\"url\":\"\\/v1/embeddings\",\"custom_id\":\"\\u00e9\",\"more\":[true]}",
        "{\"id\":\"batch_req_0123456789abcdef_12\",\"custom_id\":\"a\",\"response\":"
        "{\"status_code\":200,\"request_id\":\"req_0123456789abcdef_12\",\"body\":{}},\"error\":"
        "null}",
        "{\"id\":\"batch_err_f_1\",\"custom_id\":null,\"response\":{\"status_code\":400,\"body\":{}"
        "}}"};
    enum { TURNS = 40000 };
    unsigned draws = 3, taken = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        char text[400];
        const char *from = lines[draw(&draws) % 4], *other = lines[draw(&draws) % 4];
        size_t n = strlen(from);
        memcpy(text, from, n);
        for (unsigned change = draw(&draws) % 4; change; change--) {
            const size_t at = draw(&draws) % n, what = draw(&draws) % 4;
            if (what == 0) text[at] = other[draw(&draws) % strlen(other)];
            if (what == 1) memmove(text + at, text + at + 1, --n - at);
            if (what == 2) n = at + 1;
            if (what == 3) text[at] = (char)draw(&draws);
        }
        taken += line_check_request(text, n);
        line_check_answer(text, n);
        line_check_file(text, n);
    }
    assert_in_range(taken, TURNS / 20, TURNS);
}

static void what_is_marked_is_found(void **state) {
    (void)state;
    enum { MOST = 5000 };
    batch_ids ids;
    void *memory = calloc(1, batch_ids_bytes(MOST));
    char text[32];
    batch_ids_init(&ids, memory, MOST);
    for (int i = 0; i < MOST; i++) {
        snprintf(text, sizeof text, "\"r%d\"", i);
        const uint64_t key = batch_key(slice(text));
        assert_false(batch_ids_has(&ids, key, BATCH_SEEN));
        assert_false(batch_ids_mark(&ids, key, i % 2 ? BATCH_SEEN : BATCH_ANSWERED));
    }
    for (int i = 0; i < MOST; i++) {
        snprintf(text, sizeof text, "\"r%d\"", i);
        const uint64_t key = batch_key(slice(text));
        assert_true(batch_ids_has(&ids, key, BATCH_SEEN) == (i % 2 == 1));
        assert_true(batch_ids_mark(&ids, key, BATCH_SEEN) == (i % 2 == 1));
        assert_true(batch_ids_has(&ids, key, BATCH_ANSWERED) == (i % 2 == 0));
    }
    free(memory);
}

/* A line may begin in one chunk and end in another. */
static void long_files_are_read_whole(void **state) {
    (void)state;
    enum { BYTES = 300000 };
    char *text = malloc(BYTES);
    unsigned draws = 9;
    for (int i = 0; i < BYTES; i++)
        text[i] = draw(&draws) % 60 ? 'a' : draw(&draws) % 9 ? '\n' : '\r';
    for (int i = 0; i < 20; i++) line_check_file(text, BYTES - draw(&draws) % 70000);
    memset(text + 1000, 'b', 200000);
    line_check_file(text, BYTES);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_texts_however_they_are_written),
        cmocka_unit_test(any_bytes_are_a_request_or_none),
        cmocka_unit_test(what_is_marked_is_found),
        cmocka_unit_test(long_files_are_read_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
