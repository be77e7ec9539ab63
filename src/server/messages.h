/* messages.h: converts the messages of a chat to the form that templates take. Clients' requests,
 * training files and saved conversations all use it, so that training sees the same texts as
 * inference.
 *
 *     role        developer becomes system, function becomes tool
 *     content     a text: parts of type text are joined; null of an assistant or a tool becomes ""
 *     tool_calls  arguments become objects, also from a text
 *
 * Not here: the other rules of a protocol (server/api/ask). */
#ifndef MNEM_SRC_SERVER_MESSAGES_H
#define MNEM_SRC_SERVER_MESSAGES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Start with all fields zero except parse and refuse. */
typedef struct message_reader {
    bool keep; /* keep other members and roles; otherwise drop members, refuse roles */
    /* Parses a text as JSON; NULL: not JSON. */
    json_t *(*parse)(const char *text, size_t n);
    /* Reports an error: param is the field ("messages[2].content"), text a sentence about it. */
    void (*refuse)(void *context, const char *param, const char *text);
    void *context;
} message_reader;

/* Converts the list of messages named `param` to a new list; NULL: refused. */
json_t *messages_make(const message_reader *reader, const json_t *messages, const char *param);
/* Converts one message to a new object; NULL: refused. */
json_t *message_make(const message_reader *reader, const json_t *message, const char *param);
/* The text of a content (a string, or parts of type text) as a new string; NULL: refused. */
json_t *message_content(const message_reader *reader, const json_t *content, const char *param);
/* The arguments of a call as an object for templates, also from a text that isn't one. */
json_t *message_arguments(const message_reader *reader, const json_t *arguments);
/* Makes {"id", "type", "function": {"name", "arguments"}}; takes ownership of arguments. */
json_t *message_call(const char *id, const char *name, json_t *arguments);

#endif
