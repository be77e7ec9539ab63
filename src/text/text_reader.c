/* text_reader.c: reads texts of any size through one buffer, and finds where they can be cut.
 *
 * The idea: a piece is a full buffer up to the last place where no word of any pre-tokenizer can
 * reach across; the rest moves to the front of the buffer. There are two kinds of such places:
 *
 *     ...12| more         after an ASCII letter or digit, before ASCII white space, but not where
 *     ...word| (more      one space stands between a letter and what may be one
 *     ...any⏎|any...      after a line feed that stands alone between two that aren't white space,
 *                         and before none of Bloom's signs
 *
 * No pattern has a letter or a digit followed by white space in one match, but for K-EXAONE's,
 * which joins words with single spaces between them; and a lone line feed is a word of its own, or
 * ends one (pre_schemes.c); Bloom's leaves it together with signs.
 * A buffer without such a place is cut at a character.
 * Invariant: pieces depend on the file's bytes and the buffer's size only.
 * Cost: one pass; what moves is hardly ever more than a line. */
#include "text/text_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file/file_bytes.h"
#include "base/text/utf8.h"

/* ---- where to cut ---- */

static bool is_ascii_letter(unsigned char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static bool is_ascii_word(unsigned char c) {
    return (c >= '0' && c <= '9') || is_ascii_letter(c);
}

static bool is_ascii_space(unsigned char c) {
    return c == ' ' || (c >= 9 && c <= 13);
}

/* Unicode's White_Space. */
static bool is_space(uint32_t code) {
    return (code < 0x80 && is_ascii_space((unsigned char)code)) || code == 0x85 || code == 0xA0 ||
           code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
           code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

/* Whether white space starts at text (n > 0). */
static bool starts_with_space(const char *text, size_t n) {
    const size_t length = mnem__utf8_length(text, n);
    return length > 0 && is_space(mnem__utf8_code(text, length));
}

static bool ends_with_space(const char *text, size_t n) {
    for (size_t length = 1; length <= 3 && length <= n; length++)
        if (mnem__utf8_length(text + n - length, length) == length)
            return starts_with_space(text + n - length, length);
    return false;
}

/* What Bloom's pattern has in no word, but for white space. */
static bool starts_with_sign(const char *text, size_t n) {
    static const char *const signs[] = {"(",
                                        ")",
                                        "|",
                                        ".",
                                        ",",
                                        "!",
                                        "?",
                                        "\xE2\x80\xA6",
                                        "\xE3\x80\x82",
                                        "\xEF\xBC\x8C",
                                        "\xE3\x80\x81",
                                        "\xE0\xA5\xA4",
                                        "\xDB\x94",
                                        "\xD8\x8C"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strlen(signs[i]) <= n && memcmp(signs[i], text, strlen(signs[i])) == 0) return true;
    return false;
}

static bool can_cut(const char *text, size_t n, size_t at) {
    const unsigned char before = (unsigned char)text[at - 1], after = (unsigned char)text[at];
    const unsigned char behind = at + 1 < n ? (unsigned char)text[at + 1] : 'a';
    const bool joined =
        is_ascii_letter(before) && after == ' ' && (is_ascii_letter(behind) || behind >= 0x80);
    if (is_ascii_word(before) && is_ascii_space(after) && !joined) return true;
    return before == '\n' && at >= 2 && !ends_with_space(text, at - 1) &&
           !starts_with_space(text + at, n - at) && !starts_with_sign(text + at, n - at);
}

/* The last 3 bytes may be the beginning of a character, which could be white space. */
size_t mnem__text_cut(const char *text, size_t n) {
    for (size_t at = n > 3 ? n - 3 : 0; at > 0; at--)
        if (can_cut(text, n, at)) return at;
    return 0;
}

/* At most n, so that no character is cut in two. */
static size_t cut_character(const char *text, size_t n) {
    for (size_t at = n - 1; at + 4 > n && at > 0; at--)
        if (((unsigned char)text[at] & 0xC0u) == 0xC0u)
            return mnem__utf8_length(text + at, n - at) > 0 ? n : at;
    return n;
}

/* ---- files ---- */

static mnem_status stamp_of(const char *path, const struct stat *st, mnem__text_stamp *stamp) {
    if (!S_ISREG(st->st_mode))
        return mnem__fail(MNEM_INVALID,
                          S_ISDIR(st->st_mode) ? "%s is a folder, expected a text file"
                                               : "%s is not a regular file, expected a text file",
                          path);
    *stamp = (mnem__text_stamp){(uint64_t)st->st_size, (uint64_t)st->st_mtim.tv_sec,
                                (uint64_t)st->st_mtim.tv_nsec};
    return MNEM_OK;
}

mnem_status mnem__text_stamp_get(const char *path, mnem__text_stamp *stamp) {
    struct stat st;
    if (stat(path, &st) != 0) return mnem__file_fail(path, "be found");
    return stamp_of(path, &st, stamp);
}

/* Not blocking: a pipe that nobody writes to would keep us waiting. */
mnem_status mnem__text_open(mnem__text_reader *r, const char *path, size_t room) {
    *r = (mnem__text_reader){.path = path, .room = room};
    r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (r->fd < 0) return mnem__file_fail(path, "be opened");
    struct stat st;
    mnem_status status = fstat(r->fd, &st) == 0 ? MNEM_OK : mnem__file_fail(path, "be examined");
    if (status == MNEM_OK) status = stamp_of(path, &st, &r->stamp);
    if (status != MNEM_OK) mnem__text_close(r);
    return status;
}

void mnem__text_close(mnem__text_reader *r) {
    if (r->fd >= 0) close(r->fd);
    r->fd = -1;
}

/* Fills the buffer; *end when the file has no more. */
static mnem_status fill_buffer(mnem__text_reader *r, bool *end) {
    *end = false;
    while (r->have < r->room && !*end) {
        const ssize_t got = read(r->fd, r->buffer + r->have, r->room - r->have);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return mnem__file_fail(r->path, "be read");
        r->have += (size_t)got;
        *end = got == 0;
    }
    return MNEM_OK;
}

/* A file that grows is noticed before its end, which may never come. */
static mnem_status check_unchanged(const mnem__text_reader *r, bool end) {
    const uint64_t seen = r->bytes_done + r->have;
    struct stat st;
    mnem__text_stamp now = {0};
    if (!end && seen <= r->stamp.bytes) return MNEM_OK;
    if (fstat(r->fd, &st) != 0) return mnem__file_fail(r->path, "be examined");
    MNEM__TRY(stamp_of(r->path, &st, &now));
    if (seen == r->stamp.bytes && memcmp(&now, &r->stamp, sizeof now) == 0) return MNEM_OK;
    return mnem__fail(
        MNEM_IO,
        "%s changed while it was read: it had %llu bytes at first, and %llu were read; start again",
        r->path, (unsigned long long)r->stamp.bytes, (unsigned long long)seen);
}

mnem_status mnem__text_next(mnem__text_reader *r, char *buffer, mnem_text *piece) {
    bool end;
    r->have -= r->used;
    if (r->have) memmove(buffer, r->buffer + r->used, r->have);
    r->buffer = buffer;
    r->used = 0;
    mnem_status status = fill_buffer(r, &end);
    if (status == MNEM_OK) status = check_unchanged(r, end);
    if (status != MNEM_OK) return status;
    r->used = end ? r->have : mnem__text_cut(buffer, r->have);
    if (r->used == 0 && r->have > 0) r->used = cut_character(buffer, r->have);
    r->bytes_done += r->used;
    *piece = (mnem_text){buffer, r->used};
    return MNEM_OK;
}
