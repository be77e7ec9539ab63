/* http_chunks.c: a body that comes in chunks (RFC 9112, 7.1), byte by byte and by the letter.
 *
 *     5;extension CR LF  hello CR LF  ...  0 CR LF  Trailer: x CR LF  CR LF
 *
 * Extensions and trailers are thrown away, and are as short as what nobody uses may be. */
#include "server/http/http_private.h"

enum { LINE_MOST = 128, TRAILERS_MOST = 1024, DIGITS_MOST = 8 };

/* What the next byte is. */
enum {
    SIZE, /* 0: where a body begins */
    EXTENSION,
    SIZE_LF,
    BYTES,
    BYTES_CR,
    BYTES_LF,
    TRAILER_FIRST,
    TRAILER,
    TRAILER_LF,
    END_LF
};

static int digit(char c) {
    const char low = (char)(c | 0x20);
    return c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

static bool plain(char c) {
    return c == '\t' || ((unsigned char)c >= 0x20 && c != 0x7f);
}

static bool size_byte(http_chunks *k, char c) {
    const int value = digit(c);
    k->line++;
    if (value >= 0) {
        k->left = k->left << 4 | (uint64_t)value;
        return k->line <= DIGITS_MOST;
    }
    k->state = c == '\r' ? SIZE_LF : EXTENSION;
    return k->line > 1 && (c == '\r' || c == ';');
}

/* A byte around the data; false: it can't stand there. */
static bool frame_byte(http_chunks *k, char c) {
    switch (k->state) {
    case SIZE: return size_byte(k, c);
    case EXTENSION:
        if (c == '\r') k->state = SIZE_LF;
        return c == '\r' || (plain(c) && ++k->line <= LINE_MOST);
    case SIZE_LF:
        k->state = k->left ? BYTES : TRAILER_FIRST;
        k->line = 0;
        return c == '\n';
    case BYTES_CR: k->state = BYTES_LF; return c == '\r';
    case BYTES_LF: k->state = SIZE; return c == '\n';
    case TRAILER_FIRST:
        k->state = c == '\r' ? END_LF : TRAILER;
        return c == '\r' || (plain(c) && ++k->line <= TRAILERS_MOST);
    case TRAILER:
        if (c == '\r') k->state = TRAILER_LF;
        return c == '\r' || (plain(c) && ++k->line <= TRAILERS_MOST);
    case TRAILER_LF: k->state = TRAILER_FIRST; return c == '\n';
    default: return c == '\n'; /* END_LF */
    }
}

http_piece http__chunks_read(http_chunks *k, const char *in, size_t bytes, size_t *taken,
                             const char **data, size_t *n) {
    for (size_t i = 0; i < bytes; i++) {
        if (k->state == BYTES) {
            *data = in + i;
            *n = bytes - i < k->left ? bytes - i : (size_t)k->left;
            *taken = i + *n;
            k->left -= *n;
            if (!k->left) k->state = BYTES_CR;
            return HTTP_DATA;
        }
        const bool end = k->state == END_LF;
        if (!frame_byte(k, in[i])) return HTTP_BAD;
        if (end) {
            *taken = i + 1;
            return HTTP_END;
        }
    }
    *taken = bytes;
    return HTTP_MORE;
}
