/* terminal_text.c: see terminal_text.h. */
#include "verbs/run/terminal_text.h"

#include <unistd.h>

#include "ranks/ranks.h"
#include "tool.h"

/* A character of valid UTF-8, and its bytes. */
static uint32_t character(const char *text, size_t length, size_t *bytes) {
    const unsigned char first = (unsigned char)*text;
    size_t n = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (n > length) n = length;
    uint32_t c = n == 1 ? first : first & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) c = c << 6 | ((unsigned char)text[i] & 0x3f);
    *bytes = n;
    return c;
}

/* mpirun gives every rank a terminal of its own, and passes what comes out of it to its standard
 * output, which may be a file. */
static bool shows_on_terminal(void) {
    return isatty(STDOUT_FILENO) && !tool_ranks();
}

bool tool_out_shown(const char *text, size_t length) {
    static int terminal = -1;
    if (terminal < 0) terminal = shows_on_terminal();
    if (!terminal) return tool_out(text, length);
    size_t from = 0, n;
    for (size_t at = 0; at < length; at += n) {
        const uint32_t c = character(text + at, length - at, &n);
        if (!tool_is_control(c) || c == '\n' || c == '\t') continue;
        tool_out(text + from, at - from);
        from = at + n;
    }
    return tool_out(text + from, length - from);
}
