/* models_kit.c: see models_kit.h. */
#include "tools/serve/models/models_kit.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kit/kit_model.h"
#include "tools/kit/tool_memory.h"
#include "tools/tool_run.h"

const char *const kit_model[KIT_MODELS] = {"llama", "qwen3", "hybrid"};
static const char *const made[KIT_MODELS] = {
    "--arch llama --layers 16 --ff 1024", "--arch qwen3 --layers 16 --ff 1024",
    "--arch granitehybrid --layers 8 --ff 768 --attend-every 4 --state-dim 16 --state-columns 16"};
static uint64_t budget;

/* ---- models and budgets ---- */

const char *kit_models(void) {
    static char list[512];
    char path[600], arguments[300];
    snprintf(list, sizeof list, "%s", folder("models"));
    mkdir(list, 0700);
    for (int i = 0; i < KIT_MODELS; i++) {
        snprintf(path, sizeof path, "%s/%s.gguf", list, kit_model[i]);
        snprintf(arguments, sizeof arguments,
                 "%s --embd 256 --heads 8 --kv-heads 4 --head-dim 32 --context 512 --seed %d",
                 made[i], i + 1);
        make_model(path, arguments);
    }
    return list;
}

static uint64_t number(const json_t *object, const char *key) {
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

static int by_bytes(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* What they need, the largest first; returns what there is for them. */
static double look(const char *list, uint64_t bytes, double need[KIT_MODELS]) {
    json_t *plan = tool_last_object(
        RUN("serve", "--models", list, "--memory", tool_bytes(bytes), "--dry-run", "--json"));
    const json_t *models = json_object_get(plan, "models"), *one;
    size_t i;
    json_array_foreach(models, i, one) need[i] = (double)number(one, "whole_bytes");
    qsort(need, KIT_MODELS, sizeof *need, by_bytes);
    const double room = (double)number(plan, "room_bytes");
    json_decref(plan);
    return room;
}

/* What the server itself takes depends on the budget a little. */
static void find_budget(const char *list, int models) {
    double need[KIT_MODELS] = {0}, wanted = 0;
    budget = GIB;
    for (int i = 0; i < 3; i++) {
        const double room = look(list, budget, need);
        wanted = 0.3 * need[KIT_MODELS - 1];
        for (int k = 0; k < models; k++) wanted += need[k];
        budget = (uint64_t)((double)budget + wanted - room);
    }
    double least = 0;
    for (int k = 0; k <= models; k++) least += need[KIT_MODELS - 1 - k];
    assert_true(least > 1.05 * wanted); /* no more than those fit */
}

/* Found once for each list. */
const char *kit_budget(const char *list, int models) {
    static struct {
        char list[512];
        uint64_t bytes;
    } known[KIT_MODELS + 1];
    if (strcmp(known[models].list, list) != 0) {
        find_budget(list, models);
        snprintf(known[models].list, sizeof known[models].list, "%s", list);
        known[models].bytes = budget;
    }
    budget = known[models].bytes;
    return tool_bytes(budget);
}

uint64_t kit_budget_bytes(void) {
    return budget;
}

void kit_needs_exact_budget(void) {
    if (MNEM_SANITIZED) skip();
}

/* ---- clients ---- */

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void add_text(kit_answer *a, const char *text) {
    const size_t n = strlen(a->text);
    snprintf(a->text + n, sizeof a->text - n, "%s", text);
}

static void take_event(kit_answer *a, const char *line, double began) {
    json_t *event = json_loads(line, 0, NULL);
    const json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
    const char *text = json_string_value(json_object_get(choice, "text"));
    const json_t *usage = json_object_get(event, "usage");
    if (text && *text) {
        if (a->first_seconds == 0) a->first_seconds = seconds_now() - began;
        add_text(a, text);
    }
    if (json_is_object(usage)) {
        const json_t *details = json_object_get(usage, "prompt_tokens_details");
        a->prompt_tokens = (int)number(usage, "prompt_tokens");
        a->cached_tokens = (int)number(details, "cached_tokens");
    }
    if (json_object_get(event, "error")) add_text(a, line);
    json_decref(event);
}

static void take_line(kit_answer *a, const char *line, double began) {
    if (!a->status) sscanf(line, "HTTP/1.1 %d", &a->status);
    if (strncmp(line, "data: {", 7) == 0) take_event(a, line + 6, began);
    if (line[0] == '{') add_text(a, line); /* an error */
    if (strstr(line, ": loading")) a->loading = true;
}

static void read_answer(int fd, kit_answer *a, double began) {
    enum { LINE = 16 << 10 };
    char *line = malloc(LINE), bytes[4096];
    size_t n = 0;
    for (ssize_t got; (got = recv(fd, bytes, sizeof bytes, 0)) > 0;) {
        for (ssize_t i = 0; i < got; i++) {
            if (n < LINE - 1 && bytes[i] != '\n' && bytes[i] != '\r') line[n++] = bytes[i];
            if (bytes[i] != '\n') continue;
            line[n] = 0;
            n = 0;
            take_line(a, line, began);
        }
    }
    line[n] = 0;
    take_line(a, line, began);
    free(line);
}

kit_answer kit_ask(const char *model, const char *prompt, int tokens) {
    kit_answer a = {0};
    char body[2048], text[4096];
    const double began = seconds_now();
    const struct timeval most = {120, 0};
    snprintf(body, sizeof body,
             "{\"model\": \"%s\", \"prompt\": \"%s\", \"max_tokens\": %d, \"temperature\": 0, "
             "\"stream\": true, \"stream_options\": {\"include_usage\": true}}",
             model, prompt, tokens);
    snprintf(text, sizeof text,
             "POST /v1/completions HTTP/1.1\r\n" HOST "Connection: close\r\nContent-Length: "
             "%zu\r\n\r\n%s",
             strlen(body), body);
    const int fd = client_open();
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    client_send(fd, text);
    read_answer(fd, &a, began);
    close(fd);
    a.seconds = seconds_now() - began;
    return a;
}

/* ---- what the server has ---- */

int64_t kit_live_bytes(void) {
    json_t *page = json_loads(ask(GET("/page.json")).body, 0, NULL);
    const int64_t live = (int64_t)number(page, "live");
    json_decref(page);
    return live;
}
