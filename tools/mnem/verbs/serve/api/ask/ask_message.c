/* ask_message.c: messages of a chat, as templates take them: content is a text or isn't there,
 * arguments of calls are objects, roles are those that templates know. */
#include <stdio.h>
#include <string.h>

#include "verbs/serve/api/ask/ask_private.h"

/* ---- content ---- */

/* The text of one part; NULL: it has none. */
static const json_t *text_of(const json_t *part) {
    static const char *const types[] = {"text", "input_text", "output_text"};
    const char *type = json_string_value(api_get(part, "type"));
    const json_t *text = api_get(part, "text");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (type && strcmp(type, types[i]) == 0 && json_is_string(text)) return text;
    return NULL;
}

static json_t *join_parts(ask_reader *r, const json_t *parts, const char *param) {
    size_t i, bytes = 0;
    json_t *part;
    char name[96];
    json_array_foreach(parts, i, part) {
        const json_t *text = text_of(part);
        snprintf(name, sizeof name, "%.60s[%zu]", param, i);
        if (!text) {
            api_refuse(r->error, 400, name, "'%s' is no part of type text with a text", name);
            return NULL;
        }
        bytes += json_string_length(text);
    }
    /* One string of the document is made of them. */
    api_memory memory = {.bytes = 2 * bytes + 4096};
    api_text joined = {.memory = &memory};
    json_array_foreach(parts, i, part) {
        const json_t *text = text_of(part);
        api_put(&joined, json_string_value(text), json_string_length(text));
    }
    json_t *made = json_stringn_nocheck(joined.bytes ? joined.bytes : "", joined.length);
    api_text_fini(&joined);
    return made;
}

json_t *ask_make_content(ask_reader *r, const json_t *content, const char *param) {
    if (json_is_string(content)) return json_incref((json_t *)content);
    if (json_is_array(content)) return join_parts(r, content, param);
    api_refuse(r->error, 400, param, "'%s' is neither a text nor a list of parts", param);
    return NULL;
}

/* ---- calls ---- */

json_t *ask_make_arguments(const json_t *arguments) {
    if (json_is_object(arguments)) return json_incref((json_t *)arguments);
    json_t *made = json_is_string(arguments)
                       ? api_json_value(json_string_value(arguments), json_string_length(arguments))
                       : NULL;
    if (json_is_object(made)) return made;
    /* What a model wrote isn't always JSON; the history of it must render all the same. */
    const bool empty = !arguments || (json_is_string(arguments) && !json_string_length(arguments));
    return empty ? json_object() : json_pack("{s:O}", "arguments", arguments);
}

json_t *ask_make_call(const char *id, const char *name, json_t *arguments) {
    return json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", id, "type", "function", "function", "name",
                     name, "arguments", arguments);
}

static json_t *make_calls(ask_reader *r, const json_t *calls, const char *param) {
    size_t i;
    json_t *call, *made = json_array();
    char name[96];
    if (!json_is_array(calls)) {
        api_refuse(r->error, 400, param, "'%s' is no list", param);
        return NULL;
    }
    json_array_foreach(calls, i, call) {
        const json_t *function = api_get(call, "function");
        const char *id = json_string_value(api_get(call, "id"));
        const char *called = json_string_value(api_get(function, "name"));
        snprintf(name, sizeof name, "%.50s[%zu].function.name", param, i);
        if (!called) {
            api_refuse(r->error, 400, name, "'%s' is missing", name);
            return NULL;
        }
        json_t *arguments = ask_make_arguments(api_get(function, "arguments"));
        json_array_append_new(made, ask_make_call(id ? id : "", called, arguments));
    }
    return made;
}

/* ---- messages ---- */

/* The role that templates know; NULL: none. */
static const char *role_of(const char *role) {
    static const char *const roles[][2] = {{"system", "system"}, {"developer", "system"},
                                           {"user", "user"},     {"assistant", "assistant"},
                                           {"tool", "tool"},     {"function", "tool"}};
    for (size_t i = 0; role && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(role, roles[i][0]) == 0) return roles[i][1];
    return NULL;
}

static bool set_content(ask_reader *r, const json_t *message, json_t *made, const char *param) {
    const json_t *content = api_get(message, "content");
    const bool calls = api_get(message, "tool_calls") || api_get(message, "function_call");
    char name[96];
    snprintf(name, sizeof name, "%.80s.content", param);
    if (!content && !calls) return api_refuse(r->error, 400, name, "'%s' is missing", name);
    json_t *text = content ? ask_make_content(r, content, name) : json_string("");
    if (!text) return false;
    json_object_set_new(made, "content", text);
    return true;
}

static bool set_message(ask_reader *r, const json_t *message, json_t *made, const char *param) {
    static const char *const kept[] = {"name",      "tool_call_id", "reasoning_content",
                                       "reasoning", "thinking",     NULL};
    const json_t *calls = api_get(message, "tool_calls");
    char name[96];
    if (!json_is_object(message))
        return api_refuse(r->error, 400, param, "'%s' is no object", param);
    const char *role = role_of(json_string_value(api_get(message, "role")));
    snprintf(name, sizeof name, "%.80s.role", param);
    if (!role)
        return api_refuse(r->error, 400, name,
                          "'%s' is none of system, developer, user, assistant, tool", name);
    json_object_set_new(made, "role", json_string(role));
    if (!set_content(r, message, made, param)) return false;
    for (const char *const *key = kept; *key; key++) {
        json_t *value = api_get(message, *key);
        if (json_is_string(value)) json_object_set(made, *key, value);
    }
    if (!calls || (json_is_array(calls) && json_array_size(calls) == 0)) return true;
    snprintf(name, sizeof name, "%.80s.tool_calls", param);
    json_t *list = make_calls(r, calls, name);
    if (list) json_object_set_new(made, "tool_calls", list);
    return list != NULL;
}

json_t *ask_make_messages(ask_reader *r, const json_t *messages) {
    size_t i;
    json_t *message, *list = json_array();
    char param[96];
    if (!json_is_array(messages) || json_array_size(messages) == 0) {
        api_refuse(r->error, 400, "messages", "'messages' is no list of messages");
        return NULL;
    }
    json_array_foreach(messages, i, message) {
        json_t *made = json_object();
        snprintf(param, sizeof param, "messages[%zu]", i);
        if (!made || !set_message(r, message, made, param)) return NULL;
        json_array_append_new(list, made);
    }
    return list;
}
