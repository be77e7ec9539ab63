/* ask_messages.c: POST /v1/messages, Anthropic's form: blocks become messages. A block of a tool's
 * result is a message of its own, before what else the turn says. */
#include <stdio.h>
#include <string.h>

#include "server/api/ask/ask_private.h"

/* One turn, put together from its blocks. */
typedef struct turn {
    ask_reader *r;
    const char *role;
    json_t *texts, *calls; /* parts of text; calls of tools */
    const json_t *thinking;
    char param[96];
} turn;

static const char *type_of(const json_t *block) {
    const char *type = json_string_value(api_get(block, "type"));
    return type ? type : "";
}

static bool add_result(turn *t, const json_t *block) {
    const char *id = json_string_value(api_get(block, "tool_use_id"));
    const json_t *content = api_get(block, "content");
    json_t *text = content ? ask_make_content(t->r, content, t->param) : json_string("");
    if (!text) return false;
    json_array_append_new(t->r->ask->messages,
                          json_pack("{s:s, s:s, s:o}", "role", "tool", "tool_call_id", id ? id : "",
                                    "content", text));
    return true;
}

static bool add_use(turn *t, const json_t *block) {
    const char *id = json_string_value(api_get(block, "id"));
    const char *name = json_string_value(api_get(block, "name"));
    if (!name)
        return api_refuse(
            t->r->error, 400, t->param,
            "'%s' has the type tool_use, but its 'name' is missing: set it to the name of the tool",
            t->param);
    json_array_append_new(
        t->calls, ask_make_call(id ? id : "", name, ask_make_arguments(api_get(block, "input"))));
    return true;
}

static bool add_block(turn *t, const json_t *block) {
    const char *type = type_of(block);
    if (strcmp(type, "tool_result") == 0) return add_result(t, block);
    if (strcmp(type, "tool_use") == 0) return add_use(t, block);
    if (strcmp(type, "thinking") == 0) t->thinking = api_get(block, "thinking");
    if (strcmp(type, "thinking") == 0 || strcmp(type, "redacted_thinking") == 0) return true;
    if (strcmp(type, "image") == 0)
        return api_refuse(t->r->error, 400, t->param,
                          "'%s' is an image, which this server does not support: send text only",
                          t->param);
    if (strcmp(type, "text") != 0)
        return api_refuse(t->r->error, 400, t->param,
                          "'%s' has the type '%.40s', which is not supported: use text, tool_use, "
                          "tool_result or thinking",
                          t->param, type);
    json_array_append(t->texts, (json_t *)block);
    return true;
}

static bool end_turn(turn *t) {
    const bool calls = json_array_size(t->calls) > 0;
    if (!calls && json_array_size(t->texts) == 0) return true;
    json_t *content = ask_make_content(t->r, t->texts, t->param);
    if (!content) return false;
    json_t *message = json_pack("{s:s, s:o}", "role", t->role, "content", content);
    if (calls) json_object_set(message, "tool_calls", t->calls);
    if (json_is_string(t->thinking))
        json_object_set(message, "reasoning_content", (json_t *)t->thinking);
    json_array_append_new(t->r->ask->messages, message);
    return true;
}

static bool add_turn(ask_reader *r, const json_t *message, size_t index) {
    turn t = {.r = r, .role = json_string_value(api_get(message, "role"))};
    json_t *content = api_get(message, "content"), *block;
    size_t i;
    snprintf(t.param, sizeof t.param, "messages[%zu]", index);
    const bool known = t.role && (!strcmp(t.role, "user") || !strcmp(t.role, "assistant"));
    if (!known)
        return api_refuse(r->error, 400, t.param, "'role' of '%s' must be user or assistant",
                          t.param);
    if (!content && strcmp(t.role, "assistant") == 0) content = json_string("");
    if (json_is_string(content)) {
        json_array_append_new(r->ask->messages,
                              json_pack("{s:s, s:O}", "role", t.role, "content", content));
        return true;
    }
    t.texts = json_array();
    t.calls = json_array();
    if (!json_is_array(content))
        return api_refuse(r->error, 400, t.param,
                          "'content' of '%s' must be a string or a list of blocks", t.param);
    json_array_foreach(content, i, block) {
        snprintf(t.param, sizeof t.param, "messages[%zu].content[%zu]", index, i);
        if (!add_block(&t, block)) return false;
    }
    return end_turn(&t);
}

