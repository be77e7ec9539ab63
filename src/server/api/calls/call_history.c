/* call_history.c: see call_history.h. */
#include "server/api/calls/call_history.h"

#include <string.h>

static const char *role_of(const json_t *message) {
    const char *role = json_string_value(json_object_get(message, "role"));
    return role ? role : "";
}

bool call_history_has(const json_t *messages) {
    size_t i;
    json_t *message;
    json_array_foreach(messages, i, message) {
        if (json_object_get(message, "tool_calls") || strcmp(role_of(message), "tool") == 0)
            return true;
    }
    return false;
}

static void put_string(api_text *text, const json_t *string) {
    if (json_is_string(string))
        api_put(text, json_string_value(string), json_string_length(string));
}

/* Replaces a member by a text, which is given back. */
static void set_text(json_t *object, const char *name, api_text *text) {
    json_object_set_new(object, name,
                        json_stringn_nocheck(text->bytes ? text->bytes : "", text->length));
    api_text_fini(text);
}

static void put_call(const json_t *call, const call_format *format, api_text *text) {
    const json_t *function = json_object_get(call, "function");
    api_say(text, "\n");
    api_say(text, format->begin);
    api_say(text, "\n{\"name\": ");
    api_json_put(text, json_object_get(function, "name"));
    api_format(text, ", \"%s\": ", format->arguments);
    api_json_put(text, json_object_get(function, "arguments"));
    api_say(text, "}\n");
    api_say(text, format->end);
}

void call_history_flatten(json_t *messages, const call_format *format, api_memory *memory) {
    size_t i, k;
    json_t *message, *call;
    json_array_foreach(messages, i, message) {
        const json_t *calls = json_object_get(message, "tool_calls");
        const bool result = strcmp(role_of(message), "tool") == 0;
        api_text text = {.memory = memory};
        if (!calls && !result) continue;
        if (result) api_say(&text, "<tool_response>\n");
        put_string(&text, json_object_get(message, "content"));
        json_array_foreach(calls, k, call) put_call(call, format, &text);
        if (result) api_say(&text, "\n</tool_response>");
        set_text(message, "content", &text);
        json_object_del(message, "tool_calls");
        if (result) json_object_set_new(message, "role", json_string("user"));
    }
}

void call_history_write_out(json_t *messages, api_memory *memory) {
    size_t i, k;
    json_t *message, *call;
    json_array_foreach(messages, i, message) {
        json_array_foreach(json_object_get(message, "tool_calls"), k, call) {
            json_t *function = json_object_get(call, "function");
            api_text text = {.memory = memory};
            api_json_put(&text, json_object_get(function, "arguments"));
            set_text(function, "arguments", &text);
        }
    }
}

/* The same of the same id, so that a result finds its call. */
static void shorten(json_t *object, const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    enum { LENGTH = 9 };
    const char *id = json_string_value(json_object_get(object, name));
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    char made[LENGTH + 1] = "";
    if (!id || (strlen(id) == LENGTH && strspn(id, letters) == LENGTH)) return;
    for (; *id; id++) hash = (hash ^ (unsigned char)*id) * UINT64_C(0x100000001b3);
    for (int i = 0; i < LENGTH; i++, hash /= 62) made[i] = letters[hash % 62];
    json_object_set_new(object, name, json_string(made));
}

void call_history_short_ids(json_t *messages) {
    size_t i, k;
    json_t *message, *call;
    json_array_foreach(messages, i, message) {
        shorten(message, "tool_call_id");
        json_array_foreach(json_object_get(message, "tool_calls"), k, call) shorten(call, "id");
    }
}

void call_tools_tell(json_t *messages, const json_t *tools, const call_format *format,
                     api_memory *memory) {
    json_t *first = json_array_get(messages, 0), *tool;
    const bool system = strcmp(role_of(first), "system") == 0;
    api_text text = {.memory = memory};
    size_t i;
    if (system) put_string(&text, json_object_get(first, "content"));
    if (text.length) api_say(&text, "\n\n");
    api_say(&text, "You can call these functions:\n<tools>\n");
    json_array_foreach(tools, i, tool) {
        api_json_put(&text, json_object_get(tool, "function"));
        api_say(&text, "\n");
    }
    api_say(&text, "</tools>\nTo call one, answer with its name and arguments:\n");
    api_say(&text, format->begin);
    api_format(&text, "\n{\"name\": \"...\", \"%s\": {...}}\n", format->arguments);
    api_say(&text, format->end);
    if (!system) json_array_insert_new(messages, 0, json_pack("{s:s}", "role", "system"));
    set_text(json_array_get(messages, 0), "content", &text);
}
