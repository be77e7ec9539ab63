/* merge.c: writes a model with a low-rank adapter added to its weights.
 *
 * The idea: tensors without an adapter are copied; of the others A is read whole, and the rows of W
 * go by in batches, each with its row of B:
 *
 *     batch of W rows, of B rows ──► floats + scale B A ──► the new type ──► file
 *
 * A matrix that is 2:4 stays so: where it is zero, nothing is added.
 * Invariant: a row's numbers depend on that row, its row of B, and A only: the sums over the rank
 * are in the order of A's rows, and the sums for the report in the order of the rows, so a byte
 * doesn't depend on the number of threads.
 * Cost: about 6 MiB of rows, A, and two rows of floats for each thread; rank multiply-adds for each
 * weight. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "base/progress.h"
#include "mnem/base.h"
#include "model/architecture/adapter_match.h"
#include "model/convert/quantize.h"
#include "model/convert/rewrite.h"
#include "model/convert/zeros.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_writer.h"
#include "model/weights/finite.h"

enum { BATCH_BYTES = 2 << 20, BATCH_ROWS_MAX = 4096 };
static const char TAG[] = "merge";

typedef struct row_sum {
    double added, old; /* squares */
    mnem_status status;
    const mnem_model *bad; /* whose numbers aren't finite; NULL: the sums, in the new type */
} row_sum;

typedef struct job {
    mnem__rewrite rewrite; /* first: its steps get the job */
    const mnem_model *model, *adapter;
    const mnem_merge_options *options;
    const mnem__recipe *recipe; /* of merged tensors; NULL: the tensor's own type, or the default */
    mnem_transformer transformer; /* for a mix */
    mnem__adapter_pair *pairs;
    uint64_t bytes_done, bytes_total;
    /* of the tensor at hand */
    mnem_tensor_info tensor, a, b;
    const mnem__adapter_pair *pair;
    mnem_type to;
    bool keep_zeros; /* it is 2:4 and stays so */
    int64_t k, rows, batch_rows;
    uint64_t row_from, row_to, row_b;
    /* buffers, for the largest tensor */
    uint8_t *in, *in_b, *out;
    float *a_rows; /* [rank, k] */
    float *floats; /* for each worker: a row of W, of what is added, and of B */
    uint64_t floats_each;
    row_sum *sums;
    int64_t batch; /* rows in the buffers now */
} job;

/* ---- one batch ---- */

/* more = scale B_row A */
static void add_up(const job *j, const float *b, float *more) {
    memset(more, 0, (size_t)j->k * sizeof *more);
    for (int64_t i = 0; i < j->pair->rank; i++) {
        const float *a = j->a_rows + i * j->k, factor = j->pair->scale * b[i];
        for (int64_t c = 0; c < j->k; c++) more[c] += factor * a[c];
    }
}

static mnem_status merge_row(const job *j, int64_t row, float *old, row_sum *sum) {
    float *more = old + j->k, *b = more + j->k;
    MNEM__TRY(mnem_dequantize_row(j->tensor.type, j->k, j->in + (uint64_t)row * j->row_from, old));
    MNEM__TRY(mnem_dequantize_row(j->b.type, j->pair->rank, j->in_b + (uint64_t)row * j->row_b, b));
    sum->bad = !mnem__is_finite(old, j->k)          ? j->model
               : !mnem__is_finite(b, j->pair->rank) ? j->adapter
                                                    : NULL;
    if (sum->bad) return MNEM_BAD_FILE;
    add_up(j, b, more);
    for (int64_t c = 0; c < j->k; c++) {
        if (j->keep_zeros && old[c] == 0) more[c] = 0;
        sum->old += (double)old[c] * (double)old[c];
        sum->added += (double)more[c] * (double)more[c];
        old[c] += more[c];
    }
    uint8_t *out = j->out + (uint64_t)row * j->row_to;
    mnem_status status = mnem_quantize_row(j->to, j->k, old, out);
    if (status == MNEM_OK) status = mnem_dequantize_row(j->to, j->k, out, more);
    double finite = sum->old + sum->added;
    for (int64_t c = 0; c < j->k; c++) finite += (double)more[c]; /* a type that is too narrow */
    return status != MNEM_OK || isfinite(finite) ? status : MNEM_BAD_FILE;
}

