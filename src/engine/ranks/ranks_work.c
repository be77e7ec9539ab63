/* ranks_work.c: which layers each rank takes.
 *
 * A cut is found by bisection over the time of the slowest, with a greedy probe, as for the
 * chains-on-chains problem (Pinar and Aykanat, Fast optimal load balancing algorithms for 1D
 * partitioning, 2004). */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "engine/ranks/ranks_private.h"
#include "model/architecture/architecture.h"

/* What a token reads of each layer; the output matrix is the last one's. */
static void layer_work(const mnem_model *model, const mnem_transformer *m, double *work) {
    mnem_tensor_info t;
    double head = 0, embedding = 0;
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++) {
        int layer;
        const bool experts = strstr(t.name, "_exps.") != NULL;
        const double used = experts ? (double)m->route.used / m->experts : 1;
        if (sscanf(t.name, "blk.%d.", &layer) == 1 && layer >= 0 && layer < m->layers)
            work[layer] += used * (double)t.bytes;
        else if (strcmp(t.name, "output.weight") == 0)
            head = (double)t.bytes;
        else if (strcmp(t.name, "token_embd.weight") == 0)
            embedding = (double)t.bytes;
    }
    work[m->layers - 1] += m->tied ? embedding : head;
}

/* Of runs of layers in the place of layers. */
static void add_runs(const mnem_transformer *t, double *work) {
    for (int32_t run = 0; run < mnem__layer_runs(t); run++) {
        double sum = 0;
        for (int32_t i = mnem__layer_run_begin(t, run); i < mnem__layer_run_begin(t, run + 1); i++)
            sum += work[i];
        work[run] = sum; /* read before: a run's number is at most its first layer's */
    }
}

/* Whether each rank ends within seconds; the cut, in runs, where it does. */
static bool try_cut(const double *work, int32_t runs, const double *speed, int32_t ranks,
                    double seconds, int32_t *cut) {
    int32_t at = 0;
    cut[0] = 0;
    for (int32_t i = 0; i < ranks; i++) {
        const int32_t most = runs - (ranks - 1 - i); /* one for each of the others */
        double sum = 0;
        for (; at < most && (sum + work[at]) / speed[i] <= seconds; at++) sum += work[at];
        if (at == cut[i]) return false;
        cut[i + 1] = at;
    }
    return at == runs;
}

mnem_status mnem__ranks_cut_by_work(const mnem_model *model, const double *speed, int32_t ranks,
                                    int32_t *cut) {
    enum { HALVINGS = 50 };
    mnem_transformer t;
    double low = 0, high = 0, slowest = speed[0];
    MNEM__TRY(mnem_model_transformer(model, &t));
    double *work = mnem__calloc("plan", (size_t)t.layers, sizeof *work);
    if (!work) return mnem__heap_status();
    layer_work(model, &t, work);
    add_runs(&t, work);
    const int32_t runs = mnem__layer_runs(&t);
    for (int32_t i = 0; i < ranks; i++) slowest = speed[i] < slowest ? speed[i] : slowest;
    for (int32_t i = 0; i < runs; i++) high += work[i] / slowest;
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = (low + high) / 2;
        if (try_cut(work, runs, speed, ranks, middle, cut))
            high = middle;
        else
            low = middle;
    }
    const bool found = try_cut(work, runs, speed, ranks, high, cut);
    for (int32_t i = 1; i <= ranks && found; i++) cut[i] = mnem__layer_run_begin(&t, cut[i]);
    mnem__free(work);
    return found ? MNEM_OK
                 : mnem__fail(MNEM_INVALID,
                              "ranks: %d ranks are too many to split by layers: the model has %d "
                              "layers, so use at most %d ranks",
                              ranks, t.layers, runs);
}
