/* dataset_table.c: is a file a table (CSV, TSV)?
 *
 * By its name, or by a first line of column names of which two are those of data sets: prose has no
 * such line. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "dataset/dataset.h"

enum { LINE = 1024, NAME = 32, KNOWN = 2 };

static bool is_named(const char *path, const char *end) {
    const size_t n = strlen(path), m = strlen(end);
    return n > m && strcasecmp(path + n - m, end) == 0;
}

/* The first line, without a byte order mark. */
static bool read_line(const char *path, char line[LINE]) {
    FILE *file = fopen(path, "r");
    if (!file) return false;
    const bool read = fgets(line, LINE, file) != NULL;
    fclose(file);
    if (read && strncmp(line, "\xef\xbb\xbf", 3) == 0)
        memmove(line, line + 3, strlen(line + 3) + 1);
    return read && strchr(line, '\n');
}

static bool is_known(const char *name) {
    static const char *const known[] = {"prompt",   "completion", "instruction", "input",
                                        "output",   "response",   "question",    "answer",
                                        "messages", "text",       "label",       "system"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcasecmp(name, known[i]) == 0) return true;
    return false;
}

/* A column's name without quotes and spaces around it; false: it is none. */
static bool take_name(const char *s, size_t n, char name[NAME]) {
    while (n && strchr(" \"\r\n", s[n - 1])) n--;
    while (n && strchr(" \"", *s)) s++, n--;
    if (n >= NAME) return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr("_- .", s[i])) return false;
    memcpy(name, s, n);
    name[n] = 0;
    return true;
}

static bool has_columns(const char *line, char separator) {
    char name[NAME];
    int known = 0;
    for (const char *end; *line; line = end + (*end == separator)) {
        end = strchr(line, separator);
        if (!end) end = line + strlen(line);
        if (!take_name(line, (size_t)(end - line), name)) return false;
        known += is_known(name);
    }
    return known >= KNOWN;
}

bool dataset_is_table(const char *path, char *separator) {
    static const char separators[] = {',', '\t', ';'};
    char line[LINE];
    *separator = is_named(path, ".tsv") ? '\t' : ',';
    if (!read_line(path, line)) *line = 0;
    for (size_t i = 0; i < sizeof separators; i++) {
        if (!has_columns(line, separators[i])) continue;
        *separator = separators[i];
        return true;
    }
    return is_named(path, ".csv") || is_named(path, ".tsv");
}
