/* checks.h: a row of the table of checks, and what their functions share.
 *
 * A check's function sees the values of facts, all that it needs among them known. It answers
 * whether it speaks, and has filled in what it says then. */
#ifndef MNEM_SRC_SIGHT_ADVICE_CHECKS_H
#define MNEM_SRC_SIGHT_ADVICE_CHECKS_H

#include "mnem/advice.h"

typedef struct mnem__checking {
    const mnem_facts *facts;
    const double *v; /* facts->value */
    mnem_advice *out;
} mnem__checking;

typedef struct mnem__check {
    mnem_check about;
    bool (*speaks)(const mnem__checking *c);
} mnem__check;

extern const mnem__check mnem__checks_plan[], mnem__checks_run[], mnem__checks_train[],
    mnem__checks_memory[]; /* each up to one without a name */

/* MNEM__CHECK(function, "name", "condition", needs...) */
#define MNEM__NEEDS(...)                                                                           \
    {__VA_ARGS__}, (int)(sizeof((mnem_fact[]){__VA_ARGS__}) / sizeof(mnem_fact))
#define MNEM__CHECK(function, name, condition, ...)                                                \
    { {name, condition, MNEM__NEEDS(__VA_ARGS__)}, function }

/* A fact's value in a check. */
#define V(name)     (c->v[MNEM_FACT_##name])
#define KNOWN(name) (c->facts->known[MNEM_FACT_##name])

/* Texts of what a check says. Sizes in evidence are rounded. */
void mnem__say_evidence(const mnem__checking *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "mnem VERB MODEL " and the format's. */
void mnem__say_options(const mnem__checking *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The command as it is. */
void mnem__say_command(const mnem__checking *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Returns true. */
bool mnem__say_gain(const mnem__checking *c, mnem_sure sure, double before, double after,
                    const char *unit, const char *by);

enum { MNEM__SIZE = 24 };
/* "1.5 GiB", and "1.5G" as --memory takes it, upwards. */
char *mnem__size(double bytes, char out[MNEM__SIZE]);
char *mnem__budget(double bytes, char out[MNEM__SIZE]);

#endif
