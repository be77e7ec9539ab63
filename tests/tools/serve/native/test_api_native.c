/* test_api_native.c: what clients of llama.cpp's server send and read beyond the fields of OpenAI's
 * API: settings, ids, biases of texts, prompts of several parts, answers that were begun. */
#include "kit/kit.h"

#include <stdio.h>
#include <string.h>

#include "tools/serve/api/fake_serve.h"

static fake_serve fake;
static const char chat[] = "/v1/chat/completions", flat[] = "/completion";
static const char template[] = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}"
                               "{% if add_generation_prompt %}a:{% endif %}";

static int open_fake(void **state) {
    (void)state;
    fake_open_with(&(api_options){.template = fake_text(template)}, 256, &fake);
    return 0;
}

static int close_fake(void **state) {
    (void)state;
    fake_close(&fake);
    return 0;
}

static int count(const char *text) {
    int n = 0;
    for (const char *at = fake.answer.body; (at = strstr(at, text)); at++) n++;
    return n;
}

static void assert_has(const char *text) {
    if (!count(text)) fail_msg("no %s in\n%s", text, fake.answer.body);
}

static void post(const char *path, const char *body, int status) {
    const int got = fake_post(&fake, path, body)->status;
    if (got != status) fail_msg("%d, not %d, for %s: %s", got, status, body, fake.answer.body);
}

/* ---- /completion ---- */

static void settings_and_prompt_are_told_again(void **state) {
    (void)state;
    fake.say = "God\nsaid";
    post(flat, "{\"prompt\":\"In the\",\"n_predict\":4,\"seed\":7,\"top_k\":3,\"id_slot\":2}", 200);
    assert_has("\"prompt\":\"In the\"");
    assert_has("\"id_slot\":2");
    assert_has("\"generation_settings\":{\"n_predict\":4,\"max_tokens\":4,\"seed\":7,");
    assert_has("\"top_k\":3,");
    assert_has("\"logit_bias\":[]");
    assert_has("\"has_new_line\":true");
    assert_has("\"tokens\":[]");
    post(flat, "{\"prompt\":\"a\",\"n_predict\":2,\"ignore_eos\":true}", 200);
    assert_has("\"logit_bias\":[{\"token\":2047,\"bias\":null}]");
}

static void ids_come_where_they_are_asked_for(void **state) {
    (void)state;
    fake.say = NULL;
    post(flat, "{\"prompt\":\"a\",\"n_predict\":3,\"return_tokens\":true}", 200);
    assert_has("\"tokens\":[100,101,102]");
    post(flat, "{\"prompt\":\"a\",\"n_predict\":3,\"stream\":true}", 200);
    assert_has("\"tokens\":[100]");
}

static void the_end_of_the_context_truncates(void **state) {
    (void)state;
    fake.say = NULL;
    post(flat, "{\"prompt\":\"a\",\"n_predict\":3}", 200);
    assert_has("\"truncated\":false");
    post(flat, "{\"prompt\":\"a\"}", 200);
    assert_has("\"truncated\":true");
}

static void biases_are_of_texts_too(void **state) {
    (void)state;
    fake.say = NULL;
    post(flat, "{\"prompt\":\"a\",\"n_predict\":1,\"logit_bias\":[[5,-3.5],[5,2],[7,false]]}", 200);
    assert_has("\"logit_bias\":[{\"token\":5,\"bias\":2},{\"token\":7,\"bias\":-100}]");
    post(flat, "{\"prompt\":\"a\",\"n_predict\":1,\"logit_bias\":[[\"a\",-1]]}", 200);
    assert_int_equal(count("\"bias\":-1}"), 1);
    post(flat, "{\"prompt\":\"a\",\"n_predict\":1,\"logit_bias\":{\"a\":-1}}", 200);
    assert_int_equal(count("\"bias\":-1}"), 1);
    static const char *const bad[] = {"[5]",         "[[5]]",     "[[5,\"x\"]]",
                                      "[[99999,1]]", "[[1.5,1]]", "[[\"a\",101]]"};
    char body[128];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(body, sizeof body, "{\"prompt\":\"a\",\"logit_bias\":%s}", bad[i]);
        post(flat, body, 400);
        assert_has("\"param\":\"logit_bias\"");
    }
    post("/v1/completions", "{\"prompt\":\"a\",\"logit_bias\":{\"a\":-1}}", 400);
}

