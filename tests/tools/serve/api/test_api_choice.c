/* test_api_choice.c: which tools are called, and how often; that no call is cut; how many tokens an
 * answer may have. */
#include <stdio.h>
#include <string.h>

#include "tools/serve/kit/fake_test.h"

static const char chat[] = "/v1/chat/completions", messages[] = "/v1/messages",
                  responses[] = "/v1/responses";
static const char template[] = "{# <tool_call> #}{% for t in tools or [] %}{{ t.function.name }};"
                               "{% endfor %}{% for m in messages %}{{ m.content }}{% endfor %}";

static int open_fake(void **state) {
    (void)state;
    fake_open_with(&(api_options){.template = fake_text(template)}, 600, &fake);
    return 0;
}

#define SCHEMA                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"}},\"required\":[\"a\"]}"
#define NAMED(name)                                                                                \
    "{\"type\":\"function\",\"function\":{\"name\":\"" name "\",\"parameters\":" SCHEMA "}}"
#define FLAT(name) "{\"type\":\"function\",\"name\":\"" name "\",\"parameters\":" SCHEMA "}"
#define HELD(name) "{\"name\":\"" name "\",\"input_schema\":" SCHEMA "}"
#define CHAT                                                                                       \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"tools\":[" NAMED("f") "," NAMED(     \
        "g") "," NAMED("h") "]"
#define RESPONSES "{\"input\":\"Hi\",\"tools\":[" FLAT("f") "," FLAT("g") "," FLAT("h") "]"
#define MESSAGES                                                                                   \
    "{\"max_tokens\":200,\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"tools\":[" HELD(  \
        "f") "," HELD("g") "]"
#define CALL(name) "<tool_call>{\"name\": \"" name "\", \"arguments\": {\"a\":\"x\"}}</tool_call>"

/* A body, and how many calls it gets of a model that would make two. */
static const struct {
    const char *path, *body;
    int calls;
} required[] = {
    {chat, CHAT ",\"tool_choice\":\"required\"}", 1},
    {chat, CHAT ",\"tool_choice\":\"required\",\"parallel_tool_calls\":null}", 1},
    {chat, CHAT ",\"tool_choice\":\"required\",\"parallel_tool_calls\":true}", 2},
    {chat, CHAT ",\"tool_choice\":\"required\",\"parallel_tool_calls\":false}", 1},
    {chat, CHAT "}", 2},
    {responses, RESPONSES ",\"tool_choice\":\"required\"}", 1},
    {responses, RESPONSES ",\"tool_choice\":\"required\",\"parallel_tool_calls\":true}", 2},
    {messages, MESSAGES ",\"tool_choice\":{\"type\":\"any\"}}", 1},
    {messages, MESSAGES ",\"tool_choice\":{\"type\":\"any\",\"disable_parallel_tool_use\":false}}",
     2},
};

static void a_required_call_is_one_where_nobody_asks_for_more(void **state) {
    (void)state;
    fake.say = CALL("f") "\n" CALL("g");
    fake.end_after = true;
    for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
        assert_int_equal(fake_post(&fake, required[i].path, required[i].body)->status, 200);
        const int calls = fake_count("\"call_id\":") + fake_count("\"type\":\"tool_use\"") +
                          fake_count("\"type\":\"function\"");
        if (calls != required[i].calls) fail_msg("%s: %s", required[i].body, fake.answer.body);
    }
}

static void a_call_that_does_not_fit_is_an_error(void **state) {
    (void)state;
    static const struct {
        const char *path, *body, *param;
    } rows[] = {
        {chat, CHAT ",\"max_tokens\":12", "max_tokens"},
        {chat, CHAT ",\"max_tokens\":12,\"tool_choice\":\"required\"", "max_tokens"},
        {chat, CHAT ",\"max_tokens\":2,\"tool_choice\":\"required\"", "max_tokens"},
        {responses, RESPONSES ",\"max_output_tokens\":12", "max_output_tokens"},
        {messages,
         "{\"max_tokens\":12,\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],"
         "\"tools\":[" HELD("f") "]",
         "max_tokens"},
    };
    char body[2000];
    fake.say = CALL("f");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int stream = 0; stream < 2; stream++) {
            snprintf(body, sizeof body, "%s,\"stream\":%s}", rows[i].body,
                     stream ? "true" : "false");
            fake_post(&fake, rows[i].path, body);
            assert_true(fake_has("\"code\":\"tool_call_cut\""));
            snprintf(body, sizeof body, "\"param\":\"%s\"", rows[i].param);
            assert_true(fake_has(body));
            assert_int_equal(fake_count("\"finish_reason\":\"length\"") +
                                 fake_count("message_stop") + fake_count("response.incomplete") +
                                 fake_count("[DONE]"),
                             0);
            if (!stream) assert_int_equal(fake.answer.status, 400);
        }
    fake.say = "So it is, and so it was";
    assert_int_equal(fake_post(&fake, chat, CHAT ",\"max_tokens\":4}")->status, 200);
    assert_true(fake_has("\"finish_reason\":\"length\""));
}

