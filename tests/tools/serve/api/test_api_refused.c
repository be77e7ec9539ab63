/* test_api_refused.c: what can't be done, and what is meant to harm: it is told to who asked, with
 * its field, and the next request is served. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/serve/kit/fake_test.h"

static const char chat[] = "/v1/chat/completions";

/* ---- fields ---- */

static void bodies_that_are_no_json_are_400(void **state) {
    (void)state;
    static const char *const bodies[] = {"",
                                         "{",
                                         "[]",
                                         "17",
                                         "\"x\"",
                                         "null",
                                         "{\"a\":}",
                                         "{\"a\":1}}",
                                         "{\"a\":\"\xFF\"}",
                                         "{\"a\":\"\\ud800\"}"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        assert_true(fake_refuses(chat, bodies[i], 400, NULL));
}

static void huge_and_negative_numbers_are_400_in_every_field(void **state) {
    (void)state;
    static const char *const fields[] = {"temperature",
                                         "top_p",
                                         "min_p",
                                         "presence_penalty",
                                         "frequency_penalty",
                                         "repeat_penalty",
                                         "repetition_penalty",
                                         "top_k",
                                         "repeat_last_n",
                                         "dry_multiplier",
                                         "dry_base",
                                         "dry_penalty_last_n",
                                         "dry_sequence_breakers",
                                         "xtc_probability",
                                         "xtc_threshold",
                                         "n",
                                         "priority",
                                         "max_tokens",
                                         "max_completion_tokens",
                                         "top_logprobs"};
    static const char *const values[] = {"-9223372036854775808",
                                         "9223372036854775807",
                                         "1e308",
                                         "-1e308",
                                         "\"x\"",
                                         "{}",
                                         "[1]",
                                         "true"};
    char body[256];
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            snprintf(body, sizeof body,
                     "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"logprobs\":true,"
                     "\"%s\":%s}",
                     fields[i], values[k]);
            assert_true(fake_refuses(chat, body, 400, fields[i]));
        }
}

static void breakers_are_short_and_few(void **state) {
    (void)state;
    static const char name[] = "dry_sequence_breakers", letters[] = "0123456789";
    char body[512];
    const char *values[] = {"\"a\"", "[1]", "[null]", "[\"a\",{}]"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        snprintf(body, sizeof body, "{\"prompt\":\"a\",\"%s\":%s}", name, values[i]);
        assert_true(fake_refuses("/v1/completions", body, 400, name));
    }
    for (int bytes = 40; bytes <= 41; bytes++) {
        snprintf(body, sizeof body,
                 "{\"prompt\":\"a\",\"dry_multiplier\":1,\"%s\":[\"%s%s%s%.*s\"]}", name, letters,
                 letters, letters, bytes - 30, "0123456789x");
        if (bytes <= 40)
            assert_int_equal(fake_post(&fake, "/v1/completions", body)->status, 200);
        else
            assert_true(fake_refuses("/v1/completions", body, 400, name));
    }
    for (int count = 16; count <= 17; count++) {
        size_t n = (size_t)snprintf(body, sizeof body, "{\"prompt\":\"a\",\"%s\":[\"\"", name);
        for (int i = 1; i < count; i++)
            n += (size_t)snprintf(body + n, sizeof body - n, ",\"b%d\"", i);
        snprintf(body + n, sizeof body - n, "]}");
        if (count <= 16)
            assert_int_equal(fake_post(&fake, "/v1/completions", body)->status, 200);
        else
            assert_true(fake_refuses("/v1/completions", body, 400, name));
    }
}

static void seeds_may_be_any_whole_number(void **state) {
    (void)state;
    static const char *const seeds[] = {
        "-9223372036854775808", "9223372036854775807", "-1", "0", "null", "3.0"};
    char body[256];
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        snprintf(body, sizeof body, "{\"prompt\":\"a\",\"seed\":%s}", seeds[i]);
        assert_int_equal(fake_post(&fake, "/v1/completions", body)->status, 200);
    }
}

