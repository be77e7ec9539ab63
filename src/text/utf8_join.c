/* utf8_join.c: whole UTF-8 characters out of streamed pieces.
 *
 * The idea: the joiner holds an unfinished character back (at most three bytes) and writes U+FFFD
 * for each longest beginning of a character that can't be finished, as browsers do.
 * Cost: linear. */
#include <string.h>

#include "base/text/utf8.h"
#include "mnem/tokenizer.h"

static char *write_replacement(mnem_utf8_joiner *joiner, char *out) {
    joiner->count = 0;
    memcpy(out, "\xEF\xBF\xBD", 3);
    return out + 3;
}

/* Takes one byte; what became whole, or can't any more, goes to out. */
static char *join_byte(mnem_utf8_joiner *joiner, unsigned char c, char *out) {
    if (joiner->count > 0 && !mnem__utf8_continues(joiner->held[0], joiner->count, c))
        out = write_replacement(joiner, out);
    joiner->held[joiner->count++] = c;
    const int length = (int)mnem__utf8_lead_length(joiner->held[0]);
    if (length == 0) return write_replacement(joiner, out);
    if (joiner->count < length) return out;
    memcpy(out, joiner->held, (size_t)length);
    joiner->count = 0;
    return out + length;
}

size_t mnem_utf8_join(mnem_utf8_joiner *joiner, const char *bytes, size_t length, char *out) {
    char *end = out;
    for (size_t i = 0; i < length; i++) end = join_byte(joiner, (unsigned char)bytes[i], end);
    if (length == 0 && joiner->count > 0) end = write_replacement(joiner, end);
    return (size_t)(end - out);
}
