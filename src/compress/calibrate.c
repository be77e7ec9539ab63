/* calibrate.c: sums the squared inputs of each column of a model's matrices over a text.
 *
 * Idea: a watcher of the walk adds squares. Each member of the team has its own columns, and
 * adds the tokens in order, so the order of additions doesn't depend on the pass or the number
 * of threads. Invariant: sums are f64 during a layer's walk; each distinct input is counted
 * once, and matrices with the same input get the same sums. Cost: 8 bytes per column of one
 * layer, and one multiplication per input element. */
#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "mnem/compress.h"
#include "model/architecture/transformer_graph.h"

typedef struct counter {
    mnem_imatrix *imatrix;
    int32_t matrices; /* capacity: the most matrices of a layer */
    int64_t columns;  /* capacity: the most columns of a layer */
    double *sums;     /* [columns]: those of matrix i begin at at[i] */
    float *rounded;   /* [columns of a matrix] */
    int64_t *at;      /* [matrices] */
    int64_t *rows;    /* [matrices]: number of added rows */
    int32_t *same;    /* [matrices]: the matrix whose sums it shares */
} counter;

static int64_t columns_of(const mnem_tensor_info *matrix) {
    return matrix->shape[matrix->dims - 1];
}

static mnem_status begin(void *context, const mnem_walk_layer *layer) {
    counter *c = context;
    int64_t at = 0;
    for (int32_t i = 0; i < layer->matrices; i++) {
        c->at[i] = at;
        c->rows[i] = 0;
        c->same[i] = i;
        at += columns_of(&layer->matrix[i]);
    }
    for (int64_t i = 0; i < at; i++) c->sums[i] = 0;
    return MNEM_OK;
}

static void add(void *context, const mnem_walk_input *input, const mnem_worker *worker) {
    enum { GRAIN = 64 }; /* columns: whole lines of sums */
    counter *c = context;
    int64_t first, last;
    if (worker->index == 0) {
        c->same[input->matrix] = input->same;
        if (input->same == input->matrix) c->rows[input->matrix] += input->rows;
    }
    if (input->same != input->matrix) return;
    double *sums = c->sums + c->at[input->matrix];
    mnem_team_split(worker, input->columns, GRAIN, &first, &last);
    for (int64_t t = 0; t < input->rows; t++) {
        const float *x = input->x + t * input->stride;
        for (int64_t j = first; j < last; j++) sums[j] += (double)x[j] * (double)x[j];
    }
}

static mnem_status end(void *context, const mnem_walk_layer *layer) {
    const counter *c = context;
    for (int32_t i = 0; i < layer->matrices; i++) {
        const int64_t columns = columns_of(&layer->matrix[i]);
        const float count = (float)c->rows[c->same[i]];
        for (int64_t j = 0; j < columns; j++) c->rounded[j] = (float)c->sums[c->at[c->same[i]] + j];
        MNEM__TRY(
            mnem_imatrix_add(c->imatrix, layer->matrix[i].name, 1, columns, c->rounded, &count));
    }
    return MNEM_OK;
}

/* ---- room ---- */

/* An upper bound of an entry's heap bytes, without its sums. */
enum { ENTRY_BYTES = 256 };

/* Finds the largest layer, and the bytes that imatrix will have for all layers. */
static void measure(const mnem__transformer_map *map, counter *c, uint64_t *kept) {
    for (int32_t layer = 0; layer < map->shape.layers; layer++) {
        const int32_t first = map->layer_first[layer], end = map->layer_first[layer + 1];
        int64_t columns = 0;
        for (int32_t i = first; i < end; i++) {
            mnem_tensor_info info = {0};
            mnem_model_tensor_get(map->model, (uint32_t)map->matrices[i], &info);
            columns += columns_of(&info);
            *kept += (uint64_t)columns_of(&info) * sizeof(float) + ENTRY_BYTES;
        }
        c->matrices = mnem__max_i32(c->matrices, end - first);
        c->columns = mnem__max_i64(c->columns, columns);
    }
}

/* One allocation, which begins with the sums. */
static mnem_status make_room(counter *c) {
    const uint64_t columns = (uint64_t)c->columns, matrices = (uint64_t)c->matrices;
    c->sums = mnem__calloc("calibration", 1,
                           columns * (sizeof *c->sums + sizeof *c->rounded) +
                               matrices * (sizeof *c->at + sizeof *c->rows + sizeof *c->same));
    if (!c->sums) return mnem__heap_status();
    c->at = (int64_t *)(void *)(c->sums + columns);
    c->rows = c->at + matrices;
    c->rounded = (float *)(void *)(c->rows + matrices);
    c->same = (int32_t *)(void *)(c->rounded + columns);
    return MNEM_OK;
}

mnem_status mnem_calibrate(const mnem_model *model, const mnem_walk_options *options,
                           const int32_t *ids, int64_t sequences, mnem_imatrix *imatrix,
                           mnem_walk_report *report) {
    counter c = {.imatrix = imatrix};
    mnem_walk_watcher watcher = {.begin = begin, .input = add, .end = end, .context = &c};
    mnem__transformer_map *map;
    MNEM__TRY(mnem__transformer_map_create(model, &map));
    measure(map, &c, &watcher.bytes);
    mnem__transformer_map_destroy(map);
    MNEM__TRY(make_room(&c));
    const mnem_status status = mnem_walk(model, options, ids, sequences, &watcher, report);
    mnem__free(c.sums);
    return status;
}
