/* prune.c: writes a model with less in it.
 *
 * The idea: what stays is chosen first; then every tensor's rows go by in batches:
 *
 *     row ──► stays? ──► floats ──► columns that stay ──► 2:4 ──► its type ──► file
 *                └─ as it is, where all columns stay, or those of whole blocks ─┘
 *
 * Invariant: a row of the result depends on that row and the choice only, and sums for the report
 * are in the order of rows, so no byte depends on the number of threads. A weight that 2:4 took is
 * exactly zero in the file, which is looked at, whatever the type.
 * Cost: about 6 MiB of rows, and two rows of floats for each thread. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "base/progress.h"
#include "model/convert/rewrite.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_writer.h"
#include "model/prune/mask_2_4.h"
#include "model/prune/prune_private.h"

enum { BATCH_BYTES = 2 << 20, BATCH_ROWS_MAX = 4096 };
static const char TAG[] = "prune";

typedef struct row_sum {
    double all, kept; /* squares */
    const char *what; /* is wrong with the row */
    mnem_status status;
} row_sum;

typedef struct job {
    mnem__rewrite rewrite; /* first: its steps get the job */
    mnem__prune_choice choice;
    const mnem_prune_options *options;
    const mnem__prune_giver *giver;
    uint64_t bytes_done, bytes_total;
    uint32_t index, count; /* of tensors that stay */
    /* of the tensor at hand */
    mnem__prune_cut cut;
    bool has_rows, has_columns; /* lists of what stays */
    bool whole_blocks;          /* columns go by blocks */
    const float *squares;       /* [matrices, k] of inputs, for a mask; or NULL */
    int64_t matrix_rows;        /* of one of the matrices */
    int64_t first;              /* row of the batch */
    uint64_t row_from, row_to;
    int64_t batch_rows;
    /* buffers, for the largest tensor */
    uint8_t *in, *out, *packed; /* packed: of a compact tensor */
    float *floats;              /* two rows for each worker */
    int64_t k_max;
    int32_t *rows, *columns;
    int32_t *slot; /* of a batch's row in out; -1: it doesn't stay */
    row_sum *sums;
    int64_t batch; /* rows in the buffers now */
    bool given;    /* out has them already */
} job;

/* ---- one row ---- */

static double sum_squares(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum;
}

/* Blocks that stay, as they are. */
static void copy_blocks(const job *j, const uint8_t *in, uint8_t *out) {
    const int64_t block = mnem_type_get(j->cut.to)->block_elements;
    const uint64_t bytes = mnem_type_row_bytes(j->cut.to, block);
    for (int64_t i = 0; i < j->cut.k_to; i += block, out += bytes)
        memcpy(out, in + (uint64_t)(j->columns[i] / block) * bytes, bytes);
}

/* What is wrong with a row in its new type, or NULL. */
static const char *check_row(const job *j, const float *old, const float *new) {
    for (int64_t i = 0; i < j->cut.k_to; i++) {
        if (!isfinite(new[i])) return "has numbers that aren't finite";
        if (j->cut.masked && old[i] == 0 && new[i] != 0) return "has zeros that are not 0";
    }
    return NULL;
}

/* What is wrong with a row that was given, or NULL. */
static const char *check_given(const float *x, int64_t k) {
    for (int64_t i = 0; i < k; i += 4) {
        int zeros = 0;
        for (int a = 0; a < 4; a++) {
            zeros += x[i + a] == 0;
            if (!isfinite(x[i + a])) return "has numbers that aren't finite";
        }
        if (zeros < 2) return "has more than 2 numbers other than 0 among 4";
    }
    return NULL;
}

static mnem_status look_at_given(const job *j, int64_t row, float *x, row_sum *sum) {
    const mnem__prune_cut *cut = &j->cut;
    MNEM__TRY(mnem_dequantize_row(cut->to, cut->k, j->out + (uint64_t)row * j->row_to, x));
    sum->kept = sum_squares(x, cut->k);
    sum->what = check_given(x, cut->k);
    return sum->what ? MNEM_BAD_FILE : MNEM_OK;
}

