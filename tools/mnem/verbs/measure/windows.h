/* windows.h: measures how well a model predicts a text, alone or compared with a reference.
 *
 * The method: the text's tokens are cut into windows of one context each, without overlap; the
 * rest is dropped. Each window is evaluated from an empty context; the predictions of its tokens
 * from context / 2 + 1 on (counted from 0) are measured. If the model file has a BOS token, it
 * replaces the first token of each window. */
#ifndef MNEM_TOOLS_MNEM_VERBS_MEASURE_WINDOWS_H
#define MNEM_TOOLS_MNEM_VERBS_MEASURE_WINDOWS_H

#include "verbs/measure/divergence.h"
#include "verbs/measure/reference.h"

typedef struct tool_windows {
    tool_stage *stage;
    tool_reference *reference; /* NULL: none */
    const int32_t *ids;        /* of the text, the tokenizer's */
    int32_t windows, bos;      /* bos -1: none */
    const int32_t *next;       /* the token that belongs to the next logits */
    tool_divergence result;    /* without a reference only `model` is set */
    uint64_t each_bytes;
} tool_windows;

typedef struct tool_windows_text {
    const char *path;
    /* The number of leading tokens to leave out, of so many; NULL: none. */
    int64_t (*skip)(const void *context, int64_t tokens);
    const void *context;
    int32_t windows; /* limit of windows; 0: all */
} tool_windows_text;

/* Exit codes, with the message printed. stage and reference (or NULL) are open, the stage with its
 * tokenizer; close is needed in any case, before the stages are closed. */

/* Reads the text and plans; refusals come before anything is loaded. */
int tool_windows_plan(tool_windows *windows, tool_stage *stage, tool_reference *reference,
                      const tool_windows_text *text);
/* Plans and loads. */
int tool_windows_open(tool_windows *windows, tool_stage *stage, tool_reference *reference,
                      const tool_windows_text *text);
/* Runs all windows, with progress under the name `what`. */
int tool_windows_run(tool_windows *windows, const char *what);
void tool_windows_close(tool_windows *windows);

#endif
