/* prompt_list.c: see prompt_list.h.
 *
 * A JSON line is decoded in its own place in the file's text: what it says is never longer than how
 * it says it. All is charged before the plan. */
#include "verbs/run/prompt_list.h"

#include <stdlib.h>
#include <string.h>

bool tool_prompts_asked(const run_options *asked) {
    return asked->prompt.count > 1 || asked->prompts;
}

/* Memory until the end; NULL has said why. */
static void *grow_charged(tool_prompt_list *l, void *old, size_t old_bytes, size_t bytes,
                          int *code) {
    const mnem_status status =
        mnem_ledger_charge(l->stage->ledger, MNEM_KIND_HOST, "prompts", bytes - old_bytes);
    void *made = status == MNEM_OK ? realloc(old, bytes) : NULL;
    if (status == MNEM_OK) l->taken += bytes - old_bytes;
    if (status != MNEM_OK)
        *code = tool_fail(status);
    else if (!made)
        *code = tool_failed(
            "out of memory for the list of prompts: end other programs, or give fewer prompts");
    return made;
}

/* ---- lines ---- */

typedef struct line {
    char *text;
    size_t length;
    int number; /* from 1 */
} line;

/* The next that isn't empty. */
static bool next_line(char **text, char *end, line *l) {
    while (*text < end) {
        char *stop = memchr(*text, '\n', (size_t)(end - *text));
        if (!stop) stop = end;
        l->text = *text;
        l->length = (size_t)(stop - *text);
        l->number++;
        *text = stop + 1;
        while (l->length && strchr(" \t\r", l->text[l->length - 1])) l->length--;
        if (l->length) return true;
    }
    return false;
}

static json_t *decode(const line *l) {
    json_t *value = json_loadb(l->text, l->length, JSON_DECODE_ANY, NULL);
    if (json_is_string(value) || json_is_object(value)) return value;
    json_decref(value);
    return NULL;
}

/* Puts the value's texts where the line was; their zeros have the room of quotes. */
static int add_json(tool_prompt_list *l, const char *name, const line *from, json_t *value) {
    const json_t *object = json_is_object(value) ? value : NULL;
    const json_t *text = object ? json_object_get(object, "prompt") : value;
    const json_t *system = object ? json_object_get(object, "system") : NULL;
    tool_prompt *p = &l->prompt[l->count];
    if (!json_is_string(text) || (system && !json_is_string(system)))
        return tool_failed("%s, line %d: %s must be a string", name, from->number,
                           json_is_string(text) ? "\"system\"" : "\"prompt\"");
    const size_t length = json_string_length(text);
    memcpy(from->text, json_string_value(text), length);
    p->text = (mnem_text){from->text, length};
    if (system) {
        p->system = from->text + length;
        memcpy(from->text + length, json_string_value(system), json_string_length(system) + 1);
    }
    l->count++;
    return TOOL_OK;
}

static int add_lines(tool_prompt_list *l, const char *name) {
    char *text = l->stage->prompt.text, *end = text + l->stage->prompt.bytes;
    line at = {.number = 0};
    bool first = true, json = false;
    int code = TOOL_OK;
    while (code == TOOL_OK && next_line(&text, end, &at)) {
        json_t *value = first || json ? decode(&at) : NULL;
        if (first) json = value != NULL;
        first = false;
        if (json && !value)
            code = tool_failed("%s, line %d is not a JSON string or object, but the first line "
                               "with a prompt is: use one form on all lines",
                               name, at.number);
        else if (value)
            code = add_json(l, name, &at, value);
        else
            l->prompt[l->count++].text = (mnem_text){at.text, at.length};
        json_decref(value);
    }
    return code;
}

static size_t count_lines(const char *text, size_t bytes) {
    size_t lines = bytes > 0;
    for (size_t i = 0; i < bytes; i++) lines += text[i] == '\n';
    return lines;
}

static int read_texts(tool_prompt_list *l, const run_options *asked) {
    const tool_texts *words = &asked->prompt;
    const bool input = asked->prompts && strcmp(asked->prompts, "-") == 0;
    const char *name = input ? "standard input" : asked->prompts;
    int code = asked->prompts ? tool_stage_read(l->stage, asked->prompts) : TOOL_OK;
    if (code != TOOL_OK) return code;
    const size_t all =
        (size_t)words->count + count_lines(l->stage->prompt.text, l->stage->prompt.bytes);
    if (all > INT32_MAX)
        return tool_failed(
            "there are %zu prompts, more than one run supports: split them into several files",
            all);
    if (all) l->prompt = grow_charged(l, NULL, 0, all * sizeof *l->prompt, &code);
    if (code != TOOL_OK) return code;
    for (size_t i = 0; i < all; i++) l->prompt[i] = (tool_prompt){.system = asked->system};
    for (int i = 0; i < words->count; i++) {
        if (strcmp(words->text[i], "-") == 0)
            return tool_usage(
                "run",
                "-p - reads one prompt from standard input; use --prompts - to read several");
        l->prompt[l->count++].text = (mnem_text){words->text[i], strlen(words->text[i])};
    }
    code = l->stage->prompt.bytes ? add_lines(l, name) : TOOL_OK;
    if (code == TOOL_OK && l->count == 0)
        return tool_failed("%s contains no prompt: write one prompt on each line", name);
    return code;
}

/* ---- tokens ---- */

static int add_ids(tool_prompt_list *l, tool_prompt *p, const int32_t *ids, size_t n) {
    const size_t unit = sizeof *ids;
    int code = TOOL_OK;
    if (l->ids_count + n > l->ids_room) {
        const size_t room = 2 * (l->ids_count + n);
        int32_t *more = grow_charged(l, l->ids, l->ids_room * unit, room * unit, &code);
        if (!more) return code;
        l->ids = more;
        l->ids_room = room;
    }
    memcpy(l->ids + l->ids_count, ids, n * unit);
    p->at = l->ids_count;
    p->count = (int32_t)n;
    l->ids_count += n;
    if (p->count > l->longest) l->longest = p->count;
    return TOOL_OK;
}

static int encode(tool_prompt_list *l, const run_options *asked, tool_encoding *e) {
    int32_t room;
    int code = TOOL_OK;
    for (int32_t i = 0; i < l->count && code == TOOL_OK; i++) {
        tool_prompt *p = &l->prompt[i];
        code = tool_interrupted() ? TOOL_INTERRUPTED : tool_encoding_make(e, p->text, p->system);
        if (code == TOOL_OK) code = tool_prompt_room(l->stage, asked, e->count, &room);
        if (code == TOOL_OK) code = add_ids(l, p, e->ids, e->count);
        if (code != TOOL_OK && code != TOOL_INTERRUPTED)
            tool_message("the message above applies to prompt %d of %d", i + 1, l->count);
    }
    l->end = e->end;
    l->answers = e->rendering.template != NULL;
    return code;
}

int tool_prompts_open(tool_stage *stage, const run_options *asked, tool_prompt_list *list) {
    tool_encoding e = {.end = -1};
    *list = (tool_prompt_list){.stage = stage};
    int code = tool_encoding_open(stage, asked, &e);
    if (code == TOOL_OK) code = read_texts(list, asked);
    if (code == TOOL_OK) code = encode(list, asked, &e);
    tool_encoding_close(&e);
    return code;
}

void tool_prompts_close(tool_prompt_list *list) {
    if (list->taken)
        mnem_ledger_release(list->stage->ledger, MNEM_KIND_HOST, "prompts", list->taken);
    free(list->prompt);
    free(list->ids);
    *list = (tool_prompt_list){0};
}
