/* call_history.h: calls and their results in a chat's history, for templates that know none of
 * them, or know them otherwise. Messages lie in the open document (api_json.h). */
#ifndef MNEM_SRC_SERVER_API_CALLS_CALL_HISTORY_H
#define MNEM_SRC_SERVER_API_CALLS_CALL_HISTORY_H

#include "server/api/api_json.h"
#include "server/api/calls/call_format.h"

/* Whether a message calls, or is a result. */
bool call_history_has(const json_t *messages);
/* For a template without tools: calls become text between their marks, results a user's turn. */
void call_history_flatten(json_t *messages, const call_format *format, api_memory *memory);
/* For a template that joins arguments as texts: objects become texts. */
void call_history_write_out(json_t *messages, api_memory *memory);
/* For templates that take ids of 9 letters and digits only: others get one of their own. */
void call_history_short_ids(json_t *messages);
/* What tools there are, told to the model in the system's message. */
void call_tools_tell(json_t *messages, const json_t *tools, const call_format *format,
                     api_memory *memory);

#endif
