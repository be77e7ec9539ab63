/* test_api_ollama.c: Ollama's routes: lines of JSON, times, tools, options, models; what is
 * refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/file/sha256.h"
#include "tools/serve/kit/fake_test.h"

static const char chat[] = "/api/chat", generate[] = "/api/generate";
static const char template[] =
    "{# <tool_call> tools </think> #}{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
    "{% for m in messages %}[{{ m.role }}:{{ m.content + '' }}{% for c in m.tool_calls or [] %}"
    "{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}{{ m.name or '' }}]"
    "{% endfor %}{% if enable_thinking %}!{% endif %}";

static int open_fake(void **state) {
    (void)state;
    fake_open_with(&(api_options){.template = fake_text(template), .pooling = MNEM_POOLING_MEAN},
                   600, &fake);
    return 0;
}

/* ---- answers ---- */

static void streams_are_lines_of_json(void **state) {
    (void)state;
    fake.say = "God said";
    assert_int_equal(
        fake_post(&fake, chat, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}")->status,
        200);
    assert_true(fake.answer.stream);
    assert_string_equal(fake.answer.type, "application/x-ndjson");
    assert_true(strstr(fake_prompted(), "[user:Hi]"));
    size_t lines = 0, n = 0;
    char said[64] = "";
    for (const char *at = fake.answer.body, *end; *at; at = end + 1, lines++) {
        end = strchr(at, '\n');
        assert_non_null(end);
        json_t *line = json_loadb(at, (size_t)(end - at), 0, NULL);
        assert_non_null(line);
        assert_string_equal(json_string_value(json_object_get(line, "model")), "kjv:latest");
        assert_int_equal(json_is_true(json_object_get(line, "done")), end[1] == 0);
        const char *text =
            json_string_value(json_object_get(json_object_get(line, "message"), "content"));
        assert_non_null(text);
        n += (size_t)snprintf(said + n, sizeof said - n, "%s", text);
        json_decref(line);
    }
    assert_string_equal(said, "God said");
    assert_true(lines > 1);
}

static void the_last_line_has_its_times(void **state) {
    (void)state;
    fake.say = "God said";
    for (int stream = 0; stream < 2; stream++) {
        char body[80];
        snprintf(body, sizeof body, "{\"prompt\":\"Hi\",\"stream\":%s}", stream ? "true" : "false");
        assert_int_equal(fake_post(&fake, generate, body)->status, 200);
        assert_int_equal(fake.answer.stream, stream);
        json_t *last = fake_last_line();
        assert_string_equal(json_string_value(json_object_get(last, "done_reason")), "stop");
        assert_int_equal(fake_number(last, "prompt_eval_count"),
                         fake.request[0].request.prompt_tokens);
        assert_int_equal(fake_number(last, "eval_count"), 3);
        assert_int_equal(fake_number(last, "load_duration"), 0);
        assert_true(fake_number(last, "eval_duration") > 0);
        assert_true(fake_number(last, "total_duration") >=
                    fake_number(last, "prompt_eval_duration") + fake_number(last, "eval_duration"));
        const char *made = json_string_value(json_object_get(last, "created_at"));
        int year, month, day;
        assert_int_equal(sscanf(made, "%d-%d-%dT", &year, &month, &day), 3);
        assert_true(year >= 2024 && month >= 1 && month <= 12 && day >= 1 && day <= 31);
        assert_true(made[strlen(made) - 1] == 'Z');
        json_decref(last);
    }
}

static void a_prompt_is_a_turn_unless_it_is_raw(void **state) {
    (void)state;
    fake.say = "God";
    fake_post(&fake, generate, "{\"prompt\":\"Hi\",\"system\":\"Be.\",\"stream\":false}");
    assert_true(fake_has("\"response\":\"God\""));
    assert_true(strstr(fake_prompted(), "[system:Be.][user:Hi]"));
    fake_post(&fake, generate, "{\"prompt\":\"Hi\",\"raw\":true,\"stream\":false}");
    assert_true(fake_has("\"response\":\"God\""));
    assert_null(strstr(fake_prompted(), "user"));
}

