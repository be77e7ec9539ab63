/* schema_numbers.c: numbers between bounds, digit by digit.
 *
 * A whole number between two of as many digits has the first digit of the lower bound and a rest of
 * at least its rest, or a first digit between those of the bounds and any rest, or the first digit
 * of the upper bound and a rest of at most its rest. Digits that are free are written once for all
 * cases, by their number.
 * Numbers with a point or an exponent: schema_decimals.c. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sampling/grammar/schema/schema_language.h"

enum { DIGITS_MAX = 20, LANDINGS = 8 };
_Static_assert(sizeof "18446744073709551615" == DIGITS_MAX + 1, "the digits of UINT64_MAX");
#define POINTLESS_MAX UINT64_C(9999999999999999999) /* of numbers: 19 digits, without a bound */

/* Jumps that lead to the free digits, by how many are left. Those of one number of digits come from
 * the lengths between the bounds (one), and from the lower and the upper bound (up to two each). */
typedef struct writer {
    mnem__draft *d;
    uint32_t at[DIGITS_MAX + 1][LANDINGS], count[DIGITS_MAX + 1];
} writer;

static void lead(writer *w, size_t left) {
    if (w->count[left] < LANDINGS) w->at[left][w->count[left]++] = mnem__draft_jump(w->d);
}

static void put_digit(writer *w, char low, char high) {
    const mnem__range range = {(uint8_t)low, (uint8_t)high};
    mnem__draft_class(w->d, &range, 1);
}

static bool is_all(const char *digits, char digit) {
    while (*digits == digit) digits++;
    return *digits == 0;
}

/* n digits, at least low's and at most high's; NULL: not bounded. Recursive, up to DIGITS_MAX. */
static void walk(writer *w, size_t n, const char *low, const char *high) {
    if (low && is_all(low, '0')) low = NULL;
    if (high && is_all(high, '9')) high = NULL;
    if (!low && !high) {
        lead(w, n);
        return;
    }
    const char first = low ? *low : '0', last = high ? *high : '9';
    if (low && high && first == last) {
        mnem__draft_text(w->d, &first, 1);
        walk(w, n - 1, low + 1, high + 1);
        return;
    }
    const bool above = low && !is_all(low + 1, '0'), below = high && !is_all(high + 1, '9');
    const char from = (char)(first + above), to = (char)(last - below);
    if (above) {
        const bool more = from <= to || below;
        const uint32_t split = more ? mnem__draft_split(w->d) : 0;
        mnem__draft_text(w->d, &first, 1);
        walk(w, n - 1, low + 1, NULL);
        if (more) mnem__draft_land(w->d, split);
    }
    if (from <= to) {
        const uint32_t split = below ? mnem__draft_split(w->d) : 0;
        put_digit(w, from, to);
        lead(w, n - 1);
        if (below) mnem__draft_land(w->d, split);
    }
    if (!below) return;
    mnem__draft_text(w->d, &last, 1);
    walk(w, n - 1, NULL, high + 1);
}

static void put_free(writer *w) {
    size_t left = DIGITS_MAX;
    while (left && w->count[left] == 0) left--;
    for (;; left--) {
        for (uint32_t i = 0; i < w->count[left]; i++) mnem__draft_land(w->d, w->at[left][i]);
        if (left == 0) return;
        put_digit(w, '0', '9');
    }
}

/* low <= high. */
static void put_unsigned(mnem__draft *d, uint64_t low, uint64_t high) {
    writer w = {.d = d};
    char first[DIGITS_MAX + 1], last[DIGITS_MAX + 1];
    for (bool more = true; more;) {
        uint64_t end = 9; /* the largest with as many digits as low */
        while (end < low && end < UINT64_MAX / 10) end = end * 10 + 9;
        if (end < low || end > high) end = high;
        const int digits = snprintf(first, sizeof first, "%" PRIu64, low);
        snprintf(last, sizeof last, "%" PRIu64, end);
        more = end < high;
        const uint32_t split = more ? mnem__draft_split(d) : 0;
        walk(&w, (size_t)digits, first, last);
        if (more) mnem__draft_land(d, split);
        low = end + 1;
    }
    put_free(&w);
}

/* ---- bounds ---- */

