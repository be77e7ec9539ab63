/* dataset_turns.c: see dataset_turns.h. Members and speakers are named as data sets have them:
 *
 *     ShareGPT  "conversations" of {"from": "human" or "gpt", "value"}, perhaps "system"
 *     Alpaca    "instruction", "input", "output", perhaps "system" and "history"
 *     Dolly     "instruction", "context", "response" */
#include "dataset/dataset_turns.h"

#include <stdio.h>
#include <string.h>

#include "server/messages.h"

bool dataset_is_message(const json_t *value) {
    return json_is_string(json_object_get(value, "role"));
}

bool dataset_is_messages(const json_t *value) {
    size_t i;
    json_t *message;
    if (!json_is_array(value)) return false;
    json_array_foreach(value, i, message) {
        if (!dataset_is_message(message)) return false;
    }
    return true;
}

static bool add(json_t *all, const char *role, json_t *content) {
    return json_array_append_new(all, json_pack("{s:s, s:O}", "role", role, "content", content)) ==
           0;
}

typedef struct reason {
    char *why;
    size_t size;
} reason;

/* ---- prompt and completion ---- */

static bool add_part(json_t *all, const json_t *element, const char *key, const char *role,
                     reason *r) {
    json_t *part = json_object_get(element, key);
    if (json_is_string(part)) return add(all, role, part);
    if (dataset_is_messages(part)) return json_array_extend(all, part) == 0;
    snprintf(r->why, r->size,
             "\"%s\" must be a string, or a list of objects with \"role\" and \"content\"", key);
    return false;
}

