/* ask_message.c: messages of a chat, as messages.h has them, in a request's document. */
#include <string.h>

#include "server/api/ask/ask_private.h"
#include "server/messages.h"

static void refuse(void *context, const char *param, const char *text) {
    api_refuse(context, 400, param, "%s", text);
}

static message_reader reader_of(const ask_reader *r) {
    return (message_reader){.parse = api_json_value, .refuse = refuse, .context = r->error};
}

json_t *ask_make_messages(ask_reader *r, const json_t *messages) {
    const message_reader reader = reader_of(r);
    return messages_make(&reader, messages, "messages");
}

json_t *ask_make_content(ask_reader *r, const json_t *content, const char *param) {
    const message_reader reader = reader_of(r);
    return message_content(&reader, content, param);
}

json_t *ask_make_arguments(const json_t *arguments) {
    const message_reader reader = {.parse = api_json_value};
    return message_arguments(&reader, arguments);
}

json_t *ask_make_call(const char *id, const char *name, json_t *arguments) {
    return message_call(id, name, arguments);
}

static bool is_of_assistant(const json_t *message) {
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && strcmp(role, "assistant") == 0;
}

bool ask_take_begun(ask_reader *r) {
    json_t *messages = r->ask->messages;
    const size_t n = json_array_size(messages);
    const json_t *last = json_array_get(messages, n - 1);
    bool goes_on = true, begins = true;
    if (!api_get_bool(r->root, "continue_final_message", &goes_on, r->error) ||
        !api_get_bool(r->root, "add_generation_prompt", &begins, r->error))
        return false;
    if (api_get(r->root, "continue_final_message") && goes_on &&
        api_get(r->root, "add_generation_prompt") && begins)
        return api_refuse(r->error, 400, "continue_final_message",
                          "'continue_final_message' and 'add_generation_prompt' can't both be "
                          "true: leave one out");
    r->ask->no_turn = !begins;
    const bool must = goes_on && api_get(r->root, "continue_final_message");
    const char *text = json_string_value(json_object_get(last, "content"));
    if (!goes_on || n < 2 || !is_of_assistant(last) || json_object_get(last, "tool_calls") ||
        !text || !*text)
        return !must || api_refuse(r->error, 400, "continue_final_message",
                                   "'continue_final_message' is true, but the last message is not "
                                   "a text of the assistant's behind another message");
    if (is_of_assistant(json_array_get(messages, n - 2)))
        return api_refuse(r->error, 400, "messages",
                          "the last two messages are the assistant's, but an answer can go on with "
                          "one only: join them");
    json_incref(json_object_get(last, "content"));
    r->ask->begun = text;
    r->ask->no_turn = false;
    json_array_remove(messages, n - 1);
    return true;
}