static void merge_rows(const mnem_worker *worker, void *context) {
    const job *j = context;
    int64_t begin, end;
    float *floats = j->floats + j->floats_each * (uint64_t)worker->index;
    mnem_team_split(worker, j->batch, 1, &begin, &end);
    for (int64_t row = begin; row < end; row++) {
        j->sums[row] = (row_sum){0};
        j->sums[row].status = merge_row(j, row, floats, &j->sums[row]);
    }
}

static mnem_status add_sums(const job *j, int64_t first, row_sum *all) {
    for (int64_t i = 0; i < j->batch; i++) {
        const row_sum *s = &j->sums[i];
        if (s->bad)
            return mnem__fail(MNEM_BAD_FILE,
                              "%s: tensor %s: row %lld has numbers that aren't finite: the file is "
                              "damaged; download it again",
                              mnem_model_file_path(s->bad, 0),
                              s->bad == j->model ? j->tensor.name : j->b.name,
                              (long long)(first + i));
        if (s->status == MNEM_BAD_FILE)
            return mnem__fail(MNEM_BAD_FILE,
                              "merge: tensor %s: row %lld has numbers too large for %s; choose a "
                              "type of wider range for the result, such as BF16 or F32",
                              j->tensor.name, (long long)(first + i), mnem_type_get(j->to)->name);
        if (s->status != MNEM_OK)
            return mnem__fail(s->status, "merge: tensor %s: %s", j->tensor.name,
                              mnem_status_text(s->status));
        all->added += s->added;
        all->old += s->old;
    }
    return MNEM_OK;
}

static mnem_status run_batch(job *j, uint32_t index, int64_t first, row_sum *all) {
    const uint64_t rows = (uint64_t)j->batch, at = (uint64_t)first;
    MNEM__TRY(mnem_model_tensor_read(j->model, index, at * j->row_from, rows * j->row_from, j->in));
    MNEM__TRY(mnem_model_tensor_read(j->adapter, (uint32_t)j->pair->b, at * j->row_b,
                                     rows * j->row_b, j->in_b));
    mnem_team_run(j->rewrite.team, merge_rows, j);
    mnem_status status = add_sums(j, first, all);
    if (status == MNEM_OK)
        status = mnem__gguf_write_data(j->rewrite.writer, j->out, rows * j->row_to);
    j->bytes_done += rows * j->row_from;
    return status;
}

/* ---- zeros ---- */

/* Whether every four neighbours have two zeros or more. */
static bool is_2_of_4(const float *row, int64_t k) {
    for (int64_t c = 0; c < k; c += 4) {
        int zeros = 0;
        for (int64_t i = c; i < c + 4; i++) zeros += row[i] == 0;
        if (zeros < 2) return false;
    }
    return true;
}

/* Looks at the tensor until a row isn't 2:4, which in one that isn't pruned is the first. */
static mnem_status find_zeros(job *j, uint32_t index) {
    j->keep_zeros = !j->options->dense && j->k % 4 == 0;
    for (int64_t first = 0; first < j->rows && j->keep_zeros; first += j->batch_rows) {
        const int64_t n = mnem__min_i64(j->rows - first, j->batch_rows);
        MNEM__TRY(mnem_model_tensor_read(j->model, index, (uint64_t)first * j->row_from,
                                         (uint64_t)n * j->row_from, j->in));
        for (int64_t i = 0; i < n && j->keep_zeros; i++) {
            MNEM__TRY(mnem_dequantize_row(j->tensor.type, j->k, j->in + (uint64_t)i * j->row_from,
                                          j->floats));
            j->keep_zeros = is_2_of_4(j->floats, j->k);
        }
    }
    return MNEM_OK;
}

/* ---- one tensor ---- */

static mnem_status tell(const job *j) {
    return mnem__progress_tell(&j->options->progress, "merging", j->bytes_done, j->bytes_total)
               ? MNEM_OK
               : mnem__fail(MNEM_CANCELLED, "merge: stopped by the caller");
}

