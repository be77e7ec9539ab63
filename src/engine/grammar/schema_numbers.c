/* schema_numbers.c: numbers between bounds, digit by digit.
 *
 * Whole numbers between two of as many digits: either the first digit is the lower bound's and the
 * rest is at least its rest, or it lies between and the rest is free, or it is the upper bound's.
 * A number with a fraction lies strictly between two whole ones, since its last digit isn't 0; so
 * whole bounds are enough, whether they are exclusive or not. It has at most 9 digits before the
 * point and 6 behind it, which doubles tell apart. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "engine/grammar/schema_private.h"

enum { DIGITS_MAX = 18 };
#define WHOLE_MAX INT64_C(999999999999999999) /* of DIGITS_MAX digits */
#define PART_MAX  INT64_C(999999999)          /* before a point */

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

/* As many digits as a bound has, of a number at least (or at most) as large. */
static void put_bounded(mnem__draft *d, const char *bound, bool least) {
    const uint32_t rest = (uint32_t)strlen(bound + 1);
    const char low = least ? (char)(*bound + 1) : '0', high = least ? '9' : (char)(*bound - 1);
    if (rest == 0) {
        put_digits(d, least ? *bound : '0', least ? '9' : *bound);
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
        while (end < low) end = end * 10 + 9;
        if (end > high) end = high;
        snprintf(first, sizeof first, "%" PRId64, low);
        snprintf(last, sizeof last, "%" PRId64, end);
        if (more) mnem__draft_other(d, &choice);
        put_between(d, first, last);
        low = end + 1;
    }
    mnem__draft_chosen(d, &choice);
}

static void put_fraction(mnem__draft *d) {
    mnem__draft_text(d, ".", 1);
    const uint32_t item = mnem__draft_item(d);
    put_digits(d, '0', '9');
    mnem__draft_repeat(d, item, 0, 5);
    put_digits(d, '1', '9');
}

/* ---- the cases ---- */

/* Whole numbers in [low, high], and numbers with a fraction in [part_low, part_high]. */
typedef struct bounds {
    int64_t low, high, part_low, part_high;
} bounds;

static int64_t clamped(double number) {
    if (number > (double)WHOLE_MAX) return WHOLE_MAX + 1;
    if (number < -(double)WHOLE_MAX) return -WHOLE_MAX - 1;
    return (int64_t)number;
}

/* The word's number; exactly, where it is a whole one. */
static int64_t bound_of(const mnem__node *node, bool up) {
    if (node->is_integer && node->integer <= WHOLE_MAX && node->integer >= -WHOLE_MAX)
        return node->integer;
    return clamped(up ? ceil(node->number) : floor(node->number));
}

static bool is_whole(const mnem__node *node) {
    return node->is_integer || node->number == floor(node->number);
}

static bool check_number(mnem__schema *s, mnem__schema_word word) {
    const mnem__node *node = s->word[word];
    if (!node || (node->kind == MNEM__JSON_NUMBER && isfinite(node->number))) return true;
    return mnem__schema_bad(s, "a bound is no number");
}

static bool read_bounds(mnem__schema *s, bounds *b) {
    *b = (bounds){-WHOLE_MAX, WHOLE_MAX, -PART_MAX - 1, PART_MAX + 1};
    for (int w = MNEM__WORD_MINIMUM; w <= MNEM__WORD_BELOW; w++)
        if (!check_number(s, (mnem__schema_word)w)) return false;
    const mnem__node *least = s->word[MNEM__WORD_MINIMUM], *most = s->word[MNEM__WORD_MAXIMUM];
    const mnem__node *above = s->word[MNEM__WORD_ABOVE], *below = s->word[MNEM__WORD_BELOW];
    const int64_t low[] = {least ? bound_of(least, true) : b->low,
                           above ? bound_of(above, true) + is_whole(above) : b->low};
    const int64_t high[] = {most ? bound_of(most, false) : b->high,
                            below ? bound_of(below, false) - is_whole(below) : b->high};
    const int64_t part_low[] = {least ? low[0] : b->part_low,
                                above ? bound_of(above, true) : b->part_low};
    const int64_t part_high[] = {most ? high[0] : b->part_high,
                                 below ? bound_of(below, false) : b->part_high};
    for (int i = 0; i < 2; i++) {
        if (low[i] > b->low) b->low = low[i];
        if (high[i] < b->high) b->high = high[i];
        if (part_low[i] > b->part_low) b->part_low = part_low[i];
        if (part_high[i] < b->part_high) b->part_high = part_high[i];
    }
    return true;
}

/* A sign, digits in [low, high], and a fraction or none; one of several, where there are such. */
static bool put_case(mnem__schema *s, mnem__choice *choice, bool any, const char *sign, int64_t low,
                     int64_t high, bool fraction) {
    if (low > high) return any;
    if (any) mnem__draft_other(s->d, choice);
    mnem__schema_put(s, sign);
    put_unsigned(s->d, low, high);
    if (fraction) put_fraction(s->d);
    return true;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

bool mnem__schema_write_number(mnem__schema *s, bool whole) {
    bounds b;
    bool bounded = false;
    for (int w = MNEM__WORD_MINIMUM; w <= MNEM__WORD_BELOW; w++) bounded |= s->word[w] != NULL;
    if (!bounded) {
        mnem__schema_call(s, whole ? MNEM__RULE_INTEGER : MNEM__RULE_NUMBER);
        return mnem__schema_is_fine(s);
    }
    if (!read_bounds(s, &b)) return false;
    mnem__choice choice = mnem__draft_choose(s->d);
    bool any = put_case(s, &choice, false, "", larger(b.low, 0), b.high, false);
    any = put_case(s, &choice, any, "-", larger(-b.high, 1), -b.low, false);
    if (!whole) {
        any = put_case(s, &choice, any, "", larger(b.part_low, 0), b.part_high - 1, true);
        any = put_case(s, &choice, any, "-", larger(-b.part_high, 0), -b.part_low - 1, true);
    }
    mnem__draft_chosen(s->d, &choice);
    if (!any)
        return mnem__schema_fail(s, MNEM_UNSUPPORTED,
                                 "no number that is written here lies between "
                                 "its bounds");
    return mnem__schema_is_fine(s);
}
