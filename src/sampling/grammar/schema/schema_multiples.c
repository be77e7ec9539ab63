/* schema_multiples.c: multiples of a decimal number.
 *
 * Of a / 10^places: digits are read with the remainder of their division by a. A number of i digits
 * behind its point is a multiple if 10^(places - i) times its remainder is one of a; digits behind
 * the last place are zeros.
 * States that accept the same continuations are merged (Moore, 1956): 1000 needs 4 states for the
 * digits before the point, a number without the factors 2 and 5 as many as its value.
 * Cost: a * (places + 3) states before merging. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/heap.h"
#include "sampling/grammar/schema/schema_language.h"

enum { STATES_MAX = 6000, REMAINDERS_MAX = 1 << 16, PLACES_MAX = 9, BYTES = 11, NONE = -1 };

typedef struct divisor {
    uint32_t a;
    int places;
} divisor;

static bool refuse(mnem__schema *s, const mnem__node *of) {
    return mnem__schema_fail(s, MNEM_UNSUPPORTED,
                             "\"multipleOf\" is %g, which is too large or has too many digits; "
                             "use a smaller integer, or fewer digits, or leave it out",
                             of->number);
}

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
    if (a * (out->places + 3) > REMAINDERS_MAX || strtod(text, NULL) != of->number)
        return refuse(s, of);
    out->a = (uint32_t)a;
    return true;
}

/* ---- the automaton ----
 *
 * State layer * a + rest. Layers: 0: the digits before the point, 1: behind the point, i + 1:
 * behind i digits after it, places + 2: zeros behind the last place. */
static bool is_end(const divisor *by, uint32_t state) {
    const uint32_t layer = state / by->a;
    uint64_t left = state % by->a;
    if (layer == 1) return false; /* a point alone */
    for (int i = layer < 2 ? 0 : (int)layer - 1; i < by->places; i++) left = left * 10 % by->a;
    return left % by->a == 0;
}

/* The state behind a digit (0 to 9) or a point (10); NONE. */
static int32_t next_of(const divisor *by, uint32_t state, uint32_t byte) {
    const uint32_t layer = state / by->a, rest = state % by->a, last = (uint32_t)by->places + 1;
    if (byte == 10) return layer == 0 && (by->places || rest == 0) ? (int32_t)(by->a + rest) : NONE;
    if (layer >= last) return rest == 0 && byte == 0 ? (int32_t)((last + 1) * by->a) : NONE;
    return (int32_t)((layer ? layer + 1 : 0) * by->a + (rest * 10 + byte) % by->a);
}

/* States by class. After n rounds, states of a class accept the same texts of at most n bytes.
 * Classes are numbered in the order of their first states, so that class 0 has the start. */
typedef struct classes {
    divisor by;
    uint32_t states, count, slots;
    uint32_t *of, *first; /* [states] each */
    uint32_t *next;       /* [states]: the next round's */
    uint32_t *slot;       /* [slots]: a class of that hash + 1; 0: none */
} classes;

static uint32_t class_behind(const classes *c, uint32_t state, uint32_t byte) {
    const int32_t next = next_of(&c->by, state, byte);
    return next == NONE ? UINT32_MAX : c->of[next];
}

static bool are_alike(const classes *c, uint32_t a, uint32_t b) {
    bool alike = c->of[a] == c->of[b];
    for (uint32_t byte = 0; alike && byte < BYTES; byte++)
        alike = class_behind(c, a, byte) == class_behind(c, b, byte);
    return alike;
}

static uint32_t hash_of(const classes *c, uint32_t state) {
    uint64_t hash = c->of[state];
    for (uint32_t byte = 0; byte < BYTES; byte++)
        hash = (hash ^ class_behind(c, state, byte)) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(hash >> 32);
}

