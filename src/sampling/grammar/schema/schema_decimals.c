/* schema_decimals.c: numbers with a point or an exponent, between decimal bounds.
 *
 * A number other than 0 is 0.ddd... * 10^power with a first digit that is not 0. For each power the
 * numbers between the bounds are an interval of PLACES digits, so that all of them are distinct as
 * doubles. Its digits are written with a point, with an exponent, or in both ways, as the
 * serialisers of Python and JavaScript do. Trailing zeros may be left out or added.
 * A power that the bounds do not cut is a rule that all numbers of a schema share. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "sampling/grammar/schema/schema_private.h"

enum {
    PLACES = 15,
    ZEROS = 7, /* that may be added: the one of "45.0" and six more */
    LANDINGS = 64,
    POWER_LEAST = -8, /* of 1e-9 */
    POWER_POINT = -5, /* the least that is written with a point: of 0.000001 */
    POWER_SMALL = -4, /* the largest that Python writes with a negative exponent */
    POWER_LARGE = 17, /* the least that Python writes with a positive one */
    DIGITS_READ = 22  /* of a whole bound of more than 64 bits, its sign among them */
};
_Static_assert(POWER_LEAST + MNEM__POWERS - 1 == 19, "1e18 has this power");

/* ---- the digits of one power ---- */

typedef struct landings {
    uint32_t at[LANDINGS], count;
} landings;

/* Jumps that lead to the digits behind the first i, which are free; to the end of the digits, no
 * point being written yet; to the same behind a point. point: the digits before it; -1: it is
 * written already. */
typedef struct writer {
    mnem__draft *d;
    int point;
    landings rest[PLACES + 1], whole, part;
} writer;

static void lead(landings *to, uint32_t jump) {
    if (to->count < LANDINGS) to->at[to->count++] = jump;
}

static void land(mnem__draft *d, const landings *from) {
    for (uint32_t i = 0; i < from->count; i++) mnem__draft_land(d, from->at[i]);
}

static void put_class(mnem__draft *d, char low, char high) {
    const mnem__range range = {(uint8_t)low, (uint8_t)high};
    mnem__draft_class(d, &range, 1);
}

/* The other digits may be left out, as they may be zeros. */
static void may_stop(writer *w, int i) {
    if (i < 1 || i < w->point) return;
    lead(i == w->point ? &w->whole : &w->part, mnem__draft_split(w->d));
}

static bool is_all(const char *digits, char digit) {
    while (*digits == digit) digits++;
    return *digits == 0;
}

/* Digits from the i-th on, at least low's and at most high's; NULL: not bounded. */
static void walk(writer *w, int i, const char *low, const char *high) {
    if (low && is_all(low + i, '0')) low = NULL;
    if (high && is_all(high + i, '9')) high = NULL;
    if (!low && !high) {
        lead(&w->rest[i], mnem__draft_jump(w->d));
        return;
    }
    if (!low) may_stop(w, i);
    if (i == w->point) mnem__draft_text(w->d, ".", 1);
    const char first = low ? low[i] : '0', last = high ? high[i] : '9';
    if (low && high && first == last) {
        mnem__draft_text(w->d, &first, 1);
        walk(w, i + 1, low, high);
        return;
    }
    const char from = (char)(first + (low != NULL)), to = (char)(last - (high != NULL));
    const bool between = from <= to;
    if (low) {
        const bool more = between || high;
        const uint32_t split = more ? mnem__draft_split(w->d) : 0;
        mnem__draft_text(w->d, &first, 1);
        walk(w, i + 1, low, NULL);
        if (more) mnem__draft_land(w->d, split);
    }
    if (between) {
        const uint32_t split = high ? mnem__draft_split(w->d) : 0;
        put_class(w->d, from, to);
        lead(&w->rest[i + 1], mnem__draft_jump(w->d));
        if (high) mnem__draft_land(w->d, split);
    }
    if (!high) return;
    mnem__draft_text(w->d, &last, 1);
    walk(w, i + 1, NULL, high);
}

/* The free digits, whatever number of them is left. */
static void put_rest(writer *w) {
    int i = 1;
    while (i < PLACES && w->rest[i].count == 0) i++;
    for (; i < PLACES; i++) {
        land(w->d, &w->rest[i]);
        may_stop(w, i);
        if (i == w->point) mnem__draft_text(w->d, ".", 1);
        put_class(w->d, '0', '9');
    }
    land(w->d, &w->rest[PLACES]);
    lead(PLACES == w->point ? &w->whole : &w->part, mnem__draft_jump(w->d));
}