/* squares: of the row's inputs, or NULL. */
static mnem_status put_row(const job *j, int64_t row, const float *squares, float *x,
                           row_sum *sum) {
    const mnem__prune_cut *cut = &j->cut;
    const uint8_t *in = j->in + (uint64_t)row * j->row_from;
    uint8_t *out = j->out + (uint64_t)j->slot[row] * j->row_to;
    float *new = x + j->k_max;
    for (int64_t i = 0; j->has_columns && i < cut->k_to; i++) x[i] = x[j->columns[i]];
    const bool masked = cut->masked && mnem__mask_2_4(cut->k_to, x, squares);
    sum->kept = sum_squares(x, cut->k_to);
    if (cut->to == cut->tensor.type && !masked && j->whole_blocks) {
        if (j->has_columns)
            copy_blocks(j, in, out);
        else
            memcpy(out, in, j->row_to);
        return MNEM_OK;
    }
    MNEM__TRY(mnem_quantize_row(cut->to, cut->k_to, x, out));
    MNEM__TRY(mnem_dequantize_row(cut->to, cut->k_to, out, new));
    sum->what = check_row(j, x, new);
    return sum->what ? MNEM_BAD_FILE : MNEM_OK;
}

static mnem_status prune_row(const job *j, int64_t row, float *x, row_sum *sum) {
    const uint8_t *in = j->in + (uint64_t)row * j->row_from;
    MNEM__TRY(mnem_dequantize_row(j->cut.tensor.type, j->cut.k, in, x));
    sum->all = sum_squares(x, j->cut.k);
    if (!isfinite(sum->all)) {
        sum->what = "has numbers that aren't finite";
        return MNEM_BAD_FILE;
    }
    if (j->slot[row] < 0) return MNEM_OK;
    if (j->given) return look_at_given(j, row, x, sum);
    const int64_t matrix = (j->first + row) / j->matrix_rows;
    return put_row(j, row, j->squares ? j->squares + matrix * j->cut.k : NULL, x, sum);
}

/* ---- one batch ---- */

static void prune_rows(const mnem_worker *worker, void *context) {
    const job *j = context;
    int64_t begin, end;
    float *floats = j->floats + 2 * j->k_max * worker->index;
    mnem_team_split(worker, j->batch, 1, &begin, &end);
    for (int64_t row = begin; row < end; row++) {
        j->sums[row] = (row_sum){0};
        j->sums[row].status = prune_row(j, row, floats, &j->sums[row]);
    }
}

static mnem_status add_sums(const job *j, int64_t first, row_sum *all) {
    for (int64_t i = 0; i < j->batch; i++) {
        const row_sum *s = &j->sums[i];
        if (s->what)
            return mnem__fail(s->status, "prune: tensor %s: row %lld %s in type %s",
                              j->cut.tensor.name, (long long)(first + i), s->what,
                              mnem_type_get(j->cut.to)->name);
        if (s->status != MNEM_OK)
            return mnem__fail(s->status, "prune: tensor %s: %s", j->cut.tensor.name,
                              mnem_status_text(s->status));
        all->all += s->all;
        all->kept += s->kept;
    }
    return MNEM_OK;
}

/* Rows [first, first + batch) of the source; *next: of the list of those that stay. Returns how
 * many of them do. */
static int64_t find_slots(const job *j, int64_t first, int64_t *next) {
    int64_t used = 0;
    for (int64_t i = 0; i < j->batch; i++) {
        const bool stays = !j->has_rows || (*next < j->cut.rows_to && j->rows[*next] == first + i);
        j->slot[i] = stays ? (int32_t)used++ : -1;
        *next += stays;
    }
    return used;
}

/* The batch without its zeros. */
static mnem_status write_compact(job *j, int64_t first) {
    const uint64_t group = mnem_sparse_group_bytes(j->cut.to, j->cut.k_to);
    uint8_t *to = j->packed;
    for (int64_t row = 0; row < j->batch; row += MNEM_PACK_ROWS, to += group)
        if (!mnem_sparse_group(j->cut.to, MNEM_PACK_ROWS, j->cut.k_to,
                               j->out + (uint64_t)row * j->row_to, to))
            return mnem__fail(
                MNEM_BAD_FILE,
                "prune: tensor %s: the rows from %lld on aren't 2:4 after rounding to %s, "
                "so it can't be compact; choose another of Q4_0, Q8_0 and F16 for the result, or "
                "leave "
                "compact out",
                j->cut.name, (long long)(first + row), mnem_type_get(j->cut.to)->name);
    return mnem__gguf_write_data(j->rewrite.writer, j->packed, (uint64_t)(to - j->packed));
}

