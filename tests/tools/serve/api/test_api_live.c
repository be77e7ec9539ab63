/* test_api_live.c: answers of the model that ships, over real sockets. */
#include "tools/serve/api/live_serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char out[LIVE_ANSWER], other[LIVE_ANSWER];

static int open_live(void **state) {
    (void)state;
    live_open(&(api_options){0}, 4);
    return 0;
}

static int close_live(void **state) {
    (void)state;
    live_close();
    return 0;
}

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

static void stops_end_an_answer(void **state) {
    (void)state;
    live_ask("POST", "/v1/completions",
             "{\"prompt\":\"In the beginning\",\"stop\":[\" the\"]," GREEDY "}", out);
    assert_true(has("\"finish_reason\":\"stop\""));
    assert_null(strstr(out, " the\""));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_live, close_live)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_chat_is_answered),
        TEST(streams_say_the_same),
        TEST(answers_are_the_same_in_any_company),
        TEST(a_second_prompt_is_from_the_cache),
        TEST(answers_follow_a_schema),
        TEST(a_tool_is_called),
        TEST(clients_that_leave_free_their_pages),
        TEST(stops_end_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
