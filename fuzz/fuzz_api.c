/* fuzz_api.c: any bytes as a request's body and, behind a zero, as what a model says: JSON,
 * schemas, grammars, templates, calls of tools. The first byte is the route, the second a
 * template; from 128 on a server of several models is asked, which loads what is named, or refuses
 * to. From 128 on of the first byte the body is what stands behind the path of a GET.
 *
 * Every request is answered, with JSON or with events of it, whose last one says how it ended; the
 * bytes that it took are back when its client has gone.
 *
 *     fuzz_api -max_len=4096 -dict=fuzz/json.dict NEW_FOLDER fuzz/corpus/api */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "fuzz_json_scan.h"
#include "server/api/api_private.h"
#include "tools/serve/api/fake_models.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

static const char *const paths[] = {
    "/v1/chat/completions", "/v1/completions", "/completion",   "/v1/responses",
    "/v1/messages",         "/tokenize",       "/detokenize",   "/apply-template",
    "/v1/embeddings",       "/api/chat",       "/api/generate", "/api/embed",
    "/api/embeddings",      "/api/show",       "/infill",       "/v1/messages/count_tokens",
    "/models/load",         "/models/unload",  "/api/pull",     "/api/create",
    "/chat/completions",    "/completions",    "/api/push",     "/api/copy",
    "/api/blobs/sha256:0"};
static const char *const gets[] = {
    "/v1/models/", "/props?model=", "/slots?",     "/tokenizer_info?", "/api/ps?",
    "/api/tags?",  "/metrics?",     "/v1/models?", "/models?",         "/health?",
    "/ready?",     "/version?",     "/v1/health?", "/api/version?",    "/api/delete?"};
/* How streams of SSE end, unless with an error. */
static const struct {
    const char *path, *data[2];
} ends[] = {
    {"/v1/chat/completions", {"[DONE]"}},
    {"/chat/completions", {"[DONE]"}},
    {"/v1/completions", {"[DONE]"}},
    {"/v1/messages", {"{\"type\":\"message_stop\"}"}},
    {"/v1/responses", {"{\"type\":\"response.completed\",", "{\"type\":\"response.incomplete\","}},
};
#define TOOLS                                                                                      \
    "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}<{{ m.role }}>"  \
    "{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}"         \
    "</tool_call>{% endfor %}{% endfor %}"
/* One for each form of calls; the last one has few bytes for JSON. */
static const char *const templates[] = {
    NULL,
    TOOLS "{% if enable_thinking %}<think>{% endif %}{# </think> #}",
    "{# Environment: ipython, tools #}{% for m in messages %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.function.arguments + '' }}{% endfor %}{% endfor %}",
    TOOLS "{# [TOOL_CALLS] #}",
    TOOLS "{# [TOOL_CALLS] [ARGS] #}",
    TOOLS "{# <function= <parameter= #}",
    TOOLS "{# <arg_key> #}",
    TOOLS "{# </think> #}",
};
enum { PATHS = sizeof paths / sizeof *paths, TEMPLATES = sizeof templates / sizeof *templates };
/* Short answers: what a run costs is mostly their tokens. */
enum { CONTEXT = 96, FEW_BYTES = 6 << 10, SEVERAL = 128, GETS = sizeof gets / sizeof *gets };
static fake_serve fake[TEMPLATES];
static fake_models several;

static void open_fake(size_t i) {
    const api_options o = {.template = fake_text(templates[i]),
                           .template_args = i % 2 ? "{\"enable_thinking\": true}" : NULL,
                           .pooling = MNEM_POOLING_MEAN,
                           .json_bytes = i == TEMPLATES - 1 ? FEW_BYTES : 0};
    fake_open_with(&o, CONTEXT, &fake[i]);
    if (i % 2) fake[i].api->slot->served->model.fim = (api_fim){3, 4, 5, 6, 7, 8};
}

/* By its grammar; now and then by a parser of others, too, which takes no NUL in a key: a token of
 * top_logprobs may be one. */
static void check_json(const char *text, size_t n) {
    static uint32_t checks;
    CHECK(json_scan(text, n));
    if (checks++ % 64 != 0) return;
    json_error_t error;
    json_t *value = json_loadb(text, n, JSON_ALLOW_NUL, &error);
    CHECK(value || json_error_code(&error) == json_error_null_byte_in_key);
    json_decref(value);
}

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_error(const char *data) {
    return begins(data, "{\"error\":") || begins(data, "{\"type\":\"error\"");
}

/* data: of the last event. */
static void check_end(const char *path, const char *data) {
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (strcmp(ends[i].path, path) != 0) continue;
        const char *other = ends[i].data[1];
        CHECK(begins(data, ends[i].data[0]) || (other && begins(data, other)) || is_error(data));
    }
}

/* Lines of a stream: comments, names of events, and data, which is JSON but for the last. Nothing
 * comes behind the end, or behind an error. */