static void options_are_settings(void **state) {
    (void)state;
    fake.say = NULL;
    fake_post(&fake, generate,
              "{\"prompt\":\"Hi\",\"stream\":false,\"options\":{\"num_predict\":3,\"temperature\":"
              "0.5,\"top_k\":7,\"seed\":5,\"repeat_last_n\":-1,\"num_gpu\":1,\"num_ctx\":9999,"
              "\"typical_p\":0.5,\"what\":1},\"keep_alive\":\"0s\"}");
    assert_true(fake_has("\"done_reason\":\"length\""));
    const mnem_request *r = &fake.request[0].request;
    assert_int_equal(r->tokens, 3);
    assert_int_equal(r->sampler.top_k, 7);
    assert_int_equal(r->sampler.seed, 5);
    assert_int_equal(r->sampler.repeat_last, 600);
    assert_true(r->sampler.temperature > 0.49F && r->sampler.temperature < 0.51F);
    assert_true(fake_has("\"unsupported\":[\"what\",\"num_ctx\",\"keep_alive\",\"typical_p\"]"));
    fake.say = "God said";
    fake_post(&fake, generate,
              "{\"prompt\":\"Hi\",\"stream\":false,\"options\":{\"num_predict\":-2,\"num_ctx\":64,"
              "\"stop\":[\"said\"]},\"keep_alive\":-1}");
    assert_int_equal(fake.request[0].request.tokens, 0);
    assert_true(fake_has("\"response\":\"God \"") && fake_has("\"done_reason\":\"stop\""));
    assert_null(strstr(fake.answer.body, "unsupported"));
}

static void thoughts_have_a_member(void **state) {
    (void)state;
    fake.say = "<think>Let there</think>God";
    fake_post(&fake, chat,
              "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"stream\":false,\"think\":"
              "true}");
    assert_true(fake_has("\"content\":\"God\",\"thinking\":\"Let there\"}"));
    assert_true(strstr(fake_prompted(), "]!"));
    fake_post(&fake, generate, "{\"prompt\":\"Hi\",\"stream\":false,\"think\":\"high\"}");
    assert_true(fake_has("\"response\":\"God\",\"thinking\":\"Let there\""));
    fake_post(&fake, generate, "{\"prompt\":\"Hi\",\"stream\":false,\"think\":false}");
    assert_null(strstr(fake_prompted(), "]!"));
}

#define TOOL                                                                                       \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":"     \
    "\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}}}]"

static void calls_are_objects(void **state) {
    (void)state;
    fake.say = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>";
    for (int stream = 0; stream < 2; stream++) {
        char body[400];
        snprintf(body, sizeof body,
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\","
                 "\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{"
                 "\"a\":2}}}]},{\"role\":\"tool\",\"tool_name\":\"f\",\"content\":\"3\"}]," TOOL
                 ",\"stream\":%s}",
                 stream ? "true" : "false");
        assert_int_equal(fake_post(&fake, chat, body)->status, 200);
        assert_true(fake_has("\"function\":{\"index\":0,\"name\":\"f\",\"arguments\":{\"a\": 1}}"));
        assert_true(fake_has("\"done_reason\":\"stop\""));
        assert_true(strstr(fake_prompted(), "[assistant:f{\"a\": 2}][tool:3f]"));
    }
}

/* A model may write its arguments over several lines; an answer has one. */
static void calls_are_of_one_line(void **state) {
    (void)state;
    fake.say = "<tool_call>{\"name\": \"f\", \"arguments\": {\n  \"a\":\n 1\n}}</tool_call>";
    fake_post(&fake, chat, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]," TOOL "}");
    for (const char *at = fake.answer.body, *end; *at; at = end + 1) {
        end = strchr(at, '\n');
        assert_non_null(end);
        json_t *line = json_loadb(at, (size_t)(end - at), 0, NULL);
        if (!line) fail_msg("%s", fake.answer.body);
        json_decref(line);
    }
    assert_true(fake_has("\"name\":\"f\",\"arguments\":{"));
}

static void formats_and_logprobs_are_kept(void **state) {
    (void)state;
    fake.say = "no";
    fake_post(&fake, generate,
              "{\"prompt\":\"Hi\",\"stream\":false,\"format\":{\"type\":\"object\",\"properties\":{"
              "\"a\":{\"const\":1}},\"required\":[\"a\"],\"additionalProperties\":false}}");
    assert_true(fake_has("\\\"a\\\""));
    fake.say = "God";
    fake_post(&fake, chat,
              "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"stream\":false,"
              "\"logprobs\":true,\"top_logprobs\":2}");
    assert_true(fake_has("\"logprobs\":[{\"token\":\"G\",") && fake_has("\"top_logprobs\":["));
}

