/* template_lex.c: a template's text as tokens, with Jinja's white space: a newline behind a block's
 * end goes (trim_blocks), white space before a block at the beginning of a line goes
 * (lstrip_blocks), and signs at the ends of a tag override this: - removes all white space beside
 * it, + keeps it.
 *
 *     text {%- if x +%} text      data "text", block begin, name "if", name "x", block end, data
 *
 * Cost: linear. */
#include "text/template/template_lex.h"

#include <string.h>

#include "text/values/template_chars.h"

static _Noreturn void bad(const mnem__lexer *l, const char *why) {
    l->t->line = l->line;
    mnem__template_fail(l->t, MNEM_BAD_FILE, "%s", why);
}

static bool starts(const mnem__lexer *l, size_t at, const char *word) {
    const size_t n = strlen(word);
    return n <= l->length - at && memcmp(l->text + at, word, n) == 0;
}

static void move(mnem__lexer *l, size_t at) {
    for (; l->at < at; l->at++) l->line += l->text[l->at] == '\n';
}

static size_t skip_space(const mnem__lexer *l, size_t at) {
    return at + mnem__char_space_before(l->text + at, l->length - at);
}

/* ---- between tags ---- */

/* Behind the end of a tag, which is at at, or 0 where it isn't: `-%}` with the white space behind
 * it, `+%}`, or `%}` with a newline. */
static size_t tag_end(const mnem__lexer *l, size_t at, const char *end, bool trims) {
    if (starts(l, at, "-") && starts(l, at + 1, end)) return skip_space(l, at + 1 + strlen(end));
    if (trims && starts(l, at, "+") && starts(l, at + 1, end)) return at + 1 + strlen(end);
    if (!starts(l, at, end)) return 0;
    at += strlen(end);
    return trims && starts(l, at, "\n") ? at + 1 : at;
}

/* The data from l->at to end, where a tag begins with `{%` and maybe a sign. */
static mnem__any trim_data(const mnem__lexer *l, size_t end, bool variable) {
    const char *text = l->text + l->at;
    size_t n = end - l->at;
    const char sign = end + 2 < l->length ? l->text[end + 2] : 0;
    if (sign == '-') {
        n -= mnem__char_space_behind(text, n);
    } else if (sign != '+' && !variable) {
        size_t line = n;
        while (line > 0 && text[line - 1] != '\n') line--;
        const bool begins = line > 0 || l->at == 0 || l->text[l->at - 1] == '\n';
        if (begins && mnem__char_space_before(text + line, n - line) == n - line) n = line;
    }
    return mnem__any_text(text, n);
}

/* Of `{% word`: where the word ends; 0: it isn't there. */
static size_t raw_word(const mnem__lexer *l, size_t at, const char *word) {
    if (!starts(l, at, "{%")) return 0;
    at += 2;
    if (starts(l, at, "-") || starts(l, at, "+")) at++;
    at = skip_space(l, at);
    return starts(l, at, word) ? skip_space(l, at + strlen(word)) : 0;
}

/* Where `{% raw %}` at at ends; 0: something else is there. */
static size_t raw_begin(const mnem__lexer *l, size_t at) {
    const size_t end = raw_word(l, at, "raw");
    if (end && starts(l, end, "-%}")) return skip_space(l, end + 3);
    return end && starts(l, end, "%}") ? end + 2 : 0;
}

/* The data up to {% endraw %}, from behind {% raw %}. */
static mnem__lexeme raw_data(mnem__lexer *l) {
    mnem__lexeme token = {.kind = MNEM__LEX_DATA, .line = l->line};
    for (size_t at = l->at; at < l->length; at++) {
        const size_t word = raw_word(l, at, "endraw");
        const size_t end = word ? tag_end(l, word, "%}", true) : 0;
        if (!end) continue;
        token.value = trim_data(l, at, false);
        move(l, end);
        return token;
    }
    bad(l, "a raw block is not closed: {% endraw %} is missing");
}

static void skip_comment(mnem__lexer *l) {
    const bool sign = starts(l, l->at + 2, "-") || starts(l, l->at + 2, "+");
    for (size_t at = l->at + (sign ? 3 : 2); at < l->length; at++) {
        const size_t end = tag_end(l, at, "#}", true);
        if (!end) continue;
        move(l, end);
        return;
    }
    bad(l, "a comment is not closed: '#}' is missing");
}

static size_t find_tag(const mnem__lexer *l) {
    for (size_t at = l->at; at + 1 < l->length; at++)
        if (l->text[at] == '{' && strchr("{%#", l->text[at + 1]) && l->text[at + 1]) return at;
    return l->length;
}

/* Data up to the next tag, which may be empty. */
static mnem__lexeme data(mnem__lexer *l) {
    const size_t at = find_tag(l);
    const char second = at < l->length ? l->text[at + 1] : 0;
    mnem__lexeme token = {.kind = MNEM__LEX_DATA, .line = l->line};
    token.value = mnem__any_text(l->text + l->at, at - l->at);
    if (second) token.value = trim_data(l, at, second == '{');
    move(l, at);
    if (!second) return token;
    const size_t raw = raw_begin(l, at);
    if (raw) {
        move(l, raw);
        l->begins = MNEM__LEX_DATA; /* raw data comes next */
    } else if (second == '#') {
        skip_comment(l);
    } else {
        l->begins = second == '{' ? MNEM__LEX_VARIABLE_BEGIN : MNEM__LEX_BLOCK_BEGIN;
    }
    return token;
}