/* Digits in [low, high]; `zeros` of them before a point that comes behind the digits. The exponent
 * is NULL where there is none; otherwise the point may be left out, too. */
static void put_form(mnem__draft *d, int point, uint32_t zeros, const char *low, const char *high,
                     const char *exponent) {
    writer w = {.d = d, .point = point};
    walk(&w, 0, low, high);
    put_rest(&w);
    land(d, &w.whole);
    for (uint32_t i = 0; i < zeros; i++) mnem__draft_text(d, "0", 1);
    const uint32_t split = exponent ? mnem__draft_split(d) : 0;
    mnem__draft_text(d, ".0", 2);
    land(d, &w.part);
    const uint32_t item = mnem__draft_item(d);
    mnem__draft_text(d, "0", 1);
    mnem__draft_repeat(d, item, 0, ZEROS);
    if (!exponent) return;
    mnem__draft_land(d, split);
    mnem__draft_text(d, exponent, strlen(exponent));
}

static void put_point(mnem__draft *d, int power, const char *low, const char *high) {
    if (power <= 0) {
        mnem__draft_text(d, "0.00000", (size_t)(2 - power));
        put_form(d, -1, 0, low, high, NULL);
    } else
        put_form(d, power < PLACES ? power : PLACES,
                 power > PLACES ? (uint32_t)(power - PLACES) : 0, low, high, NULL);
}

/* 1e-7 is JavaScript's, 1e-07 Python's. */
static void put_exponent(mnem__draft *d, int power, const char *low, const char *high) {
    char text[16];
    const int exponent = power - 1;
    if (exponent > 0) {
        snprintf(text, sizeof text, "e+%d", exponent);
        put_form(d, 1, 0, low, high, text);
        return;
    }
    put_form(d, 1, 0, low, high, "e-");
    const uint32_t split = mnem__draft_split(d);
    mnem__draft_text(d, "0", 1);
    mnem__draft_land(d, split);
    snprintf(text, sizeof text, "%d", -exponent);
    mnem__draft_text(d, text, strlen(text));
}

static void put_power(mnem__draft *d, int power, const char *low, const char *high) {
    const bool point = power >= POWER_POINT;
    const bool exponent = power <= POWER_SMALL || power >= POWER_LARGE;
    mnem__choice choice = mnem__draft_choose(d);
    if (point) put_point(d, power, low, high);
    if (point && exponent) mnem__draft_other(d, &choice);
    if (exponent) put_exponent(d, power, low, high);
    mnem__draft_chosen(d, &choice);
}

static const char digits_least[] = "100000000000000", digits_most[] = "999999999999999";

void mnem__schema_write_powers(mnem__schema *s) {
    for (int i = 0; i < MNEM__POWERS; i++) {
        if (!s->power[i]) continue;
        mnem__draft_begin(s->d, s->power[i]);
        put_power(s->d, POWER_LEAST + i, digits_least, digits_most);
        mnem__draft_end(s->d);
    }
}

/* ---- bounds ---- */

/* sign * 0.digits * 10^power; sign 0: zero. Without trailing zeros. */
typedef struct decimal {
    char digits[24];
    int power, sign;
    bool open; /* the bound itself lies outside */
} decimal;

/* The shortest text that reads as the number, as serialisers write it: what the schema says, where
 * it has at most 15 digits. */
static decimal decimal_of(const mnem__node *node, bool open) {
    char text[40];
    decimal out = {.open = open};
    int digits = 0;
    if (node->digits) /* the first ones will do: numbers that long lie beyond all powers */
        snprintf(text, sizeof text, "%.*s", DIGITS_READ, node->digits);
    else if (node->is_integer)
        snprintf(text, sizeof text, "%" PRId64, node->integer);
    else
        do {
            snprintf(text, sizeof text, "%.*e", digits, node->number);
        } while (strtod(text, NULL) != node->number && ++digits < 17);
    const char *at = text + (*text == '-'), *e = strchr(text, 'e');
    size_t n = 0;
    for (; *at && at != e; at++)
        if (*at != '.') out.digits[n++] = *at;
    out.power = e ? (int)strtol(e + 1, NULL, 10) + 1 : (int)n;
    if (node->digits) out.power = (int)strlen(node->digits) - (*text == '-');
    while (n && out.digits[n - 1] == '0') n--;
    out.digits[n] = 0;
    out.sign = n == 0 ? 0 : *text == '-' ? -1 : 1;
    return out;
}

