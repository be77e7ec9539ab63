/* test_api_models.c: several models in one server: lists, requests that wait for a model, loading
 * and unloading, who keeps a model. */
#include "kit/kit.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/serve/api/fake_models.h"

static fake_models fake;
static fake_serve *const serve = &fake.serve;
static const char chat[] = "/v1/chat/completions";
#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":3"

static int open_fake(void **state) {
    (void)state;
    fake_models_open(&(api_options){.waiting_most = 3}, &fake);
    serve->say = "God said";
    return 0;
}

static int close_fake(void **state) {
    (void)state;
    fake_models_close(&fake);
    return 0;
}

static bool has(const char *text) {
    if (strstr(serve->answer.body, text)) return true;
    print_message("no %s in\n%s\n", text, serve->answer.body);
    return false;
}

/* Sent, and not looked after. */
static void send_body(const char *method, const char *target, const char *body) {
    fake_begin(serve, method, target, body, strlen(body));
}

static int get(const char *target) {
    send_body("GET", target, "");
    assert_true(serve->answer.over);
    return serve->answer.status;
}

static int post(const char *target, const char *body) {
    send_body("POST", target, body);
    fake_run(&fake);
    assert_true(serve->answer.over);
    return serve->answer.status;
}

static void tick(void) {
    serve->handler.on_tick(serve->api);
}

static api_model_use use_of(int32_t index) {
    api_model_use use;
    api_model_use_get(serve->api, index, &use);
    return use;
}

/* ---- lists ---- */

static void lists_have_every_model_and_its_state(void **state) {
    (void)state;
    api_model_know(serve->api, 0, &(api_planned){.context = 99, .least_bytes = 500, .bytes = 700});
    fake_load(&fake, 1);
    assert_int_equal(get("/v1/models"), 200);
    assert_true(has("\"type\":\"model\",\"display_name\":\"second\",\"created_at\":\"2"));
    assert_true(has("\"id\":\"first\""));
    assert_true(
        has("\"status\":{\"value\":\"unloaded\"},\"bytes\":700,\"file_bytes\":1000,"
            "\"pin\":false,\"least_bytes\":500,\"idle_seconds\":60,\"requests\":0,\"waiting\":0}"));
    assert_true(has("\"status\":{\"value\":\"loaded\"},\"bytes\":1048576"));
    assert_true(has("\"status\":{\"value\":\"unloaded\"},\"bytes\":null,\"file_bytes\":3000,"
                    "\"pin\":true,\"least_bytes\":4096"));
    assert_int_equal(get("/models"), 200);
    assert_true(has("\"id\":\"third\""));
    assert_int_equal(get("/models/%74hird"), 200);
    assert_true(has("{\"id\":\"third\"") && !strstr(serve->answer.body, "second"));
    assert_int_equal(get("/models/fourth"), 404);
    assert_int_equal(get("/v1/models/%74hird"), 200);
    assert_true(has("{\"id\":\"third\"") && !strstr(serve->answer.body, "second"));
    assert_int_equal(get("/v1/models/fourth"), 404);
    assert_int_equal(get("/api/tags"), 200);
    assert_true(has("\"name\":\"first:latest\"") && has("\"name\":\"third:latest\""));
    assert_int_equal(get("/api/ps"), 200);
    assert_true(has("second:latest") && has("\"size\":1048576") && has("2999-12-31"));
    assert_true(!strstr(serve->answer.body, "first"));
}

/* Names that share an engine: the bytes are those of one, and the pin is that of any. */
static void names_of_one_engine_say_what_they_share(void **state) {
    (void)state;
    fake.model[1].shares_with = "first";
    fake_load(&fake, 0);
    fake_load(&fake, 1);
    assert_int_equal(get("/v1/models/second"), 200);
    assert_true(has("\"bytes\":0,") && has("\"shares_with\":\"first\""));
    assert_int_equal(get("/api/ps"), 200);
    const char *size = strstr(serve->answer.body, "\"size\":1048576");
    assert_true(size && strstr(size + 1, "\"size\":1048576"));
    const int64_t before = use_of(1).last_ms;
    assert_int_equal(post("/models/load", "{\"model\":\"second\"}"), 200);
    assert_true(before == 0 && use_of(1).last_ms > 0); /* it holds the engine */
    assert_int_equal(use_of(1).requests, 0);
    api_model_know(serve->api, 0, &(api_planned){.bytes = 700, .pinned_by = "second"});
    assert_int_equal(post("/models/unload", "{\"model\":\"first\"}"), 400);
    assert_true(has("'first' is loaded with 'second', which is pinned") &&
                has("take 'pin' of 'second' out"));
    assert_int_equal(get("/v1/models/first"), 200);
    assert_true(has("\"pin\":true"));
    assert_int_equal(fake.model[0].unwanted, 0);
}