static mnem__lexeme begin_tag(mnem__lexer *l) {
    const mnem__lexeme token = {.kind = l->begins, .line = l->line};
    const bool sign = starts(l, l->at + 2, "-") || starts(l, l->at + 2, "+");
    l->at += sign ? 3 : 2;
    l->inside = l->begins;
    l->begins = MNEM__LEX_END;
    return token;
}

/* ---- constants ---- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_name(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Behind the characters of a name, of which those beyond ASCII are Python's. */
static size_t skip_name(const mnem__lexer *l, size_t at) {
    const size_t begin = at;
    while (at < l->length) {
        size_t behind = at;
        const uint32_t c = mnem__char_next(l->text, &behind);
        if (c < 0x80 ? !is_name((char)c)
                     : !(at > begin ? mnem__char_is_name(c) : mnem__char_is_name_first(c)))
            break;
        at = behind;
    }
    return at;
}

/* Behind digits with single underscores between them. */
static size_t skip_digits(const mnem__lexer *l, size_t at) {
    while (at < l->length &&
           (is_digit(l->text[at]) || (l->text[at] == '_' && is_digit(l->text[at - 1]) &&
                                      at + 1 < l->length && is_digit(l->text[at + 1]))))
        at++;
    return at;
}

/* Behind a float that begins at at, or at itself. */
static size_t skip_float(const mnem__lexer *l, size_t at) {
    if (at > 0 && l->text[at - 1] == '.') return at;
    size_t end = skip_digits(l, at);
    bool is_float = false;
    if (end + 1 < l->length && l->text[end] == '.' && is_digit(l->text[end + 1])) {
        end = skip_digits(l, end + 1);
        is_float = true;
    }
    if (end + 1 < l->length && (l->text[end] == 'e' || l->text[end] == 'E')) {
        size_t digits = end + 1;
        if (l->text[digits] == '+' || l->text[digits] == '-') digits++;
        if (digits < l->length && is_digit(l->text[digits])) {
            end = skip_digits(l, digits);
            is_float = true;
        }
    }
    return is_float ? end : at;
}

static size_t skip_int(const mnem__lexer *l, size_t at) {
    const char second = at + 1 < l->length ? (char)(l->text[at + 1] | 0x20) : 0;
    if (l->text[at] != '0') return skip_digits(l, at);
    if (second != 'x' && second != 'o' && second != 'b') {
        for (at++; at < l->length && l->text[at] == '0';) at++;
        return at;
    }
    for (at += 2; at < l->length && is_name(l->text[at]);) at++;
    return at;
}

static _Noreturn void bad_number(const mnem__lexer *l, mnem__any text) {
    mnem__template_fail(l->t, MNEM_BAD_FILE, "'%.*s' is not a valid number",
                        (int)(text.length < 40 ? text.length : 40), text.text);
}

static mnem__any number(mnem__lexer *l) {
    const size_t begin = l->at, behind = skip_float(l, begin);
    mnem__any value = mnem__any_int(0);
    l->at = behind > begin ? behind : skip_int(l, begin);
    const mnem__any text = mnem__any_text(l->text + begin, l->at - begin);
    l->t->line = l->line;
    if (behind > begin) {
        value.kind = MNEM__ANY_FLOAT;
        if (!mnem__template_read_float(l->t, text, &value.f)) bad_number(l, text);
    } else if (!mnem__template_read_int(l->t, text, 0, &value.i))
        bad_number(l, text);
    return value;
}

