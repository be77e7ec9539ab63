/* prune_score.c: which heads and channels stay: those whose scores are the largest of their layer.
 *
 * The idea: a score is about the mean square of what would be missing. Channel j of a feed-forward
 * gives its column of `down` times a number x_j, so |down[:, j]|^2 E[x_j^2]; the second factor is
 * known with an imatrix. Without a text it is what the rows of `gate` and `up` would make of inputs
 * of which all directions are alike: |gate[j] n|^2 |up[j] n|^2, n the factors of the norm before.
 * That doesn't change when one matrix is scaled up and the next one down. Of a group of heads so
 * too, a sum over the numbers d of its heads: |o[:, d]|^2 E[x_d^2], or |o[:, d]|^2 |v[d] n|^2.
 * Cost: one more reading of these matrices, by one thread; a few numbers a row and a column. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "base/progress.h"
#include "base/sort.h"
#include "model/prune/prune_private.h"

enum { BATCH_BYTES = 1 << 20 };
static const char TAG[] = "prune";

typedef struct scorer {
    const mnem__prune_choice *choice;
    int32_t layer;
    uint8_t *raw; /* BATCH_BYTES, or a row */
    float *row, *norm;
    double *rows[2], *columns; /* sums of squares: of rows that make a number, of its column */
    double *score;
    uint32_t *order;
} scorer;

/* ---- sums of squares ---- */

typedef void on_row(scorer *s, const float *row, int64_t index, int64_t k, double *sums);

static void add_row(scorer *s, const float *row, int64_t index, int64_t k, double *sums) {
    double sum = 0;
    for (int64_t i = 0; i < k; i++) {
        const double x = (double)row[i] * (double)s->norm[i];
        sum += x * x;
    }
    sums[index] = sum;
}

static void add_columns(scorer *s, const float *row, int64_t index, int64_t k, double *sums) {
    (void)s, (void)index;
    for (int64_t i = 0; i < k; i++) sums[i] += (double)row[i] * (double)row[i];
}

static mnem_status each_row(scorer *s, mnem__role role, on_row *function, double *sums) {
    mnem_tensor_info t;
    const int32_t index = mnem__role_tensor(s->choice->model, role, s->layer);
    mnem_model_tensor_get(s->choice->model, (uint32_t)index, &t);
    const int64_t rows = t.shape[0], k = t.shape[1];
    const uint64_t bytes = mnem_type_row_bytes(t.type, k);
    const int64_t batch = mnem__max_i64(1, (int64_t)(BATCH_BYTES / bytes));
    mnem_status status = MNEM_OK;
    for (int64_t first = 0; first < rows && status == MNEM_OK; first += batch) {
        const int64_t n = mnem__min_i64(batch, rows - first);
        status = mnem_model_tensor_read(s->choice->model, (uint32_t)index, (uint64_t)first * bytes,
                                        (uint64_t)n * bytes, s->raw);
        for (int64_t i = 0; i < n && status == MNEM_OK; i++) {
            status = mnem_dequantize_row(t.type, k, s->raw + (uint64_t)i * bytes, s->row);
            function(s, s->row, first + i, k, sums);
        }
    }
    return status;
}

/* ---- the parts of a layer ---- */

static const mnem__layer_part *find_part(const scorer *s, bool attention) {
    const mnem__layer_part *part = s->choice->architecture->parts;
    for (; part->out; part++)
        if (mnem__layer_is(&s->choice->from, s->layer, part->layers) &&
            (part->core == MNEM_OP_ATTENTION) == attention && part->core != MNEM_OP_SHORT_CONV)
            return part;
    return NULL;
}

/* The factors of the norm before the part; 1 where there is none. */
static mnem_status read_norm(scorer *s, const mnem__layer_part *part) {
    const int32_t embd = s->choice->from.embd;
    for (int32_t i = 0; i < embd; i++) s->norm[i] = 1;
    if (!part->norm) return MNEM_OK;
    const int32_t index = mnem__role_tensor(s->choice->model, part->norm, s->layer);
    return mnem_model_tensor_read(s->choice->model, (uint32_t)index, 0,
                                  (uint64_t)embd * sizeof(float), s->norm);
}

