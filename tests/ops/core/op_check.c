/* op_check.c: see op_check.h. */
#include "ops/core/op_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cpu.h"

typedef struct call {
    const mnem_op *op;
    mnem_op_args args;
} call;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void run_member(const mnem_worker *worker, void *context) {
    const call *c = context;
    mnem_op_run(c->op, &c->args, worker);
}

static void run_once(mnem_team *team, call *c) {
    if (team)
        mnem_team_run(team, run_member, c);
    else
        run_member(&(mnem_worker){NULL, 0, 1}, c);
}

static double time_calls(const mnem_op *op, const mnem_op_args *args, const op_check_options *o) {
    int64_t calls = o->calls ? o->calls : 1;
    double start = now();
    for (int64_t i = 0; i < calls; i++) {
        call c = {op, *args};
        if (i) c.args.in[1] = (const char *)args->in[1] + i * o->in1_step;
        run_once(o->team, &c);
    }
    return (now() - start) / (double)calls;
}

static void compare_floats(const float *a, const float *b, uint64_t n, op_check_result *r) {
    for (uint64_t i = 0; i < n; i++) {
        if (memcmp(a + i, b + i, 4) == 0 || (isnan(a[i]) && isnan(b[i]))) continue;
        r->same = false;
        double e = fabs((double)a[i] - b[i]) / (1 + fabs((double)b[i]));
        if (!(e <= r->error)) r->error = isnan(e) ? INFINITY : e;
    }
}

static void compare_bytes(const uint8_t *a, const uint8_t *b, uint64_t n, op_check_result *r) {
    for (uint64_t i = 0; i < n; i++) r->error += a[i] != b[i];
    r->same = r->error == 0;
}

static void *copy_of(const void *p, uint64_t bytes) {
    void *copy = aligned_alloc(64, (bytes + 63) / 64 * 64);
    return copy ? memcpy(copy, p, bytes) : NULL;
}

static void *workspace_for(const mnem_op *op) {
    void *p = aligned_alloc(64, (op->workspace_bytes + 63) / 64 * 64 + 64);
    return p ? memset(p, 0xff, op->workspace_bytes) : NULL;
}

/* Runs the operator once more on out as it was, and the plain kernel on a copy of that. */
static void compare(const mnem_op *op, mnem_op_args args, const void *before,
                    const op_check_options *o, op_check_result *r) {
    uint64_t bytes = mnem_tensor_bytes(&op->desc.out);
    mnem__cpu_level level = mnem__cpu_level_get();
    call c = {op, args};
    memcpy(args.out, before, bytes);
    run_once(o->team, &c);
    mnem_op plain;
    mnem__cpu_level_set(MNEM__CPU_PLAIN);
    if (mnem_op_prepare(&op->desc, &plain) == MNEM_OK) {
        call p = {&plain, args};
        p.args.workspace = workspace_for(&plain);
        p.args.out = copy_of(before, bytes);
        run_once(o->team, &p);
        if (op->desc.out.type == MNEM_TYPE_F32)
            compare_floats(args.out, p.args.out, bytes / 4, r);
        else
            compare_bytes(args.out, p.args.out, bytes, r);
        free(p.args.workspace);
        free(p.args.out);
    }
    mnem__cpu_level_set(level);
}

op_check_result op_check(const mnem_op_desc *desc, const mnem_op_args *args,
                         const op_check_options *options) {
    op_check_result r = {.same = true};
    mnem_op op;
    mnem_op_desc with_team = *desc;
    with_team.workers = options->team ? mnem_team_count(options->team) : 1;
    if (mnem_op_prepare(&with_team, &op) != MNEM_OK) return r;
    mnem_op_args a = *args;
    a.workspace = workspace_for(&op);
    void *before = copy_of(args->out, mnem_tensor_bytes(&op.desc.out));
    for (int i = 0; i < options->warmups; i++) time_calls(&op, &a, options);
    r.kernel = op.kernel;
    r.seconds = INFINITY;
    for (int i = 0; i == 0 || i < options->repeats; i++) {
        double seconds = time_calls(&op, &a, options);
        if (seconds < r.seconds) r.seconds = seconds;
    }
    r.compared = !options->skip_plain;
    if (r.compared) compare(&op, a, before, options, &r);
    free(before);
    free(a.workspace);
    return r;
}

bool op_check_print(const char *shape, const op_check_result *r, double tolerance) {
    if (!r->kernel) {
        printf("%-24s %-28s refused: %s\n", "", shape, mnem_last_error());
        return false;
    }
    bool good = r->error <= tolerance;
    printf("%-22s %-26s %9.4f ms", r->kernel, shape, r->seconds * 1e3);
    if (r->compared)
        printf("  error %.2g%s%s", r->error, r->same ? " (same)" : "",
               good ? "" : "  ABOVE TOLERANCE");
    return good;
}
