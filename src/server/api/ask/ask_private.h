/* ask_private.h: shared by the readers of the protocols. */
#ifndef MNEM_SRC_SERVER_API_ASK_ASK_PRIVATE_H
#define MNEM_SRC_SERVER_API_ASK_ASK_PRIVATE_H

#include "server/api/ask/ask.h"

/* The state of a reader. */
typedef struct ask_reader {
    json_t *root;
    const ask_defaults *defaults;
    ask_request *ask;
    api_error *error;
} ask_reader;

/* ---- ask_fields.c ---- */
/* Reads the fields of sampling, streaming and sharing. */
bool ask_read_fields(ask_reader *reader);
bool ask_read_stop(ask_reader *reader, const char *name);
/* Reads the token limit from this field: -1: the rest of the context; 0, for texts: the prompt
 * only. */
bool ask_read_tokens(ask_reader *reader, const char *name);
/* Reads chat_template_kwargs. */
bool ask_read_arguments(ask_reader *reader);
/* Reads grammar, json_schema, response_format and their equivalents of other servers; then all
 * other fields of other servers. */
bool ask_read_limit(ask_reader *reader);
/* Sets the answer's grammar or schema; a second one is refused. param: the field of the request. */
bool ask_set_limit(ask_reader *reader, ask_limit limit, const char *param);
bool ask_set_schema(ask_reader *reader, const json_t *schema, const char *param);
/* Whether a value isn't false, empty or 0. */
bool ask_is_asked_for(const json_t *value);
/* Reads the object of a format, {"type": "json_schema", ...}, named param; strict forms have the
 * schema one level deeper, under json_schema. */
bool ask_read_format(ask_reader *reader, const json_t *format, const char *param);
/* Adds a field to those that the response lists as unsupported. */
void ask_ignore(ask_reader *reader, const char *name);
/* Refuses known but unsupported fields whose value isn't false, empty or 0. */
bool ask_refuse_known(ask_reader *reader, const char *const *names);

/* ---- ask_foreign.c ---- */
/* Reads fields of other servers: refuses them, or adds them to ask->ignored. */
bool ask_read_foreign(ask_reader *reader);
/* Reads format, guided_json, structured_outputs. */
bool ask_read_foreign_limit(ask_reader *reader);

/* ---- ask_message.c ---- */
/* Converts a chat's messages to the form of templates; a new list. NULL: refused. */
json_t *ask_make_messages(ask_reader *reader, const json_t *messages);
/* An answer goes on with the last message where that is the assistant's text; it is taken out. */
bool ask_take_begun(ask_reader *reader);
/* The text of a content: a string, or parts of type text under one of two names. A new string;
 * NULL: refused. param names the content. */
json_t *ask_make_content(ask_reader *reader, const json_t *content, const char *param);
/* Converts a call's arguments to an object, the form of templates, also a text that isn't one. */
json_t *ask_make_arguments(const json_t *arguments);
/* {"id", "type", "function": {"name", "arguments"}} */
json_t *ask_make_call(const char *id, const char *name, json_t *arguments);

/* ---- ask_tools.c ---- */
/* A list of tools as /v1/chat/completions has them; flat: function's members stand beside the type.
 */
bool ask_read_tools(ask_reader *reader, bool flat);
/* Adds a tool of any protocol; schema NULL: no arguments. */
bool ask_add_tool(ask_reader *reader, size_t index, const char *name, const json_t *description,
                  json_t *schema);
/* tool_choice, parallel_tool_calls. */
bool ask_read_choice(ask_reader *reader);
/* Checks that the choice names one of the tools, and is possible. */
bool ask_check_choice(ask_reader *reader);

/* ---- one for each protocol ---- */
bool ask_read_chat(ask_reader *reader);
bool ask_read_text(ask_reader *reader);
bool ask_read_completion(ask_reader *reader);
bool ask_read_responses(ask_reader *reader);
bool ask_read_messages(ask_reader *reader);
bool ask_read_ollama_chat(ask_reader *reader);
bool ask_read_ollama_text(ask_reader *reader);
bool ask_read_infill(ask_reader *reader);
/* /completion without its prompt. */
bool ask_read_flat(ask_reader *reader);
/* Sets a hole between two strings; refused if the model has no tokens for holes. */
bool ask_set_hole(ask_reader *reader, const json_t *prefix, const json_t *suffix,
                  const char *param);
/* `suffix` beside `prompt`, a hole unless it is "". */
bool ask_read_suffix(ask_reader *reader, const char **suffix);
/* Ollama's `options`, whose members become fields of the request; before ask_read_fields. */
bool ask_read_options(ask_reader *reader);
/* Sets a variable of the template, overriding chat_template_kwargs; owns value. */
void ask_set_argument(ask_reader *reader, const char *name, json_t *value);

#endif
