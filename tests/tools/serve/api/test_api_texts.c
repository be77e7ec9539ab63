/* test_api_texts.c: completions: prompts, stops, characters, logprobs, choices; and the forms of
 * the other protocols. */
#include <stdio.h>
#include <string.h>

#include "tools/serve/kit/fake_test.h"

static int open_fake(void **state) {
    (void)state;
    fake_open(&(api_options){.name = "kjv"}, &fake);
    return 0;
}

static const char path[] = "/v1/completions";

/* ---- prompts ---- */

static void prompts_are_texts_ids_or_lists_of_them(void **state) {
    (void)state;
    static const struct {
        const char *prompt;
        int choices;
    } rows[] = {{"\"In the\"", 1},
                {"[\"In the\",\"beginning\"]", 2},
                {"[1,2,3]", 1},
                {"[[1,2],[3],[4,5,6]]", 3},
                {"[\"In the\",[7,8]]", 2}};
    char body[256];
    fake.say = "God";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(body, sizeof body, "{\"prompt\":%s}", rows[i].prompt);
        assert_int_equal(fake_post(&fake, path, body)->status, 200);
        assert_int_equal(fake_count("\"text\":\"God\""), rows[i].choices);
    }
}

static void every_prompt_has_n_answers(void **state) {
    (void)state;
    fake.say = "God";
    fake_post(&fake, path, "{\"prompt\":[[1],[2]],\"n\":3,\"stream\":true}");
    char index[32];
    for (int i = 0; i < 6; i++) {
        snprintf(index, sizeof index, "{\"index\":%d,\"text\":\"G\"", i);
        assert_true(fake_has(index));
    }
    assert_int_equal(fake_count("\"finish_reason\":\"stop\""), 6);
    assert_int_equal(fake_count("[DONE]"), 1);
}

static void a_prompt_beyond_the_context_is_refused_or_cut(void **state) {
    (void)state;
    static char body[8192];
    strcpy(body, "{\"max_tokens\":16,\"prompt\":[");
    for (int i = 0; i < 400; i++) strcat(body, i ? ",7" : "5");
    strcat(body, "]}");
    fake.say = "God";
    assert_int_equal(fake_post(&fake, path, body)->status, 400);
    assert_true(fake_has("\"code\":\"context_length_exceeded\""));
    assert_true(fake_has("\"param\":\"prompt\""));
    fake_close(&fake);
    fake_open(&(api_options){.truncate = true}, &fake);
    assert_int_equal(fake_post(&fake, path, body)->status, 200);
    assert_true(fake_has("\"prompt_tokens\":240"));
}

static void earliest_turns_go_where_cutting_is_asked_for(void **state) {
    (void)state;
    static char body[65536];
    fake_close(&fake);
    fake_open(&(api_options){.truncate = true}, &fake);
    strcpy(body, "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"}");
    for (int i = 0; i < 60; i++)
        sprintf(body + strlen(body), ",{\"role\":\"%s\",\"content\":\"And it came to pass %d\"}",
                i % 2 ? "assistant" : "user", i);
    strcat(body, ",{\"role\":\"user\",\"content\":\"Last\"}]}");
    assert_int_equal(fake_post(&fake, "/v1/chat/completions", body)->status, 200);
    const fake_request *r = &fake.request[0];
    const mnem_text last =
        mnem_tokenizer_piece(fake.tokenizer, r->prompt[r->request.prompt_tokens - 1], true);
    const mnem_text first = mnem_tokenizer_piece(fake.tokenizer, r->prompt[0], true);
    assert_true(r->request.prompt_tokens <= 192);
    assert_int_equal(last.bytes[last.length - 1], 't');
    assert_int_equal(first.bytes[0], 'B');
}

/* ---- stops and characters ---- */

static void stop_strings_are_never_told(void **state) {
    (void)state;
    static const char *const bodies[] = {
        "{\"prompt\":\"a\",\"stop\":\"heaven\"}",
        "{\"prompt\":\"a\",\"stop\":[\"zzz\",\"the heav\"]}",
        "{\"prompt\":\"a\",\"stop\":[\"eav\",\" the hea\"],\"stream\":true}",
        "{\"prompt\":\"a\",\"stop\":\"h\",\"stream\":true}"};
    static const char *const rest[] = {"God created the ", "God created ", "God created",
                                       "God created t"};
    fake.say = "God created the heavens and the earth";
    for (int i = 0; i < 4; i++) {
        char told[64] = "";
        fake_post(&fake, path, bodies[i]);
        for (const char *at = fake.answer.body; (at = strstr(at, "\"text\":\""));) {
            at += 8;
            strncat(told, at, (size_t)(strchr(at, '"') - at));
        }
        assert_string_equal(told, rest[i]);
        assert_int_equal(fake_count("\"finish_reason\":\"stop\""), 1);
    }
}

