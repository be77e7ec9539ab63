/* call_history.h: converts calls and their results in a chat's history, for templates without
 * tools, or with another form of them. Messages belong to the open document (api_json.h). */
#ifndef MNEM_SRC_SERVER_API_CALLS_CALL_HISTORY_H
#define MNEM_SRC_SERVER_API_CALLS_CALL_HISTORY_H

#include "server/api/api_json.h"
#include "server/api/calls/call_format.h"

/* Whether a message is a call or a result. */
bool call_history_has(const json_t *messages);
/* For a template without tools: calls become text between marks, results become user messages. */
void call_history_flatten(json_t *messages, const call_format *format, api_memory *memory);
/* For a template that concatenates arguments as text: objects become text. */
void call_history_write_out(json_t *messages, api_memory *memory);
/* For templates that only accept ids of 9 letters and digits: replaces other ids. */
void call_history_short_ids(json_t *messages);
/* Describes the tools in the system message. */
void call_tools_tell(json_t *messages, const json_t *tools, const call_format *format,
                     api_memory *memory);

#endif
