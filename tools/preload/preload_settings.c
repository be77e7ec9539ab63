/* preload_settings.c: what MNEM_TRACK (or mnem_track) asks for: "out=FILE,top=20,depth=32".
 *
 * Invariant: a text that is wrong anywhere says what is wrong, and what came before it stands. */
#include "preload.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

preload_settings preload_set = {.depth = 32, .top = 20};

typedef struct word {
    const char *key;
    char *text; /* one of these three */
    bool *flag;
    int *number;
    int most;
} word;

static const word words[] = {
    {.key = "out", .text = preload_set.out},
    {.key = "trace", .text = preload_set.trace},
    {.key = "depth", .number = &preload_set.depth, .most = PRELOAD_DEPTH_MAX},
    {.key = "top", .number = &preload_set.top, .most = 100000},
    {.key = "blocks", .flag = &preload_set.blocks},
    {.key = "children", .flag = &preload_set.children},
    {.key = "quiet", .flag = &preload_set.quiet},
};
enum { WORDS = sizeof words / sizeof words[0] };

static bool number_read(const char *text, size_t n, int most, int *number) {
    int value = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || value > most) return false;
        value = value * 10 + (text[i] - '0');
    }
    if (!n || value < 1 || value > most) return false;
    *number = value;
    return true;
}

static bool word_set(const word *w, const char *value, size_t n, char why[128]) {
    if (w->flag && !value) {
        *w->flag = true;
        return true;
    }
    if (w->number && value && number_read(value, n, w->most, w->number)) return true;
    if (w->text && value && n && n < sizeof preload_set.out) {
        memcpy(w->text, value, n);
        w->text[n] = 0;
        return true;
    }
    if (w->number)
        snprintf(why, 128, "%s needs a number from 1 to %d", w->key, w->most);
    else if (w->flag)
        snprintf(why, 128, "%s takes no value", w->key);
    else
        snprintf(why, 128, "%s needs a file name of at most 255 bytes", w->key);
    return false;
}

static bool one(const char *text, size_t n, char why[128]) {
    const char *equals = memchr(text, '=', n);
    const size_t key = equals ? (size_t)(equals - text) : n;
    for (int i = 0; i < WORDS; i++)
        if (strlen(words[i].key) == key && !memcmp(words[i].key, text, key))
            return word_set(&words[i], equals ? equals + 1 : NULL, equals ? n - key - 1 : 0, why);
    snprintf(why, 128, "\"%.*s\" is not one of out, trace, depth, top, blocks, children, quiet",
             (int)(key < 40 ? key : 40), text);
    return false;
}

bool preload_settings_read(const char *text, char why[128]) {
    while (*text) {
        const size_t n = strcspn(text, ",");
        if (n && !one(text, n, why)) return false;
        text += n + (text[n] == ',');
    }
    return true;
}

void preload_path(const char *pattern, char *path, size_t n) {
    const char *pid = strstr(pattern, "%p");
    if (pid)
        snprintf(path, n, "%.*s%d%s", (int)(pid - pattern), pattern, (int)getpid(), pid + 2);
    else
        snprintf(path, n, "%s", pattern);
}