static void characters_are_whole(void **state) {
    (void)state;
    fake.say = "a\xE2\x82\xAC\xF0\x9F\x98\x80z";
    fake_post(&fake, path, "{\"prompt\":\"a\",\"stream\":true}");
    assert_true(fake_has("\xE2\x82\xAC\""));
    assert_true(fake_has("\xF0\x9F\x98\x80\""));
    assert_int_equal(fake_count("\xEF\xBF\xBD"), 0);
    /* One that ends in the middle is told as what it is: none. */
    fake.say = "a\xE2\x82";
    fake_post(&fake, path, "{\"prompt\":\"a\"}");
    assert_true(fake_has("\"text\":\"a\xEF\xBF\xBD"));
}

static void logprobs_go_with_their_text(void **state) {
    (void)state;
    fake.say = "God created the heavens";
    fake_post(&fake, path, "{\"prompt\":\"a\",\"logprobs\":2,\"stop\":\" the\"}");
    json_t *root = json_loads(fake.answer.body, 0, NULL);
    assert_non_null(root);
    json_t *logprobs =
        json_object_get(json_array_get(json_object_get(root, "choices"), 0), "logprobs");
    const size_t tokens = json_array_size(json_object_get(logprobs, "tokens"));
    assert_true(tokens > 0);
    assert_int_equal(json_array_size(json_object_get(logprobs, "token_logprobs")), tokens);
    assert_int_equal(json_array_size(json_object_get(logprobs, "text_offset")), tokens);
    json_t *top = json_object_get(logprobs, "top_logprobs");
    assert_int_equal(json_array_size(top), tokens);
    assert_int_equal(json_object_size(json_array_get(top, 0)), 2);
    json_decref(root);
    fake_post(&fake, "/v1/chat/completions",
              "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"logprobs\":true,"
              "\"top_logprobs\":3,\"stream\":true}");
    assert_true(fake_has("\"logprobs\":{\"content\":[{\"token\":\"G"));
    assert_true(fake_has("\"top_logprobs\":[{\"token\":"));
}

/* The fake says a byte at a time: of a character that is cut, nothing is told. */
static void a_length_that_cuts_a_character_holds_it_back(void **state) {
    (void)state;
    fake.say = "G\xc3\xb6t";
    fake_post(&fake, path, "{\"prompt\":\"In the\",\"max_tokens\":2}");
    assert_true(fake_has("\"text\":\"G\""));
    assert_true(fake_has("\"finish_reason\":\"length\""));
    fake_post(&fake, path, "{\"prompt\":\"In the\",\"max_tokens\":3}");
    assert_true(fake_has("\"text\":\"G\xc3\xb6\""));
}

static void the_length_is_a_reason(void **state) {
    (void)state;
    fake.say = "God created the heavens";
    fake_post(&fake, path, "{\"prompt\":\"a\",\"max_tokens\":2}");
    assert_true(fake_has("\"finish_reason\":\"length\""));
    assert_true(fake_has("\"completion_tokens\":2"));
}

static void answers_follow_formats(void **state) {
    (void)state;
    fake.say = "{\"a\": \"b\"}";
    fake_post(&fake, path, "{\"prompt\":\"a\",\"response_format\":{\"type\":\"json_object\"}}");
    assert_true(fake_has("\"text\":\"{\\\"a\\\": \\\"b\\\"}\""));
    fake_post(&fake, path,
              "{\"prompt\":\"a\",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{"
              "\"name\":\"x\",\"strict\":true,\"schema\":{\"enum\":[17]}}}}");
    assert_true(fake_has("\"text\":\"17\""));
    fake_post(&fake, path, "{\"prompt\":\"a\",\"grammar\":\"root ::= \\\"yes\\\"\"}");
    assert_true(fake_has("\"text\":\"yes\""));
}