static bool read_turns(ask_reader *r) {
    json_t *messages = api_get(r->root, "messages"), *message;
    const json_t *system = api_get(r->root, "system");
    size_t i;
    r->ask->messages = json_array();
    if (system) {
        json_t *text = ask_make_content(r, system, "system");
        if (!text) return false;
        json_array_append_new(r->ask->messages,
                              json_pack("{s:s, s:o}", "role", "system", "content", text));
    }
    if (!json_is_array(messages))
        return api_refuse(r->error, 400, "messages", "'messages' must be a list of messages");
    if (json_array_size(messages) == 0)
        return api_refuse(r->error, 400, "messages",
                          "'messages' is an empty list: send at least one message");
    json_array_foreach(messages, i, message) {
        if (!add_turn(r, message, i)) return false;
    }
    return true;
}

static bool read_tools(ask_reader *r) {
    json_t *tools = api_get(r->root, "tools"), *tool;
    size_t i;
    if (!tools) return true;
    if (!json_is_array(tools)) return api_refuse(r->error, 400, "tools", "'tools' must be a list");
    json_array_foreach(tools, i, tool) {
        const char *type = type_of(tool);
        if (*type && strcmp(type, "custom") != 0)
            return api_refuse(r->error, 400, "tools",
                              "tools[%zu] has the type '%.40s', which is not supported: leave it "
                              "out, or describe a tool of your own",
                              i, type);
        if (!ask_add_tool(r, i, json_string_value(api_get(tool, "name")),
                          api_get(tool, "description"), api_get(tool, "input_schema")))
            return false;
    }
    return true;
}

static bool read_choice(ask_reader *r) {
    static const char *const types[] = {"auto", "none", "any"};
    const json_t *choice = api_get(r->root, "tool_choice");
    bool alone = false;
    if (!choice) return true;
    if (!api_get_bool(choice, "disable_parallel_tool_use", &alone, r->error)) return false;
    r->ask->tools_parallel = !alone;
    const char *type = type_of(choice);
    for (int i = 0; i < 3; i++)
        if (strcmp(type, types[i]) == 0) {
            r->ask->tool_choice = (ask_choice)i;
            if (i == ASK_TOOL_REQUIRED && !api_get(choice, "disable_parallel_tool_use"))
                r->ask->tools_parallel = false;
            return ask_check_choice(r);
        }
    r->ask->tool_name = json_string_value(api_get(choice, "name"));
    if (strcmp(type, "tool") != 0 || !r->ask->tool_name)
        return api_refuse(r->error, 400, "tool_choice",
                          "'tool_choice' must be an object whose 'type' is auto, any or none, or "
                          "is tool beside a 'name'");
    r->ask->tool_choice = ASK_TOOL_REQUIRED;
    return ask_check_choice(r);
}

/* {"type": "enabled"} is what templates that think call enable_thinking. */
static bool read_thinking(ask_reader *r) {
    const json_t *thinking = api_get(r->root, "thinking");
    if (!thinking) return true;
    const bool enabled = strcmp(type_of(thinking), "disabled") != 0;
    ask_set_argument(r, "enable_thinking", json_boolean(enabled));
    return true;
}

/* A schema, under its name of today or the beta's. */
static bool read_output(ask_reader *r) {
    const json_t *config = api_get(r->root, "output_config"),
                 *format = config ? api_get(config, "format") : NULL,
                 *beta = api_get(r->root, "output_format");
    if (config && api_get(config, "effort")) ask_ignore(r, "output_config.effort");
    return (!format || ask_read_format(r, format, "output_config.format")) &&
           (!beta || ask_read_format(r, beta, "output_format"));
}

bool ask_read_messages(ask_reader *r) {
    if (!api_get(r->root, "max_tokens") && !r->ask->counted)
        return api_refuse(
            r->error, 400, "max_tokens",
            "'max_tokens' is missing: set it to the most tokens that the answer may have");
    r->ask->n = 1;
    return read_turns(r) && ask_read_tokens(r, "max_tokens") &&
           ask_read_stop(r, "stop_sequences") && ask_read_limit(r) && read_output(r) &&
           read_tools(r) && read_choice(r) && ask_read_arguments(r) && read_thinking(r);
}
