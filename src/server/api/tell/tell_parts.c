/* tell_parts.c: what an answer's text is: thoughts between <think> and </think>, calls of tools
 * between their format's marks, and text.
 *
 *     BEGIN ──<think>──► THOUGHT ──</think>──► TEXT_BEGIN ──► TEXT ◄──marks──► CALL
 *
 * A template that thinks may open the thought itself; answers then begin with THOUGHT. */
#include <string.h>

#include "server/api/tell/tell_private.h"

static const char think_begin[] = "<think>", think_end[] = "</think>";

static bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* How many bytes at the end of n may be the beginning of a mark. */
static size_t tail_of(const char *bytes, size_t n, const char *mark) {
    size_t most = strlen(mark) - 1;
    if (most > n) most = n;
    while (most && memcmp(bytes + n - most, mark, most) != 0) most--;
    return most;
}

static void put_part(tell_choice *c, bool thought, const char *bytes, size_t n) {
    if (n == 0) return;
    c->tell->form->put_text(c, thought, bytes, n);
    c->begun = true;
}

/* Each of these reads bytes [n] and says how many it has told or passed over; what it leaves may be
 * more with what follows. final: nothing does. */

/* White space, and whether a mark follows. */
static size_t read_begin(tell_choice *c, const char *bytes, size_t n, bool final) {
    size_t at = 0;
    while (at < n && is_space(bytes[at])) at++;
    const size_t mark = sizeof think_begin - 1;
    if (n - at >= mark && memcmp(bytes + at, think_begin, mark) == 0) {
        c->part = TELL_THOUGHT;
        return at + mark;
    }
    if (!final && memcmp(bytes + at, think_begin, n - at) == 0) return 0;
    c->part = TELL_TEXT;
    return 0;
}

static size_t read_thought(tell_choice *c, const char *bytes, size_t n, bool final) {
    const char *end = memmem(bytes, n, think_end, sizeof think_end - 1);
    const size_t more = end ? (size_t)(end - bytes) : final ? n : n - tail_of(bytes, n, think_end);
    put_part(c, true, bytes, more);
    if (!end) return more;
    c->part = TELL_TEXT_BEGIN;
    return more + sizeof think_end - 1;
}

static size_t read_text_begin(tell_choice *c, const char *bytes, size_t n, bool final) {
    size_t at = 0;
    while (at < n && is_space(bytes[at])) at++;
    if (at < n || final) c->part = TELL_TEXT;
    return at;
}

/* White space before a call belongs to its marks. */
static size_t read_text(tell_choice *c, const char *bytes, size_t n, bool final) {
    const call_format *format = c->tell->call_format;
    const char *mark = format ? format->begin : "";
    const char *found = *mark ? memmem(bytes, n, mark, strlen(mark)) : NULL;
    size_t more = found ? (size_t)(found - bytes) : n;
    if (format && !*mark && !c->begun && n && bytes[0] == '{') found = bytes, more = 0;
    const size_t passed = more;
    if (!found && !final && *mark) more -= tail_of(bytes, n, mark);
    while (format && (found || !final) && more && is_space(bytes[more - 1])) more--;
    put_part(c, false, bytes, more);
    if (!found) return more;
    c->part = TELL_CALL;
    c->parser = (call_parser){.format = format, .texts = &c->tell->call_texts};
    return passed + strlen(mark);
}

static void end_call(tell_choice *c) {
    if (c->in_call) c->tell->form->end_call(c);
    c->in_call = false;
}

static void tell_event(tell_choice *c, const call_event *event) {
    const tell_form *form = c->tell->form;
    if (event->kind == CALL_BEGINS) {
        c->in_call = true;
        c->argued = false;
        form->put_call(c, c->parser.name, c->parser.name_bytes);
        c->begun = true;
        c->calls++;
        c->tell->calls++;
    }
    if (event->kind == CALL_ARGUMENTS) {
        c->argued = true;
        form->put_arguments(c, event->bytes, event->n);
    }
    if (event->kind != CALL_ENDS || !c->in_call) return;
    if (!c->argued) form->put_arguments(c, "{}", 2);
    end_call(c);
}

/* Behind a call its mark is passed over; a call that is none ends, too. */
static size_t read_call(tell_choice *c, const char *bytes, size_t n, bool final) {
    const char *mark = c->parser.format->end;
    call_event event;
    size_t at = call_parser_read(&c->parser, bytes, n, &event);
    tell_event(c, &event);
    if (c->parser.state == CALL_BAD) end_call(c);
    if (c->parser.state != CALL_BAD && c->parser.state != CALL_DONE) return at;
    const char *end = memmem(bytes + at, n - at, mark, strlen(mark));
    if (!end) return final ? n : n - tail_of(bytes + at, n - at, mark);
    c->part = TELL_TEXT_BEGIN;
    return (size_t)(end - bytes) + strlen(mark);
}

size_t tell_parts(tell_choice *c, size_t n, bool final) {
    typedef size_t reader(tell_choice * choice, const char *bytes, size_t n, bool final);
    static reader *const readers[] = {[TELL_BEGIN] = read_begin,
                                      [TELL_THOUGHT] = read_thought,
                                      [TELL_TEXT_BEGIN] = read_text_begin,
                                      [TELL_TEXT] = read_text,
                                      [TELL_CALL] = read_call};
    size_t at = 0;
    for (;;) {
        const tell_part before = c->part;
        const call_state state = c->parser.state;
        const size_t told = readers[c->part](c, c->held.bytes + at, n - at, final);
        at += told;
        if (at >= n || (told == 0 && c->part == before && c->parser.state == state)) break;
    }
    return at;
}