/* Other servers' names of response_format. */
static void formats_of_other_servers_are_followed(void **state) {
    (void)state;
    static const struct {
        const char *field, *text;
    } rows[] = {
        {"\"format\":\"json\"", "{\\\"a\\\": \\\"b\\\"}"},
        {"\"format\":\"\"", "{\\\"a\\\": \\\"b\\\"}"},
        {"\"format\":{\"enum\":[17]}", "17"},
        {"\"format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"enum\":[17]}}}",
         "17"},
        {"\"guided_json\":{\"enum\":[17]}", "17"},
        {"\"structured_outputs\":{\"json\":{\"enum\":[17]}}", "17"},
        {"\"structured_outputs\":{\"json_object\":true}", "{\\\"a\\\": \\\"b\\\"}"},
    };
    char body[256], want[64];
    fake.say = "{\"a\": \"b\"}";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(body, sizeof body, "{\"prompt\":\"a\",%s}", rows[i].field);
        snprintf(want, sizeof want, "\"text\":\"%s\"", rows[i].text);
        assert_int_equal(fake_post(&fake, path, body)->status, 200);
        assert_true(fake_has(want));
        snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],%s}",
                 rows[i].field);
        snprintf(want, sizeof want, "\"content\":\"%s\"", rows[i].text);
        assert_int_equal(fake_post(&fake, "/v1/chat/completions", body)->status, 200);
        assert_true(fake_has(want));
    }
}

/* Fields that would only shade an answer are named, in the last event of a stream too. */
static void what_is_passed_over_is_listed(void **state) {
    (void)state;
    static const char *const bodies[][2] = {
        {path, "{\"prompt\":\"a\",\"typical_p\":0.5,\"samplers\":[\"top_k\"],\"tfs_z\":1%s}"},
        {"/completion", "{\"prompt\":\"a\",\"typical_p\":0.5,\"samplers\":\"k\",\"n_keep\":0%s}"},
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
                                 "\"typical_p\":0.5,\"samplers\":[\"top_k\"]%s}"}};
    char body[256];
    fake.say = "God";
    for (int i = 0; i < 6; i++) {
        const char *stream = i % 2 ? ",\"stream\":true" : "";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(body, sizeof body, bodies[i / 2][1], stream);
#pragma GCC diagnostic pop
        assert_int_equal(fake_post(&fake, bodies[i / 2][0], body)->status, 200);
        assert_true(fake_has("\"mnem\":{\"unsupported\":[\"samplers\",\"typical_p\"]}"));
        assert_int_equal(fake_count("\"unsupported\""), 1);
    }
    fake_post(&fake, path, "{\"prompt\":\"a\",\"typical_p\":1,\"samplers\":[]}");
    assert_int_equal(fake_count("\"unsupported\""), 0);
    fake_post(&fake, path, "{\"prompt\":\"a\",\"keep_alive\":\"5m\"}");
    assert_true(fake_has("\"unsupported\":[\"keep_alive\"]"));
}

/* ---- other protocols ---- */

static void flat_completions_are_llamas(void **state) {
    (void)state;
    fake.say = "God";
    fake_post(&fake, "/completion", "{\"prompt\":\"a\",\"n_predict\":4}");
    assert_true(fake_has("\"content\":\"God\",\"stop\":true"));
    assert_true(fake_has("\"timings\":{\"cache_n\":1,\"prompt_n\":0,\"prompt_ms\":"));
    assert_true(fake_has(",\"predicted_n\":2,\"predicted_ms\":"));
    fake_post(&fake, "/completion", "{\"prompt\":\"a\",\"stream\":true}");
    assert_true(fake_has("\"content\":\"od\",\"stop\":false"));
    assert_int_equal(fake_count("[DONE]"), 0);
    assert_int_equal(fake_count("\"timings\""), 1); /* in the last chunk */
    fake_post(&fake, "/completions", "{\"prompt\":\"a\",\"n_predict\":4}");
    assert_true(fake_has("\"content\":\"God\",\"stop\":true"));
    fake_post(&fake, "/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}");
    assert_true(fake_has("\"object\":\"chat.completion\""));
    fake_send(&fake, "GET", "/models", "", 0);
    assert_true(fake_has("{\"object\":\"list\",\"data\":[{\"id\":\"kjv\""));
}

