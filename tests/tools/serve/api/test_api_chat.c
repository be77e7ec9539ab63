/* test_api_chat.c: chat completions, from a body to the bytes of an answer. */
#include <string.h>

#include "tools/serve/kit/fake_test.h"

static int open_chat(void **state) {
    (void)state;
    fake_open(&(api_options){.name = "kjv"}, &fake);
    return 0;
}

static const char hi[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}";
static const char path[] = "/v1/chat/completions";

static void an_answer_is_whole(void **state) {
    (void)state;
    fake.say = "In the beginning";
    const fake_answer *answer = fake_post(&fake, path, hi);
    assert_int_equal(answer->status, 200);
    assert_string_equal(answer->type, "application/json");
    assert_true(fake_has("\"message\":{\"role\":\"assistant\",\"content\":\"In the beginning\"}"));
    assert_true(fake_has("\"finish_reason\":\"stop\""));
    assert_true(fake_has("\"object\":\"chat.completion\",\"created\":"));
}

static void a_stream_has_the_role_once_and_ends_with_done(void **state) {
    (void)state;
    fake.say = "In the";
    const fake_answer *answer =
        fake_post(&fake, path,
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"stream\":true,"
                  "\"stream_options\":{\"include_usage\":true}}");
    assert_int_equal(answer->status, 200);
    assert_string_equal(answer->type, "text/event-stream");
    const char *role = strstr(answer->body, "\"role\":\"assistant\"");
    assert_non_null(role);
    assert_null(strstr(role + 1, "\"role\""));
    assert_true(fake_has("\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}]"));
    assert_true(fake_has("\"choices\":[],\"usage\":{\"prompt_tokens\":"));
    assert_string_equal(answer->body + answer->bytes - 14, "data: [DONE]\n\n");
    assert_null(strchr(answer->body, '\r'));
}

static uint64_t seed_of(const char *body) {
    assert_int_equal(fake_post(&fake, path, body)->status, 200);
    return fake.request[0].request.sampler.seed;
}

static void the_seed_of_the_server_is_that_of_requests_without_one(void **state) {
    (void)state;
    mnem_sampler_options sampler = mnem_sampler_usual();
    sampler.seed = 5;
    fake_open(&(api_options){.name = "kjv", .sampler = sampler}, &fake);
    fake.say = "In the";
    assert_int_equal(seed_of(hi), 5);
    assert_int_equal(seed_of("{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"seed\":6}"),
                     6);
    fake_close(&fake);
    sampler.seed = 0;
    fake_open(&(api_options){.name = "kjv", .sampler = sampler}, &fake);
    fake.say = "In the";
    assert_int_not_equal(seed_of(hi), seed_of(hi));
    fake_close(&fake);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_seed_of_the_server_is_that_of_requests_without_one),
        cmocka_unit_test_setup_teardown(an_answer_is_whole, open_chat, fake_teardown),
        cmocka_unit_test_setup_teardown(a_stream_has_the_role_once_and_ends_with_done, open_chat,
                                        fake_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