static mnem_status run_batch(job *j, uint32_t index, int64_t first, int64_t *next, row_sum *all) {
    const uint64_t bytes = (uint64_t)j->batch * j->row_from;
    const int64_t stay = find_slots(j, first, next);
    j->first = first;
    MNEM__TRY(mnem_model_tensor_read(j->choice.model, index, (uint64_t)first * j->row_from, bytes,
                                     j->in));
    j->given = false;
    if (j->giver && j->cut.masked)
        MNEM__TRY(j->giver->give(j->giver->context, index, first, j->batch, j->out, &j->given));
    mnem_team_run(j->rewrite.team, prune_rows, j);
    MNEM__TRY(add_sums(j, first, all));
    j->bytes_done += bytes;
    if (j->cut.compact) return write_compact(j, first);
    return mnem__gguf_write_data(j->rewrite.writer, j->out, (uint64_t)stay * j->row_to);
}

/* ---- one tensor ---- */

/* Whether columns that stay come as blocks of the type. */
static bool by_blocks(const job *j) {
    const int64_t block = mnem_type_get(j->cut.tensor.type)->block_elements;
    for (int64_t i = 0; j->has_columns && i < j->cut.k_to; i++)
        if (j->columns[i] != j->columns[i - i % block] + i % block ||
            j->columns[i] % block != i % block)
            return false;
    return true;
}

static mnem_status tensor_begin(job *j, uint32_t index) {
    mnem__prune_cut *cut = &j->cut;
    MNEM__TRY(mnem__prune_cut_get(&j->choice, index, cut));
    if (cut->dropped) return MNEM_OK;
    j->row_from = mnem_type_row_bytes(cut->tensor.type, cut->k);
    j->row_to = mnem_type_row_bytes(cut->to, cut->k_to);
    const int64_t rows = BATCH_BYTES / (cut->k * (int64_t)sizeof(float));
    const int64_t step = cut->compact ? MNEM_PACK_ROWS : 1;
    j->batch_rows = mnem__max_i64(1, mnem__min_i64(rows, BATCH_ROWS_MAX) / step) * step;
    return MNEM_OK;
}

static mnem_status tell(const job *j) {
    return mnem__progress_tell(&j->options->progress, "pruning", j->bytes_done, j->bytes_total)
               ? MNEM_OK
               : mnem__fail(MNEM_CANCELLED, "prune: stopped by the caller");
}

static mnem_status run_tensor(job *j, uint32_t index) {
    mnem__prune_cut *cut = &j->cut;
    row_sum all = {0};
    int64_t next = 0;
    MNEM__TRY(tensor_begin(j, index));
    if (cut->dropped) return MNEM_OK;
    j->has_rows = mnem__prune_list(&j->choice, cut->row_width, cut->layer, j->rows);
    j->has_columns = mnem__prune_list(&j->choice, cut->column_width, cut->layer, j->columns);
    j->whole_blocks = by_blocks(j);
    j->squares = NULL;
    j->matrix_rows = cut->tensor.dims == 3 ? cut->tensor.shape[1] : cut->rows;
    if (cut->masked) MNEM__TRY(mnem__prune_squares(&j->choice, &cut->tensor, &j->squares));
    for (int64_t row = 0; row < cut->rows; row += j->batch_rows) {
        j->batch = mnem__min_i64(cut->rows - row, j->batch_rows);
        MNEM__TRY(run_batch(j, index, row, &next, &all));
        MNEM__TRY(tell(j));
    }
    const double removed = mnem__max_f64(0, all.all - all.kept);
    const mnem_prune_report report = {.tensor = cut->name,
                                      .index = j->index++,
                                      .count = j->count,
                                      .from = cut->tensor.type,
                                      .to = cut->to,
                                      .bytes_from = cut->tensor.file_bytes,
                                      .bytes_to = mnem__prune_cut_bytes(cut),
                                      .relative_removed =
                                          all.all > 0 ? sqrt(removed / all.all) : 0};
    if (j->options->on_report) j->options->on_report(j->options->context, &report);
    return MNEM_OK;
}

