/* test_api_embed.c: /v1/embeddings: what is asked for, what is told, and who waits for whom. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/serve/kit/fake_test.h"

static const char path[] = "/v1/embeddings";

static int open_fake(void **state) {
    (void)state;
    fake_open(&(api_options){.pooling = MNEM_POOLING_LAST, .strict_model = true}, &fake);
    return 0;
}

static void lists_of_ids_and_texts_have_a_vector_each(void **state) {
    (void)state;
    assert_int_equal(fake_post(&fake, path, "{\"input\":[3,4]}")->status, 200);
    assert_true(fake_has("{\"object\":\"list\",\"data\":[{\"object\":\"embedding\",\"index\":0,"
                         "\"embedding\":[3,4,3,4,"));
    assert_true(fake_has("\"model\":\"kjv\",\"usage\":{\"prompt_tokens\":2,\"total_tokens\":2}}"));
    assert_int_equal(fake_post(&fake, path, "{\"input\":[[5],[6,7,8]]}")->status, 200);
    assert_true(fake_has("\"index\":0,\"embedding\":[5,5,5,5,"));
    assert_true(fake_has("\"index\":1,\"embedding\":[6,7,8,6,"));
    assert_true(fake_has("\"prompt_tokens\":4,"));
    assert_int_equal(fake_post(&fake, path, "{\"input\":\"God\"}")->status, 200);
    assert_int_equal(fake_count("\"embedding\":["), 1);
    assert_int_equal(fake_post(&fake, path, "{\"input\":[\"God\",\"said\",\"God\"]}")->status, 200);
    assert_int_equal(fake_count("\"embedding\":["), 3);
    assert_int_equal(fake.embeds, 7);
}

static void base64_is_of_floats_and_fewer_dimensions_have_a_length_of_1(void **state) {
    (void)state;
    fake_post(&fake, path, "{\"input\":[3,4],\"dimensions\":2}");
    assert_true(fake_has("\"embedding\":[0.600000024,0.800000012]}"));
    fake_post(&fake, path, "{\"input\":[1],\"dimensions\":1,\"encoding_format\":\"base64\"}");
    assert_true(fake_has("\"embedding\":\"AACAPw==\"}")); /* 1.0 */
    fake_post(&fake, path, "{\"input\":[3,4],\"dimensions\":2,\"encoding_format\":\"base64\"}");
    assert_true(fake_has("\"embedding\":\"mpkZP83MTD8=\"}"));
}

static void what_can_not_be_done_is_named(void **state) {
    (void)state;
    static const struct {
        const char *body, *param;
        int status;
    } rows[] = {
        {"{}", "\"input\"", 400},
        {"{\"input\":null}", "\"input\"", 400},
        {"{\"input\":7}", "\"input\"", 400},
        {"{\"input\":\"\"}", "\"input\"", 400},
        {"{\"input\":[]}", "\"input\"", 400},
        {"{\"input\":[\"a\",\"\"]}", "\"input\"", 400},
        {"{\"input\":[[]]}", "\"input[0]\"", 400},
        {"{\"input\":[-1]}", "\"input\"", 400},
        {"{\"input\":[2048]}", "\"input\"", 400},
        {"{\"input\":[1.5]}", "\"input\"", 400},
        {"{\"input\":[1e300]}", "\"input\"", 400},
        {"{\"input\":[[1],[99999999999]]}", "\"input\"", 400},
        {"{\"input\":\"a\",\"dimensions\":0}", "\"dimensions\"", 400},
        {"{\"input\":\"a\",\"dimensions\":-1}", "\"dimensions\"", 400},
        {"{\"input\":\"a\",\"dimensions\":99999999999}", "\"dimensions\"", 400},
        {"{\"input\":\"a\",\"encoding_format\":\"int8\"}", "\"encoding_format\"", 400},
        {"{\"input\":\"a\",\"encoding_format\":7}", "\"encoding_format\"", 400},
        {"{\"input\":\"a\",\"model\":\"other\"}", "\"model\"", 404},
    };
    char param[64];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int status = fake_post(&fake, path, rows[i].body)->status;
        if (status != rows[i].status) print_message("%s\n", rows[i].body);
        assert_int_equal(status, rows[i].status);
        snprintf(param, sizeof param, "\"param\":%s", rows[i].param);
        assert_true(fake_has(param));
    }
    fake_post(&fake, path, "{\"input\":[\"a\",\"\"]}");
    assert_true(fake_has("a text in 'input' is empty: send at least one character\""));
    fake_post(&fake, path, "{\"input\":[[]]}");
    assert_true(fake_has("an entry of 'input' has no tokens: send at least one token\""));
    assert_int_equal(fake.embeds, 0);
}

