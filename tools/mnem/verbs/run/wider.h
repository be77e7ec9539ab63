/* wider.h: the next larger context and its budget, as advice when a context is full. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_WIDER_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_WIDER_H

#include "stage.h"

typedef struct tool_wider {
    int32_t context; /* 0: the model has no larger one */
    uint64_t bytes;  /* the least budget for it; 0: the present one is enough */
} tool_wider;

/* Twice the plan's context, up to the model's. Reads the file's header only; call it without a
 * session, whose bytes would count. text_bytes: charged for a text of `room` tokens; grows with
 * the context. */
tool_wider tool_wider_find(const tool_stage *stage, uint64_t text_bytes, int32_t room);
/* Writes "--ctx 8192 --memory 3G would hold more" behind `before`; "": there is no larger one. */
enum { TOOL_WIDER_TEXT = 160 };
char *tool_wider_text(const tool_stage *stage, const tool_wider *wider, const char *before,
                      char text[TOOL_WIDER_TEXT]);

#endif
