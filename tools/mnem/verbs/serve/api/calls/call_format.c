/* call_format.c: see call_format.h. */
#include "verbs/serve/api/calls/call_format.h"

#include <string.h>

static const call_format formats[] = {
    {"chatml", "<tool_call>", "</tool_call>", "arguments"},
    {"llama3", "", "", "parameters"},
};

static bool has(const char *text, size_t n, const char *word) {
    return memmem(text, n, word, strlen(word)) != NULL;
}

const call_format *call_format_find(const char *text, size_t n, bool *writes_tools) {
    const bool tools = has(text, n, "tools");
    const bool llama3 = has(text, n, "<|python_tag|>") || has(text, n, "Environment: ipython") ||
                        has(text, n, "\"parameters\": dictionary of argument");
    /* Calls in other forms (XML between the same marks, control tokens) are told in words. */
    const bool xml = has(text, n, "<function=") || has(text, n, "<arg_key>");
    const bool chatml = has(text, n, "<tool_call>") && !xml;
    *writes_tools = tools && (chatml || llama3);
    return &formats[llama3 && !chatml];
}
