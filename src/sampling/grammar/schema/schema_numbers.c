/* schema_numbers.c: numbers between bounds, digit by digit.
 *
 * Whole numbers between two of as many digits: either the first digit is the lower bound's and the
 * rest is at least its rest, or it lies between and the rest is free, or it is the upper bound's.
 * Numbers with a point or an exponent: schema_decimals.c. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "sampling/grammar/schema/schema_language.h"

enum { DIGITS_MAX = 19 };
#define WHOLE_MAX INT64_C(1000000000000000000) /* of DIGITS_MAX digits */

static void put_digits(mnem__draft *d, char low, char high) {
    const mnem__range range = {(uint8_t)low, (uint8_t)high};
    if (low <= high) mnem__draft_class(d, &range, 1);
}

static void put_free(mnem__draft *d, uint32_t n) {
    if (n == 0) return;
    const uint32_t item = mnem__draft_item(d);
    put_digits(d, '0', '9');
    mnem__draft_repeat(d, item, n, n);
}

static bool is_all(const char *digits, char digit) {
    while (*digits == digit) digits++;
    return *digits == 0;
}

/* As many digits as a bound has, of a number at least (or at most) as large. */
static void put_bounded(mnem__draft *d, const char *bound, bool least) {
    const uint32_t rest = (uint32_t)strlen(bound + 1);
    const char low = least ? (char)(*bound + 1) : '0', high = least ? '9' : (char)(*bound - 1);
    if (strspn(bound, least ? "0" : "9") == rest + 1) { /* any digits will do */
        put_free(d, rest + 1);
        return;
    }
    if (rest == 0) {
        put_digits(d, least ? *bound : '0', least ? '9' : *bound);
        return;
    }
    if (is_all(bound, least ? '0' : '9')) {
        put_free(d, rest + 1);
        return;
    }
    mnem__choice choice = mnem__draft_choose(d);
    mnem__draft_text(d, bound, 1);
    put_bounded(d, bound + 1, least);
    if (low <= high) {
        mnem__draft_other(d, &choice);
        put_digits(d, low, high);
        put_free(d, rest);
    }
    mnem__draft_chosen(d, &choice);
}

/* low and high have as many digits. */
static void put_between(mnem__draft *d, const char *low, const char *high) {
    while (*low && *low == *high) {
        mnem__draft_text(d, low++, 1);
        high++;
    }
    if (!*low) return;
    const uint32_t rest = (uint32_t)strlen(low + 1);
    if (rest == 0) {
        put_digits(d, *low, *high);
        return;
    }
    if (is_all(low + 1, '0') && is_all(high + 1, '9')) {
        put_digits(d, *low, *high);
        put_free(d, rest);
        return;
    }
    mnem__choice choice = mnem__draft_choose(d);
    mnem__draft_text(d, low, 1);
    put_bounded(d, low + 1, true);
    if (*high - *low > 1) {
        mnem__draft_other(d, &choice);
        put_digits(d, (char)(*low + 1), (char)(*high - 1));
        put_free(d, rest);
    }
    mnem__draft_other(d, &choice);
    mnem__draft_text(d, high, 1);
    put_bounded(d, high + 1, false);
    mnem__draft_chosen(d, &choice);
}

/* 0 <= low <= high <= WHOLE_MAX. */
static void put_unsigned(mnem__draft *d, int64_t low, int64_t high) {
    char first[DIGITS_MAX + 2], last[DIGITS_MAX + 2];
    mnem__choice choice = mnem__draft_choose(d);
    for (bool more = false; low <= high; more = true) {
        int64_t end = 9;
        while (end < low && end < WHOLE_MAX / 10) end = end * 10 + 9;
        if (end < low) end = high;
        if (end > high) end = high;
        snprintf(first, sizeof first, "%" PRId64, low);
        snprintf(last, sizeof last, "%" PRId64, end);
        if (more) mnem__draft_other(d, &choice);
        put_between(d, first, last);
        low = end + 1;
    }
    mnem__draft_chosen(d, &choice);
}

/* ---- the cases ---- */

static int64_t clamped(double number) {
    if (number > (double)WHOLE_MAX) return WHOLE_MAX + 1;
    if (number < -(double)WHOLE_MAX) return -WHOLE_MAX - 1;
    return (int64_t)number;
}

/* The next whole number within a bound; exactly, where the bound is a whole one. */
static int64_t bound_of(const mnem__node *node, bool up, bool open) {
    const double number = up ? ceil(node->number) : floor(node->number);
    const bool exact =
        node->is_integer && node->integer <= WHOLE_MAX && node->integer >= -WHOLE_MAX;
    const int64_t whole = exact ? node->integer : clamped(number);
    if (!open || !(node->is_integer || node->number == number)) return whole;
    return up ? whole + 1 : whole - 1;
}

