/* windows.h: how well a model predicts a text, alone or beside a reference.
 *
 * The method: the text's tokens are cut into windows of the context that don't overlap, the rest is
 * dropped. Each window is evaluated from an empty context; the predictions of its tokens from
 * context / 2 + 1 on count (numbered from 0). If the file wants a begin token, it takes the place
 * of each window's first token. */
#ifndef MNEM_TOOLS_MNEM_VERBS_MEASURE_WINDOWS_H
#define MNEM_TOOLS_MNEM_VERBS_MEASURE_WINDOWS_H

#include "verbs/measure/divergence.h"
#include "verbs/measure/reference.h"

typedef struct tool_windows {
    tool_stage *stage;
    tool_reference *reference; /* NULL: none */
    const int32_t *ids;        /* of the text, the tokenizer's */
    int32_t windows, bos;      /* bos -1: none */
    const int32_t *next;       /* the token that the next logits predict */
    tool_divergence result;    /* without a reference only its `model` */
    uint64_t each_bytes;
} tool_windows;

typedef struct tool_windows_text {
    const char *path;
    /* Of so many tokens, those that are left out before the rest; NULL: none. */
    int64_t (*skip)(const void *context, int64_t tokens);
    const void *context;
    int32_t windows; /* the first of its windows at the most; 0: all */
} tool_windows_text;

/* Exit codes, with the message printed. stage and reference (or NULL) are open, the stage with its
 * tokenizer; close is needed in any case, before the stages are closed. */

/* Reads the text and plans: what can't be is said before anything is loaded. */
int tool_windows_plan(tool_windows *windows, tool_stage *stage, tool_reference *reference,
                      const tool_windows_text *text);
/* That, and loads. */
int tool_windows_open(tool_windows *windows, tool_stage *stage, tool_reference *reference,
                      const tool_windows_text *text);
/* With progress, as what is measured. */
int tool_windows_run(tool_windows *windows, const char *what);
void tool_windows_close(tool_windows *windows);

#endif
