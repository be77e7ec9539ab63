/* fuzz_api.c: any bytes as a request's body and, behind a zero, as what a model says: JSON,
 * schemas, grammars, templates, calls of tools, scales of adapters, actions of slots. The first
 * byte is the route, the second a template; from 128 on a server of several models is asked, which
 * loads what is named, or refuses to. From 128 on of the first byte, the first line is the end of
 * the path, with its query, and the other lines are the body.
 *
 * Slots are saved in a folder of this process, where "a" is a saved conversation.
 *
 * Every request is answered, with JSON or with events of it, whose last one says how it ended; the
 * bytes that it took are back when its client has gone.
 *
 *     fuzz_api -max_len=4096 -dict=fuzz/json.dict NEW_FOLDER fuzz/corpus/api */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "fuzz_json_scan.h"
#include "server/api/api_private.h"
#include "tools/serve/api/fake_models.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

static const char *const paths[] = {"/v1/chat/completions",
                                    "/v1/completions",
                                    "/completion",
                                    "/v1/responses",
                                    "/v1/messages",
                                    "/tokenize",
                                    "/detokenize",
                                    "/apply-template",
                                    "/v1/embeddings",
                                    "/api/chat",
                                    "/api/generate",
                                    "/api/embed",
                                    "/api/embeddings",
                                    "/api/show",
                                    "/infill",
                                    "/v1/messages/count_tokens",
                                    "/models/load",
                                    "/models/unload",
                                    "/api/pull",
                                    "/api/create",
                                    "/chat/completions",
                                    "/completions",
                                    "/api/push",
                                    "/api/copy",
                                    "/api/blobs/sha256:0",
                                    "/responses",
                                    "/lora-adapters",
                                    "/v1/chat/completions/input_tokens",
                                    "/chat/completions/input_tokens",
                                    "/v1/responses/input_tokens",
                                    "/slots/0?action=save",
                                    "/slots/0?action=restore",
                                    "/slots/0?action=erase"};
/* Whose paths go on with what is given. */
static const struct {
    const char *method, *path;
} begun[] = {{"GET", "/v1/models/"},
             {"GET", "/props?model="},
             {"GET", "/slots?"},
             {"GET", "/tokenizer_info?"},
             {"GET", "/api/ps?"},
             {"GET", "/api/tags?"},
             {"GET", "/metrics?"},
             {"GET", "/v1/models?"},
             {"GET", "/models?"},
             {"GET", "/health?"},
             {"GET", "/ready?"},
             {"GET", "/version?"},
             {"GET", "/v1/health?"},
             {"GET", "/api/version?"},
             {"DELETE", "/api/delete?"},
             {"GET", "/models/"},
             {"GET", "/slots?model="},
             {"GET", "/lora-adapters?model="},
             {"POST", "/lora-adapters?model="},
             {"POST", "/slots/"}};
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
enum { CONTEXT = 96, FEW_BYTES = 6 << 10, SEVERAL = 128, BEGUN = sizeof begun / sizeof *begun };
enum { ADAPTERS = 2 };
static fake_serve fake[TEMPLATES];
static fake_models several;
static char folder[] = "/tmp/fuzz_api-XXXXXX"; /* of slots */

/* ---- saved slots ---- */

static bool is_saved(const char *name) {
    return strcmp(name, "a") == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Removes what a request has saved. all: "a", too. */
static void remove_saved(bool all) {
    char path[400];
    DIR *in = opendir(folder);
    CHECK(in);
    for (const struct dirent *at; (at = readdir(in));) {
        snprintf(path, sizeof path, "%s/%s", folder, at->d_name);
        if (!is_saved(at->d_name) || (all && at->d_name[0] != '.')) CHECK(unlink(path) == 0);
    }
    closedir(in);
}

static void remove_folder(void) {
    remove_saved(true);
    CHECK(rmdir(folder) == 0);
}

/* With "a", whose bytes are ids (fake_serve.c). */
static const char *slot_folder(void) {
    static bool made;
    if (made) return folder;
    made = mkdtemp(folder);
    CHECK(made && atexit(remove_folder) == 0);
    char path[64];
    snprintf(path, sizeof path, "%s/a", folder);
    FILE *file = fopen(path, "w");
    for (int32_t id = 5; id < 25; id++) CHECK(file && fwrite(&id, sizeof id, 1, file) == 1);
    CHECK(fclose(file) == 0);
    return folder;
}

/* A conversation in slot 0. */
static void fill_slot(fake_serve *f) {
    static const char conversation[] =
        "{\"prompt\":[5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20],\"n_predict\":2,\"id_slot\":0}";
    f->say = NULL;
    CHECK(fake_post(f, "/completion", conversation)->status == 200);
}

static void open_fake(size_t i) {
    const api_options o = {.template = fake_text(templates[i]),
                           .template_args = i % 2 ? "{\"enable_thinking\": true}" : NULL,
                           .slot_folder = slot_folder(),
                           .pooling = MNEM_POOLING_MEAN,
                           .json_bytes = i == TEMPLATES - 1 ? FEW_BYTES : 0};
    fake_open_with(&o, CONTEXT, &fake[i]);
    if (i % 2) fake[i].api->slot->served->model.fim = (api_fim){3, 4, 5, 6, 7, 8};
    fake[i].adapters = i % 2 ? ADAPTERS : 0;
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

/* Returns the path, or the part of it that isn't from the input. */
static const char *send_request(fake_serve *f, uint8_t route, const char *body, size_t bytes) {
    char target[256];
    if (route < SEVERAL) {
        fake_begin(f, "POST", paths[route % PATHS], body, bytes);
        return paths[route % PATHS];
    }
    const size_t row = (size_t)(route - SEVERAL) % BEGUN;
    const char *path = begun[row].path, *line = memchr(body, '\n', bytes);
    const size_t begin = strlen(path), room = sizeof target - begin - 1;
    const size_t first = line ? (size_t)(line - body) : bytes, used = first + (line != NULL);
    memcpy(target, path, begin);
    memcpy(target + begin, body, first < room ? first : room);
    target[begin + (first < room ? first : room)] = 0;
    const bool empty = strcmp(begun[row].method, "POST") != 0;
    fake_begin(f, begun[row].method, target, body + used, empty ? 0 : bytes - used);
    return path;
}

static bool is_of_slots(uint8_t route) {
    const char *path =
        route < SEVERAL ? paths[route % PATHS] : begun[(size_t)(route - SEVERAL) % BEGUN].path;
    return begins(path, "/slots/");
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
    if (!f->api) fake_models_open(&(api_options){.slot_folder = slot_folder()}, &several);
    f->context = CONTEXT;
    f->adapters = ADAPTERS;
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
    if (is_of_slots(route)) remove_saved(false);
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
    f->quick = true;
    if (is_of_slots(data[0])) fill_slot(f);
    f->say = say;
    fake_step(f);
    mnem_ledger_info_get(f->ledger, &before);
    const char *path = send_request(f, data[0], body, bytes);
    while (!f->answer.over && fake_step(f)) {
    }
    check_answer(path, &f->answer);
    fake_leave(f);
    while (fake_step(f)) {
    }
    if (is_of_slots(data[0])) remove_saved(false);
    mnem_ledger_info_get(f->ledger, &after);
    /* What is kept for later: the vocabulary's order, a template's and the tokenizer's buffers. */
    CHECK(after.bytes_live <= before.bytes_live + (1 << 20));
    return 0;
}
