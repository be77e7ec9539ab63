/* ask_message.c: messages of a chat, as messages.h has them, in a request's document. */
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
