/* ask_private.h: what the readers of the protocols share. */
#ifndef MNEM_SRC_SERVER_API_ASK_ASK_PRIVATE_H
#define MNEM_SRC_SERVER_API_ASK_ASK_PRIVATE_H

#include "server/api/ask/ask.h"

/* Where a reader stands. */
typedef struct ask_reader {
    json_t *root;
    const ask_defaults *defaults;
    ask_request *ask;
    api_error *error;
} ask_reader;

/* ---- ask_fields.c ---- */
/* How answers are chosen, streamed, and what they share. */
bool ask_read_fields(ask_reader *reader);
bool ask_read_stop(ask_reader *reader, const char *name);
/* The most tokens, under a name: -1: what the context leaves; 0, of texts: the prompt alone. */
bool ask_read_tokens(ask_reader *reader, const char *name);
/* chat_template_kwargs. */
bool ask_read_arguments(ask_reader *reader);
/* grammar, json_schema and response_format, and what other servers have beside them; then all other
 * fields of other servers. */
bool ask_read_limit(ask_reader *reader);
/* An answer has one limit: a second one is refused. param: the field that the client sent. */
bool ask_set_limit(ask_reader *reader, ask_limit limit, const char *param);
bool ask_set_schema(ask_reader *reader, const json_t *schema, const char *param);
/* Isn't it false, empty or 0? */
bool ask_is_asked_for(const json_t *value);
/* A format's object ({"type": "json_schema", ...}), called param; strict forms have the schema one
 * member deeper, under json_schema. */
bool ask_read_format(ask_reader *reader, const json_t *format, const char *param);
/* One more field that the response says isn't supported. */
void ask_ignore(ask_reader *reader, const char *name);
/* A known field that can't be done is refused where it is there and isn't false, empty or 0. */
bool ask_refuse_known(ask_reader *reader, const char *const *names);

/* ---- ask_foreign.c ---- */
/* Fields of other servers: refused, or listed in ask->ignored. */
bool ask_read_foreign(ask_reader *reader);
/* format, guided_json, structured_outputs. */
bool ask_read_foreign_limit(ask_reader *reader);

/* ---- ask_message.c ---- */
/* A chat's messages as templates take them; a new list. NULL: refused. */
json_t *ask_make_messages(ask_reader *reader, const json_t *messages);
/* An answer goes on with the last message where that is the assistant's text; it is taken out. */
bool ask_take_begun(ask_reader *reader);
/* The text of a content: a string, or parts of type text under one of two names. A new string;
 * NULL: refused. param names the content. */
json_t *ask_make_content(ask_reader *reader, const json_t *content, const char *param);
/* Arguments of a call as a template takes them: an object, also of a text that isn't one. */
json_t *ask_make_arguments(const json_t *arguments);
/* {"id", "type", "function": {"name", "arguments"}} */
json_t *ask_make_call(const char *id, const char *name, json_t *arguments);

/* ---- ask_tools.c ---- */
/* A list of tools as /v1/chat/completions has them; flat: function's members stand beside the type.
 */
bool ask_read_tools(ask_reader *reader, bool flat);
/* One more tool, of any protocol: schema NULL: takes nothing. */
bool ask_add_tool(ask_reader *reader, size_t index, const char *name, const json_t *description,
                  json_t *schema);
/* tool_choice, parallel_tool_calls. */
bool ask_read_choice(ask_reader *reader);
/* The choice names one of the tools, and can be had. */
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
/* A hole between two strings; refused where the model has no tokens for it. */
bool ask_set_hole(ask_reader *reader, const json_t *prefix, const json_t *suffix,
                  const char *param);
/* `suffix` beside `prompt`, a hole unless it is "". */
bool ask_read_suffix(ask_reader *reader, const char **suffix);
/* Ollama's `options`, whose members become fields of the request; before ask_read_fields. */
bool ask_read_options(ask_reader *reader);
/* Sets a variable of the template, whatever chat_template_kwargs says of it; takes value. */
void ask_set_argument(ask_reader *reader, const char *name, json_t *value);

#endif
