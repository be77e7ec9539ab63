/* conversation.c: messages in one buffer of a fixed size.
 *
 * Every message ends with a seam of two bytes, a comma and a newline; the list's end and a zero
 * take its place while the list is shown. So dropping turns moves bytes and nothing else. Texts are
 * made valid UTF-8, as JSON must be: what is no character becomes U+FFFD.
 * Invariant: what closes an answer always has room. */
#include "verbs/run/conversation.h"

#include <stdlib.h>
#include <string.h>

enum { SEAM = 2, LIST_BYTES = 3 }; /* an empty list: a bracket and a seam */
static const char open_user[] = "{\"role\":\"user\",\"content\":\"";
static const char open_answer[] = "{\"role\":\"assistant\",\"content\":\"";
static const char open_system[] = "{\"role\":\"system\",\"content\":\"";
static const char closing[] = "\"},\n";

/* ---- text as JSON has it ---- */

/* Bytes of one byte of valid UTF-8 inside quotes; out may be NULL. */
static size_t escape(unsigned char byte, char *out) {
    static const char short_ones[] = "\"\\\n\t\r", letters[] = "\"\\ntr";
    const char *found = byte ? strchr(short_ones, byte) : NULL;
    char code[8] = {(char)byte, 0};
    if (found)
        snprintf(code, sizeof code, "\\%c", letters[found - short_ones]);
    else if (byte < 0x20 || byte == 0x7f)
        snprintf(code, sizeof code, "\\u%04x", byte);
    const size_t n = strlen(code);
    if (out) memcpy(out, code, n);
    return n;
}

/* Writes what has room as a whole, escaped unless bare; returns the bytes of all of it. */
static size_t put_valid(const char *text, size_t n, bool bare, char *out, size_t room) {
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        char code[8] = {text[i]};
        const size_t length = bare ? 1 : escape((unsigned char)text[i], code);
        if (bytes + length <= room) memcpy(out + bytes, code, length);
        bytes += length;
    }
    return bytes;
}

static size_t put_text(const char *text, size_t n, bool bare, char *out, size_t room) {
    enum { SLICE = 256 };
    char valid[3 * (SLICE + 4)];
    mnem_utf8_joiner joiner = {0};
    size_t bytes = 0;
    if (bare) return put_valid(text, n, true, out, room);
    for (size_t at = 0, part; at <= n; at += part) {
        part = n - at < SLICE ? n - at : SLICE;
        const size_t length = mnem_utf8_join(&joiner, text + at, part, valid); /* 0 bytes flush */
        const size_t left = bytes < room ? room - bytes : 0;
        bytes += put_valid(valid, length, false, left ? out + bytes : NULL, left);
        if (part == 0) break;
    }
    return bytes;
}

size_t tool_conversation_bytes(const char *text, size_t length) {
    return sizeof open_answer + put_text(text, length, false, NULL, 0) + 2 * sizeof closing +
           LIST_BYTES;
}

/* ---- the buffer ---- */

int tool_conversation_open(mnem_ledger *ledger, size_t room, bool bare, tool_conversation *c) {
    *c = (tool_conversation){.ledger = ledger, .bare = bare};
    const mnem_status status = mnem_ledger_charge(ledger, MNEM_KIND_HOST, "conversation", room);
    if (status != MNEM_OK) return tool_fail(status);
    c->room = room;
    if (!(c->text = malloc(room))) return tool_fail(MNEM_NO_MEMORY);
    memset(c->text, 0, room);
    tool_conversation_clear(c);
    return TOOL_OK;
}

void tool_conversation_close(tool_conversation *c) {
    if (c->room) mnem_ledger_release(c->ledger, MNEM_KIND_HOST, "conversation", c->room);
    free(c->text);
    *c = (tool_conversation){0};
}

void tool_conversation_clear(tool_conversation *c) {
    c->turns = 0;
    c->bytes = c->bare ? 0 : LIST_BYTES;
    c->system_bytes = c->said = c->bytes;
    if (!c->bare) c->text[0] = '[';
}

static void write_seam(tool_conversation *c, char first, char second) {
    if (c->bare) return;
    c->text[c->said - SEAM] = first;
    c->text[c->said - 1] = second;
}

/* Before anything is written behind it. */
static void mend_seam(tool_conversation *c) {
    write_seam(c, c->said > LIST_BYTES ? ',' : ' ', '\n');
}

mnem_text tool_conversation_text(tool_conversation *c) {
    write_seam(c, ']', 0);
    return (mnem_text){c->text, c->bare ? c->said : c->said - 1};
}

static void append(tool_conversation *c, const char *text, size_t length) {
    memcpy(c->text + c->bytes, text, length);
    c->bytes += length;
}

/* Bytes that may still be written. */
static size_t left(const tool_conversation *c) {
    const size_t kept = c->bytes + sizeof closing;
    return kept < c->room ? c->room - kept : 0;
}

static bool add(tool_conversation *c, const char *opening, const char *text, size_t length) {
    const size_t before = c->bytes, around = c->bare ? 0 : strlen(opening);
    if (around > left(c)) return false;
    mend_seam(c);
    append(c, opening, around);
    const size_t bytes = put_text(text, length, c->bare, c->text + c->bytes, left(c));
    if (bytes > left(c)) {
        c->bytes = before;
        return false;
    }
    c->bytes += bytes;
    if (!c->bare) append(c, closing, strlen(closing));
    c->said = c->bytes;
    return true;
}