static int compare(const decimal *a, const decimal *b) {
    if (a->sign != b->sign) return a->sign < b->sign ? -1 : 1;
    if (a->sign == 0) return 0;
    const int order =
        a->power != b->power ? (a->power < b->power ? -1 : 1) : strcmp(a->digits, b->digits);
    return order * a->sign;
}

/* The stricter of two bounds; NULL: there is none. */
static const decimal *stricter(const decimal *a, const decimal *b, int direction) {
    if (!a || !b) return a ? a : b;
    const int order = compare(a, b) * direction;
    if (order == 0) return a->open ? a : b;
    return order > 0 ? a : b;
}

/* The digits of a bound, and one more or less where the bound itself lies outside; false: there are
 * no such digits of its power. */
static bool round_digits(const decimal *bound, int step, char out[PLACES + 1]) {
    const size_t n = strlen(bound->digits);
    const bool cut = n > PLACES;
    for (size_t i = 0; i < PLACES; i++) out[i] = i < n ? bound->digits[i] : '0';
    out[PLACES] = 0;
    if (step > 0 ? !cut && !bound->open : cut || !bound->open) return true;
    const char end = step > 0 ? '9' : '0', begin = step > 0 ? '0' : '9';
    int i = PLACES - 1;
    for (; i >= 0 && out[i] == end; i--) out[i] = begin;
    if (i < 0) return false;
    out[i] = (char)(out[i] + step);
    return out[0] != '0';
}

/* Magnitudes of one power in [low, high]; false: there are none. */
static bool interval(const decimal *low, const decimal *high, int power, char first[PLACES + 1],
                     char last[PLACES + 1]) {
    memcpy(first, digits_least, PLACES + 1);
    memcpy(last, digits_most, PLACES + 1);
    if (low && (low->power > power || (low->power == power && !round_digits(low, 1, first))))
        return false;
    if (high && (high->power < power || (high->power == power && !round_digits(high, -1, last))))
        return false;
    return strcmp(first, last) <= 0;
}

/* ---- all numbers of a sign ---- */

static bool next_case(mnem__schema *s, mnem__choice *choice, bool any, const char *sign) {
    if (any) mnem__draft_other(s->d, choice);
    mnem__schema_put(s, sign);
    return true;
}

/* low and high are bounds of the magnitude; low NULL or of sign 0: all down to 0. */
static bool put_sign(mnem__schema *s, mnem__choice *choice, bool any, const char *sign,
                     const decimal *low, const decimal *high) {
    char first[PLACES + 1], last[PLACES + 1];
    for (int i = 0; i < MNEM__POWERS; i++) {
        if (!interval(low, high, POWER_LEAST + i, first, last)) continue;
        any = next_case(s, choice, any, sign);
        const bool cut = strcmp(first, digits_least) != 0 || strcmp(last, digits_most) != 0;
        if (cut || s->d->flat) {
            put_power(s->d, POWER_LEAST + i, first, last);
            continue;
        }
        if (!s->power[i]) s->power[i] = mnem__draft_rule(s->d);
        mnem__draft_call(s->d, s->power[i]);
    }
    return any;
}

static bool put_zero(mnem__schema *s, mnem__choice *choice, bool any) {
    any = next_case(s, choice, any, "");
    const uint32_t split = mnem__draft_split(s->d);
    mnem__schema_put(s, "-");
    mnem__draft_land(s->d, split);
    mnem__schema_put(s, "0.");
    const uint32_t item = mnem__draft_item(s->d);
    mnem__schema_put(s, "0");
    mnem__draft_repeat(s->d, item, 1, ZEROS);
    return any;
}

bool mnem__schema_put_decimals(mnem__schema *s, mnem__choice *choice, bool any) {
    decimal all[4];
    const decimal *bound[4];
    for (int i = 0; i < 4; i++) {
        const mnem__node *node = s->word[MNEM__WORD_MINIMUM + i];
        const bool open = i >= MNEM__WORD_ABOVE - MNEM__WORD_MINIMUM;
        bound[i] = node ? &all[i] : NULL;
        if (node) all[i] = decimal_of(node, open);
    }
    const decimal *low = stricter(bound[0], bound[2], 1), *high = stricter(bound[1], bound[3], -1);
    const bool above = !low || low->sign < 0 || (low->sign == 0 && !low->open);
    const bool below = !high || high->sign > 0 || (high->sign == 0 && !high->open);
    if (above && below) any = put_zero(s, choice, any);
    if (!high || high->sign > 0)
        any = put_sign(s, choice, any, "", low && low->sign > 0 ? low : NULL, high);
    if (!low || low->sign < 0)
        any = put_sign(s, choice, any, "-", high && high->sign < 0 ? high : NULL, low);
    return any;
}
