/* markdown.c: see markdown.h.
 *
 * A character at a time is put behind those that are held; then as many of these are drawn as it is
 * clear how. The beginning of a line is held until it is clear what the line is, and a mark of
 * emphasis or code until its other end comes, the line ends or the hold is full: then it was no
 * mark. So an opened mark never takes a character away from a text that has none (2 * 3, *args).
 * Rules are CommonMark's, but emphasis stays within a line and begins at a word's beginning. */
#include "verbs/chat/markdown.h"

#include <string.h>

enum { NEED_MORE = 0, INDENT_MOST = 40, BULLET = 0x2022, REPLACEMENT = 0xfffd };
static const size_t none = (size_t)-1;

/* ---- characters ---- */

static bool is_space(uint32_t c) {
    return c == 0 || c == ' ' || c == '\t';
}

/* Letters and digits; Chinese, Japanese and the like, which have no spaces, aren't. */
static bool is_word(uint32_t c) {
    const uint32_t low = c | 0x20;
    return (c >= '0' && c <= '9') || (low >= 'a' && low <= 'z') || (c >= 0xc0 && c < 0x2000);
}

static size_t run_length(const uint32_t *text, size_t n, size_t at) {
    size_t end = at;
    while (end < n && text[end] == text[at]) end++;
    return end - at;
}

/* ---- marks within a line ---- */

/* Where the code span that `length` backticks opened is closed, from `at` on; none: nowhere, or
 * NEED_MORE. */
static size_t close_code(const uint32_t *text, size_t n, size_t length, size_t at, bool final) {
    for (size_t run; at < n; at += run) {
        run = text[at] == '`' ? run_length(text, n, at) : 1;
        const bool whole = at + run < n || final;
        if (text[at] == '`' && whole && run == length) return at;
    }
    return final ? none : NEED_MORE;
}

/* A run of marks at `at` ends emphasis of `length` marks; *close: which of them. */
static bool closes(const uint32_t *text, size_t n, size_t length, size_t at, size_t *close) {
    const size_t run = run_length(text, n, at);
    const uint32_t next = at + run < n ? text[at + run] : 0;
    if (is_space(text[at - 1]) || (run != length && run != 3)) return false;
    if (text[at] == '_' && is_word(next)) return false;
    *close = at + run - length;
    return length <= run;
}

/* The same for emphasis. Code within it hides its marks. */
static size_t close_emphasis(const uint32_t *text, size_t n, size_t length, bool final) {
    size_t step;
    for (size_t at = length; at < n; at += step) {
        step = 1;
        if (text[at] == '\\') step = 2;
        if (text[at] != '`' && text[at] != text[0]) continue;
        step = run_length(text, n, at);
        if (at + step == n && !final) return NEED_MORE;
        if (text[at] == '`') {
            const size_t end = close_code(text, n, step, at + step, final);
            if (end == NEED_MORE) return NEED_MORE;
            if (end != none) step = end + step - at;
            continue;
        }
        size_t close;
        if (at > length && closes(text, n, length, at, &close)) return close;
    }
    return final ? none : NEED_MORE;
}

static bool opens(const markdown *m, const uint32_t *text, size_t n, size_t length) {
    if (text[0] == '`') return true;
    if (length > (text[0] == '*' ? 3 : 1)) return false;
    return !is_word(m->before) && length < n && !is_space(text[length]);
}

static void draw(markdown *m, uint32_t c, unsigned style) {
    wrap_character(&m->wrap, c, style);
    m->before = c;
}

static void draw_all(markdown *m, const uint32_t *text, size_t n, unsigned style);

/* A run of marks: with what stands between it and its other end, or as it is. */
static size_t draw_run(markdown *m, const uint32_t *text, size_t n, bool final, unsigned style) {
    static const unsigned emphasis[] = {0, WRAP_ITALIC, WRAP_BOLD, WRAP_BOLD | WRAP_ITALIC};
    const size_t length = run_length(text, n, 0);
    const bool code = text[0] == '`';
    size_t close = none;
    if (length == n && !final) return NEED_MORE;
    if (opens(m, text, n, length))
        close = code ? close_code(text, n, length, length, final)
                     : close_emphasis(text, n, length, final);
    if (close == NEED_MORE) return NEED_MORE;
    if (close == none) {
        for (size_t i = 0; i < length; i++) draw(m, text[i], style);
        return length;
    }
    m->before = text[0];
    if (!code) draw_all(m, text + length, close - length, style | emphasis[length]);
    for (size_t i = length; code && i < close; i++) draw(m, text[i], style | WRAP_CODE);
    m->before = text[0];
    return close + length;
}

