/* call_format.c: see call_format.h. */
#include "server/api/calls/call_format.h"

#include <string.h>

enum { CHATML, LLAMA3, MISTRAL_LIST, MISTRAL_NAMED, QWEN_CODER, GLM };
static const call_format formats[] = {
    [CHATML] = {"chatml", CALL_OBJECT, "<tool_call>", "</tool_call>", "arguments", "", {0}},
    [LLAMA3] = {"llama3", CALL_OBJECT, "", "", "parameters", "", {0}},
    [MISTRAL_LIST] = {"mistral", CALL_LIST, "[TOOL_CALLS]", "", "arguments", "", {0}},
    [MISTRAL_NAMED] = {"mistral", CALL_NAMED, "[TOOL_CALLS]", "", "", "[ARGS]", {0}},
    [QWEN_CODER] = {"qwen-coder",
                    CALL_KEYED,
                    "<tool_call>",
                    "</tool_call>",
                    "",
                    "",
                    {"<function=", ">", "<parameter=", ">\n", "", "</parameter>", "</function>",
                     true}},
    [GLM] = {"glm",
             CALL_KEYED,
             "<tool_call>",
             "</tool_call>",
             "",
             "",
             {"", "", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "", false}},
};

static bool has(const char *text, size_t n, const char *word) {
    return memmem(text, n, word, strlen(word)) != NULL;
}

static int find(const char *text, size_t n) {
    if (has(text, n, "<arg_key>")) return GLM;
    if (has(text, n, "<function=") && has(text, n, "<parameter=")) return QWEN_CODER;
    if (has(text, n, "<tool_call>")) return CHATML;
    if (has(text, n, "[TOOL_CALLS]")) return has(text, n, "[ARGS]") ? MISTRAL_NAMED : MISTRAL_LIST;
    if (has(text, n, "<|python_tag|>") || has(text, n, "Environment: ipython") ||
        has(text, n, "\"parameters\": dictionary of argument"))
        return LLAMA3;
    return -1;
}

const call_format *call_format_find(const char *text, size_t n, bool *writes_tools) {
    const int found = find(text, n);
    *writes_tools = found >= 0 && has(text, n, "tools");
    return &formats[*writes_tools || found == LLAMA3 ? found : CHATML];
}

const char *const *call_format_marks(void) {
    static const char *const marks[] = {"[TOOL_CALLS]", "[ARGS]",    "[CALL_ID]",  "<tool_call>",
                                        "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>",
                                        "</arg_value>", "<think>",   "</think>",   NULL};
    return marks;
}
