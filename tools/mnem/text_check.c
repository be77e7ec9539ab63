/* text_check.c: does a file look like text? Asked before a model learns from it, or is rounded by
 * what it uses.
 *
 * The idea: binary files nearly always say so: by their first bytes, by bytes of zero, by control
 * characters; text in another encoding than UTF-8 has neither, but bytes that aren't UTF-8. The
 * first kind is refused, the second is taken as it is, with a word about it; where most bytes
 * aren't UTF-8, nobody can tell, and it is refused too.
 * Cost: at most 512 pieces of 16 KiB, spread evenly over the file; all of a file up to 8 MiB. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool.h"

enum { PIECE = 1 << 14, PIECES = 512 };
/* Shares of what was looked at: above them it isn't text. */
static const double control_most = 0.01, invalid_most = 0.3;

static const struct {
    const char *bytes;
    uint64_t n, at;
    const char *what;
} kinds[] = {
    {"GGUF", 4, 0, "a GGUF model"},
    {"{\"", 2, 8, "a safetensors file"},
    {"PK\3\4", 4, 0, "a zip archive (PyTorch writes such files)"},
    {"\x1f\x8b", 2, 0, "a gzip archive: unpack it first"},
    {"\3757zXZ", 5, 0, "an xz archive: unpack it first"},
    {"\x28\xb5\x2f\xfd", 4, 0, "a zstd archive: unpack it first"},
    {"BZh91AY&SY", 10, 0, "a bzip2 archive: unpack it first"},
    {"%PDF-", 5, 0, "a PDF: extract its text first"},
    {"PAR1", 4, 0, "a Parquet file: convert it to JSON lines first"},
    {"ARROW1", 6, 0, "an Arrow file: convert it to JSON lines first"},
    {"\177ELF", 4, 0, "a program"},
    {"\x89PNG", 4, 0, "a PNG image"},
    {"\xff\xd8\xff", 3, 0, "a JPEG image"},
    {"SQLite format 3", 16, 0, "an SQLite database"},
    {"\xff\xfe", 2, 0, "text in UTF-16 (iconv -f UTF-16 -t UTF-8 converts it to UTF-8)"},
    {"\xfe\xff", 2, 0, "text in UTF-16 (iconv -f UTF-16 -t UTF-8 converts it to UTF-8)"},
};

typedef struct look {
    uint64_t seen, zero, zero_odd, control, invalid;   /* how many */
    uint64_t first_zero, first_control, first_invalid; /* their offsets in the file */
} look;

size_t tool_utf8_length(const unsigned char *s, size_t n) {
    static const unsigned char least[] = {0, 0, 0x80, 0xa0, 0x90}; /* of the second byte */
    const size_t length = s[0] < 0x80   ? 1
                          : s[0] < 0xc2 ? 0
                          : s[0] < 0xe0 ? 2
                          : s[0] < 0xf0 ? 3
                          : s[0] < 0xf5 ? 4
                                        : 0;
    if (length < 2) return length;
    for (size_t i = 1; i < length; i++) {
        if (i == n) return length;
        if ((s[i] & 0xc0u) != 0x80) return 0;
    }
    if ((s[0] == 0xe0 || s[0] == 0xf0) && s[1] < least[length]) return 0; /* a longer way */
    if ((s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f)) return 0;
    return length;
}

static void note(uint64_t *count, uint64_t *first, uint64_t at) {
    if (!(*count)++) *first = at;
}

/* Colours (ESC) and overstriking (BS) are in texts of terminals. */
static bool is_control(unsigned char c) {
    return c == 127 || (c < 32 && !(c >= 8 && c <= 13) && c != 27);
}

static void look_at(look *l, const unsigned char *s, size_t n, uint64_t at) {
    size_t i = 0;
    while (at > 0 && i < n && i < 3 && (s[i] & 0xc0u) == 0x80) i++; /* of a character before */
    for (size_t length; i < n; i += length) {
        length = tool_utf8_length(s + i, n - i);
        if (length > n - i) return; /* the rest is in the next piece */
        if (!length) {
            note(&l->invalid, &l->first_invalid, at + i);
            length = 1;
        }
        l->seen += length;
        if (s[i] == 0) {
            note(&l->zero, &l->first_zero, at + i);
            l->zero_odd += (at + i) & 1;
        } else if (is_control(s[i])) {
            note(&l->control, &l->first_control, at + i);
        }
    }
}

static const char *kind_of(const unsigned char *s, size_t n, uint64_t *at) {
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        *at = kinds[i].at;
        if (*at + kinds[i].n > n || memcmp(s + *at, kinds[i].bytes, kinds[i].n) != 0) continue;
        if (*at == 0) return kinds[i].what;
        uint32_t high; /* safetensors: the length of its header before it, never 4 GiB */
        memcpy(&high, s + 4, sizeof high);
        if (high == 0 && s[3] == 0) return kinds[i].what;
    }
    return NULL;
}

/* What it is when it isn't text; NULL: text. */
static const char *verdict(const look *l, uint64_t *at) {
    const double seen = (double)l->seen;
    if (l->zero) {
        *at = l->first_zero;
        const bool wide =
            (double)l->zero > 0.3 * seen && (l->zero_odd == 0 || l->zero_odd == l->zero);
        return wide ? "text in UTF-16 (iconv -f UTF-16 -t UTF-8 converts it to UTF-8)"
                    : "binary data (it has a zero byte)";
    }
    if ((double)l->control > control_most * seen) {
        *at = l->first_control;
        return "binary data (it has control characters)";
    }
    *at = l->first_invalid;
    return (double)l->invalid > invalid_most * seen
               ? "binary data, or text in another encoding (iconv converts it to UTF-8)"
               : NULL;
}

static int refuse(const tool_text *t, uint64_t at, const char *what) {
    return tool_failed("%s is not plain text: at byte %llu it looks like %s%s%s", t->name,
                       (unsigned long long)at, what, t->way_out ? "; " : "",
                       t->way_out ? t->way_out : "");
}

static int look_through(const tool_text *t, int fd, uint64_t bytes) {
    unsigned char piece[PIECE];
    look l = {.seen = 0};
    uint64_t at = 0;
    const uint64_t spread = bytes / PIECES & ~(uint64_t)(PIECE - 1);
    const uint64_t step = spread > PIECE ? spread : PIECE;
    for (uint64_t place = 0; place < bytes; place += step) {
        const ssize_t n = pread(fd, piece, sizeof piece, (off_t)place);
        if (n <= 0) break; /* whoever reads it all says why */
        const char *kind = place == 0 ? kind_of(piece, (size_t)n, &at) : NULL;
        if (kind) return refuse(t, at, kind);
        look_at(&l, piece, (size_t)n, place);
    }
    const char *what = verdict(&l, &at);
    if (what) return refuse(t, at, what);
    if (l.invalid && !t->quiet)
        tool_message("warning: %s is not valid UTF-8 at byte %llu and is used unchanged; if it is "
                     "in another encoding such as Latin-1, iconv converts it to UTF-8",
                     t->name, (unsigned long long)at);
    return TOOL_OK;
}

int tool_text_check(const tool_text *t) {
    struct stat about;
    const int fd = open(t->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return TOOL_OK;
    int code = TOOL_OK;
    const bool regular = fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
    if (regular && about.st_size == 0 && t->alone)
        code = tool_failed("the file %s is empty: give a file that has text", t->name);
    else if (regular)
        code = look_through(t, fd, (uint64_t)about.st_size);
    close(fd);
    return code;
}
