/* type_choice.c: a knapsack with one option of each item, by dynamic programming over bytes.
 *
 * Every item has its smallest option; what is left of the bytes is room for larger ones, counted in
 * units. least[u] is the least loss of the items so far with at most u units more than their
 * smallest options; an item's row keeps which option gave it, so that the choice is read back from
 * the end. Sizes of matrices have large common divisors, which is the unit where it is large enough
 * (then nothing is rounded). Otherwise differences are rounded up, and what that leaves over buys
 * single improvements.
 * Cost: items x units x options steps; a byte for each item and unit, at most 32 MiB, and two
 * doubles for each unit, at most 16 MiB. */
#include "model/convert/type_choice.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/heap.h"

enum { UNITS_MAX = 1 << 20, ROWS_BYTES = 32 << 20 };
static const char TAG[] = "quantize";

typedef struct table {
    mnem__choice *choice;
    uint32_t count;
    uint64_t units, unit; /* the room, in units of so many bytes */
    double *least, *before;
    uint8_t *row; /* [count, units + 1]: the option taken */
} table;

static int smallest(const mnem__choice *c) {
    int least = 0;
    for (int i = 1; i < c->options; i++)
        if (c->bytes[i] < c->bytes[least] ||
            (c->bytes[i] == c->bytes[least] && c->loss[i] < c->loss[least]))
            least = i;
    return least;
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static uint64_t extra_units(const table *t, const mnem__choice *c, int option) {
    return mnem__div_up(c->bytes[option] - c->bytes[smallest(c)], t->unit);
}

static void choose_unit(table *t, uint64_t room) {
    uint64_t common = 0, most = ROWS_BYTES / (t->count + 1), widest = 0;
    if (most > UNITS_MAX) most = UNITS_MAX;
    for (uint32_t i = 0; i < t->count; i++) {
        const mnem__choice *c = &t->choice[i];
        uint64_t largest = 0;
        for (int o = 0; o < c->options; o++) {
            const uint64_t extra = c->bytes[o] - c->bytes[smallest(c)];
            common = common_divisor(common, extra);
            largest = extra > largest ? extra : largest;
        }
        widest += largest;
    }
    if (room > widest) room = widest; /* more than the largest options of all is never used */
    t->unit = common ? common : 1;
    if (room / t->unit > most) t->unit = mnem__div_up(room, most);
    t->units = room / t->unit;
}

static void add_item(table *t, uint32_t item) {
    const mnem__choice *c = &t->choice[item];
    uint8_t *row = t->row + item * (t->units + 1);
    double *swap = t->before;
    t->before = t->least;
    t->least = swap;
    for (uint64_t u = 0; u <= t->units; u++) t->least[u] = INFINITY;
    for (int o = 0; o < c->options; o++) {
        const uint64_t extra = extra_units(t, c, o);
        for (uint64_t u = extra; u <= t->units; u++) {
            const double loss = t->before[u - extra] + c->loss[o];
            if (!(loss < t->least[u])) continue;
            t->least[u] = loss;
            row[u] = (uint8_t)o;
        }
    }
}

static uint64_t bytes_chosen(const table *t) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < t->count; i++) sum += t->choice[i].bytes[t->choice[i].chosen];
    return sum;
}

/* Takes the single change that helps most, while one fits. */
static void use_rest(table *t, uint64_t most_bytes) {
    for (;;) {
        const uint64_t rest = most_bytes - bytes_chosen(t);
        mnem__choice *best = NULL;
        int option = 0;
        double gain = 0;
        for (uint32_t i = 0; i < t->count; i++) {
            mnem__choice *c = &t->choice[i];
            for (int o = 0; o < c->options; o++) {
                const double gains = c->loss[c->chosen] - c->loss[o];
                if (gains <= gain || c->bytes[o] > c->bytes[c->chosen] + rest) continue;
                gain = gains;
                best = c;
                option = o;
            }
        }
        if (!best) return;
        best->chosen = option;
    }
}

static mnem_status fill_table(table *t) {
    const uint64_t cells = t->units + 1;
    t->least = mnem__calloc(TAG, cells, sizeof(double));
    if (t->least) t->before = mnem__calloc(TAG, cells, sizeof(double));
    if (t->before) t->row = mnem__calloc(TAG, t->count, cells);
    if (!t->row) return mnem__heap_status();
    for (uint32_t i = 0; i < t->count; i++) add_item(t, i);
    uint64_t left = t->units;
    for (uint32_t i = t->count; i-- > 0;) {
        mnem__choice *c = &t->choice[i];
        c->chosen = t->row[i * cells + left];
        left -= extra_units(t, c, c->chosen);
    }
    return MNEM_OK;
}

mnem_status mnem__choose(mnem__choice *choice, uint32_t count, uint64_t most_bytes) {
    table t = {.choice = choice, .count = count};
    uint64_t least = 0;
    for (uint32_t i = 0; i < count; i++) {
        choice[i].chosen = smallest(&choice[i]);
        least += choice[i].bytes[choice[i].chosen];
    }
    if (least > most_bytes)
        return mnem__fail(MNEM_OVER_BUDGET,
                          "target: even the smallest types need %llu bytes, %llu more than the "
                          "target; use a larger target",
                          (unsigned long long)least, (unsigned long long)(least - most_bytes));
    choose_unit(&t, most_bytes - least);
    const mnem_status status = fill_table(&t);
    if (status == MNEM_OK) use_rest(&t, most_bytes);
    mnem__free(t.least);
    mnem__free(t.before);
    mnem__free(t.row);
    return status;
}