/* ---- models ---- */

static void models_are_listed_and_shown(void **state) {
    (void)state;
    json_t *tags = json_loads(fake_get("/api/tags"), 0, NULL);
    json_t *one = json_array_get(json_object_get(tags, "models"), 0);
    const char *digest = json_string_value(json_object_get(one, "digest"));
    assert_int_equal(strlen(digest), 64);
    assert_int_equal(strspn(digest, "0123456789abcdef"), 64);
    assert_string_equal(json_string_value(json_object_get(one, "name")), "kjv:latest");
    json_t *details = json_object_get(one, "details");
    assert_int_equal(json_array_size(json_object_get(one, "capabilities")), 4);
    assert_int_equal(fake_number(details, "context_length"), 600);
    assert_string_equal(json_string_value(json_object_get(details, "family")), "llama");
    assert_string_equal(json_string_value(json_object_get(details, "quantization_level")), "Q8_0");
    fake_get("/api/ps");
    assert_true(fake_has(digest) && fake_has("\"size_vram\":0") && fake_has("\"expires_at\":\"2"));
    assert_int_equal(fake_post(&fake, "/api/show", "{\"model\":\"kjv\"}")->status, 200);
    assert_true(fake_has("\"capabilities\":[\"completion\",\"tools\",\"thinking\",\"embedding\"]"));
    assert_true(fake_has("\"general.architecture\":\"llama\"") &&
                fake_has("\"llama.context_length\":600,"));
    assert_true(fake_has("\"tokenizer.ggml.tokens\":null") && fake_has("\"num_ctx 600\\n"));
    json_t *shown = json_loads(fake.answer.body, 0, NULL);
    assert_non_null(shown);
    assert_non_null(strstr(json_string_value(json_object_get(shown, "template")), "</think>"));
    json_decref(shown);
    json_decref(tags);
    json_t *version = json_loads(fake_get("/api/version"), 0, NULL);
    assert_string_equal(json_string_value(json_object_get(version, "mnem")), MNEM_VERSION);
    json_decref(version);
    assert_string_equal(fake_get("/version"), "{\"version\":\"" MNEM_VERSION "\"}\n");
}

static void a_request_without_a_prompt_asks_for_the_model(void **state) {
    (void)state;
    fake_post(&fake, generate, "{\"model\":\"kjv\"}");
    assert_true(fake_has("\"response\":\"\",\"done\":true,\"done_reason\":\"load\"}"));
    fake_post(&fake, chat, "{\"messages\":[],\"keep_alive\":60}");
    assert_true(fake_has("\"content\":\"\"},\"done\":true,\"done_reason\":\"load\"}"));
    static const char *const unloads[] = {"0", "\"0\"", "\"0m0s\"", "0.0"};
    for (size_t i = 0; i < sizeof unloads / sizeof *unloads; i++) {
        char body[60];
        snprintf(body, sizeof body, "{\"prompt\":\"\",\"keep_alive\":%s}", unloads[i]);
        assert_int_equal(fake_post(&fake, generate, body)->status, 400);
        assert_true(fake_has("{\"error\":\"'keep_alive' is 0, but this server serves one model"));
    }
}

/* Whatever of it is absent. */
static void no_text_has_no_vector(void **state) {
    (void)state;
    static const char *const none[] = {"{}", "{\"input\":\"\"}", "{\"input\":[]}",
                                       "{\"input\":null}"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_int_equal(fake_post(&fake, "/api/embed", none[i])->status, 200);
        json_t *line = fake_last_line();
        assert_int_equal(json_array_size(json_object_get(line, "embeddings")), 0);
        assert_int_equal(fake_number(line, "prompt_eval_count"), 0);
        json_decref(line);
    }
    fake_post(&fake, "/api/embeddings", "{\"prompt\":\"\"}");
    assert_string_equal(fake.answer.body, "{\"embedding\":[]}\n");
    assert_int_equal(fake_post(&fake, "/v1/embeddings", "{}")->status, 400);
}