static mnem_type wanted_type(const job *j) {
    const mnem_type from = j->tensor.type;
    if (j->recipe && mnem__recipe_is_mix(j->recipe))
        return mnem__recipe_type(j->recipe, &j->transformer, &j->tensor);
    if (j->recipe) return j->recipe->matrices;
    if (j->options->type || from == MNEM_TYPE_F32 || from == MNEM_TYPE_BF16) return from;
    return MNEM_TYPE_F16;
}

static void tensor_begin(job *j, uint32_t index) {
    mnem_model_tensor_get(j->model, index, &j->tensor);
    j->pair = &j->pairs[index];
    j->to = j->tensor.type;
    if (j->pair->a < 0) return;
    mnem_model_tensor_get(j->adapter, (uint32_t)j->pair->a, &j->a);
    mnem_model_tensor_get(j->adapter, (uint32_t)j->pair->b, &j->b);
    j->to = wanted_type(j);
    j->rows = j->tensor.shape[0];
    j->k = j->tensor.shape[1];
    j->row_from = mnem_type_row_bytes(j->tensor.type, j->k);
    j->row_to = mnem_type_row_bytes(j->to, j->k);
    j->row_b = mnem_type_row_bytes(j->b.type, j->pair->rank);
    const int64_t wide = j->k > j->pair->rank ? j->k : j->pair->rank;
    const int64_t rows = BATCH_BYTES / (wide * (int64_t)sizeof(float));
    j->batch_rows = rows < 1 ? 1 : rows > BATCH_ROWS_MAX ? BATCH_ROWS_MAX : rows;
}

static mnem_status read_a(job *j) {
    const uint64_t row = mnem_type_row_bytes(j->a.type, j->k);
    mnem_status status = MNEM_OK;
    for (int64_t i = 0; i < j->pair->rank && status == MNEM_OK; i++) {
        status = mnem_model_tensor_read(j->adapter, (uint32_t)j->pair->a, (uint64_t)i * row, row,
                                        j->floats);
        if (status == MNEM_OK)
            status = mnem_dequantize_row(j->a.type, j->k, j->floats, j->a_rows + i * j->k);
        if (status == MNEM_OK && !mnem__is_finite(j->a_rows + i * j->k, j->k))
            status = mnem__fail(MNEM_BAD_FILE,
                                "%s: tensor %s: row %lld has numbers that aren't finite: the file "
                                "is damaged; download it again",
                                mnem_model_file_path(j->adapter, 0), j->a.name, (long long)i);
    }
    return status;
}

static mnem_status merge_tensor(job *j, uint32_t index, uint32_t count) {
    row_sum all = {0};
    mnem_status status = read_a(j);
    if (status == MNEM_OK) status = find_zeros(j, index);
    for (int64_t row = 0; row < j->rows && status == MNEM_OK; row += j->batch_rows) {
        j->batch = j->rows - row < j->batch_rows ? j->rows - row : j->batch_rows;
        status = run_batch(j, index, row, &all);
        if (status == MNEM_OK) status = tell(j);
    }
    if (status != MNEM_OK) return status;
    const mnem_merge_report report = {.tensor = j->tensor.name,
                                      .index = index,
                                      .count = count,
                                      .from = j->tensor.type,
                                      .to = j->to,
                                      .rank = (int32_t)j->pair->rank,
                                      .zeros_kept = j->keep_zeros,
                                      .relative_change =
                                          all.old > 0 ? sqrt(all.added / all.old) : 0};
    if (j->options->on_report) j->options->on_report(j->options->context, &report);
    return tell(j);
}

static mnem_status copy_tensor(job *j, uint32_t index) {
    mnem_status status = MNEM_OK;
    for (uint64_t at = 0; at < j->tensor.bytes && status == MNEM_OK; at += BATCH_BYTES) {
        const uint64_t left = j->tensor.bytes - at, n = left < BATCH_BYTES ? left : BATCH_BYTES;
        status = mnem_model_tensor_read(j->model, index, at, n, j->in);
        if (status == MNEM_OK) status = mnem__gguf_write_data(j->rewrite.writer, j->in, n);
        j->bytes_done += n;
        if (status == MNEM_OK) status = tell(j);
    }
    return status;
}

