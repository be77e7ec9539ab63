/* line_editor.h: messages typed on the terminal, with editing and history. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_LINE_EDITOR_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_LINE_EDITOR_H

#include <stdbool.h>
#include <stddef.h>

enum { TOOL_EDITOR_BYTES = 512 * 1024 }; /* what it and its history may take */

typedef enum tool_input {
    TOOL_INPUT_LINE,
    TOOL_INPUT_END,
    TOOL_INPUT_INTERRUPTED,
    TOOL_INPUT_LONG, /* more than there is room for */
} tool_input;

/* Before the process's size is taken. */
void tool_editor_open(void);
void tool_editor_close(void);
bool tool_editor_works(void);
/* Reads a message, ended by a zero; a line that ends with a backslash goes on in the next one. */
tool_input tool_editor_read(char *text, size_t room);

#endif
