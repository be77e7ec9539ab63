/* gguf_sparse.c: finds the matrices of a file that are 2:4, before anything is planned.
 *
 * The idea: about a page of a matrix tells nearly always that it is dense. Where the file says
 * mnem.sparsity.pattern = "2:4", a page that is 2:4 is enough; whoever packs the matrix later
 * checks the rest, since packing sees all of it anyway. A file that doesn't say so is another's:
 * such a matrix is read whole, so that nothing is refused that runs.
 * Cost: a page each; of a file that says nothing no more than DENSE_MOST pages, unless it is 2:4.
 * Rows of the embedding are looked up, which the form isn't for. */
#include <string.h>

#include "model/gguf/gguf.h"
#include "ops/core/sparse_form.h"

enum { PAGE = 4096, DENSE_MOST = 16 };

bool mnem__gguf_says_2_4(const mnem_model *model) {
    mnem_value value;
    return mnem_model_key_find(model, MNEM__GGUF_PATTERN, &value) &&
           value.type == MNEM_VALUE_STRING && value.text.length == strlen(MNEM__GGUF_PATTERN_2_4) &&
           memcmp(value.text.bytes, MNEM__GGUF_PATTERN_2_4, value.text.length) == 0;
}

static bool may_be_sparse(const mnem__gguf_tensor *t) {
    const int64_t k = t->shape[t->dims - 1];
    return !t->compact && t->dims == 2 && t->shape[0] >= MNEM_PACK_ROWS &&
           mnem_sparse_group_bytes((mnem_type)t->type, k) > 0 &&
           strncmp(t->name, "token_embd.", 11) != 0 &&
           strncmp(t->name, "per_layer_token_embd.", 21) != 0;
}

/* Rows follow each other in whole blocks, so that a part of the tensor is looked at as one row. */
static mnem_status look(const mnem_model *model, const mnem__gguf_tensor *t, uint64_t most,
                        bool *sparse) {
    uint8_t page[PAGE];
    const uint64_t block = mnem_type_row_bytes((mnem_type)t->type, 32), step = PAGE / block * block;
    *sparse = true;
    for (uint64_t at = 0; *sparse && at < t->bytes && at < most; at += step) {
        const uint64_t bytes = t->bytes - at < step ? t->bytes - at : step;
        MNEM__TRY(
            mnem__gguf_part_read(&model->part[t->part], t->name, t->offset + at, bytes, page));
        *sparse = mnem_sparse_check((mnem_type)t->type, (int64_t)(bytes / block * 32), page) < 0;
    }
    return MNEM_OK;
}

mnem_status mnem__gguf_find_sparse(mnem_model *model) {
    const bool said = mnem__gguf_says_2_4(model);
    int dense = 0;
    for (uint32_t i = 0; i < model->tensors && (said || dense < DENSE_MOST); i++) {
        mnem__gguf_tensor *t = &model->tensor[i];
        bool sparse;
        if (!may_be_sparse(t)) continue;
        MNEM__TRY(look(model, t, PAGE / 2, &sparse));
        if (sparse && !said) MNEM__TRY(look(model, t, UINT64_MAX, &sparse));
        t->sparse = sparse;
        t->packs_sparse = sparse && mnem__sparse_pays((mnem_type)t->type);
        dense = sparse ? 0 : dense + 1;
    }
    return MNEM_OK;
}