/* ---- the file ---- */

/* Whether most numbers of the model are in tensors that are merged. */
static bool is_mostly_merged(const job *j) {
    mnem_model_info info;
    double all = 0, merged = 0;
    mnem_model_info_get(j->model, &info);
    for (uint32_t i = 0; i < info.tensors; i++) {
        mnem_tensor_info t;
        double n = 1;
        mnem_model_tensor_get(j->model, i, &t);
        for (int d = 0; d < t.dims; d++) n *= (double)t.shape[d];
        all += n;
        if (j->pairs[i].a >= 0) merged += n;
    }
    return merged > all / 2;
}

/* What general.file_type becomes; -1: it stays. old: what it is in a model that isn't quantized
 * says the truth still, unless another type was asked for. */
static int32_t file_type_of(const job *j, uint64_t old) {
    if (j->recipe) return (int32_t)j->recipe->file_type;
    const bool quantized = old != 0 && old != 1 && old != 32;
    return !j->options->type && quantized && is_mostly_merged(j) ? 1 : -1;
}

/* What a file says of its zeros is true of the new one. */
static bool zeros_stay(job *j) {
    mnem_model_info info;
    mnem_model_info_get(j->model, &info);
    for (uint32_t i = 0; i < info.tensors; i++) {
        tensor_begin(j, i);
        if (j->pair->a >= 0 && mnem__zeros_are_of(&j->tensor) && j->options->dense) return false;
        if (!mnem__zeros_stay(&j->tensor, j->to)) return false;
    }
    return true;
}

static mnem_status write_keys(void *context) {
    job *j = context;
    const char *type = "general.file_type";
    mnem_text key;
    mnem_value value;
    mnem_status status = MNEM_OK;
    for (uint32_t i = 0; status == MNEM_OK && mnem_model_key_get(j->model, i, &key, &value); i++) {
        if (mnem__rewrite_drops(key.bytes)) continue;
        if (strcmp(key.bytes, MNEM__GGUF_PATTERN) == 0 && !zeros_stay(j)) continue;
        const int32_t number = strcmp(key.bytes, type) == 0 ? file_type_of(j, value.u) : -1;
        if (number >= 0)
            status = mnem__gguf_write_key_u32(j->rewrite.writer, type, (uint32_t)number);
        else
            status = mnem__gguf_write_key(j->rewrite.writer, key.bytes, &value);
    }
    return status;
}

static mnem_status write_tensors(void *context) {
    job *j = context;
    mnem_model_info info;
    mnem_status status = MNEM_OK;
    mnem_model_info_get(j->model, &info);
    for (uint32_t i = 0; status == MNEM_OK && i < info.tensors; i++) {
        tensor_begin(j, i);
        j->bytes_total += j->tensor.bytes;
        status = mnem__gguf_write_tensor(j->rewrite.writer, j->tensor.name, j->to, j->tensor.dims,
                                         j->tensor.shape);
    }
    for (uint32_t i = 0; status == MNEM_OK && i < info.tensors; i++) {
        tensor_begin(j, i);
        status = j->pair->a < 0 ? copy_tensor(j, i) : merge_tensor(j, i, info.tensors);
    }
    return status;
}

/* ---- the job ---- */

typedef struct room {
    uint64_t in, in_b, out, a, floats, rows;
} room;