static bool check_number(mnem__schema *s, mnem__schema_word word) {
    const mnem__node *node = s->word[word];
    if (!node || (node->kind == MNEM__JSON_NUMBER && isfinite(node->number))) return true;
    return mnem__schema_bad(s, "a bound must be a finite number");
}

/* Whole numbers in [low, high]. */
typedef struct bounds {
    int64_t low, high;
} bounds;

static bool read_bounds(mnem__schema *s, bounds *b) {
    *b = (bounds){-WHOLE_MAX, WHOLE_MAX};
    for (int w = MNEM__WORD_MINIMUM; w <= MNEM__WORD_BELOW; w++) {
        const mnem__node *node = s->word[w];
        if (!check_number(s, (mnem__schema_word)w)) return false;
        if (!node) continue;
        const bool up = w == MNEM__WORD_MINIMUM || w == MNEM__WORD_ABOVE;
        const int64_t bound = bound_of(node, up, w >= MNEM__WORD_ABOVE);
        if (up && bound > b->low) b->low = bound;
        if (!up && bound < b->high) b->high = bound;
    }
    return true;
}

/* A sign and digits in [low, high]; one of several cases, where there are such. */
static bool put_case(mnem__schema *s, mnem__choice *choice, bool any, const char *sign, int64_t low,
                     int64_t high) {
    if (low > high) return any;
    if (any) mnem__draft_other(s->d, choice);
    mnem__schema_put(s, sign);
    put_unsigned(s->d, low, high);
    return true;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static bool put_numbers(mnem__schema *s, bool whole) {
    bounds b;
    if (!read_bounds(s, &b)) return false;
    mnem__choice choice = mnem__draft_choose(s->d);
    bool any = put_case(s, &choice, false, "", larger(b.low, 0), b.high);
    any = put_case(s, &choice, any, "-", larger(-b.high, 1), -b.low);
    if (!whole) any = mnem__schema_put_decimals(s, &choice, any);
    if (!any) mnem__schema_put_never(s);
    mnem__draft_chosen(s->d, &choice);
    return mnem__schema_is_fine(s);
}

/* Numbers between the bounds that are multiples of what each part says, or aren't; of the latter
 * only whole ones. */
static bool add_multiples(mnem__schema *s, mnem__language *l, bool whole) {
    const mnem__node *first = s->word[MNEM__WORD_MULTIPLE_OF];
    const bool not = s->word[MNEM__WORD_NOT_MULTIPLE];
    const bool zeros = !whole && !not &&first->is_integer; /* of a whole number only whole ones */
    if (!mnem__language_next(l, true) || !put_numbers(s, whole || zeros || not )) return false;
    if (zeros) {
        const uint32_t split = mnem__draft_split(s->d);
        mnem__schema_put(s, ".");
        const uint32_t item = mnem__draft_item(s->d);
        mnem__schema_put(s, "0");
        mnem__draft_repeat(s->d, item, 1, 7);
        mnem__draft_land(s->d, split);
    }
    for (uint32_t i = 0; i < s->all->count; i++) {
        for (int k = 0; k < 2; k++) {
            const mnem__schema_word word = k ? MNEM__WORD_NOT_MULTIPLE : MNEM__WORD_MULTIPLE_OF;
            const mnem__node *of = mnem__schema_says(s, s->all->part[i].node, word);
            if (!of) continue;
            if (!mnem__language_next(l, !k) || !mnem__schema_put_multiples(s, of)) return false;
        }
    }
    return true;
}

static bool write_multiples(mnem__schema *s, bool whole) {
    bool any;
    mnem__language *l = mnem__language_open(s);
    if (!l) return false;
    const bool fine = add_multiples(s, l, whole) && mnem__language_write(l, &any);
    mnem__language_close(l);
    return fine && mnem__schema_is_fine(s);
}

bool mnem__schema_write_number(mnem__schema *s, bool whole) {
    bool bounded = false;
    if (s->word[MNEM__WORD_MULTIPLE_OF] || s->word[MNEM__WORD_NOT_MULTIPLE])
        return write_multiples(s, whole);
    for (int w = MNEM__WORD_MINIMUM; w <= MNEM__WORD_BELOW; w++) bounded |= s->word[w] != NULL;
    if (bounded) return put_numbers(s, whole);
    mnem__schema_call(s, whole ? MNEM__RULE_INTEGER : MNEM__RULE_NUMBER);
    return mnem__schema_is_fine(s);
}
