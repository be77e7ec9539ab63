/* example_ops.c: operators in two phases: prepare finds errors and says the workspace, run works.
 * A sum of a million numbers, the softmax of columns where they lie, products with weights of 4
 * bits and of 2:4, and causal attention; each with what it costs.
 *
 *     example_ops [THREADS]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "mnem/mnem.h"

enum { MILLION = 1000000, T = 3, K = 512, ROWS = 256 };

static mnem_team *team;
static _Alignas(64) float x[MILLION], y[MILLION]; /* what all of them read and write */
static _Alignas(64) uint8_t packed[ROWS * K];

typedef struct call {
    const mnem_op *op;
    const mnem_op_args *args;
} call;

static void run_member(const mnem_worker *worker, void *context) {
    const call *c = context;
    mnem_op_run(c->op, c->args, worker);
}

/* Both phases. The workspace is the caller's: here it lives as long as the run. */
static void run(mnem_op_desc desc, mnem_op_args args) {
    mnem_op op = {.workspace_bytes = 0};
    desc.workers = mnem_team_count(team);
    mnem_status status = mnem_op_prepare(&desc, &op);
    args.workspace = aligned_alloc(64, (op.workspace_bytes + 64) / 64 * 64);
    if (status == MNEM_OK) status = mnem_op_check(&op, &args, desc.workers);
    if (status != MNEM_OK) exit((fprintf(stderr, "example_ops: %s\n", mnem_last_error()), 1));
    mnem_team_run(team, run_member, &(call){&op, &args});
    const mnem_op_cost cost = mnem_op_cost_get(&op, &args);
    printf("%-24s %9llu multiply-adds, %8llu bytes read, %8llu written, workspace %llu\n",
           op.kernel, (unsigned long long)cost.multiply_adds, (unsigned long long)cost.bytes_read,
           (unsigned long long)cost.bytes_written, (unsigned long long)op.workspace_bytes);
    free(args.workspace);
}

/* y = x + 2 y, in place. */
static void add_a_million(void) {
    mnem_op_desc d = {.kind = MNEM_OP_ADD, .alpha = 2.0f};
    d.in[0] = d.in[1] = d.out = mnem_tensor_1d(MNEM_TYPE_F32, MILLION);
    run(d, (mnem_op_args){.tokens = MILLION, .in = {x, y}, .out = y});
    printf("  the last one is %g, three times %g\n", (double)y[MILLION - 1],
           (double)x[MILLION - 1]);
}

/* Columns of a matrix, as rows of the transposed view; the result lies as the matrix does. */
static void softmax_of_columns(void) {
    const mnem_tensor matrix = mnem_tensor_2d(MNEM_TYPE_F32, 300, 200);
    mnem_op_desc d = {.kind = MNEM_OP_SOFTMAX, .axis = 1};
    d.in[0] = d.out = mnem_tensor_permute(&matrix, (int[]){1, 0});
    run(d, (mnem_op_args){.tokens = 200, .in = {x}, .out = y});
    double sum = 0;
    for (int i = 0; i < 300; i++) sum += (double)y[i * 200 + 7];
    printf("  column 7 adds up to %.4f\n", sum);
}

static void matmul(mnem_tensor weight) {
    mnem_op_desc d = {.kind = MNEM_OP_MATMUL, .in = {[1] = weight}};
    d.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, T, K);
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, ROWS);
    run(d, (mnem_op_args){.tokens = T, .in = {x, packed}, .out = y, .row_end = ROWS});
}

/* 4-bit values in rows, a scale and a zero for each row (channel), packed once. */
static void int4_product(void) {
    static uint8_t values[ROWS * K / 2];
    float scales[ROWS], zeros[ROWS];
    for (int i = 0; i < ROWS * K / 2; i++) values[i] = (uint8_t)(i * 71 % 251);
    for (int i = 0; i < ROWS; i++) scales[i] = 0.01f, zeros[i] = (float)(i % 16);
    const mnem_int4 w = {ROWS, K, .values = values, .scales = scales, .zeros = zeros};
    if (mnem_pack_int4(&w, packed) != MNEM_OK) exit(1);
    matmul(mnem_tensor_packed(mnem_int4_type(&w), ROWS, K));
    double exact = 0;
    for (int k = 0; k < K; k++) exact += (double)x[k] * 0.01 * (values[k / 2] >> k % 2 * 4 & 15);
    printf("  the first is %s\n", fabs((double)y[0] - exact) < 0.02 ? "right" : "wrong");
}

/* Weights of which 2 of 4 are zero, packed without them in groups of 16 rows. */
static void sparse_product(void) {
    uint8_t raw[16 * K / 32 * 18], *to = packed; /* Q4_0: 32 elements are 18 bytes */
    float w[K];
    for (int k = 0; k < K; k++) w[k] = k % 4 < 2 ? x[k] : 0;
    for (int r = 0; r < 16; r++) mnem_quantize_row(MNEM_TYPE_Q4_0, K, w, raw + r * K / 32 * 18);
    for (int g = 0; g < ROWS / 16; g++, to += mnem_sparse_group_bytes(MNEM_TYPE_Q4_0, K))
        if (!mnem_sparse_group(MNEM_TYPE_Q4_0, 16, K, raw, to)) exit(1);
    matmul(mnem_tensor_sparse(MNEM_TYPE_Q4_0, ROWS, K));
    printf("  all rows are %s\n", y[0] == y[ROWS - 1] && y[0] > 0 ? "equal" : "wrong");
}

/* Two sequences of 64 tokens, 4 heads of 32. */
static void attention(void) {
    float logs[128 * 4], *k = x + 20000, *v = x + 40000;
    mnem_op_desc d = {.kind = MNEM_OP_CAUSAL_ATTENTION, .sequence = 64, .scale = 0.17677669f};
    d.in[0] = d.in[1] = d.in[2] = d.out = mnem_tensor_3d(MNEM_TYPE_F32, 128, 4, 32);
    d.also[0] = mnem_tensor_2d(MNEM_TYPE_F32, 128, 4);
    run(d, (mnem_op_args){.tokens = 128, .in = {x, k, v}, .out = y, .also = {logs}});
    printf("  the first token sees %s\n", y[5] == v[5] ? "itself alone" : "another");
}

int main(int argc, char **argv) {
    if (mnem_team_create(argc > 1 ? atoi(argv[1]) : 2, &team) != MNEM_OK) return 1;
    for (int i = 0; i < MILLION; i++) x[i] = y[i] = (float)(i * 37LL % 101) / 101.0f - 0.5f;
    add_a_million();
    softmax_of_columns();
    int4_product();
    sparse_product();
    attention();
    mnem_team_destroy(team);
    return 0;
}