static mnem_status measure(job *j, room *r) {
    mnem_model_info info;
    mnem_model_info_get(j->model, &info);
    *r = (room){.in = BATCH_BYTES, .in_b = 1, .out = 1, .a = 1, .floats = 1, .rows = 1};
    for (uint32_t i = 0; i < info.tensors; i++) {
        tensor_begin(j, i);
        if (j->pair->a < 0) continue;
        if (!j->row_to)
            return mnem__fail(MNEM_INVALID,
                              "merge: tensor %s: its rows of %lld numbers aren't whole blocks of "
                              "%s; choose another type for the result",
                              j->tensor.name, (long long)j->k, mnem_type_get(j->to)->name);
        const uint64_t batch = (uint64_t)(j->rows < j->batch_rows ? j->rows : j->batch_rows);
        r->in = mnem__max_u64(r->in, batch * j->row_from);
        r->in_b = mnem__max_u64(r->in_b, batch * j->row_b);
        r->out = mnem__max_u64(r->out, batch * j->row_to);
        r->a = mnem__max_u64(r->a, (uint64_t)j->pair->rank * (uint64_t)j->k);
        r->floats = mnem__max_u64(r->floats, 2 * (uint64_t)j->k + (uint64_t)j->pair->rank);
        r->rows = mnem__max_u64(r->rows, batch);
    }
    return MNEM_OK;
}

static mnem_status take_buffers(void *context) {
    job *j = context;
    room r;
    MNEM__TRY(measure(j, &r));
    j->floats_each = r.floats;
    j->in = mnem__alloc(TAG, r.in);
    j->in_b = mnem__alloc(TAG, r.in_b);
    j->out = mnem__alloc(TAG, r.out);
    j->a_rows = mnem__calloc(TAG, r.a, sizeof *j->a_rows);
    j->sums = mnem__calloc(TAG, r.rows, sizeof *j->sums);
    j->floats =
        mnem__calloc(TAG, r.floats * (uint64_t)mnem_team_count(j->rewrite.team), sizeof *j->floats);
    const bool all = j->in && j->in_b && j->out && j->a_rows && j->sums && j->floats;
    return all ? MNEM_OK : mnem__heap_status();
}

static void free_buffers(job *j) {
    mnem__free(j->in);
    mnem__free(j->in_b);
    mnem__free(j->out);
    mnem__free(j->a_rows);
    mnem__free(j->sums);
    mnem__free(j->floats);
    mnem__free(j->pairs);
}

static mnem_status match(job *j) {
    mnem_model_info info;
    const float scale = j->options->scale != 0 ? j->options->scale : 1;
    mnem_model_info_get(j->model, &info);
    j->pairs = mnem__alloc(TAG, ((size_t)info.tensors + 1) * sizeof *j->pairs);
    if (!j->pairs) return mnem__heap_status();
    return mnem__adapter_match(j->model, j->adapter, scale, j->pairs);
}

static const mnem__rewrite_steps steps = {take_buffers, write_keys, write_tensors};

static mnem_status merge_to_file(job *j, const char *to) {
    mnem_status status = match(j);
    if (status == MNEM_OK && j->recipe && mnem__recipe_is_mix(j->recipe))
        status = mnem_model_transformer(j->model, &j->transformer);
    if (status == MNEM_OK) status = mnem__rewrite_check(j->adapter, "adapter", to);
    if (status == MNEM_OK)
        status = mnem__rewrite_run(&j->rewrite, &steps, j->model, to, j->options->threads);
    free_buffers(j);
    return status;
}

static mnem_status find_recipe(const char *name, const mnem__recipe **recipe) {
    *recipe = NULL;
    if (!name || strcasecmp(name, "same") == 0) return MNEM_OK;
    return mnem__recipe_find("merge", name, recipe);
}

mnem_status mnem_merge_file(const char *model, const char *adapter, const char *to,
                            const mnem_merge_options *options) {
    static const mnem_merge_options defaults = {.type = NULL};
    job j = {.options = options ? options : &defaults};
    mnem_model *a = NULL, *b = NULL;
    mnem_status status = find_recipe(j.options->type, &j.recipe);
    if (status == MNEM_OK && !isfinite(j.options->scale))
        status = mnem__fail(MNEM_INVALID, "merge: the scale is not a finite number");
    if (status == MNEM_OK) status = mnem_model_open(model, &a);
    if (status == MNEM_OK) status = mnem_adapter_open(adapter, a, &b);
    j.model = a;
    j.adapter = b;
    if (status == MNEM_OK) status = merge_to_file(&j, to);
    mnem_model_close(a);
    mnem_model_close(b);
    return status;
}
