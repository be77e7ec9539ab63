/* tensor_weights.c: see tensor_weights.h.
 *
 * A column that a short text never used may be used by another: every column gets a little of the
 * mean. An expert that no token chose gets a little of what the others have, for all columns alike.
 */
#include "model/convert/tensor_weights.h"

#include "base/error.h"
#include "base/heap.h"

static const char TAG[] = "quantize";
#define LITTLE 1e-3

static mnem_status refuse(const mnem_tensor_info *tensor, const mnem_imatrix_entry *e) {
    return mnem__fail(MNEM_INVALID,
                      "imatrix: tensor %s has %lld x %lld columns in the importance matrix, but "
                      "%lld in the model: the importance matrix was made for another model",
                      tensor->name, (long long)e->matrices, (long long)e->columns,
                      (long long)tensor->shape[tensor->dims - 1]);
}

static double sum_of(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i];
    return sum;
}

/* sums [matrices, k] over the rows of all matrices: an expert that is used more weighs more. */
static void fill_column_weights(const mnem_imatrix_entry *e, int64_t matrices, int64_t k,
                                float *weight) {
    const double rows = sum_of(e->counts, e->matrices), all = sum_of(e->sums, matrices * k);
    const double scale = rows > 0 ? 1 / rows : 0;
    const double mean = all > 0 ? all * scale / (double)(matrices * k) : 1;
    for (int64_t m = 0; m < matrices; m++) {
        const float *sums = e->sums + m * k;
        const double own = sum_of(sums, k) * scale / (double)k;
        const double least = LITTLE * (own > 0 ? own : mean);
        for (int64_t j = 0; j < k; j++)
            weight[m * k + j] = (float)((double)sums[j] * scale + least);
    }
}

mnem_status mnem__tensor_weights_get(const mnem_imatrix *imatrix, const mnem_tensor_info *tensor,
                                     mnem__tensor_weights *w) {
    mnem_imatrix_entry e;
    *w = (mnem__tensor_weights){0};
    if (!imatrix || tensor->dims < 2) return MNEM_OK;
    const int64_t k = tensor->shape[tensor->dims - 1];
    int64_t rows = 1, matrices = 1;
    for (int d = 0; d < tensor->dims - 1; d++) rows *= tensor->shape[d];
    w->known = mnem_imatrix_find(imatrix, tensor->name, &e);
    if (w->known) matrices = e.matrices * e.columns / k; /* older files: all as one */
    if (w->known && (matrices * k != e.matrices * e.columns ||
                     (matrices != 1 && (tensor->dims != 3 || matrices != tensor->shape[0]))))
        return refuse(tensor, &e);
    w->weight = mnem__alloc(TAG, (size_t)(matrices * k) * sizeof(float));
    if (!w->weight) return mnem__heap_status();
    w->rows_each = rows / matrices;
    if (w->known)
        fill_column_weights(&e, matrices, k, w->weight);
    else
        for (int64_t j = 0; j < k; j++) w->weight[j] = 1;
    return MNEM_OK;
}

void mnem__tensor_weights_free(mnem__tensor_weights *w) {
    mnem__free(w->weight);
    *w = (mnem__tensor_weights){0};
}

mnem_status mnem__tensor_weights_check(const mnem_imatrix *imatrix, const mnem_model *model) {
    mnem_imatrix_entry e;
    for (int64_t i = 0; imatrix && mnem_imatrix_entry_get(imatrix, i, &e); i++)
        if (mnem_model_tensor_find(model, e.tensor) >= 0) return MNEM_OK;
    return imatrix ? mnem__fail(MNEM_INVALID, "imatrix: the importance matrix has none of the "
                                              "model's tensors: it was made for another model")
                   : MNEM_OK;
}