/* Whole numbers up to 64 bits and a sign; beyond: of a larger magnitude. Zero has no sign. */
typedef struct whole {
    uint64_t size;
    bool minus, beyond;
} whole;

static whole whole_of(uint64_t size, bool minus) {
    return (whole){.size = size, .minus = minus && size > 0};
}

static whole beyond(bool minus) {
    return (whole){.size = UINT64_MAX, .minus = minus, .beyond = true};
}

static bool is_less(whole a, whole b) {
    if (a.minus != b.minus) return a.minus;
    if (a.beyond || b.beyond) return a.minus ? a.beyond && !b.beyond : b.beyond && !a.beyond;
    return a.minus ? a.size > b.size : a.size < b.size;
}

static whole next(whole a, bool up) {
    if (a.beyond) return a;
    if (a.minus == up && a.size > 0) return whole_of(a.size - 1, a.minus);
    return a.size == UINT64_MAX ? beyond(a.minus) : whole_of(a.size + 1, !up);
}

static whole whole_of_digits(const char *digits) {
    const bool minus = *digits == '-';
    uint64_t size = 0;
    for (const char *at = digits + minus; *at; at++) {
        const uint64_t digit = (uint64_t)(*at - '0');
        if (size > (UINT64_MAX - digit) / 10) return beyond(minus);
        size = size * 10 + digit;
    }
    return whole_of(size, minus);
}

/* The next whole number within a bound; exactly, where the bound is a whole one. */
static whole bound_of(const mnem__node *node, bool up, bool open) {
    const double rounded = up ? ceil(node->number) : floor(node->number), size = fabs(rounded);
    const bool exact = node->is_integer || node->digits || rounded == node->number;
    whole bound = size < 0x1p64 ? whole_of((uint64_t)size, rounded < 0) : beyond(rounded < 0);
    if (node->is_integer)
        bound = whole_of(node->integer < 0 ? -(uint64_t)node->integer : (uint64_t)node->integer,
                         node->integer < 0);
    if (node->digits) bound = whole_of_digits(node->digits);
    return open && exact ? next(bound, up) : bound;
}

static bool check_number(mnem__schema *s, mnem__schema_word word) {
    const mnem__node *node = s->word[word];
    if (!node || (node->kind == MNEM__JSON_NUMBER && isfinite(node->number))) return true;
    return mnem__schema_fail(s, MNEM_BAD_FILE, "\"%s\" must be a finite number",
                             mnem__schema_words[word]);
}

/* Whole numbers in [low, high]. */
typedef struct bounds {
    whole low, high;
} bounds;

static bool is_unsigned(const mnem__schema *s) {
    for (uint32_t i = 0; i < s->all->count; i++) {
        const mnem__node *format = mnem__schema_says(s, s->all->part[i].node, MNEM__WORD_FORMAT);
        if (mnem__node_is(format, "uint64") || mnem__node_is(format, "uint")) return true;
    }
    return false;
}

/* What is written where no bound says otherwise: integers that typed readers take. */
static bounds widest(const mnem__schema *s, bool integer) {
    if (!integer) return (bounds){whole_of(POINTLESS_MAX, true), whole_of(POINTLESS_MAX, false)};
    return (bounds){whole_of(UINT64_C(1) << 63, true),
                    whole_of(is_unsigned(s) ? UINT64_MAX : INT64_MAX, false)};
}

static bool read_bounds(mnem__schema *s, bool integer, bounds *b) {
    const bounds wide = widest(s, integer);
    bool any[2] = {false, false};
    *b = wide;
    for (int w = MNEM__WORD_MINIMUM; w <= MNEM__WORD_BELOW; w++) {
        const mnem__node *node = s->word[w];
        if (!check_number(s, (mnem__schema_word)w)) return false;
        if (!node) continue;
        const bool up = w == MNEM__WORD_MINIMUM || w == MNEM__WORD_ABOVE;
        const whole bound = bound_of(node, up, w >= MNEM__WORD_ABOVE);
        whole *side = up ? &b->low : &b->high;
        if (!any[up] || (up ? is_less(*side, bound) : is_less(bound, *side))) *side = bound;
        any[up] = true;
    }
    if (!any[0] && is_less(wide.high, b->low)) b->high = beyond(false);
    if (!any[1] && is_less(b->high, wide.low)) b->low = beyond(true);
    return true;
}

