/* prune_solved.c: prunes two of every four weights, and changes the others to compensate
 * (SparseGPT).
 *
 *     types ─► walk: rows of the layers' matrices, pruned ─► file ─► written with the rest
 *
 * Each layer is pruned with the outputs of the pruned layers before it as inputs. */
#include <unistd.h>

#include "base/error.h"
#include "base/heap.h"
#include "compress/solver_private.h"
#include "model/convert/rewrite.h"
#include "model/prune/prune_private.h"

enum { CHUNK_DEFAULT = 512 };

static mnem_status solve(mnem__solver *s, mnem_type *types, const char *to,
                         const mnem_prune_options *options, const mnem_solve_options *o) {
    MNEM__TRY(mnem__rewrite_check(s->model, "model", to));
    MNEM__TRY(mnem__prune_types(s->model, options, types));
    return mnem__solver_walk(s, o, to);
}

static mnem_status prune_with_solver(const mnem_model *model, const char *to,
                                     const mnem_prune_options *options,
                                     const mnem_solve_options *o) {
    mnem_model_info info;
    mnem_model_info_get(model, &info);
    mnem_type *types = mnem__calloc("solver", info.tensors, sizeof *types);
    if (!types) return mnem__heap_status();
    mnem__solver s = {.model = model,
                      .types = types,
                      .way = MNEM__SOLVER_SPARSE,
                      .chunk = o->walk.chunk ? o->walk.chunk : CHUNK_DEFAULT,
                      .threads = o->walk.threads,
                      .fd = -1};
    const mnem__prune_giver giver = {mnem__solver_give, &s};
    mnem_status status = solve(&s, types, to, options, o);
    mnem__solver_give_back(&s);
    if (status == MNEM_OK && !o->walk.plan_only)
        status = mnem__prune_run(model, to, options, &giver);
    mnem__solver_fini(&s);
    if (s.fd >= 0) close(s.fd);
    mnem__free(types);
    return status;
}

mnem_status mnem_prune_solved(const char *from, const char *to, const mnem_prune_options *options,
                              const mnem_solve_options *solve_options) {
    mnem_model *model;
    if (options->pattern != MNEM_PRUNE_2_4)
        return mnem__fail(MNEM_INVALID, "prune: SparseGPT supports 2:4 sparsity only; set the "
                                        "pattern to 2:4, or use another method");
    MNEM__TRY(mnem_model_open(from, &model));
    const mnem_status status = prune_with_solver(model, to, options, solve_options);
    mnem_model_close(model);
    return status;
}