static void prompts_may_have_parts(void **state) {
    (void)state;
    static const struct {
        const char *prompt;
        int32_t tokens; /* of all; 0: refused */
    } rows[] = {{"{\"prompt_string\":\"a\"}", 1},
                {"[5,6,{\"prompt_string\":\"a\"},7]", 4},
                {"[5,\"a\",6]", 3},
                {"[\"a\",5]", 2},
                {"{\"prompt_string\":\"a\",\"multimodal_data\":[\"AA==\"]}", 0},
                {"{\"other\":\"a\"}", 0},
                {"[5,[6]]", 0},
                {"[5,true]", 0}};
    char body[192];
    fake.say = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(body, sizeof body, "{\"prompt\":%s,\"n_predict\":1}", rows[i].prompt);
        post(flat, body, rows[i].tokens ? 200 : 400);
        if (!rows[i].tokens) continue;
        snprintf(body, sizeof body, "\"tokens_evaluated\":%d,", rows[i].tokens);
        assert_has(body);
    }
    post(flat, "{\"prompt\":[\"a\",[5,6],{\"prompt_string\":\"a\"}],\"n_predict\":1}", 200);
    assert_int_equal(count("\"index\":"), 3);
    assert_int_equal(count("\"tokens_evaluated\":2"), 1);
}

/* ---- chats ---- */

static void prompt_of(const char *fields, const char *expected) {
    char body[512], text[256];
    snprintf(body, sizeof body, "{%s}", fields);
    post("/apply-template", body, 200);
    snprintf(text, sizeof text, "{\"prompt\":\"%s\"}", expected);
    assert_has(text);
}

#define TURNS "\"messages\":[{\"role\":\"user\",\"content\":\"x\"},"
#define BEGUN TURNS "{\"role\":\"assistant\",\"content\":\"yes\"}]"

static void an_answer_goes_on_where_it_was_begun(void **state) {
    (void)state;
    prompt_of(BEGUN, "u:x;a:yes");
    prompt_of(BEGUN ",\"continue_final_message\":true,\"add_generation_prompt\":false",
              "u:x;a:yes");
    prompt_of(BEGUN ",\"continue_final_message\":false", "u:x;a:yes;a:");
    prompt_of(TURNS "{\"role\":\"user\",\"content\":\"y\"}],\"add_generation_prompt\":false",
              "u:x;u:y;");
    prompt_of("\"messages\":[{\"role\":\"assistant\",\"content\":\"yes\"}]", "a:yes;a:");
    fake.say = " God";
    post(chat, "{" BEGUN ",\"max_tokens\":1,\"verbose\":true}", 200);
    assert_has("\"__verbose\":{\"prompt\":\"u:x;a:yes\",\"generation_settings\":{");
    post(chat, "{" BEGUN ",\"continue_final_message\":true,\"add_generation_prompt\":true}", 400);
    assert_has("\"param\":\"continue_final_message\"");
    post(chat,
         "{" TURNS "{\"role\":\"assistant\",\"content\":\"a\"},"
         "{\"role\":\"assistant\",\"content\":\"b\"}]}",
         400);
    assert_has("\"param\":\"messages\"");
    post("/v1/messages", "{\"max_tokens\":1," BEGUN "}", 200);
    post("/v1/messages/count_tokens", "{" BEGUN "}", 200);
}

