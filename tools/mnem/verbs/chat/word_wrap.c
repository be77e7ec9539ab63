/* word_wrap.c: see word_wrap.h.
 *
 * Widths are those of wcwidth, in a UTF-8 locale. A word as wide as a line is written when it gets
 * so wide, and what follows is the next word: so it is cut at the edge. Changes of style are held
 * within the word, so that `style` is what the terminal has when all is written. */
#include "verbs/chat/word_wrap.h"

#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "verbs/run/terminal_text.h"

enum {
    LONGEST = 32, /* bytes of a character with a change of style */
    JOINER = 0x200d,
    TAB = 8
};

/* ---- characters ---- */

/* Columns; characters that the locale doesn't know are newer than its table. */
static int width_of(uint32_t c) {
    enum { EMOJI = 0x1f300 };
    const int width = wcwidth((wchar_t)c);
    return width >= 0 ? width : c >= EMOJI ? 2 : 1;
}

static bool is_alphanumeric(uint32_t c) {
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

/* Wide ones that close what stands before them. */
static bool is_closing(uint32_t c) {
    static const uint32_t closing[] = {0x3001, 0x3002, 0xff0c, 0xff0e, 0xff01, 0xff1f, 0xff1a,
                                       0xff1b, 0xff09, 0x300d, 0x300f, 0x3011, 0x300b, 0x3009};
    for (size_t i = 0; i < sizeof closing / sizeof *closing; i++)
        if (c == closing[i]) return true;
    return false;
}

static size_t encode(uint32_t c, char *text) {
    if (c < 0x80) {
        text[0] = (char)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; --i > 0; c >>= 6) text[i] = (char)(0x80 | (c & 0x3f));
    text[0] = (char)((0xf00 >> n) | c);
    return n;
}

static size_t encode_style(unsigned style, char *text) {
    static const char *const codes[] = {";1", ";3", ";36", ";4"};
    size_t n = (size_t)sprintf(text, "\033[0");
    for (int i = 0; i < 4; i++)
        if (style >> i & 1) n += (size_t)sprintf(text + n, "%s", codes[i]);
    text[n++] = 'm';
    return n;
}

/* ---- words ---- */

static void put_bytes(word_wrap *w, const char *text, size_t n) {
    if (n) w->out(w->context, text, n);
}

static void put_blanks(word_wrap *w, int n) {
    for (int i = 0; i < n; i++) put_bytes(w, " ", 1);
    w->column += n;
}

static int indent_of(const word_wrap *w) {
    return w->indent < w->columns / 2 ? w->indent : w->columns / 2;
}

static void write_word(word_wrap *w) {
    if (!w->bytes) return;
    const int indent = indent_of(w);
    const bool crosses = w->columns && w->width && w->column + w->blanks + w->width > w->columns;
    if (crosses && w->column > indent) {
        put_bytes(w, "\n", 1);
        w->column = 0;
        w->blanks = indent;
    }
    put_blanks(w, crosses && w->blanks > w->columns / 2 ? w->columns / 2 : w->blanks);
    put_bytes(w, w->word, w->bytes);
    w->column += w->width;
    w->bytes = 0;
    w->width = w->blanks = 0;
}

static void add_style(word_wrap *w, unsigned style) {
    if (style != w->style) w->bytes += encode_style(style, w->word + w->bytes);
    w->style = style;
}

/* May a line end before it? Between words there are spaces, which are seen to elsewhere. */
static bool breaks_before(const word_wrap *w, uint32_t c, int width) {
    if (!width || w->joins) return false;
    return width == 2 ? !is_closing(c) : w->wide && is_alphanumeric(c);
}

static void add(word_wrap *w, uint32_t c, int width, unsigned style) {
    const bool full = w->columns && width && w->width + width > w->columns - indent_of(w);
    if (full || w->bytes + LONGEST > sizeof w->word) write_word(w);
    add_style(w, style);
    w->bytes += encode(c, w->word + w->bytes);
    w->width += width;
    w->joins = c == JOINER;
    if (width) w->wide = width == 2;
    if (!w->columns) write_word(w);
}

void wrap_character(word_wrap *w, uint32_t c, unsigned style) {
    if (c == '\t' && (w->tabs || !w->columns)) {
        wrap_verbatim(w, c, style);
        return;
    }
    if (c == ' ' || c == '\t') {
        write_word(w);
        w->blanks += c == ' ' ? 1 : 4 - (w->column + w->blanks) % 4;
        w->joins = w->wide = false;
        return;
    }
    if (tool_is_control(c)) return;
    const int width = width_of(c);
    if (breaks_before(w, c, width)) write_word(w);
    add(w, c, width, style);
}

void wrap_verbatim(word_wrap *w, uint32_t c, unsigned style) {
    char text[LONGEST];
    size_t n = 0;
    if (tool_is_control(c) && c != '\t') return;
    write_word(w);
    put_blanks(w, w->blanks);
    w->blanks = 0;
    if (style != w->style) n = encode_style(style, text);
    w->style = style;
    n += encode(c, text + n);
    put_bytes(w, text, n);
    w->column += c == '\t' ? TAB - w->column % TAB : width_of(c);
}

void wrap_line(word_wrap *w) {
    write_word(w);
    put_bytes(w, "\n", 1);
    w->column = w->blanks = w->indent = 0;
    w->joins = w->wide = false;
}

void wrap_flush(word_wrap *w) {
    char text[LONGEST];
    write_word(w);
    if (w->style) put_bytes(w, text, encode_style(0, text));
    w->style = 0;
}