static void messages_may_have_no_content(void **state) {
    (void)state;
    fake.say = "God";
    fake_post(&fake, chat,
              "{\"messages\":[{\"role\":\"user\",\"images\":[]},{\"role\":"
              "\"assistant\",\"content\":null}],\"stream\":false}");
    assert_true(fake_has("\"content\":\"God\"") && strstr(fake_prompted(), "[user:][assistant:]"));
}

static void a_model_that_is_here_is_pulled(void **state) {
    (void)state;
    static const char *const names[] = {"model\":\"kjv", "name\":\"kjv:latest"};
    for (int i = 0; i < 2; i++) {
        char body[60];
        snprintf(body, sizeof body, "{\"%s\"}", names[i]);
        assert_int_equal(fake_post(&fake, "/api/pull", body)->status, 200);
        assert_string_equal(fake.answer.body, "{\"status\":\"success\"}\n");
    }
}

static void texts_become_vectors(void **state) {
    (void)state;
    assert_int_equal(fake_post(&fake, "/api/embed", "{\"input\":[\"a\",\"b\"]}")->status, 200);
    json_t *many = fake_last_line();
    assert_int_equal(json_array_size(json_object_get(many, "embeddings")), 2);
    assert_int_equal(fake_number(many, "prompt_eval_count"), 2);
    assert_int_equal(fake_post(&fake, "/api/embeddings", "{\"prompt\":\"a\"}")->status, 200);
    json_t *one = fake_last_line();
    assert_true(json_equal(json_object_get(one, "embedding"),
                           json_array_get(json_object_get(many, "embeddings"), 0)));
    json_decref(one);
    json_decref(many);
    char *body = malloc(4000);
    assert_non_null(body);
    size_t n = (size_t)sprintf(body, "{\"input\":\"");
    for (int i = 0; i < 1500; i++) n += (size_t)sprintf(body + n, "%c ", 'a' + i % 26);
    sprintf(body + n, "\"}");
    assert_int_equal(fake_post(&fake, "/api/embed", body)->status, 200);
    assert_true(fake_has("\"prompt_eval_count\":600"));
    sprintf(body + n, "\",\"truncate\":false}");
    assert_int_equal(fake_post(&fake, "/api/embed", body)->status, 400);
    assert_true(fake_has("{\"error\":\"a text of 'input' has "));
    free(body);
}

/* ---- what is refused: all of it as {"error": "..."} ---- */

static const struct {
    const char *method, *path, *body, *text;
} refused[] = {
    {"POST", chat, "{\"messages\":[{\"role\":\"user\",\"content\":\"\",\"images\":[\"eA==\"]}]}",
     "'messages[0].images' has images, which "},
    {"POST", generate, "{\"prompt\":\"a\",\"images\":[\"eA==\"]}", "'images' is not supported"},
    {"POST", generate, "{\"prompt\":\"a\",\"template\":\"x\"}", "'template' is not supported"},
    {"POST", generate, "{\"prompt\":\"a\",\"context\":[1]}", "'context' is not supported"},
    {"POST", generate, "{\"prompt\":\"a\",\"options\":[]}", "'options' must be an object"},
    {"POST", generate, "{\"prompt\":\"a\",\"options\":{\"top_p\":2}}", "'top_p' is 2"},
    {"POST", generate, "{\"prompt\":\"a\",\"options\":{\"num_ctx\":-1}}", "'num_ctx' "},
    {"POST", generate, "{\"prompt\":\"a\",\"options\":{\"mirostat\":1}}", "'mirostat' is not"},
    {"POST", generate, "{\"prompt\":\"a\",\"keep_alive\":\"soon\"}", "'keep_alive' must be"},
    {"POST", generate, "{\"prompt\":\"a\",\"keep_alive\":true}", "'keep_alive' must be"},
    {"POST", generate, "{\"prompt\":\"a\",\"think\":\"a lot\"}", "'think' must be"},
    {"POST", generate, "{\"prompt\":\"a\",\"format\":\"xml\"}", "'format' must be"},
    {"POST", generate, "{\"prompt\":1}", "'prompt' must be a string"},
    {"POST", generate, "{", "the body of the request is not valid JSON"},
    {"POST", chat, "{\"messages\":1}", "'messages' must be a list"},
    {"POST", "/api/embeddings", "{\"prompt\":[\"a\",\"b\"]}", "'prompt' must be a string"},
    {"POST", "/api/pull", "{\"model\":\"a\"}", "/api/pull is not supported: this server serves"},
    {"POST", "/api/push", "{}", "/api/push is not supported"},
    {"POST", "/api/create", "{}", "/api/create is not supported"},
    {"POST", "/api/copy", "{}", "/api/copy is not supported"},
    {"DELETE", "/api/delete", "{}", "/api/delete is not supported"},
    {"POST", "/api/blobs/sha256:00", "", "/api/blobs/sha256:00 is not supported"},
};

