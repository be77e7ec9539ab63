/* type_losses.c: measures what types lose, on rows that lie evenly over a tensor.
 *
 * Members of the team share the rows; sums are kept by row and added up in the order of rows, so
 * the choice doesn't depend on the number of threads.
 * Cost: SAMPLE rows in every type. Sums over 128 rows of a thousand columns are within 1 %. */
#include "model/convert/type_losses.h"

#include <string.h>

#include "base/error.h"
#include "base/heap.h"

enum { SAMPLE = 128 };
static const char TAG[] = "quantize";

static const mnem_type candidates[] = {
    MNEM_TYPE_Q2_K, MNEM_TYPE_Q3_K, MNEM_TYPE_IQ4_XS, MNEM_TYPE_IQ4_NL,
    MNEM_TYPE_Q4_K, MNEM_TYPE_Q5_0, MNEM_TYPE_Q5_K,   MNEM_TYPE_Q5_1,
    MNEM_TYPE_Q6_K, MNEM_TYPE_Q8_0, MNEM_TYPE_F16,
};
enum { CANDIDATES = sizeof candidates / sizeof *candidates };
_Static_assert((int)CANDIDATES <= (int)MNEM__CHOICE_OPTIONS_MAX, "a choice has room for all");

typedef struct row_loss {
    double error[CANDIDATES], squares;
    mnem_status status;
} row_loss;

typedef struct sample {
    mnem_tensor_info tensor;
    mnem__tensor_weights weights;
    int64_t k, rows, rows_all; /* those looked at, and there are */
    uint64_t row_bytes;
    uint8_t *raw;  /* [rows, row_bytes] */
    float *floats; /* three rows for each worker: as they were, as they become, the bytes between */
    row_loss *loss;
    mnem_type type[CANDIDATES];
    int types;
} sample;

static int64_t row_number(const sample *s, int64_t i) {
    return s->rows_all * i / s->rows;
}

static double error_of(const float *old, const float *new, const float *w, int64_t k) {
    double sum = 0;
    for (int64_t j = 0; j < k; j++) {
        const double e = (double)new[j] - (double)old[j];
        sum += (w ? (double)w[j] : 1) * e * e;
    }
    return sum;
}

static mnem_status measure_row(const sample *s, int64_t i, float *floats, row_loss *loss) {
    float *old = floats, *new = floats + s->k, *bytes = floats + 2 * s->k;
    const float *w = s->weights.weight;
    if (w) w += row_number(s, i) / s->weights.rows_each * s->k;
    *loss = (row_loss){0};
    MNEM__TRY(mnem_dequantize_row(s->tensor.type, s->k, s->raw + (uint64_t)i * s->row_bytes, old));
    memset(new, 0, (size_t)s->k * sizeof *new);
    loss->squares = error_of(old, new, w, s->k);
    for (int c = 0; c < s->types; c++) {
        MNEM__TRY(mnem_quantize_row_weighted(s->type[c], s->k, old, w, bytes));
        MNEM__TRY(mnem_dequantize_row(s->type[c], s->k, bytes, new));
        loss->error[c] = error_of(old, new, w, s->k);
    }
    return MNEM_OK;
}

static void measure_rows(const mnem_worker *worker, void *context) {
    sample *s = context;
    int64_t begin, end;
    mnem_team_split(worker, s->rows, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        s->loss[i].status = measure_row(s, i, s->floats + 3 * s->k * worker->index, &s->loss[i]);
}

static mnem_status read_rows(const mnem__losses *l, uint32_t index, sample *s) {
    for (int64_t i = 0; i < s->rows; i++)
        MNEM__TRY(mnem_model_tensor_read(l->model, index, (uint64_t)row_number(s, i) * s->row_bytes,
                                         s->row_bytes, s->raw + (uint64_t)i * s->row_bytes));
    return MNEM_OK;
}

static mnem_status take_sample_buffers(const mnem__losses *l, sample *s) {
    MNEM__TRY(mnem__tensor_weights_get(l->imatrix, &s->tensor, &s->weights));
    s->raw = mnem__alloc(TAG, (uint64_t)s->rows * s->row_bytes);
    if (s->raw) s->loss = mnem__calloc(TAG, (size_t)s->rows, sizeof *s->loss);
    if (s->loss)
        s->floats = mnem__calloc(TAG, 3 * (size_t)mnem_team_count(l->team),
                                 (size_t)s->k * sizeof *s->floats);
    return s->floats ? MNEM_OK : mnem__heap_status();
}

static mnem_status sum_up(const sample *s, mnem__choice *choice) {
    double squares = 0, error[CANDIDATES] = {0};
    for (int64_t i = 0; i < s->rows; i++) {
        if (s->loss[i].status != MNEM_OK)
            return mnem__fail(s->loss[i].status, "tensor %s: %s", s->tensor.name,
                              mnem_status_text(s->loss[i].status));
        squares += s->loss[i].squares;
        for (int c = 0; c < s->types; c++) error[c] += s->loss[i].error[c];
    }
    for (int c = 0; c < s->types; c++) {
        choice->bytes[c] = (uint64_t)s->rows_all * mnem_type_row_bytes(s->type[c], s->k);
        choice->loss[c] = squares > 0 && error[c] < squares ? error[c] / squares : squares > 0;
    }
    choice->options = s->types;
    return MNEM_OK;
}

mnem_status mnem__losses_measure(const mnem__losses *l, uint32_t index, mnem__choice *choice,
                                 mnem_type *types) {
    sample s = {0};
    mnem_model_tensor_get(l->model, index, &s.tensor);
    s.k = s.tensor.shape[s.tensor.dims - 1];
    s.row_bytes = mnem_type_row_bytes(s.tensor.type, s.k);
    s.rows_all = (int64_t)(s.tensor.bytes / s.row_bytes);
    s.rows = s.rows_all < SAMPLE ? s.rows_all : SAMPLE;
    for (int c = 0; c < CANDIDATES; c++)
        if (mnem_type_row_bytes(candidates[c], s.k)) s.type[s.types++] = candidates[c];
    memcpy(types, s.type, sizeof s.type);
    mnem_status status = take_sample_buffers(l, &s);
    if (status == MNEM_OK) status = read_rows(l, index, &s);
    if (status == MNEM_OK) mnem_team_run(l->team, measure_rows, &s);
    if (status == MNEM_OK) status = sum_up(&s, choice);
    mnem__tensor_weights_free(&s.weights);
    mnem__free(s.raw);
    mnem__free(s.loss);
    mnem__free(s.floats);
    return status;
}
