/* op_cases.c: see op_cases.h. Every operand and the workspace end at a page that faults. */
#include "ops/views/op_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "mnem/ops.h"
#include "ops/core/half.h"
#include "ops/views/guarded.h"

enum { TEAM_MOST = 3 };

typedef struct running {
    const op_case *c;
    guarded in[OP_CASE_INPUTS], out, packed;
    const uint8_t *before, *after; /* of out */
    uint8_t *touched;
} running;

static mnem_tensor tensor_of(const op_case_tensor *from) {
    mnem_tensor t = {.type = (mnem_type)from->type, .dims = (int)from->dims};
    for (int d = 0; d < OP_CASE_DIMS; d++) {
        t.shape[d] = from->shape[d];
        t.stride[d] = from->stride[d];
    }
    t.offset = from->offset;
    return t;
}

static mnem_op_kind kind_of(const char *text) {
    for (int kind = 0; kind < MNEM_OP_COUNT; kind++)
        if (!strcmp(mnem_op_text((mnem_op_kind)kind), text)) return (mnem_op_kind)kind;
    fail_msg("no operator %s", text);
    return MNEM_OP_COUNT;
}

static double number_at(mnem_type type, const uint8_t *p) {
    union {
        float f;
        double d;
        uint16_t h;
        int8_t b;
        int16_t s;
        int32_t i;
    } x;
    memcpy(&x, p, mnem_type_get(type)->block_bytes);
    switch (type) {
    case MNEM_TYPE_F32: return (double)x.f;
    case MNEM_TYPE_F64: return x.d;
    case MNEM_TYPE_F16: return (double)mnem__half_float(x.h);
    case MNEM_TYPE_BF16: return (double)mnem__bf16_float(x.h);
    case MNEM_TYPE_I8: return x.b;
    case MNEM_TYPE_I16: return x.s;
    default: return x.i;
    }
}

static bool equal_at(const op_case *c, const uint8_t *got, const uint8_t *want) {
    const mnem_type type = (mnem_type)c->out.type;
    const size_t unit = mnem_type_get(type)->block_bytes;
    if (!memcmp(got, want, unit)) return true;
    if (type == MNEM_TYPE_I64) return false;
    const double a = number_at(type, got), b = number_at(type, want);
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return a == b || fabs(a - b) <= c->absolute + c->relative * fabs(b);
}

/* Every element, and that nothing between them was touched. */
static bool compare(running *r) {
    const op_case_tensor *t = &r->c->out;
    const uint8_t *got = r->out.data;
    const int64_t unit = mnem_type_get((mnem_type)t->type)->block_bytes;
    int64_t count = 1;
    for (int d = 0; d < t->dims; d++) count *= t->shape[d];
    memset(r->touched, 0, (size_t)t->bytes);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = t->offset, rest = i;
        for (int d = (int)t->dims - 1; d >= 0; d--) {
            at += rest % t->shape[d] * t->stride[d];
            rest /= t->shape[d];
        }
        memset(r->touched + at, 1, (size_t)unit);
        if (equal_at(r->c, got + at, r->after + at)) continue;
        printf("element %lld: %.9g instead of %.9g\n", (long long)i,
               number_at((mnem_type)t->type, got + at),
               number_at((mnem_type)t->type, r->after + at));
        return false;
    }
    for (int64_t i = 0; i < t->bytes; i++)
        if (!r->touched[i] && got[i] != r->before[i]) {
            printf("byte %lld between the elements was written\n", (long long)i);
            return false;
        }
    return true;
}

static mnem_op_desc desc_of(const op_case *c) {
    mnem_op_desc d = {.kind = kind_of(c->kind),
                      .workers = (int32_t)c->workers,
                      .alpha = (float)c->alpha,
                      .scale = (float)c->scale,
                      .axis = (int32_t)c->axis,
                      .axes = (uint32_t)c->axes,
                      .reduce = (mnem_reduce)c->reduce,
                      .accumulate = c->accumulate};
    for (int i = 0; i < OP_CASE_INPUTS; i++)
        if (c->in[i].dims) d.in[i] = tensor_of(&c->in[i]);
    d.out = tensor_of(&c->out);
    return d;
}