static void what_is_refused_is_said_in_one_member(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const char *body = refused[i].body;
        fake_send(&fake, refused[i].method, refused[i].path, body, strlen(body));
        if (fake.answer.status != 400 || strncmp(fake.answer.body, "{\"error\":\"", 10) != 0 ||
            !strstr(fake.answer.body, refused[i].text))
            fail_msg("%s %s: %d %s", refused[i].path, body, fake.answer.status, fake.answer.body);
    }
}

static void an_error_of_a_stream_is_a_line(void **state) {
    (void)state;
    fake.say = NULL;
    fake.end = MNEM_END_ERROR;
    fake_post(&fake, generate, "{\"prompt\":\"Hi\"}");
    fake.end = MNEM_END_STOP;
    assert_true(fake_has("{\"error\":\"the disk is gone\"}\n"));
    assert_null(strstr(fake.answer.body, "data:"));
}

/* ---- a longer prompt than the context ---- */

static void long_chats_lose_their_first_turns(void **state) {
    (void)state;
    static char body[8000];
    for (int truncate = 0; truncate < 2; truncate++) {
        size_t n = (size_t)sprintf(body, "{\"stream\":false,\"truncate\":%s,\"messages\":[",
                                   truncate ? "true" : "false");
        for (int i = 0; i < 60; i++)
            n += (size_t)sprintf(body + n, "%s{\"role\":\"%s\",\"content\":\"a b c d e f g h %d\"}",
                                 i ? "," : "", i % 2 ? "assistant" : "user", i);
        sprintf(body + n, ",{\"role\":\"user\",\"content\":\"last\"}]}");
        fake.say = "God";
        assert_int_equal(fake_post(&fake, chat, body)->status, truncate ? 200 : 400);
        if (truncate)
            assert_true(strstr(fake_prompted(), "last]") && !strstr(fake_prompted(), "h 0]"));
    }
}

/* ---- digests ---- */

static void digests_are_those_of_the_standard(void **state) {
    (void)state;
    static const struct {
        const char *text, *digest;
    } rows[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[SHA256_TEXT];
        sha256 d;
        sha256_init(&d);
        sha256_add(&d, rows[i].text, strlen(rows[i].text));
        sha256_end(&d, text);
        assert_string_equal(text, rows[i].digest);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_are_lines_of_json),
        cmocka_unit_test(the_last_line_has_its_times),
        cmocka_unit_test(a_prompt_is_a_turn_unless_it_is_raw),
        cmocka_unit_test(options_are_settings),
        cmocka_unit_test(thoughts_have_a_member),
        cmocka_unit_test(calls_are_objects),
        cmocka_unit_test(calls_are_of_one_line),
        cmocka_unit_test(formats_and_logprobs_are_kept),
        cmocka_unit_test(models_are_listed_and_shown),
        cmocka_unit_test(a_request_without_a_prompt_asks_for_the_model),
        cmocka_unit_test(no_text_has_no_vector),
        cmocka_unit_test(messages_may_have_no_content),
        cmocka_unit_test(a_model_that_is_here_is_pulled),
        cmocka_unit_test(texts_become_vectors),
        cmocka_unit_test(what_is_refused_is_said_in_one_member),
        cmocka_unit_test(an_error_of_a_stream_is_a_line),
        cmocka_unit_test(long_chats_lose_their_first_turns),
        cmocka_unit_test(digests_are_those_of_the_standard),
    };
    return cmocka_run_group_tests(tests, open_fake, fake_teardown);
}