static void null_is_absent_and_unknown_is_ignored(void **state) {
    (void)state;
    assert_int_equal(
        fake_post(
            &fake, chat,
            "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\",\"name\":null}],\"stop\":null,"
            "\"tools\":null,\"tool_choice\":null,\"response_format\":null,\"n\":null,"
            "\"temperature\":null,\"stream\":null,\"stream_options\":null,\"logit_bias\":null,"
            "\"functions\":null,\"user\":\"me\",\"store\":true,\"what\":{\"is\":[\"this\"]}}")
            ->status,
        200);
}

static void what_can_not_be_done_is_named(void **state) {
    (void)state;
    static const struct {
        const char *path, *body, *param;
    } rows[] = {
        {"/v1/chat/completions", "{}", "messages"},
        {"/v1/chat/completions", "{\"messages\":[]}", "messages"},
        {"/v1/chat/completions", "{\"messages\":[7]}", "messages[0]"},
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"king\",\"content\":\"\"}]}",
         "messages[0].role"},
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\"}]}", "messages[0].content"},
        {"/v1/chat/completions",
         "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}",
         "messages[0].content[0]"},
        {"/v1/chat/completions",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"functions\":[{}]}", "functions"},
        {"/v1/completions", "{}", "prompt"},
        {"/v1/completions", "{\"prompt\":[]}", "prompt"},
        {"/v1/completions", "{\"prompt\":[-1]}", "prompt"},
        {"/v1/completions", "{\"prompt\":[2048]}", "prompt"},
        {"/v1/completions", "{\"prompt\":[1.5]}", "prompt"},
        {"/v1/completions", "{\"prompt\":[[1],[99999999999]]}", "prompt"},
        {"/v1/completions", "{\"prompt\":[[]]}", "prompt"},
        {"/v1/completions", "{\"prompt\":\"a\",\"echo\":1}", "echo"},
        {"/v1/completions", "{\"prompt\":\"a\",\"best_of\":3}", "best_of"},
        {"/v1/completions", "{\"prompt\":\"a\",\"suffix\":\"b\"}", "suffix"},
        {"/v1/completions", "{\"prompt\":\"a\",\"logprobs\":21}", "logprobs"},
        {"/v1/completions", "{\"prompt\":\"a\",\"stop\":7}", "stop"},
        {"/v1/completions", "{\"prompt\":\"a\",\"stop\":[\"a\",7]}", "stop"},
        {"/v1/completions", "{\"prompt\":\"a\",\"logit_bias\":{\"5000\":1}}", "logit_bias"},
        {"/v1/completions", "{\"prompt\":\"a\",\"logit_bias\":{\"-1\":1}}", "logit_bias"},
        {"/v1/completions", "{\"prompt\":\"a\",\"logit_bias\":{\"1\":1e9}}", "logit_bias"},
        {"/v1/completions", "{\"prompt\":\"a\",\"logit_bias\":{\"1\":1,\"01\":1}}", "logit_bias"},
        {"/v1/completions", "{\"prompt\":\"a\",\"grammar\":\"root ::= x\"}", "grammar"},
        {"/v1/completions", "{\"prompt\":\"a\",\"response_format\":{\"type\":\"xml\"}}",
         "response_format"},
        {"/v1/completions",
         "{\"prompt\":\"a\",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":7}}",
         "response_format"},
        {"/v1/completions", "{\"prompt\":\"a\",\"json_schema\":{\"type\":\"lump\"}}",
         "json_schema"},
        {"/v1/completions",
         "{\"prompt\":\"a\",\"response_format\":{\"type\":\"json_object\",\"schema\":{\"type\":"
         "\"lump\"}}}",
         "response_format"},
        {"/v1/completions",
         "{\"prompt\":\"a\",\"grammar\":\"root ::= \\\"a\\\"\",\"json_schema\":{}}", "json_schema"},
        {"/v1/responses", "{\"input\":\"a\",\"previous_response_id\":\"r\"}",
         "previous_response_id"},
        {"/tokenize", "{}", "content"},
        {"/detokenize", "{\"tokens\":[5000]}", "tokens"},
        {"/completion", "{\"prompt\":\"a\",\"n_predict\":-2}", "n_predict"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_true(fake_refuses(rows[i].path, rows[i].body, 400, rows[i].param));
}

