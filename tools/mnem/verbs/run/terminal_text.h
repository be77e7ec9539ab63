/* terminal_text.h: characters that a terminal obeys instead of showing them. A model's text may
 * have any of them. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_TERMINAL_TEXT_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_TERMINAL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Such as move the cursor, begin an escape sequence, or reverse the order of what follows. */
static inline bool tool_is_control(uint32_t c) {
    return c < ' ' || (c >= 0x7f && c < 0xa0) || (c >= 0x200e && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) ||
           (c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff;
}

/* A text begins: on a terminal its lines are broken at words, unless plain. column: where the
 * cursor is, behind what was printed before. Without this call lines aren't broken. */
void tool_out_shown_begin(bool plain, int column);
/* Writes whole characters to standard output: as they are to a pipe or file; on a terminal without
 * those above, but for line ends and tabs; under mpirun as they are. As tool_out; on a terminal the
 * last word waits for its end. */
bool tool_out_shown(const char *text, size_t length);
/* The end of the text: writes what waits. */
void tool_out_shown_end(void);

#endif