/* A reason that is cut inside a character, and has bytes that are none. */
static void a_reason_that_is_cut_is_listed_as_text(void **state) {
    (void)state;
    for (int start = 0; start < 3; start++) {
        api_planned planned = {.shares_with = "second"};
        memset(planned.failure, 'x', (size_t)start);
        for (size_t i = (size_t)start; i < sizeof planned.failure - 1; i++)
            planned.failure[i] = "\xe2\x82\xac"[(i - (size_t)start) % 3];
        api_model_know(serve->api, 0, &planned);
        assert_int_equal(get("/v1/models"), 200);
        json_t *all = json_loads(serve->answer.body, 0, NULL);
        const json_t *one = json_array_get(json_object_get(all, "data"), 0);
        const json_t *status = json_object_get(one, "status");
        const size_t n = strlen(json_string_value(json_object_get(status, "message")));
        assert_true(n + 3 > sizeof planned.failure - 1 && n < sizeof planned.failure);
        assert_int_equal(n % 3, (size_t)start);
        assert_true(json_is_null(json_object_get(one, "bytes"))); /* it has none to share */
        json_decref(all);
    }
}

static void unknown_names_are_answered_with_the_list(void **state) {
    (void)state;
    assert_int_equal(post(chat, "{\"model\":\"other\"," MESSAGES "}"), 404);
    assert_true(has("model_not_found") && has("which has: first, second, third"));
    assert_int_equal(post(chat, "{" MESSAGES "}"), 400);
    assert_true(has("'model' is missing: set it to one of: first, second, third"));
    assert_int_equal(post("/api/chat", "{\"model\":\"other:latest\"}"), 404);
    assert_int_equal(post("/v1/embeddings", "{\"model\":\"other\",\"input\":\"a\"}"), 404);
    assert_int_equal(post("/tokenize", "{\"model\":\"other\",\"content\":\"a\"}"), 404);
    assert_int_equal(get("/slots?model=other"), 404);
    assert_int_equal(fake.model[0].wanted + fake.model[1].wanted + fake.model[2].wanted, 0);
}

static void names_may_have_latest_behind_them(void **state) {
    (void)state;
    assert_int_equal(post("/api/generate", "{\"model\":\"first:latest\",\"prompt\":\"a\"}"), 200);
    assert_int_equal(fake.model[0].wanted, 1);
    assert_true(has("\"model\":\"first:latest\""));
}

/* ---- requests that wait ---- */

static void streams_get_comments_until_the_model_is_loaded(void **state) {
    (void)state;
    send_body("POST", chat, "{\"model\":\"first\",\"stream\":true," MESSAGES "}");
    fake_step(serve);
    assert_int_equal(fake.model[0].wanted, 1);
    assert_int_equal(use_of(0).state, API_MODEL_LOADING);
    assert_int_equal(use_of(0).waiting, 1);
    assert_true(use_of(0).waiting_since_ms > 0);
    assert_int_equal(serve->answer.status, 0);
    tick();
    tick();
    assert_string_equal(serve->answer.body, ": loading\n\n: loading\n\n");
    fake_run(&fake);
    assert_true(serve->answer.over && !serve->answer.aborted);
    assert_true(has("\"model\":\"first\"") && has("data: [DONE]"));
    assert_int_equal(use_of(0).waiting, 0);
    assert_int_equal(use_of(0).waiting_since_ms, 0);
    assert_int_equal(use_of(0).requests, 0);
}

