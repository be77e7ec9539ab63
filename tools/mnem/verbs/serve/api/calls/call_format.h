/* call_format.h: how models write calls of tools.
 *
 * Each is a JSON object with a name and arguments, between marks:
 *
 *     <tool_call>                                     ChatML's (Hermes, Qwen, SmolLM3 ...)
 *     {"name": "add", "arguments": {"a": 1}}
 *     </tool_call>
 *     {"name": "add", "parameters": {"a": 1}}         Llama 3's: the whole answer is a call
 *
 * Which one is the template's choice; templates that know no tools get the first, and a text of
 * ours that explains it to the model. */
#ifndef MNEM_TOOLS_MNEM_VERBS_SERVE_API_CALLS_CALL_FORMAT_H
#define MNEM_TOOLS_MNEM_VERBS_SERVE_API_CALLS_CALL_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct call_format {
    const char *name;
    const char *begin, *end; /* marks around a call; "": none, and the answer is one call alone */
    const char *arguments;   /* the member that has them */
} call_format;

/* The format of a template's text, and whether it writes the tools itself. */
const call_format *call_format_find(const char *text, size_t n, bool *writes_tools);

#endif
