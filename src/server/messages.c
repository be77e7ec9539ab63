/* messages.c: see messages.h. */
#include "server/messages.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARAM = 96 };

/* Always NULL. format has a %s for param. */
static __attribute__((format(printf, 3, 0))) json_t *
refuse(const message_reader *r, const char *param, const char *format, ...) {
    char text[300];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    r->refuse(r->context, param, text);
    return NULL;
}

/* null is absent. */
static json_t *get(const json_t *object, const char *name) {
    json_t *value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

static bool is_one_of(const char *word, const char *const *words) {
    for (; word && *words; words++)
        if (strcmp(word, *words) == 0) return true;
    return false;
}

/* ---- content ---- */

static json_t *refuse_part(const message_reader *r, const json_t *part, const char *param) {
    static const char *const images[] = {"image", "image_url", "input_image", NULL};
    static const char *const texts[] = {"text", "input_text", "output_text", NULL};
    const char *type = json_string_value(get(part, "type"));
    if (is_one_of(type, images))
        return refuse(r, param, "'%s' is an image, which is not supported: use text only", param);
    if (type && !is_one_of(type, texts))
        return refuse(r, param, "'%s' has the type '%.40s', which is not supported: use text only",
                      param, type);
    return refuse(r, param,
                  "'%s' must be a content part with \"type\": \"text\" and a string \"text\"",
                  param);
}

/* The text of one part; NULL: it has none. */
static const json_t *text_of(const json_t *part) {
    static const char *const types[] = {"text", "input_text", "output_text", NULL};
    const json_t *text = get(part, "text");
    const bool known = is_one_of(json_string_value(get(part, "type")), types);
    return known && json_is_string(text) ? text : NULL;
}

static json_t *join(const json_t *parts, size_t bytes) {
    char *joined = malloc(bytes + 1);
    size_t i, n = 0;
    json_t *part;
    if (!joined) return NULL;
    json_array_foreach(parts, i, part) {
        const json_t *text = text_of(part);
        memcpy(joined + n, json_string_value(text), json_string_length(text));
        n += json_string_length(text);
    }
    json_t *made = json_stringn_nocheck(joined, n);
    free(joined);
    return made;
}

json_t *message_content(const message_reader *r, const json_t *content, const char *param) {
    size_t i, bytes = 0;
    json_t *part;
    char name[PARAM];
    if (json_is_string(content)) {
        if (!memchr(json_string_value(content), 0, json_string_length(content)))
            return json_incref((json_t *)content);
        return refuse(r, param,
                      "'%s' contains the character U+0000, which is not supported: remove it",
                      param);
    }
    if (!json_is_array(content))
        return refuse(r, param, "'%s' must be a string or a list of content parts", param);
    json_array_foreach(content, i, part) {
        const json_t *text = text_of(part);
        snprintf(name, sizeof name, "%.60s[%zu]", param, i);
        if (!text) return refuse_part(r, part, name);
        if (memchr(json_string_value(text), 0, json_string_length(text)))
            return refuse(r, name,
                          "'%s' contains the character U+0000, which is not supported: remove it",
                          name);
        bytes += json_string_length(text);
    }
    return join(content, bytes);
}

/* ---- calls ---- */

json_t *message_arguments(const message_reader *r, const json_t *arguments) {
    if (json_is_object(arguments)) return json_incref((json_t *)arguments);
    json_t *made = json_is_string(arguments) && r->parse
                       ? r->parse(json_string_value(arguments), json_string_length(arguments))
                       : NULL;
    if (json_is_object(made)) return made;
    json_decref(made);
    /* What a model wrote isn't always JSON; the history of it must render all the same. */
    const bool empty = !arguments || (json_is_string(arguments) && !json_string_length(arguments));
    return empty ? json_object() : json_pack("{s:O}", "arguments", arguments);
}

json_t *message_call(const char *id, const char *name, json_t *arguments) {
    return json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", id, "type", "function", "function", "name",
                     name, "arguments", arguments);
}

