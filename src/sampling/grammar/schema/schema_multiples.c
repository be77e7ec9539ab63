/* schema_multiples.c: multiples of a decimal number.
 *
 * Of a / 10^places: digits are read with what they leave when divided by a. A number of i digits
 * behind its point is a multiple where 10^(places - i) times its rest is one of a; digits behind
 * the last place are zeros.
 * Cost: a * (places + 3) states. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sampling/grammar/schema/schema_language.h"

enum { STATES_MAX = 6000, PLACES_MAX = 9 };

typedef struct divisor {
    uint32_t a;
    int places;
} divisor;

static bool read_divisor(mnem__schema *s, const mnem__node *of, divisor *out) {
    double a = of->number;
    *out = (divisor){0, 0};
    if (of->kind != MNEM__JSON_NUMBER || !(a > 0))
        return mnem__schema_bad(s, "\"multipleOf\" must be a number above 0");
    char text[40];
    snprintf(text, sizeof text, "%.15g", of->number);
    while (out->places < PLACES_MAX && fabs(a - round(a)) > 1e-9 * a) {
        snprintf(text, sizeof text, "%.15ge%d", of->number, ++out->places);
        a = of->number * pow(10, out->places);
    }
    a = round(a);
    snprintf(text, sizeof text, "%.0fe-%d", a, out->places);
    if (a * (out->places + 3) > STATES_MAX || strtod(text, NULL) != of->number)
        return mnem__schema_fail(s, MNEM_UNSUPPORTED,
                                 "\"multipleOf\" is %g, which is too large or has too many digits; "
                                 "use a smaller integer, or fewer digits, or leave it out",
                                 of->number);
    out->a = (uint32_t)a;
    return true;
}

/* Layers of a states: the digits before the point, then for each number of places behind it. Layer
 * places + 2: zeros behind the last place. */
static bool is_end(const divisor *by, int layer, uint32_t rest) {
    if (layer == 1) return false; /* a point alone */
    uint64_t left = rest;
    for (int i = layer < 2 ? 0 : layer - 1; i < by->places; i++) left = left * 10 % by->a;
    return left % by->a == 0;
}

static void put_edge(mnem__schema *s, const divisor *by, uint32_t from, int layer, uint32_t rest,
                     char byte) {
    const uint32_t to = (uint32_t)layer * by->a + rest;
    const int32_t far = 2 * ((int32_t)to - (int32_t)from) - 1;
    mnem__draft_edge_put(s->d, (mnem__edge){(uint8_t)byte, (uint8_t)byte, far});
}

static int32_t put_edges(mnem__schema *s, const divisor *by, int layer, uint32_t rest) {
    const uint32_t from = (uint32_t)layer * by->a + rest;
    const int32_t edges = (int32_t)s->d->edges;
    const int last = by->places + 1;
    if (layer == 0 && (by->places || rest == 0)) put_edge(s, by, from, 1, rest, '.');
    if (layer >= last && rest) return 0;
    if (layer >= last)
        put_edge(s, by, from, last + 1, rest, '0');
    else
        for (uint32_t digit = 0; digit < 10; digit++)
            put_edge(s, by, from, layer ? layer + 1 : 0, (rest * 10 + digit) % by->a,
                     (char)('0' + digit));
    return (int32_t)s->d->edges - edges;
}

bool mnem__schema_put_multiples(mnem__schema *s, const mnem__node *of) {
    divisor by;
    if (!read_divisor(s, of, &by)) return false;
    const uint32_t split = mnem__draft_split(s->d);
    mnem__schema_put(s, "-");
    mnem__draft_land(s->d, split);
    const uint32_t base = s->d->nodes;
    for (int layer = 0; layer < by.places + 3; layer++)
        for (uint32_t rest = 0; rest < by.a && s->d->status == MNEM_OK; rest++) {
            const bool end = is_end(&by, layer, rest);
            mnem__draft_node_put(s->d, end ? MNEM__DRAFT_SPLIT : MNEM__DRAFT_JUMP, 1, 0);
            const uint32_t bytes =
                mnem__draft_node_put(s->d, MNEM__DRAFT_BYTES, (int32_t)s->d->edges, 0);
            const int32_t edges = put_edges(s, &by, layer, rest);
            if (s->d->status == MNEM_OK) s->d->node[bytes].y = edges;
        }
    for (uint32_t node = base; node < s->d->nodes && s->d->status == MNEM_OK; node += 2)
        if (s->d->node[node].op == MNEM__DRAFT_SPLIT)
            s->d->node[node].y = (int32_t)(s->d->nodes - node);
    return mnem__schema_is_fine(s);
}

/* A number as it is written, without its exponent. */
static bool write_plain(mnem__schema *s, const mnem__node *value, mnem_text *text) {
    if (!mnem__schema_written(s, value, text)) return false;
    const char *from = text->bytes, *e = memchr(from, 'e', text->length);
    if (!e) return true;
    const long power = strtol(e + 1, NULL, 10);
    const size_t zeros = (size_t)labs(power);
    char *bytes = mnem__arena_alloc(&s->arena, text->length + zeros + 3), *at = bytes;
    if (!bytes) return mnem__schema_no_memory(s);
    long point = power + 1; /* digits before it */
    if (*from == '-') *at++ = *from++;
    for (long i = point; power < 0 && i <= 0; i++) {
        *at++ = '0';
        if (i == point) *at++ = '.';
    }
    for (; from < e; from++) {
        if (*from == '.') continue;
        if (point-- == 0 && power >= 0) *at++ = '.';
        *at++ = *from;
    }
    for (; point > 0; point--) *at++ = '0';
    *text = (mnem_text){bytes, (size_t)(at - bytes)};
    return true;
}

bool mnem__schema_is_multiple(mnem__schema *s, const mnem__node *of, const mnem__node *value) {
    mnem_text text;
    mnem__language *l = write_plain(s, value, &text) ? mnem__language_open(s) : NULL;
    if (!l) return false;
    const bool fine = mnem__language_next(l, true) && mnem__schema_put_multiples(s, of);
    const bool is =
        mnem__language_set_aside(l) && fine && mnem__language_has(l, text.bytes, text.length);
    mnem__language_close(l);
    return is;
}