static char *many(size_t n, const char *begin, const char *unit, const char *end) {
    char *body = malloc(n * strlen(unit) + 64);
    size_t at = (size_t)sprintf(body, "%s", begin);
    for (size_t i = 0; i < n; i++) at += (size_t)sprintf(body + at, "%s", unit);
    sprintf(body + at, "%s", end);
    return body;
}

static void texts_beyond_the_context_and_too_many_are_400(void **state) {
    (void)state;
    char *body = many(256, "{\"input\":[", "1,", "1]}");
    assert_int_equal(fake_post(&fake, path, body)->status, 400);
    assert_true(fake_has("\"code\":\"context_length_exceeded\""));
    free(body);
    body = many(2048, "{\"input\":[", "[1],", "[1]]}");
    assert_int_equal(fake_post(&fake, path, body)->status, 400);
    assert_true(fake_has("one request may have at most 2048"));
    free(body);
}

static void vectors_that_take_too_much_are_413_and_given_back(void **state) {
    (void)state;
    mnem_ledger_info before, after;
    fake_close(&fake);
    fake_open(&(api_options){.pooling = MNEM_POOLING_MEAN, .memory_bytes = 64 << 10}, &fake);
    assert_int_equal(fake_post(&fake, path, "{\"input\":[1]}")->status, 200);
    fake_leave(&fake);
    mnem_ledger_info_get(fake.ledger, &before);
    char *body = many(100, "{\"input\":[", "[1],", "[1]]}");
    assert_int_equal(fake_post(&fake, path, body)->status, 413);
    assert_true(fake.embeds < 100);
    fake_leave(&fake);
    mnem_ledger_info_get(fake.ledger, &after);
    assert_int_equal(before.bytes_live, after.bytes_live);
    assert_int_equal(fake_post(&fake, path, "{\"input\":[1]}")->status, 200);
    free(body);
}

static void a_model_without_pooling_says_what_to_do(void **state) {
    (void)state;
    fake_close(&fake);
    fake_open(&(api_options){0}, &fake);
    assert_int_equal(fake_post(&fake, path, "{\"input\":\"a\"}")->status, 400);
    assert_true(fake_has("start with --pooling mean or --pooling last"));
}

static void a_text_waits_for_pages(void **state) {
    (void)state;
    fake.no_pages = 50; /* the stats of this scheduler say that somebody runs */
    assert_int_equal(fake_post(&fake, path, "{\"input\":[[1],[2]]}")->status, 200);
    assert_int_equal(fake.embeds, 52);
}

static void what_fails_is_told(void **state) {
    (void)state;
    fake.embed = MNEM_IO;
    assert_int_equal(fake_post(&fake, path, "{\"input\":[1]}")->status, 500);
    fake.embed = MNEM_OK;
    fake.submit = MNEM_CANCELLED;
    assert_int_equal(fake_post(&fake, path, "{\"input\":[1]}")->status, 503);
    assert_string_equal(fake.answer.headers, "Retry-After: 5\r\n");
    fake.submit = MNEM_BUSY;
    assert_int_equal(fake_post(&fake, path, "{\"input\":[1]}")->status, 503);
    assert_string_equal(fake.answer.headers, "Retry-After: 1\r\n");
    assert_true(fake_has("other calls wait for the model: try again later"));
    fake.submit = MNEM_OK;
    assert_int_equal(fake_post(&fake, path, "{\"input\":[1]}")->status, 200);
}

static void who_leaves_is_computed_no_more(void **state) {
    (void)state;
    static const char body[] = "{\"input\":[[1],[2],[3],[4]]}";
    mnem_ledger_info before, after;
    mnem_ledger_info_get(fake.ledger, &before);
    fake_begin(&fake, "POST", path, body, sizeof body - 1);
    assert_true(fake_step(&fake));
    fake_leave(&fake);
    while (fake_step(&fake)) {
    }
    assert_true(fake.embeds <= 2);
    mnem_ledger_info_get(fake.ledger, &after);
    assert_int_equal(before.bytes_live, after.bytes_live);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fake, fake_teardown)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(lists_of_ids_and_texts_have_a_vector_each),
        TEST(base64_is_of_floats_and_fewer_dimensions_have_a_length_of_1),
        TEST(what_can_not_be_done_is_named),
        TEST(texts_beyond_the_context_and_too_many_are_400),
        TEST(vectors_that_take_too_much_are_413_and_given_back),
        TEST(a_model_without_pooling_says_what_to_do),
        TEST(a_text_waits_for_pages),
        TEST(what_fails_is_told),
        TEST(who_leaves_is_computed_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
