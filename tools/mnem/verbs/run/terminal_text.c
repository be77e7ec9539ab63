/* terminal_text.c: see terminal_text.h. */
#include "verbs/run/terminal_text.h"

#include <locale.h>
#include <unistd.h>

#include "ranks/ranks.h"
#include "tool.h"
#include "verbs/chat/markdown.h"

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

static struct {
    bool asked, wraps; /* is it a terminal; are lines broken */
    bool terminal;
    markdown lines; /* without markup: fenced code isn't broken, all else is */
} shown;

static void put_shown(void *context, const char *text, size_t length) {
    (void)context;
    tool_out(text, length);
}

static bool is_shown(void) {
    if (!shown.asked) shown.terminal = shows_on_terminal();
    shown.asked = true;
    return shown.terminal;
}

void tool_out_shown_begin(bool plain, int column) {
    shown.wraps = !plain && is_shown();
    if (!shown.wraps) return;
    if (!setlocale(LC_CTYPE, "C.UTF-8")) setlocale(LC_CTYPE, ""); /* widths of characters */
    shown.lines = (markdown){.wrap = {.out = put_shown, .tabs = true, .column = column}};
}

void tool_out_shown_end(void) {
    if (shown.wraps) markdown_end(&shown.lines);
    shown.wraps = false;
}

bool tool_out_shown(const char *text, size_t length) {
    if (!is_shown()) return tool_out(text, length);
    if (shown.wraps) {
        shown.lines.wrap.columns = tool_columns(stdout);
        markdown_write(&shown.lines, text, length);
        return !tool_out_closed();
    }
    size_t from = 0, n;
    for (size_t at = 0; at < length; at += n) {
        const uint32_t c = character(text + at, length - at, &n);
        if (!tool_is_control(c) || c == '\n' || c == '\t') continue;
        tool_out(text + from, at - from);
        from = at + n;
    }
    return tool_out(text + from, length - from);
}