bool tool_conversation_system(tool_conversation *c, const char *text) {
    if (!add(c, open_system, text, strlen(text))) return false;
    c->system_bytes = c->bytes;
    return true;
}

bool tool_conversation_user(tool_conversation *c, const char *text, size_t length) {
    const size_t at = c->bytes;
    if (c->turns == TOOL_TURNS_MAX || !add(c, open_user, text, length)) return false;
    c->turn[c->turns] = at;
    c->answer[c->turns++] = c->said;
    return true;
}

void tool_conversation_answer(tool_conversation *c, const char *text, size_t length) {
    if (c->bytes == c->said && !c->bare) {
        if (strlen(open_answer) > left(c)) return;
        mend_seam(c);
        append(c, open_answer, strlen(open_answer));
    }
    /* What is printed is whole characters; the first that has no room ends what is kept. */
    const size_t room = left(c), bytes = put_text(text, length, c->bare, c->text + c->bytes, room);
    if (bytes <= room) c->bytes += bytes;
}

void tool_conversation_end(tool_conversation *c) {
    if (c->bytes == c->said && !c->bare) tool_conversation_answer(c, "", 0);
    if (c->bytes > c->said && !c->bare) append(c, closing, strlen(closing));
    c->said = c->bytes;
}

void tool_conversation_take_back(tool_conversation *c) {
    mend_seam(c);
    c->bytes = c->said = c->turn[--c->turns];
}

void tool_conversation_unanswer(tool_conversation *c) {
    mend_seam(c);
    c->bytes = c->said = c->answer[c->turns - 1];
}

void tool_conversation_drop(tool_conversation *c, int count) {
    const size_t from = count < c->turns ? c->turn[count] : c->said;
    const size_t gone = from - c->system_bytes;
    mend_seam(c);
    memmove(c->text + c->system_bytes, c->text + from, c->bytes - from);
    c->bytes -= gone;
    c->said -= gone;
    c->turns -= count;
    for (int i = 0; i < c->turns; i++) {
        c->turn[i] = c->turn[i + count] - gone;
        c->answer[i] = c->answer[i + count] - gone;
    }
}

/* Bytes of the character that begins here, as JSON has it. */
static size_t unit_bytes(const char *text) {
    size_t n = 1;
    if (*text == '\\') return text[1] == 'u' ? 6 : 2;
    while ((text[n] & 0xc0) == 0x80) n++;
    return n;
}

static void remove_bytes(tool_conversation *c, size_t from, size_t gone) {
    memmove(c->text + from, c->text + from + gone, c->bytes - from - gone);
    c->bytes -= gone;
    c->said -= gone;
    for (int i = 1; i < c->turns; i++) {
        c->turn[i] -= gone;
        c->answer[i] -= gone;
    }
}

bool tool_conversation_cut(tool_conversation *c, size_t most) {
    static const char mark[] = "... ";
    if (c->bare || c->turns == 0) return false;
    const size_t from = c->answer[0] + strlen(open_answer);
    const size_t next = c->turns > 1 ? c->turn[1] : c->said, around = strlen(mark);
    if (next < from + strlen(closing) + most || most < around) return false;
    const size_t end = next - strlen(closing), length = end - from;
    if (length <= most) return false;
    mend_seam(c);
    size_t at = from;
    while (at < end - (most - around)) at += unit_bytes(c->text + at);
    if (at - from < around) return false;
    memcpy(c->text + from, mark, around);
    remove_bytes(c, from + around, at - from - around);
    return true;
}

/* ---- as a file ---- */

/* A part of bare text as a message; one without bytes is none. */
static void write_bare(const tool_conversation *c, size_t from, size_t end, const char *opening,
                       FILE *file) {
    enum { SLICE = 256 };
    char valid[3 * (SLICE + 4)];
    mnem_utf8_joiner joiner = {0};
    if (from == end) return;
    if (from > 0) fputs(",\n", file);
    fputs(opening, file);
    for (size_t at = from, part; at <= end; at += part) {
        part = end - at < SLICE ? end - at : SLICE;
        const size_t length = mnem_utf8_join(&joiner, c->text + at, part, valid);
        for (size_t i = 0; i < length; i++) {
            char code[8];
            fwrite(code, 1, escape((unsigned char)valid[i], code), file);
        }
        if (part == 0) break;
    }
    fputs("\"}", file);
}

void tool_conversation_write(tool_conversation *c, FILE *file) {
    if (!c->bare) {
        const char *list = tool_conversation_text(c).bytes;
        const bool some = c->said > LIST_BYTES;
        fprintf(file, "%s%s\n", some ? "[" : "", some ? list + LIST_BYTES : list);
        return;
    }
    fputc('[', file);
    write_bare(c, 0, c->system_bytes, open_system, file);
    for (int i = 0; i < c->turns; i++) {
        write_bare(c, c->turn[i], c->answer[i], open_user, file);
        write_bare(c, c->answer[i], i + 1 < c->turns ? c->turn[i + 1] : c->said, open_answer, file);
    }
    fputs("]\n", file);
}
