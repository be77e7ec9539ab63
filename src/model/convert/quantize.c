/* quantize.c: writes a model's tensors in other types.
 *
 * The idea: a batch of rows is read, the team turns each row into floats, quantizes it, and
 * compares the result with what it was; the batch is written; the next is read. A tensor that has
 * its type already is copied as it is, but its numbers are looked at, too: they must be finite.
 * Invariant: errors are kept by row and added up in the order of rows, so the report doesn't depend
 * on the number of threads.
 * Cost: about 4 MiB of rows, and two rows of floats for each thread. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "base/progress.h"
#include "model/convert/quantize_types.h"
#include "model/convert/rewrite.h"
#include "model/convert/tensor_weights.h"
#include "model/convert/zeros.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_writer.h"
#include "model/weights/finite.h"

enum { BATCH_BYTES = 2 << 20, BATCH_ROWS_MAX = 4096 };
static const char TAG[] = "quantize";

typedef struct row_error {
    double squares, squares_old, max; /* of new - old; of old; largest |new - old| */
    double weighted, weighted_old;    /* each square times its weight */
    mnem_status status;
} row_error;

typedef struct job {
    mnem__rewrite rewrite; /* first: its steps get the job */
    const mnem__quantize_job *asked;
    const mnem_model *model;
    const mnem_quantize_options *options;
    mnem_type *types; /* of all tensors */
    uint64_t bytes_done, bytes_total;
    /* of the tensor at hand */
    mnem_tensor_info tensor;
    mnem_type to;
    int64_t k, rows, batch_rows;
    uint64_t row_from, row_to;
    mnem__tensor_weights weights;
    /* buffers, for the largest tensor */
    uint8_t *in, *out;
    float *floats; /* two rows for each worker */
    int64_t k_max;
    row_error *errors;
    int64_t first, batch; /* rows in the buffers now */
    bool given;           /* they came as they shall be */
} job;

/* ---- one batch ---- */

/* What the row's elements weigh; NULL: all the same. */
static const float *row_weights(const job *j, int64_t row) {
    const mnem__tensor_weights *w = &j->weights;
    return w->weight ? w->weight + (j->first + row) / w->rows_each * j->k : NULL;
}

static void add_error(const float *old, const float *new, const float *w, int64_t k,
                      row_error *error) {
    for (int64_t i = 0; i < k; i++) {
        const double difference = fabs((double)new[i] - (double)old[i]);
        const double square = difference * difference, was = (double)old[i] * (double)old[i];
        error->squares += square;
        error->squares_old += was;
        if (w) error->weighted += (double)w[i] * square;
        if (w) error->weighted_old += (double)w[i] * was;
        if (difference > error->max) error->max = difference;
    }
}

static mnem_status quantize_row(const job *j, int64_t row, float *old, float *new,
                                row_error *error) {
    const float *w = row_weights(j, row);
    const uint8_t *in = j->in + (uint64_t)row * j->row_from;
    uint8_t *out = j->out + (uint64_t)row * j->row_to;
    mnem_status status = mnem_dequantize_row(j->tensor.type, j->k, in, old);
    if (status == MNEM_OK && j->to == j->tensor.type && !j->given)
        return mnem__is_finite(old, j->k) ? MNEM_OK : MNEM_BAD_FILE;
    if (status == MNEM_OK && !j->given)
        status = mnem_quantize_row_weighted(j->to, j->k, old, w, out);
    if (status == MNEM_OK) status = mnem_dequantize_row(j->to, j->k, out, new);
    if (status != MNEM_OK) return status;
    add_error(old, new, w, j->k, error);
    /* NaN and infinities, in the file or made by a type that is too narrow, end up in a sum. */
    return isfinite(error->squares + error->squares_old) ? MNEM_OK : MNEM_BAD_FILE;
}