static void others_get_nothing_until_the_model_is_loaded(void **state) {
    static const char *const bodies[][2] = {
        {"/v1/chat/completions", "{\"model\":\"first\"," MESSAGES "}"},
        {"/api/chat", "{\"model\":\"first\"," MESSAGES "}"},
        {"/api/generate", "{\"model\":\"first\"}"},
        {"/v1/embeddings", "{\"model\":\"first\",\"input\":\"a\"}"},
        {"/api/embed", "{\"model\":\"first\",\"input\":\"a\"}"},
        {"/tokenize", "{\"model\":\"first\",\"content\":\"a\"}"},
        {"/v1/messages/count_tokens", "{\"model\":\"first\"," MESSAGES "}"},
        {"/api/show", "{\"model\":\"first\"}"}};
    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        fake_models_close(&fake);
        open_fake(NULL);
        send_body("POST", bodies[i][0], bodies[i][1]);
        tick();
        assert_int_equal(serve->answer.status, 0);
        assert_int_equal(use_of(0).waiting, 1);
        fake_run(&fake);
        assert_true(serve->answer.over);
        if (serve->answer.status != 200) print_message("%s\n", serve->answer.body);
        assert_int_equal(serve->answer.status, 200);
    }
    send_body("GET", "/props?model=second", "");
    assert_int_equal(serve->answer.status, 0);
    fake_run(&fake);
    assert_true(has("\"model_alias\":\"second\""));
}

static void errors_behind_a_comment_are_events(void **state) {
    (void)state;
    send_body("POST", chat, "{\"model\":\"first\",\"stream\":true,\"n\":\"x\"," MESSAGES "}");
    tick();
    fake_run(&fake);
    assert_true(serve->answer.over && serve->answer.status == 200);
    assert_true(has(": loading\n\ndata: {\"error\":{\"message\":"));
    send_body("POST", "/v1/messages", "{\"model\":\"second\",\"stream\":true,\"max_tokens\":3}");
    tick();
    api_model_refuse(serve->api, 1, 400, "over_budget", "it needs 5 bytes, but the budget is 4");
    assert_true(serve->answer.over);
    assert_true(has("event: error\ndata: {\"type\":\"error\"") && has("it needs 5 bytes"));
}

static void refused_models_end_their_requests(void **state) {
    (void)state;
    send_body("POST", chat, "{\"model\":\"first\"," MESSAGES "}");
    api_model_refuse(serve->api, 0, 400, "over_budget", "it needs 5 bytes, but the budget is 4");
    fake.model[0].want = false;
    assert_int_equal(serve->answer.status, 400);
    assert_true(has("\"code\":\"over_budget\"") && has("it needs 5 bytes"));
    assert_int_equal(use_of(0).state, API_MODEL_UNLOADED);
    assert_int_equal(get("/v1/models/first"), 200);
    assert_true(has("\"failed\":true,\"message\":\"it needs 5 bytes, but the budget is 4\""));
    assert_int_equal(post(chat, "{\"model\":\"first\"," MESSAGES "}"), 200);
    assert_int_equal(get("/v1/models/first"), 200);
    assert_true(!strstr(serve->answer.body, "failed"));
}

static void clients_that_leave_are_dropped(void **state) {
    (void)state;
    send_body("POST", chat, "{\"model\":\"first\",\"stream\":true," MESSAGES "}");
    tick();
    fake_leave(serve);
    assert_int_equal(use_of(0).waiting, 0);
    fake_run(&fake);
    assert_int_equal(serve->submitted, 0);
}

static void too_many_are_told_to_come_again(void **state) {
    enum { WAIT = 3 };
    static const char body[] = "{\"model\":\"first\"," MESSAGES "}";
    struct http_exchange exchange[WAIT];
    fake_answer answer[WAIT] = {{0}};
    (void)state;
    for (int i = 0; i < WAIT; i++)
        fake_ask(serve, &exchange[i], &answer[i], "POST", chat, body, strlen(body));
    assert_int_equal(use_of(0).waiting, WAIT);
    send_body("POST", chat, body);
    assert_int_equal(serve->answer.status, 429);
    assert_true(strstr(serve->answer.headers, "Retry-After: 5"));
    fake_run(&fake);
    for (int i = 0; i < WAIT; i++) {
        assert_int_equal(answer[i].status, 200);
        fake_part(serve, &exchange[i]);
        free(answer[i].body);
    }
    assert_int_equal(fake.model[0].wanted, 1);
}

