/* advice_case.h: what a check says of facts, and whether doing it gives what was promised. */
#ifndef MNEM_TESTS_SIGHT_ADVICE_CASE_H
#define MNEM_TESTS_SIGHT_ADVICE_CASE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "mnem/advice.h"

/* Of a promised gain, so much must come. */
#define ADVICE_PROMISED 0.8

static inline bool advice_find(const mnem_facts *facts, const char *check, mnem_advice *found) {
    mnem_advice all[MNEM_ADVICE_MOST];
    const int n = mnem_advice_make(facts, all, MNEM_ADVICE_MOST);
    *found = (mnem_advice){.check = ""};
    for (int i = 0; i < n; i++)
        if (strcmp(all[i].check, check) == 0) {
            *found = all[i];
            return true;
        }
    return false;
}

static inline void advice_need(const mnem_facts *facts, const char *check, mnem_advice *found) {
    if (!advice_find(facts, check, found)) fail_msg("%s is silent", check);
}

static inline void advice_silent(const mnem_facts *facts, const char *check) {
    mnem_advice a;
    if (advice_find(facts, check, &a)) fail_msg("%s speaks: %s", check, a.evidence);
}

/* The number that follows an option in the command. */
static inline double advice_option(const mnem_advice *a, const char *name) {
    const char *at = strstr(a->command, name);
    if (!at) fail_msg("no %s in \"%s\"", name, a->command);
    return strtod(at + strlen(name) + 1, NULL);
}

static inline uint64_t advice_option_bytes(const mnem_advice *a, const char *name) {
    char text[32] = "";
    uint64_t bytes;
    const char *at = strstr(a->command, name);
    if (!at) fail_msg("no %s in \"%s\"", name, a->command);
    sscanf(at + strlen(name) + 1, "%31s", text);
    must(mnem_size_parse(text, &bytes));
    return bytes;
}

/* done: what it is after the advice. */
static inline void advice_keeps(const mnem_advice *a, double done) {
    const double promised = a->gain.before - a->gain.after, got = a->gain.before - done;
    assert_true(promised != 0);
    if (got / promised < ADVICE_PROMISED)
        fail_msg("%s: %g %s instead of %g was promised, it is %g", a->check, a->gain.after,
                 a->gain.unit, a->gain.before, done);
}

#endif