/* Draws what comes first; the characters of it, or NEED_MORE. final: no more comes. */
static size_t draw_first(markdown *m, const uint32_t *text, size_t n, bool final, unsigned style) {
    const uint32_t c = text[0];
    if (m->markup && (c == '`' || c == '*' || c == '_')) return draw_run(m, text, n, final, style);
    if (m->markup && c == '\\') {
        if (n == 1 && !final) return NEED_MORE;
        const bool escapes = n > 1 && text[1] < 0x80 && strchr("`*_#", (int)text[1]) && text[1];
        if (escapes) draw(m, text[1], style);
        if (escapes) return 2;
    }
    draw(m, c, style);
    return 1;
}

static void draw_all(markdown *m, const uint32_t *text, size_t n, unsigned style) {
    for (size_t at = 0; at < n;) at += draw_first(m, text + at, n - at, true, style);
}

/* ---- beginnings of lines ---- */

static void drop_held(markdown *m, size_t n) {
    m->count -= n;
    memmove(m->held, m->held + n, m->count * sizeof *m->held);
}

/* What a line is, by how it begins. */
typedef struct line_kind {
    size_t lead;   /* characters of the beginning, spaces before it too */
    size_t spaces; /* before it */
    size_t fence;  /* the marks of a fence; 0: it is none */
    size_t heading;
    bool bullet;
    bool known; /* false: more must come */
} line_kind;

/* The whole line is looked at: what opens a code span ends it on its line. */
static void fence_kind(const markdown *m, size_t at, bool final, line_kind *kind) {
    const size_t run = run_length(m->held, m->count, at);
    const bool full = m->count == MARKDOWN_HELD;
    kind->known = final || full;
    if (run < 3) {
        kind->known = at + run < m->count || final;
        return;
    }
    kind->fence = run;
    for (size_t i = at + run; i < m->count; i++)
        if (m->held[i] == '`' && m->held[at] == '`') kind->fence = 0;
    if (!kind->fence) kind->known = true;
}

static line_kind kind_of(const markdown *m, bool final) {
    const uint32_t *text = m->held;
    const size_t n = m->count;
    size_t at = 0, end;
    while (at < n && text[at] == ' ' && at < INDENT_MOST) at++;
    line_kind kind = {.lead = at, .spaces = at, .known = true};
    if (at == n) {
        kind.known = final;
        return kind;
    }
    end = at;
    if (text[at] == '`' || text[at] == '~') {
        fence_kind(m, at, final, &kind);
        return kind;
    }
    if (text[at] == '#')
        end += run_length(text, n, at);
    else if (strchr("-*+>", text[at] < 0x80 ? (int)text[at] : ' '))
        end++;
    else {
        while (end < n && text[end] >= '0' && text[end] <= '9' && end - at < 9) end++;
        if (end > at && end < n && (text[end] == '.' || text[end] == ')'))
            end++;
        else if (end < n)
            return kind;
    }
    if (end == n) kind.known = final;
    if (end == n || text[end] != ' ') return kind;
    kind.heading = text[at] == '#' && end - at <= 6 ? end - at : 0;
    kind.bullet = strchr("-*+", (int)text[at]) != NULL;
    if (text[at] != '#') kind.lead = end + 1;
    return kind;
}

/* The line of a fence, whole or as much of it as could be held. */
static void draw_fence(markdown *m, const line_kind *kind) {
    m->fence = m->held[kind->spaces];
    m->fence_length = kind->fence;
    for (size_t i = 0; !m->markup && i < m->count; i++) wrap_verbatim(&m->wrap, m->held[i], 0);
    m->count = 0;
    m->state = MARKDOWN_INFO;
}