static json_t *make_calls(const message_reader *r, const json_t *calls, const char *param) {
    size_t i;
    json_t *call, *made;
    char name[PARAM];
    if (!json_is_array(calls)) return refuse(r, param, "'%s' must be a list", param);
    made = json_array();
    json_array_foreach(calls, i, call) {
        const json_t *function = get(call, "function");
        if (!function) function = call; /* files have them flat, too */
        const char *id = json_string_value(get(call, "id"));
        const char *called = json_string_value(get(function, "name"));
        snprintf(name, sizeof name, "%.50s[%zu].function.name", param, i);
        if (!called) {
            json_decref(made);
            return refuse(r, name, "'%s' is missing", name);
        }
        json_t *arguments = message_arguments(r, get(function, "arguments"));
        json_array_append_new(made, message_call(id ? id : "", called, arguments));
    }
    return made;
}

/* ---- messages ---- */

/* The role that templates know; NULL: none. */
static const char *role_of(const message_reader *r, const char *role) {
    static const char *const roles[][2] = {{"system", "system"}, {"developer", "system"},
                                           {"user", "user"},     {"assistant", "assistant"},
                                           {"tool", "tool"},     {"function", "tool"}};
    for (size_t i = 0; role && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(role, roles[i][0]) == 0) return roles[i][1];
    return r->keep ? role : NULL;
}

static bool set_content(const message_reader *r, const json_t *message, json_t *made,
                        const char *param) {
    static const char *const may_lack[] = {"assistant", "tool", NULL};
    const json_t *content = get(message, "content");
    const char *role = json_string_value(json_object_get(made, "role"));
    char name[PARAM];
    snprintf(name, sizeof name, "%.80s.content", param);
    if (!content && !is_one_of(role, may_lack))
        return refuse(r, name, "'%s' is missing", name) != NULL;
    json_t *text = content ? message_content(r, content, name) : json_string("");
    if (!text) return false;
    json_object_set_new(made, "content", text);
    return true;
}

static bool set_calls(const message_reader *r, const json_t *message, json_t *made,
                      const char *param) {
    const json_t *calls = get(message, "tool_calls");
    char name[PARAM];
    json_object_del(made, "tool_calls");
    if (!calls || (json_is_array(calls) && json_array_size(calls) == 0)) return true;
    snprintf(name, sizeof name, "%.80s.tool_calls", param);
    json_t *list = make_calls(r, calls, name);
    if (list) json_object_set_new(made, "tool_calls", list);
    return list != NULL;
}

static void keep_others(const message_reader *r, const json_t *message, json_t *made) {
    static const char *const kept[] = {"name",      "tool_call_id", "reasoning_content",
                                       "reasoning", "thinking",     NULL};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)message, key, value) {
        if (json_object_get(made, key) || json_is_null(value)) continue;
        if (r->keep || (is_one_of(key, kept) && json_is_string(value)))
            json_object_set(made, key, value);
    }
}

json_t *message_make(const message_reader *r, const json_t *message, const char *param) {
    char name[PARAM];
    if (!json_is_object(message)) return refuse(r, param, "'%s' must be an object", param);
    const char *role = role_of(r, json_string_value(get(message, "role")));
    snprintf(name, sizeof name, "%.80s.role", param);
    if (!role)
        return refuse(r, name, "'%s' must be one of system, developer, user, assistant, tool",
                      name);
    json_t *made = json_pack("{s:s}", "role", role);
    if (made && set_content(r, message, made, param)) {
        keep_others(r, message, made);
        if (set_calls(r, message, made, param)) return made;
    }
    json_decref(made);
    return NULL;
}

json_t *messages_make(const message_reader *r, const json_t *messages, const char *param) {
    size_t i;
    json_t *message, *list;
    char name[PARAM];
    if (!json_is_array(messages)) return refuse(r, param, "'%s' must be a list of messages", param);
    if (json_array_size(messages) == 0)
        return refuse(r, param, "'%s' is an empty list: send at least one message", param);
    list = json_array();
    json_array_foreach(messages, i, message) {
        snprintf(name, sizeof name, "%.40s[%zu]", param, i);
        json_t *made = message_make(r, message, name);
        if (!made) {
            json_decref(list);
            return NULL;
        }
        json_array_append_new(list, made);
    }
    return list;
}