/* Each changes the answer, and none is supported: a value that asks for it is refused by name, one
 * that asks for nothing is not. */
static void fields_of_other_servers_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *field, *asks, *neutral;
    } rows[] = {
        {"options", "{\"num_ctx\":8192}", "{}"},
        {"template", "\"x\"", "\"\""},
        {"raw", "true", "false"},
        {"system", "\"x\"", "\"\""},
        {"images", "[\"x\"]", "[]"},
        {"context", "[1]", "[]"},
        {"think", "true", "false"},
        {"chat_template", "\"x\"", "null"},
        {"image_data", "[\"x\"]", "[]"},
        {"lora", "[{\"id\":0}]", "[]"}, /* no adapters are loaded */
        {"mirostat", "2", "0"},
        {"n_indent", "4", "0"},
        {"t_max_predict_ms", "9", "0"},
        {"guided_regex", "\"a+\"", "\"\""},
        {"guided_choice", "[\"a\"]", "[]"},
        {"guided_grammar", "\"x\"", "null"},
        {"guided_json", "\"{}\"", "null"},
        {"structured_outputs", "{\"regex\":\"a\"}", "{}"},
        {"structural_tag", "\"x\"", "null"},
        {"format", "\"yaml\"", "\"\""},
        {"format", "7", "null"},
        {"allowed_token_ids", "[1]", "[]"},
        {"bad_words", "[\"a\"]", "[]"},
        {"stop_token_ids", "[1]", "[]"},
        {"min_tokens", "5", "0"},
        {"truncate_prompt_tokens", "5", "null"},
        {"prompt_logprobs", "1", "null"},
        {"include_stop_str_in_output", "true", "false"},
        {"continue_final_message", "true", "false"},
        {"use_beam_search", "true", "false"},
        {"add_generation_prompt", "false", "true"},
        {"skip_special_tokens", "false", "true"},
    };
    static const char *const asks[][2] = {
        {chat, "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"},
        {"/v1/completions", "\"prompt\":\"a\""},
        {"/completion", "\"prompt\":\"a\""},
        {"/v1/responses", "\"input\":\"a\""},
        {"/v1/messages", "\"max_tokens\":4,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"}};
    enum { ASKS = sizeof asks / sizeof *asks };
    char body[256];
    for (size_t i = 0; i < sizeof rows / sizeof *rows * ASKS; i++) {
        const char *field = rows[i / ASKS].field, *const *ask = asks[i % ASKS];
        const bool own = strcmp(ask[0], "/v1/messages") == 0 && strcmp(field, "system") == 0;
        snprintf(body, sizeof body, "{%s,\"%s\":%s}", ask[1], field, rows[i / ASKS].asks);
        const bool begins =
            strcmp(ask[0], chat) == 0 && strcmp(field, "add_generation_prompt") == 0;
        if (!own && !begins) assert_true(fake_refuses(ask[0], body, 400, field));
        snprintf(body, sizeof body, "{%s,\"%s\":%s}", ask[1], field, rows[i / ASKS].neutral);
        assert_int_equal(fake_post(&fake, ask[0], body)->status, 200);
    }
}

static void unknown_paths_lead_to_ours(void **state) {
    (void)state;
    static const char *const paths[][2] = {
        {"/v1", "POST /v1/chat/completions"},       {"/v1/", "GET /v1/models"},
        {"/embeddings", "use POST /v1/embeddings"}, {"/embedding", "use POST /v1/embeddings"},
        {"/rerank", "reranking is not supported"},  {"/v1/audio/speech", "sound is not supported"},
        {"/x", "POST /v1/chat/completions"},        {"/api", "POST /v1/chat/completions"},
        {"/api/chats", "POST /api/chat"},           {"/api/me", "GET /api/tags"},
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const char *said = api_unknown_path(paths[i][0]);
        if (strncmp(said, "unknown path: ", 14) != 0 || !strstr(said, paths[i][1]) ||
            !strstr(said, "; GET / is a chat page") || strpbrk(said, "\"\\\n"))
            fail_msg("%s: %s", paths[i][0], said);
    }
}

