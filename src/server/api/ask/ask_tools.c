/* ask_tools.c: which tools an answer may call, and whether it must. */
#include <stdio.h>
#include <string.h>

#include "server/api/ask/ask_private.h"

/* Names stand in grammars and in what templates write: letters, digits, _ . - */
static bool is_name(const char *name) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    const size_t n = strlen(name);
    return n > 0 && n <= ASK_NAME_BYTES && strspn(name, letters) == n;
}

static const json_t *find_tool(const ask_request *ask, const char *name) {
    size_t i;
    json_t *tool;
    json_array_foreach(ask->tools, i, tool) {
        const json_t *function = json_object_get(tool, "function");
        if (strcmp(json_string_value(json_object_get(function, "name")), name) == 0) return tool;
    }
    return NULL;
}

bool ask_add_tool(ask_reader *r, size_t index, const char *name, const json_t *description,
                  json_t *schema) {
    char param[96];
    snprintf(param, sizeof param, "tools[%zu]", index);
    if (!name || !is_name(name))
        return api_refuse(
            r->error, 400, param,
            "the name of '%s' must consist of 1 to %d letters, digits, '_', '-' and '.'", param,
            ASK_NAME_BYTES);
    if (!r->ask->tools) r->ask->tools = json_array();
    if (find_tool(r->ask, name))
        return api_refuse(r->error, 400, param,
                          "two of 'tools' have the name '%s': give each its own name", name);
    if (json_array_size(r->ask->tools) == ASK_TOOLS)
        return api_refuse(r->error, 400, "tools",
                          "'tools' has too many elements; at most %d are supported", ASK_TOOLS);
    if (schema && !json_is_object(schema))
        return api_refuse(r->error, 400, param, "'parameters' of the tool '%s' must be an object",
                          name);
    json_t *parameters =
        schema ? json_incref(schema) : json_pack("{s:s, s:{}}", "type", "object", "properties");
    json_t *function = json_pack("{s:s, s:O?, s:o}", "name", name, "description", description,
                                 "parameters", parameters);
    json_array_append_new(r->ask->tools,
                          json_pack("{s:s, s:o}", "type", "function", "function", function));
    return true;
}

bool ask_read_tools(ask_reader *r, bool flat) {
    json_t *tools = api_get(r->root, "tools"), *tool;
    size_t i;
    if (!tools) return true;
    if (!json_is_array(tools)) return api_refuse(r->error, 400, "tools", "'tools' must be a list");
    json_array_foreach(tools, i, tool) {
        const char *type = json_string_value(api_get(tool, "type"));
        const json_t *function = flat ? tool : api_get(tool, "function");
        if (!type || strcmp(type, "function") != 0)
            return api_refuse(r->error, 400, "tools", "'type' of tools[%zu] must be function", i);
        if (!ask_add_tool(r, i, json_string_value(api_get(function, "name")),
                          api_get(function, "description"), api_get(function, "parameters")))
            return false;
    }
    return true;
}

static bool set_choice(ask_reader *r, const char *word) {
    static const char *const words[] = {"auto", "none", "required"};
    for (int i = 0; i < 3; i++)
        if (strcmp(word, words[i]) == 0) {
            r->ask->tool_choice = (ask_choice)i;
            return true;
        }
    return api_refuse(
        r->error, 400, "tool_choice",
        "'tool_choice' must be auto, none, required, or an object with a function's name");
}

/* ---- some of the tools ---- */

/* The name of one of a list: its function's members may stand beside the type. */
static const char *allowed_name(const json_t *tool) {
    const json_t *function = api_get(tool, "function");
    return json_string_value(api_get(function ? function : tool, "name"));
}

bool ask_may_call(const ask_request *ask, const char *name) {
    const json_t *tool;
    size_t i;
    if (ask->tool_name) return strcmp(ask->tool_name, name) == 0;
    json_array_foreach(ask->allowed, i, tool) {
        if (strcmp(allowed_name(tool), name) == 0) return true;
    }
    return !ask->allowed;
}

/* {"mode": "auto" or "required", "tools": [...]} */
static bool set_allowed(ask_reader *r, const json_t *allowed) {
    const json_t *list = api_get(allowed, "tools"), *tool;
    const char *mode = json_string_value(api_get(allowed, "mode"));
    size_t i;
    if (mode && strcmp(mode, "auto") != 0 && strcmp(mode, "required") != 0)
        return api_refuse(r->error, 400, "tool_choice.mode",
                          "'tool_choice.mode' must be auto or required");
    if (!json_is_array(list) || json_array_size(list) == 0)
        return api_refuse(r->error, 400, "tool_choice.tools",
                          "'tool_choice.tools' must be a list of at least one tool");
    json_array_foreach(list, i, tool) {
        const char *name = allowed_name(tool);
        if (!name || !r->ask->tools || !find_tool(r->ask, name))
            return api_refuse(r->error, 400, "tool_choice.tools",
                              "'tool_choice' names '%.64s', which is not in 'tools'",
                              name ? name : "");
    }
    r->ask->allowed = list;
    return set_choice(r, mode ? mode : "auto") && ask_check_choice(r);
}

/* One that is required is one, where nobody asks for several. */
static bool read_choice(ask_reader *r);
bool ask_read_choice(ask_reader *r) {
    if (!api_get_bool(r->root, "parallel_tool_calls", &r->ask->tools_parallel, r->error) ||
        !read_choice(r))
        return false;
    if (r->ask->tool_choice == ASK_TOOL_REQUIRED && !api_get(r->root, "parallel_tool_calls"))
        r->ask->tools_parallel = false;
    return true;
}

static bool read_choice(ask_reader *r) {
    const json_t *choice = api_get(r->root, "tool_choice");
    if (!choice) return ask_check_choice(r);
    if (json_is_string(choice))
        return set_choice(r, json_string_value(choice)) && ask_check_choice(r);
    const char *type = json_string_value(api_get(choice, "type"));
    if (type && strcmp(type, "allowed_tools") == 0) {
        const json_t *allowed = api_get(choice, "allowed_tools");
        return set_allowed(r, allowed ? allowed : choice);
    }
    const json_t *function = api_get(choice, "function");
    const char *name = json_string_value(api_get(function ? function : choice, "name"));
    if (!name) return set_choice(r, "");
    r->ask->tool_name = name;
    r->ask->tool_choice = ASK_TOOL_REQUIRED;
    return ask_check_choice(r);
}

bool ask_check_choice(ask_reader *r) {
    const ask_request *ask = r->ask;
    if (ask->tool_choice == ASK_TOOL_REQUIRED && !ask->tools)
        return api_refuse(r->error, 400, "tool_choice",
                          "'tool_choice' requires a tool call, but 'tools' is missing or empty: "
                          "send the tools, or leave out 'tool_choice'");
    if (ask->tools && ask->limit == ASK_GRAMMAR && ask->tool_choice != ASK_TOOL_NONE)
        return api_refuse(r->error, 400, "grammar",
                          "'grammar' can't be combined with 'tools': leave one out");
    if (ask->tool_name && !find_tool(ask, ask->tool_name))
        return api_refuse(r->error, 400, "tool_choice",
                          "'tool_choice' names '%.64s', which is not in 'tools'", ask->tool_name);
    return true;
}
