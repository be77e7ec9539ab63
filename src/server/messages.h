/* messages.h: messages of a chat as templates take them, from clients, from files to learn from,
 * from conversations that were kept: one place for all of them, so that a model learns from what it
 * will be given.
 *
 *     role        developer is system, function is tool
 *     content     a text: parts of type text are joined, null of an assistant or a tool is ""
 *     tool_calls  arguments are objects, also of a text
 *
 * Not here: what a protocol says otherwise of them (server/api/ask). */
#ifndef MNEM_SRC_SERVER_MESSAGES_H
#define MNEM_SRC_SERVER_MESSAGES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Zero to start, but for parse and refuse. */
typedef struct message_reader {
    bool keep; /* other members and other roles are kept; otherwise left out, and refused */
    /* A text as JSON; NULL: it is none. */
    json_t *(*parse)(const char *text, size_t n);
    /* Says what is wrong: param is the field ("messages[2].content"), text a sentence with it. */
    void (*refuse)(void *context, const char *param, const char *text);
    void *context;
} message_reader;

/* A list of messages called `param`, as a new list; NULL: refused. */
json_t *messages_make(const message_reader *reader, const json_t *messages, const char *param);
/* One of them, as a new object; NULL: refused. */
json_t *message_make(const message_reader *reader, const json_t *message, const char *param);
/* The text of a content: a string, or parts of type text under one of their names. A new string;
 * NULL: refused. */
json_t *message_content(const message_reader *reader, const json_t *content, const char *param);
/* Arguments of a call as a template takes them: an object, also of a text that isn't one. */
json_t *message_arguments(const message_reader *reader, const json_t *arguments);
/* {"id", "type", "function": {"name", "arguments"}}; takes arguments. */
json_t *message_call(const char *id, const char *name, json_t *arguments);

#endif
