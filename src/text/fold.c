/* fold.c: classes, bases and lower case of characters, from tables of runs.
 *
 * The idea: characters of one class, and those with a common rule, mostly follow each other, so
 * that a table holds where runs begin; the last run that begins at or before a character is it.
 * Hangul syllables decompose by a rule.
 * Cost: O(log runs), at most 12 steps. */
#include "text/fold.h"

#include <stdbool.h>

#include "text/fold_tables.h"

enum {
    HANGUL_FIRST = 0xAC00,
    HANGUL_LAST = 0xD7A3,
    HANGUL_OF_ONE = 588, /* syllables that begin with the same consonant */
    CONSONANT_FIRST = 0x1100
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* Where the run of number i begins. */
typedef uint32_t run_start(size_t i);

static uint32_t class_start(size_t i) {
    return class_starts[i] >> 3;
}

static uint32_t base_start(size_t i) {
    return base_runs[i][0] >> 4;
}

static uint32_t lower_start(size_t i) {
    return lower_runs[i].first;
}

/* The last run that doesn't begin after code; the first if all do. */
static size_t run_of(uint32_t code, run_start *start, size_t count) {
    size_t low = 0, high = count;
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        if (start(middle) <= code)
            low = middle;
        else
            high = middle;
    }
    return low;
}

mnem__fold_class mnem__fold_class_of(uint32_t code) {
    return (mnem__fold_class)(class_starts[run_of(code, class_start, COUNT(class_starts))] & 7);
}

uint32_t mnem__fold_base(uint32_t code) {
    if (code >= HANGUL_FIRST && code <= HANGUL_LAST)
        return CONSONANT_FIRST + (code - HANGUL_FIRST) / HANGUL_OF_ONE;
    const uint32_t *run = base_runs[run_of(code, base_start, COUNT(base_runs))];
    return code - (run[0] >> 4) <= (run[0] & 15) ? run[1] : code;
}

uint32_t mnem__fold_lower(uint32_t code) {
    const lower_run *run = &lower_runs[run_of(code, lower_start, COUNT(lower_runs))];
    const bool in = code >= run->first && code <= run->last && (code - run->first) % run->step == 0;
    return in ? (uint32_t)((int32_t)code + run->difference) : code;
}