static void split_classes(classes *c) {
    uint32_t count = 0;
    memset(c->slot, 0, c->slots * sizeof *c->slot);
    for (uint32_t state = 0; state < c->states; state++) {
        uint32_t at = hash_of(c, state) & (c->slots - 1);
        while (c->slot[at] && !are_alike(c, c->first[c->slot[at] - 1], state))
            at = (at + 1) & (c->slots - 1);
        if (!c->slot[at]) {
            c->first[count] = state;
            c->slot[at] = ++count;
        }
        c->next[state] = c->slot[at] - 1;
    }
    c->count = count;
    uint32_t *of = c->of;
    c->of = c->next;
    c->next = of;
}

/* The caller frees *block, which holds all arrays. */
static bool find_classes(mnem__schema *s, classes *c, void **block) {
    c->states = c->by.a * ((uint32_t)c->by.places + 3);
    for (c->slots = 16; c->slots < 2 * c->states;) c->slots *= 2;
    *block = mnem__calloc(MNEM__GRAMMAR_TAG, 3 * (size_t)c->states + c->slots, sizeof *c->of);
    if (!*block) return mnem__schema_no_memory(s);
    c->of = *block;
    c->first = c->of + c->states;
    c->next = c->first + c->states;
    c->slot = c->next + c->states;
    for (uint32_t state = 0; state < c->states; state++) c->of[state] = is_end(&c->by, state);
    uint32_t before;
    do {
        before = c->count;
        if (!mnem__schema_spend(s, 2 * (uint64_t)c->states)) return false;
        split_classes(c);
    } while (c->count > before);
    return true;
}

static void put_edges(mnem__schema *s, const classes *c, uint32_t from) {
    for (uint32_t byte = 0; byte < BYTES; byte++) {
        const uint32_t to = class_behind(c, c->first[from], byte);
        if (to == UINT32_MAX) continue;
        const char text = byte == 10 ? '.' : (char)('0' + byte);
        const int32_t far = 2 * ((int32_t)to - (int32_t)from) - 1;
        mnem__draft_edge_put(s->d, (mnem__edge){(uint8_t)text, (uint8_t)text, far});
    }
}

static void put_classes(mnem__schema *s, const classes *c) {
    const uint32_t base = s->d->nodes;
    for (uint32_t i = 0; i < c->count && s->d->status == MNEM_OK; i++) {
        const bool end = is_end(&c->by, c->first[i]);
        mnem__draft_node_put(s->d, end ? MNEM__DRAFT_SPLIT : MNEM__DRAFT_JUMP, 1, 0);
        const uint32_t edges = s->d->edges;
        const uint32_t bytes = mnem__draft_node_put(s->d, MNEM__DRAFT_BYTES, (int32_t)edges, 0);
        put_edges(s, c, i);
        if (s->d->status == MNEM_OK) s->d->node[bytes].y = (int32_t)(s->d->edges - edges);
    }
    for (uint32_t node = base; node < s->d->nodes && s->d->status == MNEM_OK; node += 2)
        if (s->d->node[node].op == MNEM__DRAFT_SPLIT)
            s->d->node[node].y = (int32_t)(s->d->nodes - node);
}

bool mnem__schema_put_multiples(mnem__schema *s, const mnem__node *of) {
    classes c = {.count = 0};
    void *block = NULL;
    if (!read_divisor(s, of, &c.by)) return false;
    bool fine = find_classes(s, &c, &block);
    if (fine && c.count > STATES_MAX) fine = refuse(s, of);
    if (fine) {
        const uint32_t split = mnem__draft_split(s->d);
        mnem__schema_put(s, "-");
        mnem__draft_land(s->d, split);
        put_classes(s, &c);
    }
    mnem__free(block);
    return fine && mnem__schema_is_fine(s);
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
    divisor by;
    int32_t state = 0;
    if (!read_divisor(s, of, &by) || !write_plain(s, value, &text)) return false;
    for (size_t i = *text.bytes == '-'; i < text.length && state != NONE; i++) {
        const char byte = text.bytes[i];
        state = next_of(&by, (uint32_t)state, byte == '.' ? 10 : (uint32_t)(byte - '0'));
    }
    return state != NONE && is_end(&by, (uint32_t)state);
}