static void quantize_rows(const mnem_worker *worker, void *context) {
    const job *j = context;
    int64_t begin, end;
    float *floats = j->floats + 2 * j->k_max * worker->index;
    mnem_team_split(worker, j->batch, 1, &begin, &end);
    for (int64_t row = begin; row < end; row++) {
        row_error *error = &j->errors[row];
        *error = (row_error){0};
        error->status = quantize_row(j, row, floats, floats + j->k_max, error);
    }
}

static mnem_status add_errors(const job *j, row_error *sum) {
    for (int64_t i = 0; i < j->batch; i++) {
        const row_error *e = &j->errors[i];
        if (e->status == MNEM_BAD_FILE)
            return mnem__fail(MNEM_BAD_FILE,
                              "%s: tensor %s: row %lld has numbers that aren't finite in %s; "
                              "choose another type for it",
                              mnem_model_file_path(j->model, j->tensor.file), j->tensor.name,
                              (long long)(j->first + i), mnem_type_get(j->to)->name);
        if (e->status != MNEM_OK)
            return mnem__fail(e->status,
                              "%s: tensor %s can't be converted from %s to %s (%s); choose another "
                              "type for it",
                              mnem_model_file_path(j->model, j->tensor.file), j->tensor.name,
                              mnem_type_get(j->tensor.type)->name, mnem_type_get(j->to)->name,
                              mnem_status_text(e->status));
        sum->squares += e->squares;
        sum->squares_old += e->squares_old;
        sum->weighted += e->weighted;
        sum->weighted_old += e->weighted_old;
        if (e->max > sum->max) sum->max = e->max;
    }
    return MNEM_OK;
}

static mnem_status run_batch(job *j, uint32_t index, row_error *sum) {
    uint64_t bytes = (uint64_t)j->batch * j->row_from;
    bool same = j->tensor.type == j->to;
    MNEM__TRY(
        mnem_model_tensor_read(j->model, index, (uint64_t)j->first * j->row_from, bytes, j->in));
    j->given = false;
    if (j->asked->give)
        MNEM__TRY(
            j->asked->give(j->asked->give_context, index, j->first, j->batch, j->out, &j->given));
    mnem_team_run(j->rewrite.team, quantize_rows, j);
    mnem_status status = add_errors(j, sum);
    if (status == MNEM_OK)
        status = mnem__gguf_write_data(j->rewrite.writer, same && !j->given ? j->in : j->out,
                                       (uint64_t)j->batch * j->row_to);
    j->bytes_done += bytes;
    return status;
}

/* ---- one tensor ---- */

static void tensor_begin(job *j, uint32_t index) {
    mnem_model_tensor_get(j->model, index, &j->tensor);
    j->to = j->types[index];
    j->k = j->tensor.shape[j->tensor.dims - 1];
    j->row_from = mnem_type_row_bytes(j->tensor.type, j->k);
    j->row_to = mnem_type_row_bytes(j->to, j->k);
    j->rows = (int64_t)(j->tensor.bytes / j->row_from);
    int64_t rows = BATCH_BYTES / (j->k * (int64_t)sizeof(float));
    j->batch_rows = rows < 1 ? 1 : rows > BATCH_ROWS_MAX ? BATCH_ROWS_MAX : rows;
}

static mnem_status tell(const job *j) {
    return mnem__progress_tell(&j->options->progress, j->asked->doing, j->bytes_done,
                               j->bytes_total)
               ? MNEM_OK
               : mnem__fail(MNEM_CANCELLED, "%s: stopped by the caller", j->asked->what);
}

static void report(const job *j, uint32_t index, uint32_t count, const row_error *sum) {
    const double elements = (double)j->rows * (double)j->k;
    mnem_quantize_report r = {.tensor = j->tensor.name,
                              .index = index,
                              .count = count,
                              .from = j->tensor.type,
                              .to = j->to,
                              .bytes_from = j->tensor.bytes,
                              .bytes_to = (uint64_t)j->rows * j->row_to,
                              .rms_error = sqrt(sum->squares / elements),
                              .relative_error =
                                  sum->squares_old > 0 ? sqrt(sum->squares / sum->squares_old) : 0,
                              .max_error = sum->max,
                              .weighted = j->weights.known,
                              .weighted_error = j->weights.known && sum->weighted_old > 0
                                                    ? sqrt(sum->weighted / sum->weighted_old)
                                                    : 0};
    if (j->asked->tell) j->asked->tell(j->asked->give_context, index, &r);
    if (j->options->on_report) j->options->on_report(j->options->context, &r);
}

