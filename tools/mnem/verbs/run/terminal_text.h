/* terminal_text.h: writes a model's text to a terminal without control characters, which it may
 * contain. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_TERMINAL_TEXT_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_TERMINAL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a character controls the terminal: it moves the cursor, begins an escape sequence, or
 * changes the direction of text. */
static inline bool tool_is_control(uint32_t c) {
    return c < ' ' || (c >= 0x7f && c < 0xa0) || (c >= 0x200e && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) ||
           (c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff;
}

/* Begins a text: on a terminal its lines are wrapped at words, unless plain. column: the cursor's
 * column, behind earlier output. Without this call lines aren't wrapped. */
void tool_out_shown_begin(bool plain, int column);
/* Writes whole characters to standard output: unchanged to a pipe, to a file and under mpirun;
 * on a terminal without control characters except line ends and tabs. Returns as tool_out; on a
 * terminal the last word is held until its end. */
bool tool_out_shown(const char *text, size_t length);
/* Ends the text: writes the held word. */
void tool_out_shown_end(void);

#endif
