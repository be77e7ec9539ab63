/* engine_case.h: a ledger, a model and an engine in one, for tests. */
#ifndef MNEM_TESTS_ENGINE_ENGINE_CASE_H
#define MNEM_TESTS_ENGINE_ENGINE_CASE_H

#include "mnem/mnem.h"

typedef struct engine_case {
    mnem_ledger *ledger;
    mnem_model *model;
    mnem_engine_options options;
    mnem_engine_plan plan;
    mnem_engine *engine;
    int32_t vocab;
} engine_case;

/* Opens everything, or fails the test; budget 0: none. options->ledger is filled in. */
void engine_case_open(engine_case *c, const char *path, uint64_t budget,
                      const mnem_engine_options *options);
/* Closes everything; bytes that are left fail the test. The plan stays. */
void engine_case_close(engine_case *c);
/* The least budget that does with these options. */
uint64_t engine_case_least(const char *path, const mnem_engine_options *options);

#endif
