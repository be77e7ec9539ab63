/* advice_table.c: the table of checks, and what they say of some facts, in order.
 *
 * The idea: a check is a row: a name, a condition, the facts that it needs, and a function of their
 * values. A check whose facts aren't known is silent, so that missing facts never lead to wrong
 * advice. */
#include "mnem/advice.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "sight/advice/checks.h"

static const mnem__check *const tables[] = {mnem__checks_plan, mnem__checks_run, mnem__checks_train,
                                            mnem__checks_memory};

const char *mnem_fact_text(mnem_fact fact) {
    static const char *const names[] = {
#define NAME(name, key) key,
        MNEM_FACT_LIST(NAME)
#undef NAME
    };
    return (unsigned)fact < MNEM_FACT_COUNT ? names[fact] : "?";
}

const char *mnem_sure_text(mnem_sure sure) {
    static const char *const names[] = {"computed", "likely", "perhaps"};
    return (unsigned)sure <= MNEM_SURE_PERHAPS ? names[sure] : "?";
}

void mnem_facts_set(mnem_facts *facts, mnem_fact fact, double value) {
    facts->value[fact] = isfinite(value) ? value : 0;
    facts->known[fact] = isfinite(value);
}

/* ---- what checks say ---- */

void mnem__say_evidence(const mnem__checking *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c->out->evidence, sizeof c->out->evidence, format, args);
    va_end(args);
}

void mnem__say_command(const mnem__checking *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c->out->command, sizeof c->out->command, format, args);
    va_end(args);
}

void mnem__say_options(const mnem__checking *c, const char *format, ...) {
    va_list args;
    const mnem_facts *f = c->facts;
    const size_t room = sizeof c->out->command;
    const int n = snprintf(c->out->command, room, "mnem %s%s%.100s ", *f->verb ? f->verb : "run",
                           *f->model ? " " : "", f->model);
    va_start(args, format);
    vsnprintf(c->out->command + n, room - (size_t)n, format, args);
    va_end(args);
}

bool mnem__say_gain(const mnem__checking *c, mnem_sure sure, double before, double after,
                    const char *unit, const char *by) {
    c->out->sure = sure;
    c->out->gain = (mnem_gain){before, after, unit, by};
    return true;
}

char *mnem__size(double bytes, char out[MNEM__SIZE]) {
    return mnem_size_format(bytes > 0 ? (uint64_t)bytes : 0, out, MNEM__SIZE);
}

char *mnem__budget(double bytes, char out[MNEM__SIZE]) {
    enum { SPARE = 32 << 10 }; /* a plan for another budget may differ by some pages */
    return mnem_size_budget((bytes > 0 ? (uint64_t)bytes : 0) + SPARE, out, MNEM__SIZE);
}

/* ---- all of them ---- */

static const mnem__check *row(int index) {
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (const mnem__check *k = tables[t]; k->about.name; k++)
            if (index-- == 0) return k;
    return NULL;
}

bool mnem_check_get(int index, mnem_check *check) {
    const mnem__check *k = row(index);
    if (k) *check = k->about;
    return k != NULL;
}

static bool speaks(const mnem__check *k, const mnem_facts *facts, mnem_advice *out) {
    *out = (mnem_advice){.check = k->about.name, .condition = k->about.condition};
    for (int i = 0; i < k->about.need_count; i++)
        if (!facts->known[k->about.needs[i]]) return false;
    const mnem__checking c = {facts, facts->value, out};
    return k->speaks(&c);
}

static int rank(const mnem_advice *a) {
    return (a->severe ? 0 : 3) + (int)a->sure;
}

int mnem_advice_make(const mnem_facts *facts, mnem_advice *advice, int most) {
    int count = 0;
    mnem_advice a;
    for (int i = 0; row(i); i++) {
        if (!speaks(row(i), facts, &a)) continue;
        const bool full = count == most;
        if (full && (most <= 0 || rank(&advice[most - 1]) <= rank(&a))) continue;
        int at = full ? most - 1 : count++;
        for (; at > 0 && rank(&advice[at - 1]) > rank(&a); at--) advice[at] = advice[at - 1];
        advice[at] = a;
    }
    return count;
}
