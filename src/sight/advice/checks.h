/* checks.h: a row of the table of checks, and what their functions share.
 *
 * A check's function reads the values of facts; those that it needs are known. It returns
 * whether the check applies, and has filled in its texts then. */
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
    mnem__checks_memory[]; /* each ends with a row without a name */

/* MNEM__CHECK(function, "name", "condition", needs...) */
#define MNEM__NEEDS(...)                                                                           \
    {__VA_ARGS__}, (int)(sizeof((mnem_fact[]){__VA_ARGS__}) / sizeof(mnem_fact))
#define MNEM__CHECK(function, name, condition, ...)                                                \
    { {name, condition, MNEM__NEEDS(__VA_ARGS__)}, function }

/* The value of a fact, inside a check. */
#define V(name)     (c->v[MNEM_FACT_##name])
#define KNOWN(name) (c->facts->known[MNEM_FACT_##name])

/* The texts of a check. Sizes in the evidence are rounded. */
void mnem__say_evidence(const mnem__checking *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Sets the command: "mnem VERB MODEL " followed by the formatted text. */
void mnem__say_options(const mnem__checking *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Sets the whole command. */
void mnem__say_command(const mnem__checking *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Sets the gain; returns true. */
bool mnem__say_gain(const mnem__checking *c, mnem_sure sure, double before, double after,
                    const char *unit, const char *by);

enum { MNEM__SIZE = 24 };
/* A size as text: "1.5 GiB"; and, rounded up, as a value of --memory: "1.5G". */
char *mnem__size(double bytes, char out[MNEM__SIZE]);
char *mnem__budget(double bytes, char out[MNEM__SIZE]);

#endif