/* ---- the file ---- */

static mnem_status write_keys(void *context) {
    const job *j = context;
    return mnem__prune_keys(&j->choice, j->rewrite.writer);
}

static mnem_status declare(mnem_gguf_writer *writer, const mnem__prune_cut *cut) {
    char name[sizeof cut->name + 16];
    if (!cut->compact)
        return mnem__gguf_write_tensor(writer, cut->name, cut->to, cut->tensor.dims, cut->shape);
    mnem__gguf_compact_name(cut->to, cut->name, name, sizeof name);
    return mnem__gguf_write_tensor(writer, name, MNEM_TYPE_I8, 2, cut->compact_shape);
}

static mnem_status write_tensors(void *context) {
    job *j = context;
    mnem_model_info info;
    mnem_model_info_get(j->choice.model, &info);
    for (uint32_t i = 0; i < info.tensors; i++) {
        MNEM__TRY(tensor_begin(j, i));
        if (j->cut.dropped) continue;
        j->count++;
        j->bytes_total += j->cut.tensor.bytes;
        MNEM__TRY(declare(j->rewrite.writer, &j->cut));
    }
    for (uint32_t i = 0; i < info.tensors; i++) MNEM__TRY(run_tensor(j, i));
    return MNEM_OK;
}

/* ---- the job ---- */

/* The largest of each buffer over all tensors. */
static mnem_status take_buffers(void *context) {
    job *j = context;
    mnem_model_info info;
    uint64_t in = 1, out = 1, rows = 1, packed = 1;
    int64_t rows_max = 1;
    mnem_model_info_get(j->choice.model, &info);
    for (uint32_t i = 0; i < info.tensors; i++) {
        MNEM__TRY(tensor_begin(j, i));
        if (j->cut.dropped) continue;
        const uint64_t batch = (uint64_t)mnem__min_i64(j->cut.rows, j->batch_rows);
        in = mnem__max_u64(in, batch * j->row_from);
        out = mnem__max_u64(out, batch * j->row_to);
        rows = mnem__max_u64(rows, batch);
        if (j->cut.compact)
            packed =
                mnem__max_u64(packed, mnem_sparse_bytes(j->cut.to, (int64_t)batch, j->cut.k_to));
        j->k_max = mnem__max_i64(j->k_max, j->cut.k);
        if (j->cut.layer >= 0) rows_max = mnem__max_i64(rows_max, j->cut.rows);
    }
    j->in = mnem__alloc(TAG, in);
    j->out = mnem__alloc(TAG, out);
    j->packed = mnem__alloc(TAG, packed);
    j->sums = mnem__calloc(TAG, rows, sizeof *j->sums);
    j->slot = mnem__calloc(TAG, rows, sizeof *j->slot);
    j->rows = mnem__calloc(TAG, (size_t)rows_max, sizeof *j->rows);
    j->columns = mnem__calloc(TAG, (size_t)j->k_max, sizeof *j->columns);
    j->floats = mnem__calloc(TAG, 2 * (uint64_t)mnem_team_count(j->rewrite.team),
                             (uint64_t)j->k_max * sizeof(float));
    const bool all =
        j->in && j->out && j->packed && j->sums && j->slot && j->rows && j->columns && j->floats;
    return all ? MNEM_OK : mnem__heap_status();
}

static void free_buffers(job *j) {
    mnem__free(j->in);
    mnem__free(j->out);
    mnem__free(j->packed);
    mnem__free(j->sums);
    mnem__free(j->slot);
    mnem__free(j->rows);
    mnem__free(j->columns);
    mnem__free(j->floats);
}

static const mnem__rewrite_steps steps = {take_buffers, write_keys, write_tensors};

/* Whether kept numbers may become others: in another type, or in other blocks of it. */
static bool is_rounded(const mnem__prune_choice *c, const mnem__prune_cut *cut) {
    const int64_t block = mnem_type_get(cut->to)->block_elements;
    const bool heads = cut->column_width == MNEM__WIDTH_OUT;
    return cut->to != cut->tensor.type ||
           (cut->k_to != cut->k && (!heads || c->from.head_dim % block != 0));
}