static void draining_ends_those_that_wait(void **state) {
    (void)state;
    send_body("POST", chat, "{\"model\":\"first\"," MESSAGES "}");
    api_drain(serve->api);
    assert_int_equal(serve->answer.status, 503);
    fake.model[0].want = false;
    assert_int_equal(post(chat, "{\"model\":\"first\"," MESSAGES "}"), 503);
}

/* ---- loading and unloading ---- */

static void a_model_leaves_once_nobody_uses_it(void **state) {
    struct http_exchange exchange;
    fake_answer answer = {0};
    static const char body[] = "{\"model\":\"first\"," MESSAGES "}";
    (void)state;
    fake_load(&fake, 0);
    fake_ask(serve, &exchange, &answer, "POST", chat, body, strlen(body));
    assert_int_equal(use_of(0).requests, 1);
    assert_false(fake_unload(&fake, 0));
    assert_int_equal(use_of(0).state, API_MODEL_LEAVING);
    fake_server(serve);
    send_body("POST", chat, body); /* which runs what is there: the first answer is over */
    assert_int_equal(answer.status, 200);
    assert_int_equal(use_of(0).waiting, 1);
    assert_int_equal(fake.model[0].wanted, 0);
    assert_true(fake_unload(&fake, 0)); /* the client hasn't gone: that needs no model */
    assert_int_equal(fake.model[0].wanted, 1);
    fake_run(&fake);
    assert_int_equal(serve->answer.status, 200);
    fake_part(serve, &exchange);
    free(answer.body);
}

static void a_leaving_model_may_stay(void **state) {
    struct http_exchange exchange;
    fake_answer answer = {0};
    static const char body[] = "{\"model\":\"first\"," MESSAGES "}";
    (void)state;
    fake_load(&fake, 0);
    fake_ask(serve, &exchange, &answer, "POST", chat, body, strlen(body));
    assert_false(fake_unload(&fake, 0));
    fake.model[0].leaving = false;
    send_body("POST", chat, body);
    assert_int_equal(serve->answer.status, 0);
    api_model_stay(serve->api, 0);
    fake_run(&fake);
    assert_int_equal(serve->answer.status, 200);
    assert_int_equal(fake.model[0].wanted, 0);
    fake_part(serve, &exchange);
    free(answer.body);
}

static void routes_load_and_unload(void **state) {
    static const char first[] = "{\"model\":\"first\"}", third[] = "{\"model\":\"third\"}";
    (void)state;
    assert_int_equal(post("/models/unload", first), 400);
    assert_true(has("is not loaded"));
    assert_int_equal(post("/models/load", first), 200);
    assert_string_equal(serve->answer.body, "{\"success\":true}\n");
    assert_int_equal(fake.model[0].wanted, 1);
    assert_int_equal(use_of(0).state, API_MODEL_LOADED);
    assert_int_equal(post("/models/load", first), 200);
    assert_int_equal(fake.model[0].wanted, 1);
    assert_int_equal(post("/models/unload", first), 200);
    assert_int_equal(fake.model[0].unwanted, 1);
    assert_int_equal(post("/models/load", third), 200);
    assert_int_equal(post("/models/unload", third), 400);
    assert_true(has("is pinned"));
    assert_int_equal(post("/models/load", "{\"model\":\"x\"}"), 404);
    assert_int_equal(post("/models/load", "{}"), 400);
}

static void a_model_that_leaves_is_loaded_again_if_asked(void **state) {
    struct http_exchange exchange;
    fake_answer answer = {0};
    static const char body[] = "{\"model\":\"first\"," MESSAGES "}";
    (void)state;
    fake_load(&fake, 0);
    fake_ask(serve, &exchange, &answer, "POST", chat, body, strlen(body));
    assert_false(fake_unload(&fake, 0));
    send_body("POST", "/models/load", "{\"model\":\"first\"}");
    assert_int_equal(fake.model[0].wanted, 0);
    fake_run(&fake);
    assert_int_equal(answer.status, 200);
    assert_int_equal(fake.model[0].wanted, 1);
    assert_int_equal(use_of(0).state, API_MODEL_LOADED);
    fake_part(serve, &exchange);
    free(answer.body);
}