/* Tokens that end between the object and its last mark. */
static void a_whole_call_without_its_mark_is_one(void **state) {
    (void)state;
    char body[2000];
    int whole = 0;
    fake.say = CALL("f");
    for (int tokens = 8; tokens < 60; tokens++) {
        snprintf(body, sizeof body, CHAT ",\"tool_choice\":\"required\",\"max_tokens\":%d}",
                 tokens);
        fake_post(&fake, chat, body);
        if (fake.answer.status == 400) {
            assert_true(fake_has("tool_call_cut"));
            assert_int_equal(whole, 0);
            continue;
        }
        whole++;
        assert_true(fake_has("\"arguments\":\"{\\\"a\\\":\\\"x\\\"}\""));
        assert_true(fake_has("\"finish_reason\":\"tool_calls\""));
    }
    assert_true(whole > 0 && whole < 52);
}

static void stop_strings_cut_no_call(void **state) {
    (void)state;
    fake.say = "Well. " CALL("f");
    fake.end_after = true;
    fake_post(&fake, chat, CHAT ",\"stop\":[\"arg\",\"x\"]}");
    assert_int_equal(fake.answer.status, 200);
    assert_true(fake_has("\"arguments\":\"{\\\"a\\\":\\\"x\\\"}\""));
    fake_post(&fake, chat, CHAT ",\"stop\":[\"ell\"]}");
    assert_true(fake_has("\"content\":\"W\""));
    assert_true(fake_has("\"finish_reason\":\"stop\""));
}

static void allowed_tools_are_those_that_are_called(void **state) {
    (void)state;
    static const struct {
        const char *path, *body;
    } rows[] = {
        {chat, CHAT ",\"max_tokens\":200,\"tool_choice\":{\"type\":\"allowed_tools\","
                    "\"allowed_tools\":{\"mode\":\"required\",\"tools\":[{\"type\":\"function\","
                    "\"function\":{\"name\":\"g\"}},{\"type\":\"function\",\"function\":{\"name\":"
                    "\"h\"}}]}}}"},
        {responses,
         RESPONSES ",\"max_output_tokens\":200,\"tool_choice\":{\"type\":"
                   "\"allowed_tools\",\"mode\":\"required\",\"tools\":[{\"type\":"
                   "\"function\",\"name\":\"g\"},{\"type\":\"function\",\"name\":\"h\"}]}"
                   "}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fake.say = CALL("h");
        assert_int_equal(fake_post(&fake, rows[i].path, rows[i].body)->status, 200);
        assert_true(fake_has("\"name\":\"h\""));
        const int32_t all = fake.request[0].request.prompt_tokens;
        fake.say = "<tool_call>{\"name\": \"f\""; /* which isn't allowed */
        fake_post(&fake, rows[i].path, rows[i].body);
        assert_int_equal(fake_count("\"name\":\"f\""), 0);
        fake_post(&fake, chat, CHAT ",\"max_tokens\":3}");
        assert_int_equal(fake.request[0].request.prompt_tokens, all); /* all are shown */
    }
    fake.say = "No.";
    fake.end_after = true;
    fake_post(&fake, chat,
              CHAT ",\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{"
                   "\"mode\":\"auto\",\"tools\":[{\"function\":{\"name\":\"g\"}}]}}}");
    assert_true(fake_has("\"content\":\"No.\""));
    static const char *const wrong[] = {"{\"mode\":\"auto\",\"tools\":[]}",
                                        "{\"mode\":\"auto\",\"tools\":[{\"name\":\"z\"}]}",
                                        "{\"mode\":\"auto\",\"tools\":[5]}", "{\"mode\":\"auto\"}",
                                        "{\"mode\":\"none\",\"tools\":[{\"name\":\"g\"}]}"};
    char body[2000];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(body, sizeof body,
                 CHAT ",\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":%s}}",
                 wrong[i]);
        assert_int_equal(fake_post(&fake, chat, body)->status, 400);
        assert_true(fake_has("\"param\":\"tool_choice."));
    }
}