/* Every tensor, so that what can't be done is said before anything is read. */
static mnem_status measure(const mnem__prune_choice *c, mnem_prune_plan *plan) {
    mnem__prune_cut cut;
    mnem_model_info info;
    bool compact = false;
    mnem_model_info_get(c->model, &info);
    *plan = (mnem_prune_plan){.from = c->from, .to = c->to, .bytes_from = info.tensor_bytes};
    for (uint32_t i = 0; i < info.tensors; i++) {
        MNEM__TRY(mnem__prune_cut_get(c, i, &cut));
        if (cut.dropped) continue;
        plan->bytes_to += mnem__prune_cut_bytes(&cut);
        compact |= cut.compact;
        const bool was_rounded = mnem_type_get(cut.tensor.type)->block_elements > 1;
        plan->requantized += was_rounded && is_rounded(c, &cut);
    }
    if (c->options->compact && !compact)
        return mnem__fail(MNEM_INVALID,
                          "prune: the option compact needs 2:4 matrices in Q4_0, Q8_0 or F16 with "
                          "a multiple of 16 rows, and the result has none");
    for (int32_t i = 0, to; i < c->from.layers; i++)
        if (!mnem__prune_layer(c, i, &to)) plan->layers_removed[i / 8] |= (uint8_t)(1 << i % 8);
    return MNEM_OK;
}

static mnem_status prune_model(const mnem_model *model, const char *to,
                               const mnem_prune_options *options, const mnem__prune_giver *giver,
                               mnem_prune_plan *plan) {
    job j = {.choice = {.model = model, .options = options}, .options = options, .giver = giver};
    mnem_status status = mnem__prune_sizes(&j.choice);
    if (status == MNEM_OK && to) status = mnem__rewrite_check(model, "model", to);
    if (status == MNEM_OK) status = mnem__prune_layers(&j.choice);
    if (status == MNEM_OK) status = measure(&j.choice, plan);
    if (status == MNEM_OK && to && options->on_plan) options->on_plan(options->context, plan);
    if (status == MNEM_OK && to) status = mnem__prune_choose(&j.choice);
    if (status == MNEM_OK && to)
        status = mnem__rewrite_run(&j.rewrite, &steps, model, to, options->threads);
    free_buffers(&j);
    mnem__prune_choice_free(&j.choice);
    return status;
}

mnem_status mnem__prune_run(const mnem_model *model, const char *to,
                            const mnem_prune_options *options, const mnem__prune_giver *giver) {
    mnem_prune_plan plan;
    return prune_model(model, to, options, giver, &plan);
}

static mnem_status find_types(const mnem__prune_choice *c, mnem_type *types) {
    mnem_tensor_info t;
    for (uint32_t i = 0; mnem_model_tensor_get(c->model, i, &t); i++) {
        mnem__prune_cut cut;
        MNEM__TRY(mnem__prune_cut_get(c, i, &cut));
        types[i] = cut.to;
    }
    return MNEM_OK;
}

mnem_status mnem__prune_types(const mnem_model *model, const mnem_prune_options *options,
                              mnem_type *types) {
    mnem__prune_choice c = {.model = model, .options = options};
    mnem_status status = mnem__prune_sizes(&c);
    if (status == MNEM_OK) status = mnem__prune_layers(&c);
    if (status == MNEM_OK) status = find_types(&c, types);
    mnem__prune_choice_free(&c);
    return status;
}

mnem_status mnem_prune_measure(const char *from, const mnem_prune_options *options,
                               mnem_prune_plan *plan) {
    mnem_model *model;
    MNEM__TRY(mnem_model_open(from, &model));
    const mnem_status status = prune_model(model, NULL, options, NULL, plan);
    mnem_model_close(model);
    return status;
}

mnem_status mnem_prune_file(const char *from, const char *to, const mnem_prune_options *options) {
    mnem_model *model;
    MNEM__TRY(mnem_model_open(from, &model));
    const mnem_status status = mnem__prune_run(model, to, options, NULL);
    mnem_model_close(model);
    return status;
}
