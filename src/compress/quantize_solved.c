/* quantize_solved.c: quantizes a model with codes that compensate for each other's errors on a text
 * (GPTQ), or with columns scaled before rounding (AWQ).
 *
 *     types of all tensors ─► walk: codes of the layers' matrices, norms with scales ─► file
 *                             ─► written with the rest
 *
 * A layer is solved for the outputs of the layers before it, which are solved already, so that it
 * compensates for their errors. For a model that is quantized already, the inputs are those of the
 * unchanged model. */
#include <math.h>
#include <unistd.h>

#include "base/error.h"
#include "base/heap.h"
#include "compress/solver_private.h"
#include "model/convert/quantize_types.h"
#include "model/convert/rewrite.h"

enum { CHUNK_DEFAULT = 512 };

/* Reports the error of a solved tensor's outputs. */
static void tell(void *context, uint32_t tensor, mnem_quantize_report *report) {
    const mnem__solver *s = context;
    const mnem__solver_tensor *t = &s->tensors[tensor];
    report->solved = s->bytes && t->at && t->output > 0;
    if (!report->solved) return;
    report->output_error = sqrt(t->lost / t->output);
    report->exponent = (double)t->exponent;
}

static mnem_status find_types(const mnem__quantize_job *job, const mnem_quantize_options *options,
                              mnem_type **types) {
    mnem_model_info info;
    mnem_team *team;
    mnem_model_info_get(job->model, &info);
    *types = mnem__calloc("solver", info.tensors, sizeof **types);
    if (!*types) return mnem__heap_status();
    MNEM__TRY(mnem_team_create(options->threads > 0 ? options->threads : 1, &team));
    const mnem_status status = mnem__quantize_types(job, options, team, *types);
    mnem_team_destroy(team);
    return status;
}

static mnem_status solve(mnem__solver *s, const mnem_solve_options *o, const char *to) {
    MNEM__TRY(mnem__solver_walk(s, o, to));
    return s->bytes && !o->walk.plan_only ? mnem__solver_output(s) : MNEM_OK;
}

static mnem_status quantize_with_solver(mnem__quantize_job *job, const char *to,
                                        const mnem_quantize_options *options,
                                        const mnem_solve_options *o) {
    mnem_type *types = NULL;
    mnem__solver s = {.model = job->model,
                      .way = (mnem__solver_way)o->method,
                      .chunk = o->walk.chunk ? o->walk.chunk : CHUNK_DEFAULT,
                      .threads = o->walk.threads,
                      .fd = -1};
    mnem_status status = mnem__rewrite_check(job->model, "model", to); /* before minutes of work */
    if (status == MNEM_OK) status = find_types(job, options, &types);
    s.types = types;
    if (status == MNEM_OK) status = solve(&s, o, to);
    mnem__solver_give_back(&s);
    job->give = mnem__solver_give;
    job->tell = tell;
    job->give_context = &s;
    if (status == MNEM_OK && !o->walk.plan_only) status = mnem__quantize_run(job, to, options);
    mnem__solver_fini(&s);
    if (s.fd >= 0) close(s.fd);
    mnem__free(types);
    return status;
}

mnem_status mnem_quantize_solved(const char *from, const char *to,
                                 const mnem_quantize_options *options,
                                 const mnem_solve_options *solve_options) {
    mnem__quantize_job job = {.what = "quantize", .doing = "quantizing"};
    mnem_model *model;
    if ((unsigned)solve_options->method > MNEM_SOLVE_AWQ)
        return mnem__fail(MNEM_INVALID,
                          "solve: options.method is %d, expected a constant of mnem_solve_method",
                          (int)solve_options->method);
    MNEM__TRY(mnem__quantize_recipe(options, &job.recipe));
    MNEM__TRY(mnem_model_open(from, &model));
    job.model = model;
    const mnem_status status = quantize_with_solver(&job, to, options, solve_options);
    mnem_model_close(model);
    return status;
}