static mnem_status run_rows(job *j, uint32_t index, row_error *sum) {
    for (j->first = 0; j->first < j->rows; j->first += j->batch_rows) {
        j->batch = j->rows - j->first < j->batch_rows ? j->rows - j->first : j->batch_rows;
        MNEM__TRY(run_batch(j, index, sum));
        MNEM__TRY(tell(j));
    }
    return MNEM_OK;
}

static mnem_status run_tensor(job *j, uint32_t index, uint32_t count) {
    row_error sum = {0};
    tensor_begin(j, index);
    mnem_status status =
        mnem__recipe_is_matrix(&j->tensor)
            ? mnem__tensor_weights_get(j->options->imatrix, &j->tensor, &j->weights)
            : MNEM_OK;
    if (status == MNEM_OK) status = run_rows(j, index, &sum);
    if (status == MNEM_OK) report(j, index, count, &sum);
    mnem__tensor_weights_free(&j->weights);
    return status == MNEM_OK ? tell(j) : status;
}

/* ---- keys ---- */

static const char KEY_TYPE[] = "general.file_type";
static const char KEY_VERSION[] = "general.quantization_version";

/* Zeros are where they were: codes that make up for each other may be anything. */
static bool zeros_stay(const job *j) {
    mnem_tensor_info t;
    for (uint32_t i = 0; mnem_model_tensor_get(j->model, i, &t); i++)
        if (!mnem__zeros_stay(&t, j->types[i])) return false;
    return !j->asked->give;
}

static bool is_left_out(const job *j, const char *key) {
    return mnem__rewrite_drops(key) || strcmp(key, KEY_TYPE) == 0 ||
           strcmp(key, KEY_VERSION) == 0 ||
           (strcmp(key, MNEM__GGUF_PATTERN) == 0 && !zeros_stay(j));
}

static mnem_status write_keys(void *context) {
    const job *j = context;
    mnem_text key;
    mnem_value value;
    mnem_status status = MNEM_OK;
    for (uint32_t i = 0; status == MNEM_OK && mnem_model_key_get(j->model, i, &key, &value); i++)
        if (!is_left_out(j, key.bytes))
            status = mnem__gguf_write_key(j->rewrite.writer, key.bytes, &value);
    const uint32_t file_type = j->asked->file_type ? j->asked->file_type
                               : mnem__quantize_has_target(j->options)
                                   ? mnem__quantize_file_type(j->model, j->types)
                                   : j->asked->recipe->file_type;
    if (status == MNEM_OK)
        status = mnem__gguf_write_key_u32(j->rewrite.writer, KEY_TYPE, file_type);
    return status == MNEM_OK ? mnem__gguf_write_key_u32(j->rewrite.writer, KEY_VERSION, 2) : status;
}

static mnem_status write_tensors(void *context) {
    job *j = context;
    mnem_model_info info;
    mnem_model_info_get(j->model, &info);
    mnem_status status = MNEM_OK;
    for (uint32_t i = 0; status == MNEM_OK && i < info.tensors; i++) {
        tensor_begin(j, i);
        j->bytes_total += j->tensor.bytes;
        status = mnem__gguf_write_tensor(j->rewrite.writer, j->tensor.name, j->to, j->tensor.dims,
                                         j->tensor.shape);
    }
    for (uint32_t i = 0; status == MNEM_OK && i < info.tensors; i++)
        status = run_tensor(j, i, info.tensors);
    return status;
}

/* ---- the job ---- */

