/* ask_responses.c: POST /v1/responses: items of a conversation become messages. Nothing is kept
 * between requests, so what refers to an earlier one is refused. */
#include <stdio.h>
#include <string.h>

#include "server/api/ask/ask_private.h"

static bool add_message(ask_reader *r, const char *role, json_t *content) {
    if (!content) return false;
    json_array_append_new(r->ask->messages,
                          json_pack("{s:s, s:o}", "role", role, "content", content));
    return true;
}

/* Calls of one turn stand in one message. */
static bool add_call(ask_reader *r, const json_t *item, const char *param) {
    const char *name = json_string_value(api_get(item, "name"));
    const char *id = json_string_value(api_get(item, "call_id"));
    json_t *messages = r->ask->messages;
    if (!name)
        return api_refuse(r->error, 400, param,
                          "'%s' is a function call, but its 'name' is missing: set it to the name "
                          "of the function",
                          param);
    json_t *call =
        ask_make_call(id ? id : "", name, ask_make_arguments(api_get(item, "arguments")));
    json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    json_t *calls = json_object_get(last, "tool_calls");
    if (!role || strcmp(role, "assistant") != 0) {
        json_array_append_new(messages,
                              json_pack("{s:s, s:s}", "role", "assistant", "content", ""));
        last = json_array_get(messages, json_array_size(messages) - 1);
        calls = NULL;
    }
    if (!calls) {
        json_object_set_new(last, "tool_calls", json_array());
        calls = json_object_get(last, "tool_calls");
    }
    json_array_append_new(calls, call);
    return true;
}

static bool add_output(ask_reader *r, const json_t *item, const char *param) {
    const char *id = json_string_value(api_get(item, "call_id"));
    const json_t *output = api_get(item, "output");
    json_t *content = output ? ask_make_content(r, output, param) : json_string("");
    if (!content) return false;
    json_array_append_new(r->ask->messages,
                          json_pack("{s:s, s:s, s:o}", "role", "tool", "tool_call_id", id ? id : "",
                                    "content", content));
    return true;
}

static bool add_item(ask_reader *r, const json_t *item, size_t index) {
    char param[96];
    snprintf(param, sizeof param, "input[%zu]", index);
    if (!json_is_object(item))
        return api_refuse(r->error, 400, param, "'%s' must be an object", param);
    const char *type = json_string_value(api_get(item, "type"));
    const char *role = json_string_value(api_get(item, "role"));
    if (!type) type = "message";
    if (strcmp(type, "reasoning") == 0) return true;
    if (strcmp(type, "function_call") == 0) return add_call(r, item, param);
    if (strcmp(type, "function_call_output") == 0) return add_output(r, item, param);
    if (strcmp(type, "message") != 0)
        return api_refuse(r->error, 400, param,
                          "'%s' has the type '%.40s', which is not supported: leave it out", param,
                          type);
    if (role && strcmp(role, "developer") == 0) role = "system";
    if (!role || (strcmp(role, "system") && strcmp(role, "user") && strcmp(role, "assistant")))
        return api_refuse(
            r->error, 400, param,
            "'role' of '%s' is unknown; it must be user, assistant, system or developer", param);
    const json_t *content = api_get(item, "content");
    if (!content && strcmp(role, "assistant") == 0) return add_message(r, role, json_string(""));
    return add_message(r, role, ask_make_content(r, content, param));
}

static bool read_input(ask_reader *r) {
    json_t *input = api_get(r->root, "input"), *item;
    const char *instructions = NULL;
    size_t i;
    r->ask->messages = json_array();
    if (!api_get_text(r->root, "instructions", &instructions, r->error)) return false;
    if (instructions && *instructions && !add_message(r, "system", json_string(instructions)))
        return false;
    if (json_is_string(input)) return add_message(r, "user", json_incref(input));
    if (json_is_array(input) && json_array_size(input) == 0)
        return api_refuse(r->error, 400, "input",
                          "'input' is an empty list: send at least one item");
    if (!json_is_array(input))
        return api_refuse(r->error, 400, "input", "'input' must be a string or a list of items");
    json_array_foreach(input, i, item) {
        if (!add_item(r, item, i)) return false;
    }
    return true;
}

static bool read_text_format(ask_reader *r) {
    const json_t *text = api_get(r->root, "text");
    const json_t *format = text ? api_get(text, "format") : NULL;
    return !format || ask_read_format(r, format, "text.format");
}

bool ask_read_responses(ask_reader *r) {
    static const char *const refused[] = {"previous_response_id", "conversation", "background",
                                          "prompt", NULL};
    const char *truncation = NULL;
    if (!ask_refuse_known(r, refused) || !read_input(r) ||
        !api_get_text(r->root, "truncation", &truncation, r->error))
        return false;
    if (truncation && strcmp(truncation, "auto") == 0) r->ask->truncate = true;
    if (truncation && strcmp(truncation, "disabled") == 0) r->ask->truncate = false;
    r->ask->n = 1;
    return ask_read_tokens(r, "max_output_tokens") && read_text_format(r) && ask_read_limit(r) &&
           ask_read_tools(r, true) && ask_read_choice(r) && ask_read_arguments(r);
}