/* MATMUL of in[0] with in[1] (values), in[2] (scales) and in[3] (zeros) packed. */
static mnem_op_desc int4_desc(running *r, const void **packed) {
    const op_case *c = r->c;
    const mnem_int4 w = {.rows = c->out.shape[1],
                         .k = c->in[0].shape[1],
                         .group = c->axes,
                         .blocks = c->axis,
                         .values = r->in[1].data,
                         .scales = r->in[2].data,
                         .zeros = c->in[3].dims ? r->in[3].data : NULL};
    r->packed = guarded_alloc(mnem_pack_bytes(mnem_int4_type(&w), w.rows, w.k));
    if (mnem_pack_int4(&w, r->packed.data) != MNEM_OK) fail_msg("%s", mnem_last_error());
    *packed = r->packed.data;
    mnem_op_desc d = {.kind = MNEM_OP_MATMUL, .workers = (int32_t)c->workers};
    d.in[0] = tensor_of(&c->in[0]);
    d.in[1] = mnem_tensor_packed(mnem_int4_type(&w), w.rows, w.k);
    d.out = tensor_of(&c->out);
    return d;
}

typedef struct call {
    const mnem_op *op;
    const mnem_op_args *args;
} call;

static void run_call(const mnem_worker *worker, void *context) {
    const call *c = context;
    mnem_op_run(c->op, c->args, worker);
}

static bool run_level(running *r, mnem_team **teams) {
    const op_case *c = r->c;
    mnem_op_args args = {.tokens = c->tokens, .out = r->out.data, .row_end = c->out.shape[1]};
    for (int i = 0; i < OP_CASE_INPUTS; i++) args.in[i] = r->in[i].data;
    const mnem_op_desc d =
        strcmp(c->kind, "int4") ? desc_of(c) : int4_desc(r, (const void **)&args.in[1]);
    mnem_op op;
    if (mnem_op_prepare(&d, &op) != MNEM_OK) fail_msg("%s: %s", c->text, mnem_last_error());
    guarded workspace = guarded_alloc(op.workspace_bytes);
    if (op.workspace_bytes % 64) fail_msg("%s: a workspace of odd bytes", c->text);
    memset(workspace.data, 0xff, op.workspace_bytes);
    args.workspace = workspace.data;
    memcpy(r->out.data, r->before, (size_t)c->out.bytes);
    mnem_team_run(teams[c->workers - 1], run_call, &(call){&op, &args});
    const bool good = compare(r);
    guarded_free(&workspace);
    if (r->packed.map) guarded_free(&r->packed);
    return good;
}

/* At every level of the processor. */
static bool run_case(const op_case *c, const uint8_t *bytes, mnem_team **teams) {
    running r = {.c = c};
    for (int i = 0; i < OP_CASE_INPUTS; i++) {
        r.in[i] = guarded_alloc((size_t)c->in[i].bytes);
        memcpy(r.in[i].data, bytes, (size_t)c->in[i].bytes);
        bytes += c->in[i].bytes;
    }
    r.before = bytes;
    r.after = bytes + c->out.bytes;
    r.out = guarded_alloc((size_t)c->out.bytes);
    r.touched = malloc((size_t)c->out.bytes);
    const mnem__cpu_level best = mnem__cpu_level_get();
    bool good = true;
    for (int level = 0; good && level <= (int)best; level++) {
        mnem__cpu_level_set((mnem__cpu_level)level);
        good = run_level(&r, teams);
    }
    mnem__cpu_level_set(best);
    if (!good) printf("%s: %s\n", c->kind, c->text);
    for (int i = 0; i < OP_CASE_INPUTS; i++) guarded_free(&r.in[i]);
    guarded_free(&r.out);
    free(r.touched);
    return good;
}

static uint8_t *read_all(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s must be there", path);
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    uint8_t *all = malloc(*bytes);
    assert_int_equal(fread(all, 1, *bytes, file), *bytes);
    fclose(file);
    return all;
}

int64_t op_cases_run(const char *path) {
    mnem_team *teams[TEAM_MOST];
    for (int i = 0; i < TEAM_MOST; i++)
        assert_int_equal(mnem_team_create(i + 1, &teams[i]), MNEM_OK);
    size_t bytes, at = 0;
    uint8_t *all = read_all(path, &bytes);
    int64_t count = 0;
    for (; at < bytes && count >= 0; count++) {
        op_case c;
        memcpy(&c, all + at, sizeof c);
        if (!run_case(&c, all + at + sizeof c, teams)) count = -2;
        at += sizeof c + 2 * (size_t)c.out.bytes;
        for (int i = 0; i < OP_CASE_INPUTS; i++) at += (size_t)c.in[i].bytes;
    }
    free(all);
    for (int i = 0; i < TEAM_MOST; i++) mnem_team_destroy(teams[i]);
    return count;
}
