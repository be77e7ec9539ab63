/* test_api_live.c: answers of the model that ships, over real sockets. */
#include "tools/serve/kit/live_serve.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char out[LIVE_ANSWER], other[LIVE_ANSWER];

static bool has(const char *text) {
    if (strstr(out, text)) return true;
    print_message("no %s in\n%s\n", text, out);
    return false;
}

/* Where an answer's text begins, up to its quote. */
static const char *text_of(char *answer, const char *name) {
    char *at = strstr(answer, name);
    assert_non_null(at);
    at += strlen(name);
    *strchr(at, '"') = 0;
    return at;
}

#define GREEDY "\"temperature\":0,\"max_tokens\":24"

static void a_chat_is_answered(void **state) {
    (void)state;
    assert_int_equal(
        live_ask("POST", "/v1/chat/completions",
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"In the beginning\"}]," GREEDY "}",
                 out),
        200);
    assert_true(has("\"message\":{\"role\":\"assistant\",\"content\":\""));
    assert_true(has("\"usage\":{\"prompt_tokens\":"));
    assert_true(has("\"finish_reason\":\"length\""));
}

/* What a stream says is what the whole answer says. */
static void streams_say_the_same(void **state) {
    (void)state;
    char told[512] = "";
    assert_int_equal(live_ask("POST", "/v1/completions",
                              "{\"prompt\":\"In the beginning\",\"stream\":true," GREEDY "}", out),
                     200);
    for (char *at = out; (at = strstr(at, "\"text\":\""));) {
        at += 8;
        strncat(told, at, (size_t)(strchr(at, '"') - at));
    }
    live_ask("POST", "/v1/completions", "{\"prompt\":\"In the beginning\"," GREEDY "}", other);
    assert_string_equal(text_of(other, "\"text\":\""), told);
    assert_true(strlen(told) > 20);
}

/* Greedy and seeded; alone and among others. */
static void answers_are_the_same_in_any_company(void **state) {
    (void)state;
    enum { CLIENTS = 12 };
    static const char *const bodies[] = {
        "{\"prompt\":\"In the beginning\"," GREEDY "}",
        "{\"prompt\":\"And the LORD said\",\"seed\":7,\"max_tokens\":24}"};
    char alone[2][512];
    int fd[CLIENTS];
    for (int i = 0; i < 2; i++) {
        live_ask("POST", "/v1/completions", bodies[i], out);
        snprintf(alone[i], sizeof alone[i], "%s", text_of(out, "\"text\":\""));
    }
    for (int i = 0; i < CLIENTS; i++) fd[i] = live_send("POST", "/v1/completions", bodies[i % 2]);
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(live_read(fd[i], out), 200);
        assert_string_equal(text_of(out, "\"text\":\""), alone[i % 2]);
    }
}

static void a_second_prompt_is_from_the_cache(void **state) {
    (void)state;
    static const char body[] =
        "{\"prompt\":\"In the beginning God created the heaven and the earth. And the earth was "
        "without form, and void; and darkness was upon the face of the deep. And the Spirit of God "
        "moved upon the face of the waters. And God said, Let there be light: and there was "
        "light.\"," GREEDY "}";
    live_ask("POST", "/v1/completions", body, out);
    assert_true(has("\"cached_tokens\":0"));
    live_ask("POST", "/v1/completions", body, out);
    assert_null(strstr(out, "\"cached_tokens\":0"));
}

