/* batch_file.c: see batch_file.h. */
#include "tools/batch/batch_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit_file.h"

/* ---- requests ---- */

static unsigned draw(unsigned *state) {
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

static const char *words(unsigned *state) {
    static const char *const word[] = {"the",   "Lord",        "said \\\"go\\\"", "unto",
                                       "Moses", "caf\xc3\xa9", "\\u00e9t\\u00e9", "3,14",
                                       "And",   "\\n"};
    static char text[400];
    const int n = 1 + (int)(draw(state) % 12);
    *text = 0;
    for (int i = 0; i < n; i++) {
        if (i) strcat(text, " ");
        strcat(text, word[draw(state) % (sizeof word / sizeof *word)]);
    }
    return text;
}

/* Greedy, or with a seed; some are wrong. */
static void add_options(char *body, size_t room, unsigned *state) {
    const size_t n = strlen(body);
    const unsigned kind = draw(state) % 8, tokens = 1 + draw(state) % 24;
    if (kind == 0)
        snprintf(body + n, room - n, "\"temperature\": -1}");
    else if (kind < 5)
        snprintf(body + n, room - n, "\"temperature\": 0, \"max_tokens\": %u}", tokens);
    else
        snprintf(body + n, room - n, "\"seed\": %u, \"n\": %u, \"max_tokens\": %u}",
                 draw(state) % 1000, 1 + draw(state) % 2, tokens);
}

const char *batch_body(unsigned seed, int i, const char **url) {
    static char body[1000];
    unsigned state = seed * 7919 + (unsigned)i * 104729 + 1;
    draw(&state);
    const unsigned form = draw(&state) % 5;
    if (form == 0) {
        *url = "/v1/embeddings";
        snprintf(body, sizeof body, "{\"input\": [\"%s\", \"a\"]}", words(&state));
    } else if (form < 3) {
        *url = "/v1/completions";
        snprintf(body, sizeof body, "{\"prompt\": \"%s\", \"logprobs\": %s, ", words(&state),
                 draw(&state) % 4 ? "null" : "2");
        add_options(body, sizeof body, &state);
    } else {
        *url = "/v1/chat/completions";
        snprintf(body, sizeof body,
                 "{ \"messages\": [{\"role\": \"user\", \"content\": \"%s\"}],%s ", words(&state),
                 draw(&state) % 4 ? "" : "\"response_format\": {\"type\": \"json_object\"},");
        add_options(body, sizeof body, &state);
    }
    return body;
}

const char *batch_requests(const char *name, unsigned seed, int count) {
    const char *path = at(name), *url;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < count; i++) {
        const char *body = batch_body(seed, i, &url);
        fprintf(file,
                "{\"custom_id\": \"r%d\", \"method\": \"POST\", \"url\": \"%s\", \"body\": %s}\n",
                i, url, body);
    }
    assert_int_equal(fclose(file), 0);
    return path;
}

/* ---- answers ---- */

void batch_strip(json_t *body) {
    json_t *usage = json_object_get(body, "usage");
    json_object_del(body, "id");
    json_object_del(body, "created");
    json_object_del(body, "timings");
    json_object_del(body, "created_at");
    json_object_del(usage, "prompt_tokens_details");
}

static void add_answer(json_t *answers, const char *line, size_t n) {
    json_t *whole = json_loadb(line, n, 0, NULL);
    const char *id = json_string_value(json_object_get(whole, "custom_id"));
    json_t *response = json_object_get(whole, "response");
    if (!id || !response || !json_is_null(json_object_get(whole, "error")))
        fail_msg("not an answer of a request: %.*s", (int)n, line);
    if (json_object_get(answers, id)) fail_msg("%s is answered twice", id);
    json_object_del(response, "request_id");
    batch_strip(json_object_get(response, "body"));
    json_object_set(answers, id, response);
    json_decref(whole);
}

json_t *batch_answers(const char *path) {
    json_t *answers = json_object();
    char *text = read_file(path, NULL), *line = text;
    for (char *end; (end = strchr(line, '\n')); line = end + 1)
        add_answer(answers, line, (size_t)(end - line));
    assert_string_equal(line, "");
    free(text);
    return answers;
}