static void any_number_of_tokens_may_be_asked_for(void **state) {
    (void)state;
    fake.say = "And so on.";
    static const struct {
        const char *path, *body;
        int32_t tokens;
    } rows[] = {
        {chat, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":-1}", 0},
        {"/v1/completions", "{\"prompt\":\"Hi\",\"max_tokens\":-1}", 0},
        {"/completion", "{\"prompt\":\"Hi\",\"n_predict\":-1}", 0},
        {"/completion", "{\"prompt\":\"Hi\",\"n_predict\":5}", 5},
        {"/completion", "{\"prompt\":\"Hi\"}", 0},
        {responses, "{\"input\":\"Hi\",\"max_output_tokens\":-1}", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(fake_post(&fake, rows[i].path, rows[i].body)->status, 200);
        assert_int_equal(fake.request[0].request.tokens, rows[i].tokens);
    }
    fake_post(&fake, chat,
              "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":0}");
    assert_int_equal(fake.answer.status, 400);
    assert_true(fake_has("\"param\":\"max_tokens\""));
    fake_post(&fake, "/completion", "{\"prompt\":\"Hi\",\"n_predict\":-2}");
    assert_int_equal(fake.answer.status, 400);
}

/* As llama.cpp has it: the prompt is computed, and may be shared later. */
static void no_tokens_are_the_prompt_alone(void **state) {
    (void)state;
    fake.say = "And so on.";
    fake_post(&fake, "/completion", "{\"prompt\":\"Hi there\",\"n_predict\":0,\"n_probs\":2}");
    assert_int_equal(fake.answer.status, 200);
    assert_true(fake_has("\"content\":\"\""));
    assert_true(fake_has("\"tokens_predicted\":0"));
    assert_true(fake_has("\"stop_type\":\"limit\""));
    assert_int_equal(fake_count("\"tokens_evaluated\":0"), 0);
    fake_post(&fake, "/completion", "{\"prompt\":\"Hi there\",\"n_predict\":0,\"stream\":true}");
    assert_true(fake_has("\"content\":\"\""));
    assert_int_equal(fake_count("data: "), 1);
    fake_post(&fake, "/v1/completions", "{\"prompt\":\"Hi there\",\"max_tokens\":0}");
    assert_true(fake_has("\"text\":\"\""));
    assert_true(fake_has("\"completion_tokens\":0"));
    assert_true(fake_has("\"finish_reason\":\"length\""));
}

/* As in llama.cpp's /completion; OpenAI's format for chats has no ids. They are those of /tokenize;
 * the fake's most likely tokens have the ids from the chosen one on. */
static void logprobs_of_a_completion_have_the_ids_of_their_tokens(void **state) {
    (void)state;
    static const char text[] = "In the beginning";
    int32_t ids[16];
    int n = 0, used = 0;
    char wanted[64], body[128];
    snprintf(body, sizeof body, "{\"content\":\"%s\"}", text);
    fake_post(&fake, "/tokenize", body);
    const char *at = strchr(fake.answer.body, '[');
    assert_non_null(at);
    for (at++; n < 16 && sscanf(at, "%d%n", &ids[n], &used) == 1; n++)
        at += used + (at[used] == ',');
    assert_true(n > 1);
    fake.say = text;
    fake_post(&fake, "/completion", "{\"prompt\":\"Hi\",\"n_probs\":2}");
    for (int i = 0; i < n; i++) {
        snprintf(wanted, sizeof wanted, "{\"id\":%d,\"token\":", ids[i]);
        assert_true(fake_has(wanted));
        snprintf(wanted, sizeof wanted, "\"top_logprobs\":[{\"id\":%d,\"token\":", ids[i]);
        assert_true(fake_has(wanted));
        snprintf(wanted, sizeof wanted, "},{\"id\":%d,\"token\":", ids[i] + 1);
        assert_true(fake_has(wanted));
    }
    fake_post(&fake, "/v1/chat/completions",
              "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"logprobs\":true}");
    assert_true(fake_has("\"logprobs\":{\"content\":[{\"token\":"));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fake, fake_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_required_call_is_one_where_nobody_asks_for_more),
        TEST(a_call_that_does_not_fit_is_an_error),
        TEST(a_whole_call_without_its_mark_is_one),
        TEST(stop_strings_cut_no_call),
        TEST(allowed_tools_are_those_that_are_called),
        TEST(any_number_of_tokens_may_be_asked_for),
        TEST(logprobs_of_a_completion_have_the_ids_of_their_tokens),
        TEST(no_tokens_are_the_prompt_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