/* columns[n]: of the matrix out of the part, and squares of what it is multiplied with, or NULL. */
static mnem_status read_out(scorer *s, mnem__role out, int64_t n, const float **squares) {
    mnem_tensor_info t;
    const int32_t index = mnem__role_tensor(s->choice->model, out, s->layer);
    mnem_model_tensor_get(s->choice->model, (uint32_t)index, &t);
    memset(s->columns, 0, (size_t)n * sizeof *s->columns);
    MNEM__TRY(mnem__prune_squares(s->choice, &t, squares));
    return each_row(s, out, add_columns, s->columns);
}

static mnem_status score_channels(scorer *s) {
    const mnem__layer_part *part = find_part(s, false);
    const int32_t ff = s->choice->from.ff, inputs = mnem__part_inputs(part);
    const bool in_one = s->choice->from.gate_in_up;
    const float *squares;
    MNEM__TRY(read_norm(s, part));
    MNEM__TRY(read_out(s, part->out, ff, &squares));
    for (int i = 0; !squares && i < inputs; i++)
        MNEM__TRY(each_row(s, part->in[i], add_row, s->rows[i]));
    const double *second = in_one ? s->rows[0] + ff : inputs > 1 ? s->rows[1] : NULL;
    for (int32_t i = 0; i < ff; i++)
        s->score[i] = s->columns[i] *
                      (squares ? (double)squares[i] : s->rows[0][i] * (second ? second[i] : 1));
    return MNEM_OK;
}

static mnem_status score_groups(scorer *s) {
    const mnem_transformer *t = &s->choice->from;
    const mnem__layer_part *part = find_part(s, true);
    const int32_t dim = t->head_dim, each = t->heads / t->kv_heads;
    const bool in_one = mnem__part_inputs(part) == 1;
    const float *squares;
    MNEM__TRY(read_norm(s, part));
    MNEM__TRY(read_out(s, part->out, (int64_t)t->heads * dim, &squares));
    if (!squares) MNEM__TRY(each_row(s, part->in[in_one ? 0 : 2], add_row, s->rows[0]));
    const double *value = s->rows[0] + (in_one ? (t->heads + t->kv_heads) * dim : 0);
    memset(s->score, 0, (size_t)t->kv_heads * sizeof *s->score);
    for (int32_t i = 0; i < t->heads * dim; i++) {
        const int32_t group = i / dim / each;
        s->score[group] +=
            s->columns[i] * (squares ? (double)squares[i] : value[group * dim + i % dim]);
    }
    return MNEM_OK;
}

/* ---- the choice ---- */

static bool is_better(const void *context, uint32_t a, uint32_t b) {
    const double *score = context;
    return score[a] != score[b] ? score[a] > score[b] : a < b;
}

static bool comes_first(const void *context, uint32_t a, uint32_t b) {
    (void)context;
    return a < b;
}

static mnem_status keep_best(scorer *s, int32_t n, int32_t stay, int32_t *list) {
    for (int32_t i = 0; i < n; i++) {
        s->order[i] = (uint32_t)i;
        if (!isfinite(s->score[i]))
            return mnem__fail(MNEM_BAD_FILE,
                              "%s: layer %d has numbers that aren't finite (NaN or infinite): the "
                              "file is damaged; download or convert it again",
                              mnem_model_file_path(s->choice->model, 0), s->layer);
    }
    mnem__sort(s->order, (size_t)n, is_better, s->score);
    mnem__sort(s->order, (size_t)stay, comes_first, NULL);
    for (int32_t i = 0; i < stay; i++) list[i] = (int32_t)s->order[i];
    return MNEM_OK;
}

static mnem_status tell(const scorer *s) {
    const uint64_t done = (uint64_t)s->layer + 1, all = (uint64_t)s->choice->from.layers;
    return mnem__progress_tell(&s->choice->options->progress, "weighing", done, all)
               ? MNEM_OK
               : mnem__fail(MNEM_CANCELLED, "prune: stopped by the caller");
}

