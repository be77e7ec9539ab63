/* adapter_case.h: low-rank adapters of random numbers, and models of every family, for tests. */
#ifndef MNEM_TESTS_ENGINE_ADAPTER_CASE_H
#define MNEM_TESTS_ENGINE_ADAPTER_CASE_H

#include "mnem/mnem.h"

typedef struct adapter_recipe {
    int64_t rank;
    mnem_type type;
    uint32_t seed;
    const char *only;          /* in the names of matrices; NULL: all */
    const char *kind, *rename; /* general.type; a name for the first */
    int64_t more_rows;         /* of every B, which is wrong */
} adapter_recipe;

/* Writes an adapter for the model. */
void adapter_make(const char *model, const char *to, const adapter_recipe *recipe);

enum { ADAPTER_FAMILIES = 77 };
extern const char *const adapter_families[ADAPTER_FAMILIES];
/* Writes a model of three layers, so that those that differ are all there. */
void adapter_family(const char *to, const char *family, const char *type);

#endif