/* Every tensor can be read as floats (what no layer uses wasn't looked at yet). */
static mnem_status check_types(const mnem_model *model) {
    mnem_tensor_info info;
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &info); i++)
        if (!mnem_type_get(info.type)->is_weight)
            return mnem__fail(MNEM_UNSUPPORTED,
                              "%s: tensor %s: type %s can't be read as weights; use a file of the "
                              "model in F32, F16, BF16, or a type such as Q8_0, Q4_K or IQ4_XS",
                              mnem_model_file_path(model, info.file), info.name,
                              mnem_type_get(info.type)->name);
    return MNEM_OK;
}

static mnem_status choose_types(job *j) {
    mnem_model_info info;
    mnem_model_info_get(j->model, &info);
    j->types = mnem__calloc(TAG, info.tensors, sizeof *j->types);
    return j->types ? mnem__quantize_types(j->asked, j->options, j->rewrite.team, j->types)
                    : mnem__heap_status();
}

/* The largest of each buffer over all tensors. */
static mnem_status take_buffers(void *context) {
    job *j = context;
    mnem_tensor_info info;
    uint64_t in = 0, out = 0, rows = 0;
    MNEM__TRY(choose_types(j));
    for (uint32_t i = 0; mnem_model_tensor_get(j->model, i, &info); i++) {
        tensor_begin(j, i);
        uint64_t batch = (uint64_t)(j->rows < j->batch_rows ? j->rows : j->batch_rows);
        if (batch * j->row_from > in) in = batch * j->row_from;
        if (batch * j->row_to > out) out = batch * j->row_to;
        if (batch > rows) rows = batch;
        if (j->k > j->k_max) j->k_max = j->k;
    }
    j->in = mnem__alloc(TAG, in);
    if (j->in) j->out = mnem__alloc(TAG, out);
    if (j->out) j->errors = mnem__calloc(TAG, rows, sizeof *j->errors);
    if (j->errors)
        j->floats = mnem__calloc(TAG, 2 * (uint64_t)mnem_team_count(j->rewrite.team),
                                 (uint64_t)j->k_max * sizeof(float));
    if (!j->floats) return mnem__heap_status();
    if (!j->asked->ready) return MNEM_OK;
    return j->asked->ready(j->asked->ready_context, mnem_team_count(j->rewrite.team));
}

static void free_buffers(job *j) {
    mnem__free(j->types);
    mnem__free(j->in);
    mnem__free(j->out);
    mnem__free(j->errors);
    mnem__free(j->floats);
}

static const mnem__rewrite_steps steps = {take_buffers, write_keys, write_tensors};

static mnem_status quantize_to_file(job *j, const char *to) {
    MNEM__TRY(check_types(j->model));
    MNEM__TRY(mnem__tensor_weights_check(j->options->imatrix, j->model));
    mnem_status status = mnem__rewrite_run(&j->rewrite, &steps, j->model, to, j->options->threads);
    free_buffers(j);
    return status;
}

mnem_status mnem__quantize_run(const mnem__quantize_job *asked, const char *to,
                               const mnem_quantize_options *options) {
    job j = {.asked = asked, .model = asked->model, .options = options};
    return quantize_to_file(&j, to);
}

mnem_status mnem__quantize_recipe(const mnem_quantize_options *options,
                                  const mnem__recipe **recipe) {
    const bool target = mnem__quantize_has_target(options);
    if (target && (options->type || (options->target_bytes && options->target_bits > 0)))
        return mnem__fail(MNEM_INVALID,
                          "quantize: expected exactly one of type, target_bytes and target_bits");
    const char *type = target ? "Q4_K" : options->type ? options->type : "";
    return mnem__recipe_find("quantize", type, recipe);
}

mnem_status mnem_quantize_file(const char *from, const char *to,
                               const mnem_quantize_options *options) {
    mnem__quantize_job asked = {.what = "quantize", .doing = "quantizing"};
    mnem_model *model;
    MNEM__TRY(mnem__quantize_recipe(options, &asked.recipe));
    MNEM__TRY(mnem_model_open(from, &model));
    asked.model = model;
    mnem_status status = mnem__quantize_run(&asked, to, options);
    mnem_model_close(model);
    return status;
}