/* A layer without attention keeps any. */
static mnem_status choose_in_layer(scorer *s) {
    const mnem__prune_choice *c = s->choice;
    const int32_t groups = c->to.kv_heads, channels = c->to.ff;
    mnem_status status = MNEM_OK;
    if (c->groups && find_part(s, true)) {
        status = score_groups(s);
        if (status == MNEM_OK)
            status = keep_best(s, c->from.kv_heads, groups, c->groups + s->layer * groups);
    }
    if (c->channels && status == MNEM_OK) {
        status = score_channels(s);
        if (status == MNEM_OK)
            status = keep_best(s, c->from.ff, channels, c->channels + (int64_t)s->layer * channels);
    }
    const mnem_progress *progress = &c->options->progress;
    if (status == MNEM_OK && !mnem__progress_tell(progress, "weighing", (uint64_t)s->layer + 1,
                                                  (uint64_t)c->from.layers))
        return mnem__fail(MNEM_CANCELLED, "prune: stopped by the caller");
    return status;
}

/* ---- buffers ---- */

static void free_buffers(scorer *s) {
    mnem__free(s->raw);
    mnem__free(s->row);
    mnem__free(s->norm);
    mnem__free(s->rows[0]);
    mnem__free(s->rows[1]);
    mnem__free(s->columns);
    mnem__free(s->score);
    mnem__free(s->order);
}

static mnem_status take_buffers(scorer *s) {
    const mnem_transformer *t = &s->choice->from;
    const int64_t heads = ((int64_t)t->heads + 2 * (int64_t)t->kv_heads) * t->head_dim;
    const size_t wide = (size_t)mnem__max_i64(heads, 2 * (int64_t)t->ff);
    const size_t k = (size_t)mnem__max_i64((int64_t)wide, t->embd);
    s->raw = mnem__alloc(TAG, mnem__max_u64(BATCH_BYTES, k * sizeof(float)));
    s->row = mnem__calloc(TAG, k, sizeof *s->row);
    s->norm = mnem__calloc(TAG, k, sizeof *s->norm);
    s->rows[0] = mnem__calloc(TAG, wide, sizeof *s->rows[0]);
    s->rows[1] = mnem__calloc(TAG, wide, sizeof *s->rows[1]);
    s->columns = mnem__calloc(TAG, wide, sizeof *s->columns);
    s->score = mnem__calloc(TAG, wide, sizeof *s->score);
    s->order = mnem__calloc(TAG, wide, sizeof *s->order);
    const bool all = s->raw && s->row && s->norm && s->rows[0] && s->rows[1] && s->columns &&
                     s->score && s->order;
    return all ? MNEM_OK : mnem__heap_status();
}

static mnem_status take_lists(mnem__prune_choice *c) {
    const size_t layers = (size_t)c->from.layers;
    if (c->to.heads != c->from.heads) {
        c->groups = mnem__calloc(TAG, layers * (size_t)c->to.kv_heads, sizeof *c->groups);
        if (!c->groups) return mnem__heap_status();
    }
    if (c->to.ff != c->from.ff) {
        c->channels = mnem__calloc(TAG, layers * (size_t)c->to.ff, sizeof *c->channels);
        if (!c->channels) return mnem__heap_status();
    }
    return MNEM_OK;
}

mnem_status mnem__prune_choose(mnem__prune_choice *c) {
    scorer s = {.choice = c};
    MNEM__TRY(take_lists(c));
    if (!c->groups && !c->channels) return MNEM_OK;
    mnem_status status = take_buffers(&s);
    for (; s.layer < c->from.layers && status == MNEM_OK; s.layer++) status = choose_in_layer(&s);
    free_buffers(&s);
    return status;
}

static double sum_of(const double *x, int32_t n) {
    double sum = 0;
    for (int32_t i = 0; i < n; i++) sum += x[i];
    return sum;
}

mnem_status mnem__prune_weigh_layers(const mnem__prune_choice *c, double *squares) {
    const mnem_prune_options weights_alone = {.progress = c->options->progress};
    mnem__prune_choice by_weights = *c;
    by_weights.options = &weights_alone;
    scorer s = {.choice = &by_weights};
    mnem_status status = take_buffers(&s);
    for (; s.layer < c->from.layers && status == MNEM_OK; s.layer++) {
        status = score_groups(&s);
        squares[s.layer] = sum_of(s.score, c->from.kv_heads);
        if (status == MNEM_OK) status = score_channels(&s);
        squares[s.layer] += sum_of(s.score, c->from.ff);
        if (status == MNEM_OK) status = tell(&s);
    }
    free_buffers(&s);
    return status;
}

void mnem__prune_choice_free(mnem__prune_choice *c) {
    mnem__free(c->groups);
    mnem__free(c->channels);
}