static void streams_begin_with_the_role(void **state) {
    (void)state;
    fake.say = "God";
    post(chat,
         "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":3,\"stream\":true,"
         "\"timings_per_token\":true,\"stream_options\":{\"include_usage\":true}}",
         200);
    assert_int_equal(count("\"delta\":{\"role\":\"assistant\",\"content\":null}"), 1);
    assert_int_equal(count("\"role\""), 1);
    const char *first = strstr(fake.answer.body, "\n\n"),
               *timed = strstr(fake.answer.body, "timings");
    assert_true(first && timed && timed > first);
    assert_has("}},\"timings\":{\"cache_n\":");
    assert_has("\"system_fingerprint\":\"b");
}

/* The fake tells half of the prompt, and all of it. */
static void progress_is_told_where_it_is_asked_for(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {chat, "{\"messages\":[{\"role\":\"user\",\"content\":\"x y\"}]"},
        {flat, "{\"prompt\":[5,6,7,8]"},
        {"/v1/responses", "{\"input\":\"x y\""}};
    char body[256];
    fake.say = "God";
    for (int i = 0; i < 3; i++) {
        snprintf(body, sizeof body,
                 "%s,\"max_%stokens\":2,\"stream\":true,\"return_progress\":true}", rows[i][1],
                 i == 2 ? "output_" : "");
        post(rows[i][0], body, 200);
        assert_int_equal(count("\"prompt_progress\":{\"total\":"), 2);
        assert_int_equal(count("\"cache\":1,\"processed\":1,\"time_ms\":0}"), 1);
        snprintf(body, sizeof body, "%s,\"max_%stokens\":2,\"return_progress\":true}", rows[i][1],
                 i == 2 ? "output_" : "");
        post(rows[i][0], body, 200);
        assert_int_equal(count("prompt_progress"), 0);
    }
    post(flat,
         "{\"prompt\":[5,6,7,8],\"n_predict\":1,\"stream\":true,\"return_progress\":true,"
         "\"timings_per_token\":true}",
         200);
    assert_has("\"total\":4,\"cache\":1,\"processed\":4,");
    assert_has("\"timings\":{\"cache_n\":1,\"prompt_n\":0,\"prompt_ms\":0,");
    assert_has("\"timings\":{\"cache_n\":1,\"prompt_n\":3,\"prompt_ms\":");
}

static void inputs_are_counted(void **state) {
    (void)state;
    static const char said[] = "{\"object\":\"response.input_tokens\",\"input_tokens\":";
    post("/v1/chat/completions/input_tokens",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", 200);
    assert_has(said);
    post("/chat/completions/input_tokens", "{\"messages\":[]}", 400);
    post("/v1/responses/input_tokens", "{\"input\":\"x\"}", 200);
    assert_has(said);
}

static void long_prompts_have_a_type_of_their_own(void **state) {
    (void)state;
    char body[2048] = "{\"messages\":[{\"role\":\"user\",\"content\":\"";
    for (int i = 0; i < 300; i++) strcat(body, "x ");
    strcat(body, "\"}]}");
    post(chat, body, 400);
    assert_has("which exceeds the available context size of 256");
    assert_has("\"type\":\"exceed_context_size_error\"");
    assert_has("\"code\":\"context_length_exceeded\"");
    assert_has(",\"n_ctx\":256}");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_and_prompt_are_told_again),
        cmocka_unit_test(ids_come_where_they_are_asked_for),
        cmocka_unit_test(the_end_of_the_context_truncates),
        cmocka_unit_test(biases_are_of_texts_too),
        cmocka_unit_test(prompts_may_have_parts),
        cmocka_unit_test(an_answer_goes_on_where_it_was_begun),
        cmocka_unit_test(streams_begin_with_the_role),
        cmocka_unit_test(progress_is_told_where_it_is_asked_for),
        cmocka_unit_test(inputs_are_counted),
        cmocka_unit_test(long_prompts_have_a_type_of_their_own),
    };
    return cmocka_run_group_tests(tests, open_fake, close_fake);
}