static void messages_are_anthropics(void **state) {
    (void)state;
    fake.say = "God created";
    fake_post(&fake, "/v1/messages",
              "{\"max_tokens\":8,\"system\":[{\"type\":\"text\",\"text\":\"x\"}],\"messages\":[{"
              "\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Hi\"}]}]}");
    assert_true(fake_has("\"content\":[{\"type\":\"text\",\"text\":\"God created\"}],"
                         "\"stop_reason\":\"end_turn\",\"stop_sequence\":null"));
    fake_post(&fake, "/v1/messages",
              "{\"max_tokens\":8,\"stream\":true,\"messages\":[{\"role\":\"user\","
              "\"content\":\"Hi\"}],\"stop_sequences\":[\"created\"]}");
    static const char *const events[] = {"message_start",       "content_block_start",
                                         "content_block_delta", "content_block_stop",
                                         "message_delta",       "message_stop"};
    for (int i = 0; i < 6; i++) {
        char line[64];
        snprintf(line, sizeof line, "event: %s\ndata: {\"type\":\"%s\"", events[i], events[i]);
        assert_true(fake_has(line));
    }
    assert_true(fake_has("\"stop_reason\":\"stop_sequence\",\"stop_sequence\":\"created\""));
    fake_post(&fake, "/v1/messages", "{\"messages\":[]}");
    assert_true(fake_has("{\"type\":\"error\",\"error\":{\"message\":\"'max_tokens' is missing: "));
}

static void responses_are_items(void **state) {
    (void)state;
    fake.say = "God created";
    fake_post(&fake, "/v1/responses", "{\"input\":\"Hi\",\"instructions\":\"Be brief\"}");
    assert_true(fake_has("\"status\":\"completed\""));
    assert_true(fake_has("\"content\":[{\"type\":\"output_text\",\"text\":\"God created\""));
    fake_post(
        &fake, "/v1/responses",
        "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"Hi\""
        "}]},{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{\"},"
        "{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"5\"}],"
        "\"stream\":true}");
    assert_int_equal(fake.answer.status, 200);
    assert_true(fake_has("event: response.output_text.delta\n"));
    assert_true(fake_has("event: response.completed\n"));
    assert_int_equal(fake_count("\"type\":\"response.created\",\"sequence_number\":0"), 1);
}

static void tokens_go_there_and_back(void **state) {
    (void)state;
    char body[512];
    fake_post(&fake, "/tokenize", "{\"content\":\"In the beginning\"}");
    assert_true(fake_has("{\"tokens\":["));
    const char *end = strchr(fake.answer.body, ']');
    snprintf(body, sizeof body, "%.*s]}", (int)(end - fake.answer.body), fake.answer.body);
    fake_post(&fake, "/detokenize", body);
    assert_string_equal(fake.answer.body,
                        "{\"content\":\"In the beginning\",\"prompt\":\"In the beginning\"}\n");
    fake_post(&fake, "/tokenize", "{\"prompt\":\"a\xE2\x82\xAC\",\"with_pieces\":true}");
    assert_true(fake_has("\"piece\":\"a\""));
    assert_true(fake_has("\"piece\":["));
}

/* Of the model that ships, whose vocabulary is GPT-2's form: one token begins and ends texts. */
static void the_tokenizer_names_its_special_tokens(void **state) {
    (void)state;
    fake_send(&fake, "GET", "/tokenizer_info", "", 0);
    assert_int_equal(fake.answer.status, 200);
    assert_true(fake_has("\"vocab_size\":2048,"));
    assert_true(fake_has("\"bos_token\":\"<|endoftext|>\",\"eos_token\":\"<|endoftext|>\""));
    assert_true(fake_has("\"unk_token\":null"));
    assert_true(fake_has("\"chat_template\":\"{% for"));
    json_t *root = json_loads(fake.answer.body, 0, NULL);
    assert_non_null(root);
    json_decref(root);
    fake_post(&fake, "/tokenize", "{\"prompt\":\"<|endoftext|>\",\"add_special_tokens\":false}");
    assert_true(fake_has("{\"tokens\":[2047],\"count\":1,"));
}

static void pages_say_what_runs(void **state) {
    (void)state;
    static const char *const paths[] = {"/health", "/v1/health", "/ready",        "/v1/models",
                                        "/props",  "/slots",     "/v1/models/kjv"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_int_equal(fake_send(&fake, "GET", paths[i], "", 0)->status, 200);
        json_t *root = json_loads(fake.answer.body, 0, NULL);
        assert_non_null(root);
        json_decref(root);
    }
    fake_send(&fake, "GET", "/props", "", 0);
    assert_true(fake_has("\"total_slots\":7,")); /* what runs at a time, not the sequences */
    fake_send(&fake, "GET", "/metrics", "", 0);
    assert_true(fake_has("mnem_kv_pages{state=\"free\"} 4\n"));
    assert_true(fake_has("mnem_ledger_bytes{kind=\"host\",tag=\"requests\"}"));
    assert_true(fake_has("mnem_set_aside_total{way=\"recompute\",why=\"no_room\"} 0\n"));
    assert_true(fake_has("mnem_set_aside_expected_seconds_total{way=\"swap\"} 0\n"));
    assert_true(fake_has("mnem_step_seconds_bucket{le=\"+Inf\"} 0\n"));
    assert_string_equal(fake.answer.body + fake.answer.bytes - 6, "# EOF\n");
    assert_int_equal(fake_count("vllm:"), 0);
}