static void another_model_is_404_where_names_count(void **state) {
    (void)state;
    assert_true(
        fake_refuses("/v1/completions", "{\"prompt\":\"a\",\"model\":\"gpt-4\"}", 404, "model"));
    assert_int_equal(
        fake_post(&fake, "/v1/completions", "{\"prompt\":\"a\",\"model\":\"kjv\"}")->status, 200);
}

static void odd_salts_are_texts_like_others(void **state) {
    (void)state;
    static const char *const salts[] = {"\"\"", "\"a\\nb\"", "\"%s%n\"", "\"\\ud83d\\ude00\"",
                                        "null"};
    char body[1024], salt[400];
    uint64_t tree = 0;
    for (size_t i = 0; i < sizeof salts / sizeof *salts; i++) {
        snprintf(body, sizeof body, "{\"prompt\":\"a\",\"cache_salt\":%s}", salts[i]);
        assert_int_equal(fake_post(&fake, "/v1/completions", body)->status, 200);
        if (i > 0 && i < 4) assert_true(fake.request[0].request.tree != tree);
        tree = fake.request[0].request.tree;
    }
    assert_true(
        fake_refuses("/v1/completions", "{\"prompt\":\"a\",\"cache_salt\":7}", 400, "cache_salt"));
    memset(salt, 'x', sizeof salt - 1);
    salt[sizeof salt - 1] = 0;
    snprintf(body, sizeof body, "{\"prompt\":\"a\",\"cache_salt\":\"%s\"}", salt);
    assert_true(fake_refuses("/v1/completions", body, 400, "cache_salt"));
}

static void keys_and_salts_have_trees_of_their_own(void **state) {
    (void)state;
    static const char plain[] = "{\"prompt\":\"a\"}",
                      salted[] = "{\"prompt\":\"a\",\"cache_salt\":\"s\"}";
    uint64_t tree[4];
    for (int i = 0; i < 4; i++) {
        fake.key = i / 2;
        fake_post(&fake, "/v1/completions", i % 2 ? salted : plain);
        tree[i] = fake.request[0].request.tree;
        for (int k = 0; k < i; k++) assert_true(tree[i] != tree[k]);
    }
    fake.key = 0;
    fake_post(&fake, "/v1/completions", salted);
    assert_true(fake.request[0].request.tree == tree[1]);
}

/* ---- the scheduler refuses, errs, or is left ---- */

static void a_full_queue_is_429_with_a_time(void **state) {
    (void)state;
    fake.submit = MNEM_BUSY;
    fake.refusal = (mnem_request_refusal){.retry_after_seconds = 7};
    assert_true(fake_refuses("/v1/completions", "{\"prompt\":\"a\"}", 429, NULL));
    assert_string_equal(fake.answer.headers, "Retry-After: 7\r\n");
}

static void an_error_before_the_first_byte_is_a_status(void **state) {
    (void)state;
    fake.end = MNEM_END_ERROR;
    assert_true(fake_refuses("/v1/completions", "{\"prompt\":\"a\"}", 500, NULL));
    assert_true(fake_has("the disk is gone"));
    fake.end = MNEM_END_STOP;
}

static void an_error_in_a_stream_is_an_event(void **state) {
    (void)state;
    fake.end = MNEM_END_ERROR;
    fake_post(&fake, "/v1/completions", "{\"prompt\":\"a\",\"stream\":true}");
    assert_int_equal(fake.answer.status, 200);
    assert_true(fake_has("data: {\"error\":{\"message\":\"the disk is gone\""));
    assert_null(strstr(fake.answer.body, "[DONE]"));
    fake.end = MNEM_END_STOP;
}

static void a_client_that_leaves_cancels_its_answers(void **state) {
    (void)state;
    static const char body[] = "{\"prompt\":\"a\",\"n\":4,\"stream\":true}";
    mnem_ledger_info before, after;
    fake.end_after = false;
    mnem_ledger_info_get(fake.ledger, &before);
    fake_begin(&fake, "POST", "/v1/completions", body, sizeof body - 1);
    for (int i = 0; i < 5; i++) fake_step(&fake);
    fake_leave(&fake);
    assert_int_equal(fake.cancelled, 4);
    assert_true(fake_step(&fake));
    assert_false(fake_step(&fake));
    mnem_ledger_info_get(fake.ledger, &after);
    assert_int_equal(before.bytes_live, after.bytes_live);
    fake.end_after = true;
}