/* A sign and digits in [low, high]; one of several cases, where there are such. */
static bool put_case(mnem__schema *s, mnem__choice *choice, bool any, const char *sign,
                     uint64_t low, uint64_t high) {
    if (low > high) return any;
    if (any) mnem__draft_other(s->d, choice);
    mnem__schema_put(s, sign);
    put_unsigned(s->d, low, high);
    return true;
}

static bool put_wholes(mnem__schema *s, mnem__choice *choice, const bounds *b,
                       uint64_t minus_least) {
    bool any = false;
    if (!b->high.minus && !(b->low.beyond && !b->low.minus))
        any = put_case(s, choice, any, "", b->low.minus ? 0 : b->low.size, b->high.size);
    if (b->low.minus && !(b->high.beyond && b->high.minus))
        any =
            put_case(s, choice, any, "-", b->high.minus ? b->high.size : minus_least, b->low.size);
    return any;
}

static bool put_numbers(mnem__schema *s, bool integer) {
    bounds b;
    if (!read_bounds(s, integer, &b)) return false;
    mnem__choice choice = mnem__draft_choose(s->d);
    bool any = put_wholes(s, &choice, &b, 1);
    if (!integer) any = mnem__schema_put_decimals(s, &choice, any);
    if (!any) mnem__schema_put_never(s);
    mnem__draft_chosen(s->d, &choice);
    return mnem__schema_is_fine(s);
}

/* Without bounds; -0 is a way to write 0. */
static bool put_integers(mnem__schema *s) {
    const bounds b = widest(s, true);
    mnem__choice choice = mnem__draft_choose(s->d);
    put_wholes(s, &choice, &b, 0);
    mnem__draft_chosen(s->d, &choice);
    return mnem__schema_is_fine(s);
}

/* What multiples may be compared with: numbers without an exponent. */
static bool add_plain(mnem__schema *s, mnem__language *l) {
    if (!mnem__language_next(l, true)) return false;
    const uint32_t item = mnem__draft_item(s->d);
    mnem__draft_letters(s->d, "--..09");
    mnem__draft_repeat(s->d, item, 1, MNEM__ENDLESS);
    return true;
}

/* Numbers between the bounds that are multiples of what each part says, or aren't. */
static bool add_multiples(mnem__schema *s, mnem__language *l, bool integer) {
    const mnem__node *first = s->word[MNEM__WORD_MULTIPLE_OF];
    const bool not = s->word[MNEM__WORD_NOT_MULTIPLE];
    const bool zeros = !integer && !not &&first->is_integer; /* of a whole number only whole ones */
    if (!mnem__language_next(l, true) || !put_numbers(s, integer || zeros)) return false;
    if (zeros) {
        const uint32_t split = mnem__draft_split(s->d);
        mnem__schema_put(s, ".");
        const uint32_t item = mnem__draft_item(s->d);
        mnem__schema_put(s, "0");
        mnem__draft_repeat(s->d, item, 1, 7);
        mnem__draft_land(s->d, split);
    }
    if (not &&!integer && !add_plain(s, l)) return false;
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

static const char too_large[] =
    "\"multipleOf\" is too large for numbers of so many digits (up to 19 without bounds); set "
    "\"minimum\" and \"maximum\" for fewer digits, or use a \"multipleOf\" that is smaller or ends "
    "in zeros";

static bool write_multiples(mnem__schema *s, bool integer) {
    bool any;
    mnem__language *l = mnem__language_open(s);
    if (!l) return false;
    const bool fine = add_multiples(s, l, integer) && mnem__language_write(l, too_large, &any);
    mnem__language_close(l);
    return fine && mnem__schema_is_fine(s);
}

bool mnem__schema_write_number(mnem__schema *s, bool integer) {
    bool bounded = false;
    if (s->word[MNEM__WORD_MULTIPLE_OF] || s->word[MNEM__WORD_NOT_MULTIPLE])
        return write_multiples(s, integer);
    for (int w = MNEM__WORD_MINIMUM; w <= MNEM__WORD_BELOW; w++) bounded |= s->word[w] != NULL;
    if (bounded) return put_numbers(s, integer);
    if (integer) return put_integers(s);
    mnem__schema_call(s, MNEM__RULE_NUMBER);
    return mnem__schema_is_fine(s);
}