static void keep_alive_decides_how_long_a_model_stays(void **state) {
    static const struct {
        const char *value;
        int64_t seconds;
    } rows[] = {{"\"5m\"", 300}, {"90", 90},         {"-1", -1},         {"\"1h30m\"", 5400},
                {"\"-1\"", -1},  {"\"500ms\"", 1},   {"\"1.5h\"", 5400}, {"\"24h\"", 86400},
                {"2.5", 3},      {"\"1m0.5s\"", 61}, {"\"-5m\"", -1},    {"\"10\"", 10}};
    static const char *const wrong[] = {"\"x\"", "\"5x\"", "true", "\"m\"", "\"1h m\"", "\".\""};
    char body[200];
    (void)state;
    fake_load(&fake, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fake.model[0].keep = 0;
        snprintf(body, sizeof body, "{\"model\":\"first\",\"prompt\":\"a\",\"keep_alive\":%s}",
                 rows[i].value);
        assert_int_equal(post("/api/generate", body), 200);
        if (fake.model[0].keep != rows[i].seconds) print_message("%s\n", rows[i].value);
        assert_int_equal(fake.model[0].keep, rows[i].seconds);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(body, sizeof body, "{\"model\":\"first\",\"prompt\":\"a\",\"keep_alive\":%s}",
                 wrong[i]);
        assert_int_equal(post("/api/generate", body), 400);
    }
    assert_int_equal(post("/api/embed", "{\"model\":\"first\",\"input\":\"a\",\"keep_alive\":7}"),
                     200);
    assert_int_equal(fake.model[0].keep, 7);
    assert_int_equal(get("/api/ps"), 200);
    assert_true(!strstr(serve->answer.body, "2999"));
    assert_int_equal(fake.model[0].unwanted, 0);
}

static void keep_alive_0_unloads_behind_the_answer(void **state) {
    (void)state;
    assert_int_equal(
        post("/api/chat", "{\"model\":\"first\"," MESSAGES ",\"keep_alive\":0,\"stream\":false}"),
        200);
    assert_true(has("\"done\":true") && !strstr(serve->answer.body, "unsupported"));
    assert_int_equal(fake.model[0].unwanted, 1);
    assert_true(fake_unload(&fake, 0));
    assert_int_equal(post("/api/generate", "{\"model\":\"first\",\"keep_alive\":\"0s\"}"), 200);
    assert_true(has("\"done_reason\":\"unload\""));
    assert_int_equal(fake.model[0].wanted, 1); /* that of the chat */
    assert_int_equal(post("/api/generate", "{\"model\":\"first\"}"), 200);
    assert_true(has("\"done_reason\":\"load\""));
    assert_int_equal(fake.model[0].wanted, 2);
    assert_int_equal(post("/api/chat", "{\"model\":\"first\",\"keep_alive\":0}"), 200);
    assert_int_equal(fake.model[0].unwanted, 2);
    assert_int_equal(post("/api/chat", "{\"model\":\"third\"," MESSAGES ",\"keep_alive\":0}"), 200);
    assert_int_equal(fake.model[2].unwanted, 0); /* it is pinned */
}

static void a_model_that_is_being_loaded_can_be_unloaded(void **state) {
    (void)state;
    assert_int_equal(post("/models/load", "{\"model\":\"second\"}"), 200);
    assert_int_equal(fake.model[1].unwanted, 0);
    assert_int_equal(post("/models/unload", "{\"model\":\"second\"}"), 200);
    assert_int_equal(fake.model[1].unwanted, 1);
}

static void what_is_known_of_a_model_stays_known(void **state) {
    (void)state;
    assert_int_equal(post("/api/show", "{\"model\":\"first\"}"), 200);
    assert_true(has("\"family\":\"llama\"") && has("\"modelfile\":\"FROM first\""));
    assert_int_equal(fake.model[0].wanted, 1);
    assert_true(fake_unload(&fake, 0));
    assert_int_equal(post("/api/show", "{\"model\":\"first\"}"), 200);
    assert_true(has("\"family\":\"llama\"") && has("\"capabilities\":[\"completion\""));
    assert_true(has("\"llama.context_length\":"));
    assert_int_equal(fake.model[0].wanted, 1);
    assert_int_equal(get("/v1/models/first"), 200);
    assert_true(has("\"meta\":{\"n_vocab\":"));
}

