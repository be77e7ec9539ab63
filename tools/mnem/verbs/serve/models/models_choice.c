/* models_choice.c: see models_choice.h.
 *
 * models_share: a model grows by the least of (room - sum) / members over all sets that fit and
 * contain it. The possible sums of k models are kept as bits of a word of UNITS bits: adding a
 * model shifts the sums of the sets of k - 1 models by its size. Sizes are rounded down to units,
 * so that no set that fits is missed; one unit for each member is subtracted from the free bytes,
 * so that no model grows too much.
 * Cost: models^3 shifts of UNITS bits, a few milliseconds for 64 models. */
#include "verbs/serve/models/models_choice.h"

#include <string.h>

static bool is_in(uint64_t set, int i) {
    return set >> i & 1;
}

/* ---- which models are unloaded ---- */

static uint64_t pinned_beside(const models_fact *fact, int count, int but) {
    uint64_t bytes = 0;
    for (int i = 0; i < count; i++)
        if (i != but && fact[i].pinned) bytes += fact[i].bytes;
    return bytes;
}

static uint64_t bytes_less(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

static bool can_leave(const models_fact *f, bool overdue) {
    return f->loaded && !f->pinned && !f->leaving && !f->begins && (overdue || !f->busy);
}

/* The least recently used model outside the set, idle models before busy ones; -1: none. */
static int next_out(const models_fact *fact, int count, uint64_t set, bool overdue) {
    int found = -1;
    for (int i = 0; i < count; i++) {
        if (is_in(set, i) || !can_leave(&fact[i], overdue)) continue;
        const models_fact *f = &fact[i], *best = found < 0 ? NULL : &fact[found];
        if (!best || f->busy < best->busy || (f->busy == best->busy && f->used < best->used))
            found = i;
    }
    return found;
}

/* Removes models from the set while `spare` bytes allow it: busy ones first, then those that were
 * used last. */
static uint64_t without_needless(const models_fact *fact, int count, uint64_t set, uint64_t spare) {
    for (;;) {
        int found = -1;
        for (int i = 0; i < count; i++)
            if (is_in(set, i) && fact[i].bytes <= spare &&
                (found < 0 || fact[i].busy > fact[found].busy ||
                 (fact[i].busy == fact[found].busy && fact[i].used > fact[found].used)))
                found = i;
        if (found < 0) return set;
        set &= ~((uint64_t)1 << found);
        spare -= fact[found].bytes;
    }
}

/* *free: bytes that are free now; *coming: bytes of the models that are leaving. */
static void count_room(const models_fact *fact, int count, uint64_t room, uint64_t *free,
                       uint64_t *coming) {
    uint64_t used = 0;
    *coming = 0;
    for (int i = 0; i < count; i++) {
        if (fact[i].loaded || fact[i].pinned) used += fact[i].bytes;
        if (fact[i].loaded && fact[i].leaving) *coming += fact[i].bytes;
    }
    *free = bytes_less(room, used);
}

models_choice models_choose(const models_fact *fact, int count, int wanted, uint64_t room,
                            bool overdue) {
    models_choice c = {.room_bytes = bytes_less(room, pinned_beside(fact, count, wanted))};
    const uint64_t needed = fact[wanted].bytes;
    uint64_t free, coming;
    if (needed > c.room_bytes) {
        c.act = MODELS_NEVER;
        return c;
    }
    count_room(fact, count, room, &free, &coming);
    if (fact[wanted].pinned || needed <= free) {
        c.act = MODELS_LOAD;
        return c;
    }
    c.act = MODELS_WAIT;
    uint64_t there = free + coming;
    while (there < needed) {
        const int i = next_out(fact, count, c.who, overdue);
        if (i < 0) {
            c.who = 0;
            return c; /* too little even so: busy models have to end first */
        }
        c.who |= (uint64_t)1 << i;
        there += fact[i].bytes;
    }
    c.who = without_needless(fact, count, c.who, there - needed);
    if (c.who) c.act = MODELS_LEAVE;
    return c;
}

/* ---- the bytes of each model ---- */

enum { UNITS = 4096, WORDS = UNITS / 64 };

typedef struct sums {
    uint64_t bit[WORDS + 1]; /* sum s: bit s */
} sums;

/* Adds the sums of `from`, each increased by s, to `to`. */
static void add_shifted(sums *to, const sums *from, unsigned s) {
    const unsigned words = s / 64, bits = s % 64;
    for (unsigned i = WORDS + 1; i-- > words;) {
        uint64_t word = from->bit[i - words] << bits;
        if (bits && i > words) word |= from->bit[i - words - 1] >> (64 - bits);
        to->bit[i] |= word;
    }
}

/* The largest sum up to `most`; -1: there is none. */
static int largest(const sums *s, int most) {
    for (int i = most; i >= 0; i--)
        if (s->bit[i / 64] >> (i % 64) & 1) return i;
    return -1;
}

/* The bytes by which a model may grow. Each set of the search contains it, and the pinned ones. */
static uint64_t growth_of(const models_fact *fact, int count, int of, uint64_t room,
                          const int *units) {
    static sums made[MODELS_MOST + 1]; /* [k]: sums of k other models that aren't pinned */
    const uint64_t unit = (room + UNITS - 1) / UNITS;
    int fixed = units[of], members = 1, others = 0;
    uint64_t least = UINT64_MAX;
    memset(made, 0, sizeof made);
    made[0].bit[0] = 1;
    for (int i = 0; i < count; i++) {
        if (i == of) continue;
        if (fact[i].pinned) {
            fixed += units[i];
            members++;
            continue;
        }
        if (units[i] > UNITS) continue; /* it is larger than the room */
        for (int k = ++others; k > 0; k--) add_shifted(&made[k], &made[k - 1], (unsigned)units[i]);
    }
    for (int k = 0; k <= others; k++) {
        const int sum = fixed > UNITS ? -1 : largest(&made[k], UNITS - fixed);
        if (sum < 0) continue;
        const uint64_t n = (uint64_t)(members + k);
        const uint64_t most = ((uint64_t)(fixed + sum) + n) * unit;
        const uint64_t each = bytes_less(room, most) / n;
        if (each < least) least = each;
    }
    return least == UINT64_MAX ? 0 : least;
}

void models_share(models_fact *fact, int count, uint64_t room) {
    int units[MODELS_MOST];
    uint64_t growth[MODELS_MOST];
    const uint64_t unit = (room + UNITS - 1) / UNITS;
    if (!unit) return;
    for (int i = 0; i < count; i++) {
        const uint64_t n = fact[i].bytes / unit;
        units[i] = n > UNITS ? UNITS + 1 : (int)n;
    }
    for (int i = 0; i < count; i++) growth[i] = growth_of(fact, count, i, room, units);
    uint64_t alone = 0; /* models that don't fit beside the pinned ones */
    for (int i = 0; i < count; i++)
        if (fact[i].bytes > bytes_less(room, pinned_beside(fact, count, i)))
            alone |= (uint64_t)1 << i;
    for (int i = 0; i < count; i++)
        if (!is_in(alone, i)) fact[i].bytes += growth[i];
    for (int i = 0; i < count; i++)
        if (is_in(alone, i)) fact[i].bytes = bytes_less(room, pinned_beside(fact, count, i));
}
