/* wider.h: the next larger context, and what it would take: advice where one is full. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_WIDER_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_WIDER_H

#include "stage.h"

typedef struct tool_wider {
    int32_t context; /* 0: the model has no larger one */
    uint64_t bytes;  /* the least budget that holds it; 0: this one does */
} tool_wider;

/* Twice the plan's context, up to the model's. Reads nothing but the header; there is no session
 * then, whose bytes would count. text_bytes are charged for a text of `room` tokens, and would be
 * more for more. */
tool_wider tool_wider_find(const tool_stage *stage, uint64_t text_bytes, int32_t room);
/* "--ctx 8192 --memory 3G would hold more", with `before` before it; "" for none. */
enum { TOOL_WIDER_TEXT = 160 };
char *tool_wider_text(const tool_stage *stage, const tool_wider *wider, const char *before,
                      char text[TOOL_WIDER_TEXT]);

#endif