static void settings_are_of_the_model_that_is_named(void **state) {
    (void)state;
    assert_int_equal(get("/props"), 200);
    assert_true(has("\"role\":\"router\"") && has("\"models\":[\"first\",\"second\",\"third\"]"));
    assert_int_equal(get("/slots"), 200);
    assert_string_equal(serve->answer.body, "[]\n");
    fake_load(&fake, 0);
    fake_load(&fake, 2);
    assert_int_equal(get("/slots"), 200);
    assert_true(has("\"model\":\"first\"") && has("\"model\":\"third\""));
    assert_int_equal(get("/slots?model=third"), 200);
    assert_true(!strstr(serve->answer.body, "first"));
    assert_int_equal(get("/props?autoload=0&model=third"), 200);
    assert_true(has("\"model_alias\":\"third\""));
    assert_int_equal(get("/health"), 200);
    assert_int_equal(get("/ready"), 200);
}

static void numbers_name_their_model(void **state) {
    (void)state;
    fake_load(&fake, 0);
    fake_load(&fake, 1);
    assert_true(fake_unload(&fake, 1));
    assert_int_equal(get("/metrics"), 200);
    assert_true(has("mnem_num_requests_running{model=\"first\"} 1\n"));
    assert_true(!strstr(serve->answer.body, "mnem_num_requests_running{model=\"second\"}"));
    assert_true(has("mnem_step_seconds_bucket{model=\"second\",le=\"+Inf\"} 0\n"));
    assert_true(!strstr(serve->answer.body, "mnem_step_seconds_bucket{model=\"third\""));
    assert_true(has("mnem_kv_pages{state=\"free\",model=\"first\"} 4\n"));
    assert_true(has("mnem_model_state{state=\"loaded\",model=\"first\"} 1\n"));
    assert_true(has("mnem_model_state{state=\"unloaded\",model=\"third\"} 1\n"));
    assert_true(has("mnem_model_bytes{model=\"first\"} 1048576\n"));
    assert_true(has("mnem_model_loads_total{model=\"first\"} 1\n"));
    assert_true(fake_unload(&fake, 0));
    assert_int_equal(get("/metrics"), 200);
    assert_true(has("mnem_model_loads_total{model=\"first\"} 1\n"));
    assert_true(!strstr(serve->answer.body, "mnem_kv_pages{"));
}

#define FAKE(test) cmocka_unit_test_setup_teardown(test, open_fake, close_fake)

int main(void) {
    const struct CMUnitTest tests[] = {FAKE(lists_have_every_model_and_its_state),
                                       FAKE(names_of_one_engine_say_what_they_share),
                                       FAKE(a_reason_that_is_cut_is_listed_as_text),
                                       FAKE(unknown_names_are_answered_with_the_list),
                                       FAKE(names_may_have_latest_behind_them),
                                       FAKE(streams_get_comments_until_the_model_is_loaded),
                                       FAKE(others_get_nothing_until_the_model_is_loaded),
                                       FAKE(errors_behind_a_comment_are_events),
                                       FAKE(refused_models_end_their_requests),
                                       FAKE(clients_that_leave_are_dropped),
                                       FAKE(too_many_are_told_to_come_again),
                                       FAKE(draining_ends_those_that_wait),
                                       FAKE(a_model_leaves_once_nobody_uses_it),
                                       FAKE(a_leaving_model_may_stay),
                                       FAKE(routes_load_and_unload),
                                       FAKE(a_model_that_leaves_is_loaded_again_if_asked),
                                       FAKE(keep_alive_decides_how_long_a_model_stays),
                                       FAKE(keep_alive_0_unloads_behind_the_answer),
                                       FAKE(a_model_that_is_being_loaded_can_be_unloaded),
                                       FAKE(what_is_known_of_a_model_stays_known),
                                       FAKE(settings_are_of_the_model_that_is_named),
                                       FAKE(numbers_name_their_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