/* Zeros would be taken for what the model has. */
static void numbers_wait_until_the_model_is_loaded(void **state) {
    (void)state;
    static const char *const paths[] = {"/health",      "/ready", "/v1/models", "/v1/models/kjv",
                                        "/v1/models/x", "/props", "/slots"};
    api_begin(fake.api, NULL, NULL, 0); /* as before it has begun */
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_int_equal(fake_send(&fake, "GET", paths[i], "", 0)->status, 503);
        assert_true(fake_has("the server is still loading the model"));
        assert_non_null(strstr(fake.answer.headers, "Retry-After: 1\r\n"));
    }
    assert_int_equal(fake_send(&fake, "GET", "/metrics", "", 0)->status, 200);
    assert_true(fake_has("mnem_ledger_bytes{kind=\"host\",tag=\"requests\"}"));
    assert_int_equal(fake_count("mnem_kv_pages"), 0);
}

static void metrics_have_vllms_names_on_request(void **state) {
    (void)state;
    fake_close(&fake);
    fake_open(&(api_options){.metrics_vllm = true}, &fake);
    fake_send(&fake, "GET", "/metrics", "", 0);
    assert_true(fake_has("\nvllm:num_requests_running 1\n"));
    assert_true(fake_has("\nvllm:generation_tokens_total 0\n"));
    assert_true(fake_has("\nvllm:request_success_total{finished_reason=\"stop\"} 0\n"));
}

/* Every name in a panel's expression is one of a sample; returns how many there are. */
static int check_names(const char *expr) {
    int names = 0;
    for (size_t n; *expr; expr += n > 0 ? n : 1) {
        char sample[128];
        n = strspn(expr, "abcdefghijklmnopqrstuvwxyz0123456789_");
        if (strncmp(expr, "mnem_", 5) != 0 && strncmp(expr, "process_", 8) != 0) continue;
        snprintf(sample, sizeof sample, "\n%.*s", (int)n, expr);
        const char *at = strstr(fake.answer.body, sample);
        if (!at || !strchr(" {", at[n + 1])) fail_msg("no sample is called %s", sample + 1);
        names++;
    }
    return names;
}

static int check_expressions(const json_t *value) {
    const char *key;
    json_t *item;
    size_t i;
    int names = 0;
    json_array_foreach(value, i, item) names += check_expressions(item);
    json_object_foreach((json_t *)(uintptr_t)value, key, item) {
        if (strcmp(key, "expr") == 0) names += check_names(json_string_value(item));
        names += check_expressions(item);
    }
    return names;
}

static void the_dashboard_asks_for_what_is_there(void **state) {
    (void)state;
    json_t *board = json_load_file(MNEM_TEST_DATA "/../../deploy/grafana.json", 0, NULL);
    assert_non_null(board);
    fake_send(&fake, "GET", "/metrics", "", 0);
    assert_in_range(check_expressions(board), 30, 1000);
    json_decref(board);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fake, fake_teardown)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(prompts_are_texts_ids_or_lists_of_them),
        TEST(every_prompt_has_n_answers),
        TEST(a_prompt_beyond_the_context_is_refused_or_cut),
        TEST(earliest_turns_go_where_cutting_is_asked_for),
        TEST(stop_strings_are_never_told),
        TEST(characters_are_whole),
        TEST(logprobs_go_with_their_text),
        TEST(a_length_that_cuts_a_character_holds_it_back),
        TEST(the_length_is_a_reason),
        TEST(answers_follow_formats),
        TEST(formats_of_other_servers_are_followed),
        TEST(what_is_passed_over_is_listed),
        TEST(flat_completions_are_llamas),
        TEST(messages_are_anthropics),
        TEST(responses_are_items),
        TEST(tokens_go_there_and_back),
        TEST(the_tokenizer_names_its_special_tokens),
        TEST(pages_say_what_runs),
        TEST(numbers_wait_until_the_model_is_loaded),
        TEST(metrics_have_vllms_names_on_request),
        TEST(the_dashboard_asks_for_what_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