static void check_events(const char *path, const char *body) {
    const char *last = NULL;
    for (const char *at = body, *end; *at; at = end + 1) {
        end = strchr(at, '\n');
        CHECK(end);
        if (!begins(at, "data: ")) {
            CHECK(end == at || *at == ':' || begins(at, "event: "));
            continue;
        }
        CHECK(!last || (!is_error(last) && !begins(last, "[DONE]")));
        last = at + 6;
        if (!begins(last, "[DONE]\n")) check_json(last, (size_t)(end - last));
    }
    CHECK(last);
    check_end(path, last);
}

/* Lines of JSON alone: all but the last are not done. */
static void check_lines(const char *body) {
    static const char unfinished[] = ",\"done\":false}";
    const size_t n = sizeof unfinished - 1;
    for (const char *at = body, *end; *at; at = end + 1) {
        end = strchr(at, '\n');
        CHECK(end);
        check_json(at, (size_t)(end - at));
        const bool more = (size_t)(end - at) > n && memcmp(end - n, unfinished, n) == 0;
        CHECK(more == (end[1] != 0));
    }
}

static void check_answer(const char *path, const fake_answer *answer) {
    CHECK(answer->status >= 200 && answer->status < 600 && answer->over && !answer->aborted);
    CHECK(answer->status != 500);
    if (strcmp(answer->type, "application/x-ndjson") == 0)
        check_lines(answer->body);
    else if (answer->stream)
        check_events(path, answer->body);
    else if (strcmp(answer->type, "application/json") == 0)
        check_json(answer->body, answer->bytes);
}

/* Returns the path. */
static const char *send_request(fake_serve *f, uint8_t route, const char *body, size_t bytes) {
    char target[256];
    const char *path = gets[route % GETS];
    const size_t begin = strlen(path), room = sizeof target - begin - 1;
    if (route < SEVERAL) {
        fake_begin(f, "POST", paths[route % PATHS], body, bytes);
        return paths[route % PATHS];
    }
    memcpy(target, path, begin);
    memcpy(target + begin, body, bytes < room ? bytes : room);
    target[begin + (bytes < room ? bytes : room)] = 0;
    fake_begin(f, begins(path, "/api/delete") ? "DELETE" : "GET", target, "", 0);
    return path;
}

/* ---- several models ---- */

/* Nothing is loaded afterwards. */
static void unload_all(void) {
    for (int32_t i = 0; i < FAKE_MODELS; i++)
        if (several.model[i].served) CHECK(fake_unload(&several, i));
}

/* What is wanted is loaded; of bodies of odd length the first time it isn't. */
static void ask_several(uint8_t route, char *say, const char *body, size_t bytes) {
    fake_serve *f = &several.serve;
    mnem_ledger_info before, after;
    if (!f->api) fake_models_open(&(api_options){0}, &several);
    f->context = CONTEXT;
    f->say = say;
    f->quick = true;
    mnem_ledger_info_get(f->ledger, &before);
    const char *path = send_request(f, route, body, bytes);
    f->handler.on_tick(f->api);
    for (int32_t i = 0; i < FAKE_MODELS && bytes % 2; i++) {
        if (!several.model[i].want) continue;
        several.model[i].want = false;
        api_model_refuse(f->api, i, 400, "over_budget", "it needs more than the budget");
    }
    fake_run(&several);
    check_answer(path, &f->answer);
    fake_leave(f);
    fake_run(&several);
    unload_all();
    mnem_ledger_info_get(f->ledger, &after);
    CHECK(after.bytes_live <= before.bytes_live);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static char say[4096];
    if (n < 2) return 0;
    const char *body = (const char *)data + 2;
    const size_t bytes = strnlen(body, n - 2);
    const size_t more = bytes < n - 2 ? n - 3 - bytes : 0;
    const size_t said = more < sizeof say - 1 ? more : sizeof say - 1;
    mnem_ledger_info before, after;
    memcpy(say, body + bytes + (more > 0), said);
    say[said] = 0;
    if (data[1] >= SEVERAL) {
        ask_several(data[0], say, body, bytes);
        return 0;
    }
    fake_serve *f = &fake[data[1] % TEMPLATES];
    if (!f->api) open_fake(data[1] % TEMPLATES);
    f->say = say;
    f->quick = true;
    fake_step(f);
    mnem_ledger_info_get(f->ledger, &before);
    const char *path = send_request(f, data[0], body, bytes);
    while (!f->answer.over && fake_step(f)) {
    }
    check_answer(path, &f->answer);
    fake_leave(f);
    while (fake_step(f)) {
    }
    mnem_ledger_info_get(f->ledger, &after);
    /* What is kept for later: the vocabulary's order, a template's and the tokenizer's buffers. */
    CHECK(after.bytes_live <= before.bytes_live + (1 << 20));
    return 0;
}