/* false: more must come. */
static bool begin_line(markdown *m, bool final) {
    const line_kind kind = kind_of(m, final);
    size_t drop = kind.spaces;
    if (!kind.known && m->count < MARKDOWN_HELD) return false;
    m->state = MARKDOWN_LINE;
    m->before = 0;
    m->style = 0;
    if (kind.fence) {
        draw_fence(m, &kind);
        return true;
    }
    m->wrap.indent = (int)kind.lead;
    m->wrap.blanks = (int)kind.spaces;
    if (m->markup && kind.heading) {
        m->style = WRAP_BOLD | (kind.heading == 1 ? WRAP_UNDERLINE : 0);
        drop += kind.heading + 1;
    }
    if (m->markup && kind.bullet) {
        draw(m, BULLET, 0);
        drop++;
    }
    if (!kind.heading)
        for (; drop < kind.lead; drop++) draw(m, m->held[drop], 0);
    if (kind.heading || kind.lead > kind.spaces) m->before = 0;
    drop_held(m, drop);
    return true;
}

/* ---- fenced code ---- */

static void draw_code(markdown *m) {
    for (size_t i = 0; i < m->count; i++)
        wrap_verbatim(&m->wrap, m->held[i], m->markup ? WRAP_CODE : 0);
    m->count = 0;
}

/* false: the line may still be the fence's end; at its end (final) it is. */
static bool begin_code(markdown *m, bool final) {
    size_t at = 0, run = 0;
    while (at < m->count && m->held[at] == ' ') at++;
    if (at < m->count && m->held[at] == m->fence) run = run_length(m->held, m->count, at);
    for (at += run; at < m->count && m->held[at] == ' ';) at++;
    const bool whole = at == m->count, closing = whole && run >= m->fence_length;
    if (whole && !final && m->count < MARKDOWN_HELD) return false;
    m->state = MARKDOWN_CODE;
    if (final && closing) m->fence = 0;
    if (m->fence || !m->markup) draw_code(m);
    m->count = 0;
    return true;
}

/* ---- the text ---- */

/* Draws as much as is clear. final: of the line or the text, no more comes. */
static void advance(markdown *m, bool final) {
    if (m->state == MARKDOWN_BEGIN && !begin_line(m, final)) return;
    if (m->state == MARKDOWN_CODE_BEGIN && !begin_code(m, final)) return;
    if (m->state == MARKDOWN_CODE) draw_code(m);
    for (size_t drawn; m->state == MARKDOWN_LINE && m->count; drop_held(m, drawn)) {
        drawn = draw_first(m, m->held, m->count, final, m->style);
        if (!drawn && m->count < MARKDOWN_HELD) return;
        if (!drawn) drawn = draw_first(m, m->held, m->count, true, m->style);
    }
    if (m->state != MARKDOWN_INFO) return;
    for (size_t i = 0; !m->markup && i < m->count; i++) wrap_verbatim(&m->wrap, m->held[i], 0);
    m->count = 0;
}

static void end_line(markdown *m) {
    const bool was_code = m->state == MARKDOWN_CODE_BEGIN || m->state == MARKDOWN_CODE;
    advance(m, true);
    const bool fence_line = m->state == MARKDOWN_INFO || (was_code && !m->fence);
    if (!fence_line || !m->markup) wrap_line(&m->wrap);
    m->state = m->fence ? MARKDOWN_CODE_BEGIN : MARKDOWN_BEGIN;
    m->style = 0;
}

static void take_character(markdown *m, uint32_t c) {
    if (c == '\n') {
        end_line(m);
        return;
    }
    if (c < ' ' && c != '\t') return;
    m->held[m->count++] = c;
    advance(m, false);
}

static void take_byte(markdown *m, unsigned char byte) {
    if ((byte & 0xc0) == 0x80 && m->part_misses) {
        m->part = m->part << 6 | (byte & 0x3f);
        if (--m->part_misses == 0) take_character(m, m->part);
        return;
    }
    if (m->part_misses) take_character(m, REPLACEMENT);
    m->part_misses = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : byte >= 0xc0 ? 1 : 0;
    m->part = byte & (0x3f >> m->part_misses);
    if (byte < 0x80)
        take_character(m, byte);
    else if (!m->part_misses || byte >= 0xf8) {
        m->part_misses = 0;
        take_character(m, REPLACEMENT);
    }
}

void markdown_write(markdown *m, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) take_byte(m, (unsigned char)text[i]);
}

void markdown_pause(markdown *m) {
    wrap_flush(&m->wrap);
}

void markdown_end(markdown *m) {
    if (m->part_misses) take_character(m, REPLACEMENT);
    m->part_misses = 0;
    advance(m, true);
    wrap_flush(&m->wrap);
    m->state = MARKDOWN_BEGIN;
    m->fence = 0;
    m->count = 0;
}