/* The character of n digits of a base at *at. */
static uint32_t read_code(mnem__lexer *l, size_t *at, size_t n, uint32_t base) {
    uint32_t code = 0;
    for (size_t i = 0; i < n; i++, (*at)++) {
        const char c = *at < l->length ? l->text[*at] : 0, low = (char)(c | 0x20);
        const bool letter = low >= 'a' && low <= 'f' && base == 16;
        const bool digit = c >= '0' && c <= (base == 16 ? '9' : '7');
        if (base == 8 && !digit) break;
        if (!digit && !letter)
            bad(l, "an escape \\x, \\u or \\U needs 2, 4 or 8 hexadecimal digits");
        code = code * base + (uint32_t)(letter ? low - 'a' + 10 : c - '0');
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
        bad(l, "an escape is not the code of a Unicode character");
    return code;
}

/* Puts what the escape at *at (behind the backslash) stands for. */
static void put_escape(mnem__lexer *l, size_t *at) {
    static const char letters[] = "abfnrtv\\'\"", chars[] = "\a\b\f\n\r\t\v\\'\"";
    const char c = l->text[*at];
    const char *p = c ? strchr(letters, c) : NULL;
    if (c >= '0' && c <= '7') {
        mnem__template_put_char(l->t, read_code(l, at, 3, 8));
        return;
    }
    (*at)++;
    if (p)
        mnem__template_put(l->t, &chars[p - letters], 1);
    else if (c == 'x' || c == 'u' || c == 'U')
        mnem__template_put_char(l->t, read_code(l, at, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16));
    else if (c == 'N')
        bad(l, "the escape \\N{...} is not supported; write the character itself");
    else if (c != '\n')
        mnem__template_put(l->t, &l->text[*at - 2], 2);
}

static mnem__any quoted(mnem__lexer *l) {
    const char quote = l->text[l->at];
    const size_t mark = l->t->out_bytes;
    size_t at = l->at + 1;
    for (;;) {
        size_t n = 0;
        while (at + n < l->length && l->text[at + n] != quote && l->text[at + n] != '\\') n++;
        mnem__template_put(l->t, l->text + at, n);
        at += n;
        if (at + 1 >= l->length && !(at < l->length && l->text[at] == quote))
            bad(l, "a text lacks its closing quote");
        if (l->text[at++] == quote) break;
        put_escape(l, &at);
    }
    move(l, at);
    return mnem__template_cut(l->t, mark);
}

/* ---- within tags ---- */

static int two_signs(const char *text) {
    static const struct {
        char text[3];
        int sign;
    } signs[] = {{"**", MNEM__SIGN_POWER},   {"//", MNEM__SIGN_FLOOR},
                 {"==", MNEM__SIGN_EQUAL},   {"!=", MNEM__SIGN_UNEQUAL},
                 {"<=", MNEM__SIGN_AT_MOST}, {">=", MNEM__SIGN_AT_LEAST}};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (memcmp(text, signs[i].text, 2) == 0) return signs[i].sign;
    return 0;
}

static void count_bracket(mnem__lexer *l, char c) {
    static const char open[] = "([{", close[] = ")]}";
    const char *p = strchr(open, c);
    if (p) {
        if (l->brackets == MNEM__LEX_BRACKETS)
            bad(l, "more than 256 brackets are open, which is not supported");
        l->closing[l->brackets++] = close[p - open];
    } else if (strchr(close, c)) {
        if (l->brackets == 0) bad(l, "a closing bracket has no open one: remove it, or open it");
        const char wanted = l->closing[--l->brackets];
        if (wanted != c) {
            l->t->line = l->line;
            mnem__template_fail(
                l->t, MNEM_BAD_FILE,
                "a closing bracket does not match the last open one, which needs '%c'", wanted);
        }
    }
}

static _Noreturn void bad_char(const mnem__lexer *l, char c) {
    l->t->line = l->line;
    if (c > 0x20 && c < 0x7F)
        mnem__template_fail(l->t, MNEM_BAD_FILE, "the character '%c' must be in quotes", c);
    mnem__template_fail(l->t, MNEM_BAD_FILE, "the byte 0x%02x must be in quotes", (unsigned char)c);
}

static int sign(mnem__lexer *l) {
    const char c = l->text[l->at];
    const int two = l->at + 1 < l->length ? two_signs(l->text + l->at) : 0;
    if (!two && (!c || !strchr("+-/*%~[](){}<>=.:|,;", c))) bad_char(l, c);
    if (!two) count_bracket(l, c);
    l->at += two ? 2 : 1;
    return two ? two : (unsigned char)c;
}

static bool end_tag(mnem__lexer *l, mnem__lexeme *token) {
    const bool variable = l->inside == MNEM__LEX_VARIABLE_BEGIN;
    const size_t end = l->brackets ? 0 : tag_end(l, l->at, variable ? "}}" : "%}", !variable);
    if (!end) return false;
    token->kind = variable ? MNEM__LEX_VARIABLE_END : MNEM__LEX_BLOCK_END;
    move(l, end);
    l->inside = MNEM__LEX_DATA;
    return true;
}

mnem__lexeme mnem__lex_next(mnem__lexer *l) {
    if (l->begins == MNEM__LEX_DATA) {
        l->begins = MNEM__LEX_END;
        return raw_data(l);
    }
    if (l->begins != MNEM__LEX_END) return begin_tag(l);
    if (l->inside == MNEM__LEX_DATA && l->at < l->length) return data(l);
    move(l, skip_space(l, l->at));
    mnem__lexeme token = {.kind = MNEM__LEX_END, .line = l->line};
    if (l->at == l->length || end_tag(l, &token)) return token;
    const char c = l->text[l->at];
    if (is_digit(c) || c == '"' || c == '\'') {
        token.kind = MNEM__LEX_CONSTANT;
        token.value = is_digit(c) ? number(l) : quoted(l);
    } else if (skip_name(l, l->at) > l->at) {
        const size_t begin = l->at;
        l->at = skip_name(l, begin);
        token.kind = MNEM__LEX_NAME;
        token.value = mnem__any_text(mnem__template_intern(l->t, l->text + begin, l->at - begin),
                                     l->at - begin);
    } else {
        token.kind = MNEM__LEX_SIGN;
        token.sign = sign(l);
    }
    return token;
}
