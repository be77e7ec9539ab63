/* option_near.c: what a misspelt option or verb is nearest to: the word with the fewest insertions,
 * deletions and replacements between (Levenshtein, 1966). */
#include <string.h>

#include "options.h"

/* The number of insertions, deletions and replacements between two short words. */
static int distance(const char *a, const char *b) {
    enum { LONGEST = 32 };
    size_t n = strlen(b);
    if (n >= LONGEST || strlen(a) >= LONGEST) return LONGEST;
    int row[LONGEST];
    for (size_t j = 0; j <= n; j++) row[j] = (int)j;
    for (size_t i = 0; a[i]; i++) {
        int diagonal = row[0];
        row[0] = (int)i + 1;
        for (size_t j = 0; j < n; j++) {
            int best = diagonal + (a[i] != b[j]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j + 1] + 1 < best) best = row[j + 1] + 1;
            diagonal = row[j + 1];
            row[j + 1] = best;
        }
    }
    return row[n];
}

/* A word that begins with the other is near, whatever its length ("mem", "memory"). */
static int unlikeness(const char *wrong, const char *right) {
    size_t n = strlen(wrong);
    if (n >= 3 && strncmp(wrong, right, n) == 0) return 0;
    return distance(wrong, right);
}

/* The unlikeness from which on a word isn't suggested: a short one would be like anything. */
static int farthest(const char *wrong) {
    return strlen(wrong) < 3 ? (int)strlen(wrong) : 3;
}

enum { NAME_BYTES = 40, ALIAS_LEAST = 5 };

/* The n-th other spelling of an option that is long enough to be misspelt ("np" is near any short
 * word); false: there are fewer. */
static bool get_alias(const tool_option *option, int n, char name[NAME_BYTES]) {
    for (const char *word = option->also; word && *word; word += strspn(word, " ")) {
        const size_t length = strcspn(word, " ");
        if (length >= ALIAS_LEAST && length < NAME_BYTES && n-- == 0) {
            snprintf(name, NAME_BYTES, "%.*s", (int)length, word);
            return true;
        }
        word += length;
    }
    return false;
}

/* The name, or the other spelling, that is nearest to a wrong word, below *least; NULL: none is.
 * Static storage. */
static const char *nearest_option(const tool_verb *verb, const char *wrong, int *least) {
    static char best[NAME_BYTES], name[NAME_BYTES];
    tool_option option;
    *best = 0;
    for (int i = 0; tool_option_get(verb, i, &option); i++) {
        snprintf(name, sizeof name, "%s", option.name);
        int n = 0;
        do {
            const int d = unlikeness(wrong, name);
            if (d < *least) *least = d, memcpy(best, name, sizeof best);
        } while (get_alias(&option, n++, name));
    }
    return *best ? best : NULL;
}

const char *tool_near_option(const tool_verb *verb, const char *wrong) {
    int least = farthest(wrong);
    return nearest_option(verb, wrong, &least);
}

bool tool_near_slip(const tool_verb *verb, const char *word) {
    int least = 2;
    return strlen(word) >= 4 && nearest_option(verb, word, &least);
}

const char *tool_near_verb(const char *wrong) {
    const char *best = NULL;
    int least = farthest(wrong);
    for (int i = 0; tool_verbs[i]; i++) {
        const int d = unlikeness(wrong, tool_verbs[i]->name);
        if (d < least) least = d, best = tool_verbs[i]->name;
    }
    return best;
}
