/* hf_factors.c: see hf_factors.h. Classes that multiply what goes into a matrix, or comes out of it,
 * by numbers of config.json (Falcon-H1) have those numbers in the weights of files: what a program
 * computes is the same. Each product is rounded to a float, as llama.cpp's converter does it. */
#include "model/import/hf_factors.h"

#include <math.h>

#include "model/import/hf_views.h"

enum { MOST = 1 << 20 };

/* 1 where config.json is silent. */
static mnem_status take(const mnem__hf_config *c, const char *name, const mnem__node *node,
                        float *out) {
    const bool silent = !node || node->kind == MNEM__JSON_NULL;
    const double number = silent ? 1 : mnem__node_number(node, NAN);
    if (!(number >= -1e6 && number <= 1e6))
        return mnem__fail(MNEM_BAD_FILE, "%s: %s: expected numbers of -1e6 to 1e6", c->path, name);
    *out = (float)number;
    return MNEM_OK;
}

/* A list that the file has is as long as the class's. */
static mnem_status check_list(const mnem__hf_config *c, const char *name, const mnem__node *list,
                              uint32_t count) {
    if (!list || (list->kind == MNEM__JSON_LIST && list->count == count)) return MNEM_OK;
    return mnem__fail(MNEM_BAD_FILE, "%s: %s: expected a list of %u numbers", c->path, name, count);
}

/* Of the rows of gates, x, B, C and steps. */
static mnem_status take_bands(mnem__folder *folder, const mnem__hf_config *c, const char *name,
                              uint32_t index, mnem__factors *f) {
    int64_t inner, state, groups;
    const mnem__st_tensor *t = &folder->st.tensor[index];
    const mnem__node *list = mnem__hf_find(c, name);
    MNEM__TRY(check_list(c, name, list, MNEM__BANDS));
    MNEM__TRY(mnem__hf_size(c, "mamba_d_ssm", MOST, &inner));
    MNEM__TRY(mnem__hf_size(c, "mamba_d_state", MOST, &state));
    MNEM__TRY(mnem__hf_size(c, "mamba_n_groups", MOST, &groups));
    const int64_t rows[MNEM__BANDS] = {inner, inner, groups * state, groups * state, INT32_MAX};
    const int64_t columns = t->dims == 2 ? t->shape[1] : 1;
    int64_t end = 0;
    f->bands = MNEM__BANDS;
    for (uint32_t i = 0; i < MNEM__BANDS; i++) {
        end += rows[i] * columns;
        f->end[i] = end;
        MNEM__TRY(take(c, name, mnem__node_at(list, i), &f->band[i]));
    }
    return MNEM_OK;
}

static mnem_status take_row(mnem__folder *folder, const mnem__hf_config *c,
                            const mnem__hf_factor *row, uint32_t index, mnem__factors *f) {
    const mnem__node *first = mnem__hf_find(c, row->first);
    if (row->at >= 0) {
        MNEM__TRY(check_list(c, row->first, first, 2));
        first = mnem__node_at(first, (uint32_t)row->at);
    }
    MNEM__TRY(take(c, row->first, first, &f->all));
    if (!row->second) return MNEM_OK;
    if (strcmp(row->second, "ssm_multipliers") == 0)
        return take_bands(folder, c, row->second, index, f);
    f->bands = 1;
    return take(c, row->second, mnem__hf_find(c, row->second), &f->band[0]);
}

static bool is_one(const mnem__factors *f) {
    bool one = f->all == 1;
    for (int32_t i = 0; i < f->bands; i++) one = one && f->band[i] == 1;
    return one;
}

mnem_status mnem__hf_factors_make(mnem__folder *folder, const mnem__hf_config *c, const char *to,
                                  uint32_t index, const mnem__factors **factors) {
    const mnem__hf_factor *row = c->family->factors;
    *factors = NULL;
    while (row && row->to && strcmp(row->to, to) != 0) row++;
    if (!row || !row->to) return MNEM_OK;
    mnem__factors *f = mnem__folder_alloc(folder, sizeof *f);
    if (!f) return folder->status;
    *f = (mnem__factors){0};
    MNEM__TRY(take_row(folder, c, row, index, f));
    if (!is_one(f)) *factors = f;
    return MNEM_OK;
}