static void a_client_that_reads_nothing_is_waited_for(void **state) {
    (void)state;
    fake.end_after = false;
    fake.room_bytes = 600;
    static const char body[] = "{\"prompt\":\"a\",\"stream\":true,\"max_tokens\":100}";
    fake_begin(&fake, "POST", "/v1/completions", body, sizeof body - 1);
    while (fake_step(&fake)) {
    }
    assert_false(fake.answer.over);
    fake.room_bytes = 0;
    fake.handler.on_writable(fake.api, fake.exchange);
    assert_true(fake.answer.over);
    assert_true(fake_has("\"finish_reason\":\"length\""));
    assert_true(fake_has("data: [DONE]"));
    fake.end_after = true;
}

static void who_waits_long_is_told_that_the_server_lives(void **state) {
    (void)state;
    static const char body[] = "{\"prompt\":\"a\",\"stream\":true}";
    fake_begin(&fake, "POST", "/v1/completions", body, sizeof body - 1);
    for (int i = 0; i < 14; i++) fake.handler.on_tick(fake.api);
    assert_int_equal(fake.answer.status, 0);
    fake.handler.on_tick(fake.api);
    assert_string_equal(fake.answer.body, "\n"); /* no comment: some clients lose the next event */
    while (fake_step(&fake)) {
    }
    assert_true(fake_has("data: [DONE]"));
}

static void who_was_set_aside_is_told_when_it_goes_on(void **state) {
    (void)state;
    static const char body[] = "{\"prompt\":\"a\",\"stream\":true,\"max_tokens\":4}";
    fake_begin(&fake, "POST", "/v1/completions", body, sizeof body - 1);
    fake_step(&fake);
    const mnem_request *q = &fake.request[0].request;
    const size_t told = fake.answer.bytes;
    assert_true(fake.request[0].live && told > 0);
    q->on_event(q->context, fake.request[0].number, MNEM_EVENT_PREEMPTED);
    fake.handler.on_wake(fake.api);
    assert_int_equal(fake.answer.bytes, told); /* a comment comes with what it is about */
    fake_step(&fake);
    assert_memory_equal(fake.answer.body + told, ": preempted\n\ndata: {", 20);
    while (fake_step(&fake)) {
    }
    assert_true(fake_has("data: [DONE]"));
    assert_null(strstr(fake.answer.body + told + 2, ": preempted"));
}

static void who_stops_takes_no_more(void **state) {
    (void)state;
    api_drain(fake.api);
    assert_true(fake_refuses("/v1/completions", "{\"prompt\":\"a\"}", 503, NULL));
    assert_int_equal(fake_send(&fake, "GET", "/ready", "", 0)->status, 503);
    assert_int_equal(fake_send(&fake, "GET", "/health", "", 0)->status, 200);
    fake.submit = MNEM_BUSY; /* for fake_teardown_serving */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_setup_strict, fake_teardown_serving)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(bodies_that_are_no_json_are_400),
        TEST(huge_and_negative_numbers_are_400_in_every_field),
        TEST(breakers_are_short_and_few),
        TEST(seeds_may_be_any_whole_number),
        TEST(null_is_absent_and_unknown_is_ignored),
        TEST(what_can_not_be_done_is_named),
        TEST(fields_of_other_servers_are_refused_by_name),
        TEST(unknown_paths_lead_to_ours),
        TEST(another_model_is_404_where_names_count),
        TEST(odd_salts_are_texts_like_others),
        TEST(keys_and_salts_have_trees_of_their_own),
        TEST(a_full_queue_is_429_with_a_time),
        TEST(an_error_before_the_first_byte_is_a_status),
        TEST(an_error_in_a_stream_is_an_event),
        TEST(a_client_that_leaves_cancels_its_answers),
        TEST(a_client_that_reads_nothing_is_waited_for),
        TEST(who_waits_long_is_told_that_the_server_lives),
        TEST(who_was_set_aside_is_told_when_it_goes_on),
        TEST(who_stops_takes_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
