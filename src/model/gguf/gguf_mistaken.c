/* gguf_mistaken.c: what a file that isn't GGUF seems to be, in words: people give downloads that
 * failed, archives, and the files of other formats. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "model/gguf/gguf_parse.h"

#define BEGINS(text)        text, sizeof text - 1
#define ARCHIVE(name, with) name " archive; unpack it with " with

static const struct {
    const char *begin;
    size_t n;
    const char *text;
} kinds[] = {
    {BEGINS("version https://git-lfs"),
     "a Git LFS pointer instead of the file; run git lfs pull to download it"},
    {BEGINS("PK\3\4"), "a zip archive, as PyTorch writes; get the model as GGUF or safetensors"},
    {BEGINS("\x1f\x8b"), ARCHIVE("a gzip", "gunzip or tar -xzf")},
    {BEGINS("\x28\xb5\x2f\xfd"), ARCHIVE("a Zstandard", "zstd -d")},
    {BEGINS("\xfd"
            "7zXZ"),
     ARCHIVE("an xz", "xz -d")},
    {BEGINS("BZh"), ARCHIVE("a bzip2", "bunzip2")},
    {BEGINS("7z\xbc\xaf\x27\x1c"), ARCHIVE("a 7z", "7z x")},
    {BEGINS("Rar!"), ARCHIVE("a RAR", "unrar x")},
    {BEGINS("\x89HDF"), "HDF5, as Keras writes; get the model as GGUF or safetensors"},
    {BEGINS("\x93NUMPY"), "an array of NumPy; get the model as GGUF or safetensors"},
    {BEGINS("\x7f"
            "ELF"),
     "a program or a library; give a model"},
    {BEGINS("%PDF"), "a PDF document; give a model"},
    {BEGINS("\x89PNG"), "a picture; give a model"},
    {BEGINS("lmgg"), "in a format older than GGUF (2023); download the model as GGUF"},
    {BEGINS("fmgg"), "in a format older than GGUF (2023); download the model as GGUF"},
    {BEGINS("tjgg"), "in a format older than GGUF (2023); download the model as GGUF"},
};

static size_t skip_blanks(const uint8_t *head, size_t n) {
    size_t at = n >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* a byte order mark */
    while (at < n && (head[at] == ' ' || (head[at] >= '\t' && head[at] <= '\r'))) at++;
    return at;
}

static bool begins(const uint8_t *head, size_t n, const char *word) {
    const size_t length = strlen(word);
    return n >= length && strncasecmp((const char *)head, word, length) == 0;
}

/* Eight bytes of a length, and then JSON. */
static bool is_safetensors(const uint8_t *head, size_t n) {
    return n >= 9 && head[8] == '{' && (head[0] | head[1] | head[2] | head[3]) &&
           !(head[4] | head[5] | head[6] | head[7]);
}

/* Protocols 2 to 5: their number is the second byte. */
static bool is_pickle(const uint8_t *head, size_t n) {
    return n >= 3 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5;
}

static bool is_zero(const uint8_t *head, size_t n) {
    size_t at = 0;
    while (at < n && !head[at]) at++;
    return at == n;
}

/* Letters of ASCII and UTF-8, whose first words are shown up to a line's end. */
static size_t text_length(const uint8_t *head, size_t n) {
    enum { SHOWN = 32, LOOKED_AT = 256 };
    size_t shown = 0;
    for (size_t i = 0; i < n && i < LOOKED_AT; i++) {
        if (head[i] < ' ' && !(head[i] >= '\t' && head[i] <= '\r')) return 0;
        if (head[i] == 0x7f || head[i] >= 0xf8) return 0;
    }
    while (shown < n && shown < SHOWN && head[shown] >= ' ' && head[shown] < 0x7f) shown++;
    return shown;
}

static const char *kind_of(const uint8_t *head, size_t n) {
    const size_t at = skip_blanks(head, n);
    const uint8_t *word = head + at;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (n >= kinds[i].n && memcmp(head, kinds[i].begin, kinds[i].n) == 0) return kinds[i].text;
    if (begins(word, n - at, "<!doctype") || begins(word, n - at, "<html") ||
        begins(word, n - at, "<head") || begins(word, n - at, "<?xml"))
        return "a web page, saved in place of the file; download it again";
    if (is_safetensors(head, n)) return "safetensors; give the folder that contains it";
    if (is_pickle(head, n))
        return "a pickle, as PyTorch's old .bin and .pt; get the model as safetensors or GGUF";
    if (is_zero(head, n)) return "zeros, since the download isn't complete; start it again";
    if (at < n && (*word == '{' || *word == '[') && text_length(word, n - at))
        return "JSON, such as an error message in place of the file, or a model's config.json; "
               "give the folder of a model, or download the file again";
    return NULL;
}

void mnem__gguf_mistaken(const uint8_t *head, uint32_t n, char text[MNEM__MISTAKEN_TEXT]) {
    const char *kind = kind_of(head, n);
    const size_t at = skip_blanks(head, n), shown = text_length(head + at, n - at);
    if (kind)
        snprintf(text, MNEM__MISTAKEN_TEXT, "%s", kind);
    else if (shown)
        snprintf(text, MNEM__MISTAKEN_TEXT, "a text that begins with \"%.*s\"; give a model",
                 (int)shown, (const char *)head + at);
    else
        snprintf(text, MNEM__MISTAKEN_TEXT,
                 "of a kind that isn't known (its first bytes are %02x %02x %02x %02x); get the "
                 "model as GGUF",
                 n > 0 ? head[0] : 0, n > 1 ? head[1] : 0, n > 2 ? head[2] : 0,
                 n > 3 ? head[3] : 0);
}