static void answers_follow_a_schema(void **state) {
    (void)state;
    static const char body[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Go\"}],\"max_tokens\":100,\"seed\":3,"
        "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\",\"schema\":{"
        "\"type\":\"object\",\"properties\":{\"age\":{\"type\":\"integer\",\"minimum\":1,"
        "\"maximum\":99},\"name\":{\"enum\":[\"Abel\",\"Seth\"]}},\"required\":[\"age\",\"name\"],"
        "\"additionalProperties\":false}}}}";
    assert_int_equal(live_ask("POST", "/v1/chat/completions", body, out), 200);
    assert_true(has("\"content\":\"{"));
    assert_true(has("\\\"age\\\":"));
    assert_true(has("\"finish_reason\":\"stop\""));
}

static void a_tool_is_called(void **state) {
    (void)state;
    static const char body[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Go\"}],\"temperature\":0,"
        "\"tool_choice\":\"required\",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":"
        "\"weather\",\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"enum\":["
        "\"Ur\",\"Nod\"]}},\"required\":[\"city\"]}}}]}";
    assert_int_equal(live_ask("POST", "/v1/chat/completions", body, out), 200);
    assert_true(has("\"function\":{\"name\":\"weather\",\"arguments\":\"{"));
    assert_true(has("\\\"city\\\":"));
    assert_true(has("\\\" }\"}}]"));
}

static bool is_idle(void) {
    const mnem_scheduler_stats s = live_stats();
    return s.running == 0 && s.waiting == 0 && s.pages_private == 0;
}

static void clients_that_leave_free_their_pages(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++) {
        const int fd = live_send("POST", "/v1/completions",
                                 "{\"prompt\":\"In the\",\"stream\":true,\"ignore_eos\":true}");
        char byte; /* at once, and while it is answered */
        if (i % 2) assert_int_equal(recv(fd, &byte, 1, 0), 1);
        close(fd);
    }
    for (int i = 0; i < 12000 && !is_idle(); i++) usleep(10000);
    assert_true(is_idle());
    assert_int_equal(live_ask("POST", "/v1/completions", "{\"prompt\":\"a\"," GREEDY "}", out),
                     200);
}

static bool collect(void *context, const char *text, size_t bytes) {
    strncat(context, text, bytes);
    return true;
}

/* What mnem_continue writes with the same options, of one text of breakers or of none. */
static void continue_with(const mnem_opened *o, const char *prompt, mnem_sampler_options *options,
                          const char *breaker, char text[1024]) {
    int32_t words[MNEM_DRY_WORDS];
    must(mnem_dry_breakers_init(o->tokenizer, &breaker, breaker ? 1 : 0, words, MNEM_DRY_WORDS,
                                &options->dry_breakers));
    *text = 0;
    must(mnem_session_truncate(o->session, 0));
    must(mnem_continue(o, prompt, 24, options, collect, text));
}

static void requests_sample_as_the_library_does(void **state) {
    (void)state;
    static const char prompt[] = "the son of Joseph, the son of Levi, the son of";
    static const struct {
        const char *fields, *breaker;
        mnem_sampler_options options;
    } cases[] = {
        {"\"dry_multiplier\":0", NULL, {.top_p = 1}},
        {"\"dry_multiplier\":2,\"dry_sequence_breakers\":[]",
         NULL,
         {.top_p = 1, .dry_multiplier = 2, .dry_allowed_length = 2, .dry_penalty_last = 64}},
        {"\"dry_multiplier\":2,\"dry_sequence_breakers\":[\"f Judah\"],\"dry_base\":1.2,"
         "\"dry_allowed_length\":1,\"dry_penalty_last_n\":30",
         "f Judah",
         {.top_p = 1,
          .dry_multiplier = 2,
          .dry_base = 1.2f,
          .dry_allowed_length = 1,
          .dry_penalty_last = 30}},
        {"\"xtc_probability\":1,\"xtc_threshold\":0.05",
         NULL,
         {.top_k = 40,
          .top_p = 0.95f,
          .min_p = 0.05f,
          .xtc_probability = 1,
          .xtc_threshold = 0.05f}},
    };
    char body[512], text[1024];
    mnem_opened o;
    must(mnem_open(MNEM_TEST_DATA "/../../models/mnem-kjv-5m-q8_0.gguf", 0,
                   &(mnem_engine_options){.context = 256}, &o));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mnem_sampler_options options = cases[i].options;
        continue_with(&o, prompt, &options, cases[i].breaker, text);
        snprintf(body, sizeof body, "{\"prompt\":\"%s\",%s," GREEDY "}", prompt, cases[i].fields);
        assert_int_equal(live_ask("POST", "/v1/completions", body, out), 200);
        json_t *answer = json_loads(out, 0, NULL);
        const char *told = json_string_value(
            json_object_get(json_array_get(json_object_get(answer, "choices"), 0), "text"));
        assert_string_equal(told, text);
        if (i > 0) assert_string_not_equal(text, other);
        if (i == 0) snprintf(other, sizeof other, "%s", text);
        json_decref(answer);
    }
    mnem_close(&o);
}

static void stops_end_an_answer(void **state) {
    (void)state;
    live_ask("POST", "/v1/completions",
             "{\"prompt\":\"In the beginning\",\"stop\":[\" the\"]," GREEDY "}", out);
    assert_true(has("\"finish_reason\":\"stop\""));
    assert_null(strstr(out, " the\""));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, live_setup, live_teardown)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_chat_is_answered),
        TEST(streams_say_the_same),
        TEST(answers_are_the_same_in_any_company),
        TEST(a_second_prompt_is_from_the_cache),
        TEST(answers_follow_a_schema),
        TEST(a_tool_is_called),
        TEST(clients_that_leave_free_their_pages),
        TEST(requests_sample_as_the_library_does),
        TEST(stops_end_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