bool dataset_pair(const json_t *element, const char **question, const char **answer) {
    static const char *const pairs[][2] = {{"prompt", "completion"},
                                           {"prompt", "response"},
                                           {"question", "answer"},
                                           {"question", "response"},
                                           {"input", "output"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        *question = pairs[i][0];
        *answer = pairs[i][1];
        if (json_object_get(element, *question) && json_object_get(element, *answer))
            return i == 0 || !json_object_get(element, "text");
    }
    return false;
}

static bool add_prompt(json_t *all, const json_t *element, const char *question, const char *answer,
                       reason *r) {
    return add_part(all, element, question, "user", r) &&
           add_part(all, element, answer, "assistant", r);
}

/* ---- messages ---- */

static bool add_messages(json_t *all, json_t *messages, reason *r) {
    size_t i;
    json_t *message;
    if (dataset_is_messages(messages)) return json_array_extend(all, messages) == 0;
    if (!json_is_array(messages))
        snprintf(r->why, r->size,
                 "\"messages\" must be a list of objects with \"role\" and \"content\"");
    json_array_foreach(messages, i, message) {
        if (dataset_is_message(message)) continue;
        snprintf(r->why, r->size, "message %zu of \"messages\" has no string \"role\"", i + 1);
        break;
    }
    return false;
}

/* ---- ShareGPT ---- */

static const char *role_of(const char *from) {
    static const char *const roles[][2] = {{"human", "user"},
                                           {"user", "user"},
                                           {"gpt", "assistant"},
                                           {"assistant", "assistant"},
                                           {"chatgpt", "assistant"},
                                           {"bing", "assistant"},
                                           {"bard", "assistant"},
                                           {"model", "assistant"},
                                           {"system", "system"},
                                           {"tool", "tool"},
                                           {"function_response", "tool"},
                                           {"observation", "tool"}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(roles[i][0], from) == 0) return roles[i][1];
    return NULL;
}

static bool add_system(json_t *all, const json_t *element) {
    json_t *system = json_object_get(element, "system");
    const char *text = json_string_value(system);
    return !text || !*text || add(all, "system", system);
}

static bool add_speaker(json_t *all, const json_t *turn, size_t i, char *why, size_t size) {
    json_t *value = json_object_get(turn, "value");
    const char *from = json_string_value(json_object_get(turn, "from"));
    const char *role = from ? role_of(from) : NULL;
    if (role && json_is_string(value)) return add(all, role, value);
    if (from && !role)
        snprintf(why, size,
                 "message %zu of \"conversations\": \"from\" is \"%.40s\"; human, gpt, system and "
                 "tool are supported",
                 i + 1, from);
    else
        snprintf(why, size, "message %zu of \"conversations\" has no string \"%s\"", i + 1,
                 from ? "value" : "from");
    return false;
}

static bool add_conversation(json_t *all, const json_t *element, char *why, size_t size) {
    json_t *list = json_object_get(element, "conversations"), *turn;
    size_t i;
    if (!add_system(all, element)) return false;
    if (dataset_is_messages(list) && json_array_size(list))
        return json_array_extend(all, list) == 0;
    if (!json_is_array(list)) snprintf(why, size, "\"conversations\" must be a list");
    json_array_foreach(list, i, turn) {
        if (!add_speaker(all, turn, i, why, size)) return false;
    }
    return json_is_array(list);
}

/* ---- Alpaca, Dolly ---- */

const char *dataset_instruction(const json_t *element) {
    if (!json_object_get(element, "instruction")) return NULL;
    return json_object_get(element, "output")     ? "output"
           : json_object_get(element, "response") ? "response"
                                                  : NULL;
}

/* The question: the instruction, and behind an empty line the input. */
static json_t *question_of(const json_t *element) {
    json_t *instruction = json_object_get(element, "instruction");
    const json_t *input = json_object_get(element, "input");
    if (!input) input = json_object_get(element, "context");
    const char *text = json_string_value(input);
    if (!json_is_string(instruction) || (input && !text && !json_is_null(input))) return NULL;
    if (!text || !*text) return json_incref(instruction);
    if (json_string_length(instruction) == 0) return json_incref((json_t *)input);
    return json_sprintf("%s\n\n%s", json_string_value(instruction), text);
}

static bool add_history(json_t *all, const json_t *element) {
    json_t *history = json_object_get(element, "history"), *pair;
    size_t i;
    if (!history || json_is_null(history)) return true;
    if (!json_is_array(history)) return false;
    json_array_foreach(history, i, pair) {
        json_t *asked = json_array_get(pair, 0), *answered = json_array_get(pair, 1);
        if (!json_is_string(asked) || !json_is_string(answered)) return false;
        if (!add(all, "user", asked) || !add(all, "assistant", answered)) return false;
    }
    return true;
}

static bool add_instruction(json_t *all, const json_t *element, char *why, size_t size) {
    const char *answer = dataset_instruction(element);
    const char *input = json_object_get(element, "input") || !json_object_get(element, "context")
                            ? "input"
                            : "context";
    json_t *question = question_of(element), *output = json_object_get(element, answer);
    const bool good = question && json_is_string(output) && add_system(all, element) &&
                      add_history(all, element) && add(all, "user", question) &&
                      add(all, "assistant", output);
    json_decref(question);
    if (!good)
        snprintf(why, size,
                 "\"instruction\", \"%s\" and \"%s\" must be strings, and \"history\" a "
                 "list of pairs of strings",
                 input, answer);
    return good;
}

/* ---- an element ---- */

static bool add_all(json_t *all, const json_t *element, char *why, size_t size) {
    json_t *messages = json_object_get(element, "messages");
    if (messages) return add_messages(all, messages, &(reason){why, size});
    if (json_is_array(element) && json_array_size(element) && dataset_is_messages(element))
        return json_array_extend(all, (json_t *)element) == 0;
    if (json_object_get(element, "conversations")) return add_conversation(all, element, why, size);
    if (dataset_instruction(element)) return add_instruction(all, element, why, size);
    const char *question, *answer;
    return dataset_pair(element, &question, &answer) &&
           add_prompt(all, element, question, answer, &(reason){why, size});
}

/* ---- as templates take them ---- */

static json_t *parse(const char *text, size_t n) {
    return json_loadb(text, n, 0, NULL);
}

static void refuse(void *context, const char *param, const char *text) {
    const reason *r = context;
    (void)param;
    if (!*r->why) snprintf(r->why, r->size, "%s", text);
}

json_t *dataset_turns(const json_t *element, char *why, size_t size) {
    reason r = {why, size};
    const message_reader reader = {.keep = true, .parse = parse, .refuse = refuse, .context = &r};
    json_t *all = json_array(), *made = NULL;
    *why = 0;
    if (all && add_all(all, element, why, size)) made = messages_make(&reader, all, "messages");
    json_decref(all);
    return made;
}

bool dataset_tools(const json_t *element, json_t **tools) {
    json_t *said = json_object_get(element, "tools");
    const char *text = json_string_value(said);
    *tools = NULL;
    if (!said || json_is_null(said) || (text && !*text)) return true;
    *tools = text ? json_loads(text, 0, NULL) : json_incref(said);
    if (json_is_array(*tools)) return true;
    json_decref(*tools);
    *tools = NULL;
    return false;
}
