/* test_graph_experts.c: what a run promises to a source of experts: told once which are wanted, two
 * held at most, all given back whatever happens; and what it promises to the caller: the same bits
 * as with resident ones, in any order. */
#include <string.h>

#include "base/error.h"
#include "kit/kit.h"
#include "mnem/graph.h"
#include "ops/core/op_fixture.h"

enum { T = 24, FEW = 8, N = 32, FF = 32, E = 8, USED = 2, GATES = 10, NEXT = 20 };
enum { MATRIX = E * N * FF };

static const int64_t rows_of[3] = {E * FF, E *FF, E *N};
static _Alignas(64) uint8_t packed[3][MATRIX * sizeof(float)];
static float x[T * N], routes[T * 2 * USED], guess[T * 2 * USED], out[T * N], resident_out[T * N];

typedef struct source {
    bool resident;
    int32_t wanted[E], count, given, held, held_most, wants, guessed[E], guesses;
    bool in_order;
    int32_t fail_at, cancel_at;
    volatile int cancel;
} source;

static const void *get_resident(void *context, int32_t matrix) {
    const source *s = context;
    return s->resident ? packed[matrix - GATES] : NULL;
}

static mnem_status want(void *context, int32_t gates, const int32_t *numbers, int32_t count,
                        bool in_order) {
    source *s = context;
    assert_int_equal(gates, GATES);
    memcpy(s->wanted, numbers, (size_t)count * sizeof *numbers);
    s->count = count;
    s->in_order = in_order;
    s->wants++;
    return MNEM_OK;
}

/* Backwards where it may be. */
static mnem_status acquire(void *context, int32_t gates, mnem_graph_expert *expert) {
    source *s = context;
    assert_int_equal(gates, GATES);
    assert_true(s->given < s->count);
    if (s->given == s->fail_at) return mnem__fail(MNEM_IO, "test: the disk is gone");
    if (s->given == s->cancel_at) s->cancel = 1;
    const int32_t at = s->in_order ? s->given : s->count - 1 - s->given;
    expert->expert.number = s->wanted[at];
    for (int i = 0; i < 3; i++)
        expert->expert.packed[i] = packed[i] + (size_t)s->wanted[at] * (sizeof packed[i] / E);
    expert->slot = ++s->given;
    if (++s->held > s->held_most) s->held_most = s->held;
    return MNEM_OK;
}

static void release(void *context, const mnem_graph_expert *expert) {
    source *s = context;
    assert_true(expert->slot >= 1 && expert->slot <= s->given);
    s->held--;
}

static void hear_guess(void *context, int32_t gates, const int32_t *numbers, int32_t count) {
    source *s = context;
    assert_int_equal(gates, NEXT);
    assert_int_equal(s->wants, 1); /* after what is wanted */
    memcpy(s->guessed, numbers, (size_t)count * sizeof *numbers);
    s->guesses = count;
}

static const mnem_graph_experts experts = {want, acquire, release, hear_guess};

static int setup(void **state) {
    (void)state;
    rng r = {17};
    float raw[MNEM_PACK_ROWS * N];
    for (int i = 0; i < 3; i++)
        for (int64_t g = 0; g < rows_of[i] / MNEM_PACK_ROWS; g++) {
            rng_fill(&r, raw, MNEM_PACK_ROWS * N, 0.3f);
            mnem_pack_group(MNEM_TYPE_F32, MNEM_PACK_ROWS, N, raw,
                            packed[i] + (size_t)g * mnem_pack_group_bytes(MNEM_TYPE_F32, N));
        }
    rng_fill(&r, x, T * N, 1);
    for (int t = 0; t < T; t++) {
        const int first = t % (E - 3); /* expert 7 is nobody's */
        const float row[2 * USED] = {(float)first, (float)first + 2, 0.3f, 0.7f};
        const float next[2 * USED] = {1, (float)(t % 2 ? 4 : 6), 0.2f, t % 2 ? 0.3f : 0.8f};
        memcpy(routes + t * 2 * USED, row, sizeof row);
        memcpy(guess + t * 2 * USED, next, sizeof next);
    }
    return 0;
}

static mnem_graph *build(bool guesses) {
    mnem_graph *g;
    mnem_graph_sizes sizes;
    const mnem_tensor rows = mnem_tensor_2d(MNEM_TYPE_F32, T, N);
    const mnem_tensor routed = mnem_tensor_2d(MNEM_TYPE_F32, T, 2 * USED);
    must(mnem_graph_create(&(mnem_graph_options){.tensors = 5, .nodes = 1, .workers = 3}, &g));
    mnem_graph_node node = {
        .desc = {.kind = MNEM_OP_EXPERTS, .route.used = USED, .core = MNEM_OP_SILU_MUL},
        .in = {mnem_graph_external(g, &rows, 0, 0), 0, 0, 0, mnem_graph_external(g, &routed, 1, 0)},
        .out = mnem_graph_external(g, &rows, 2, 0),
        .matrix = GATES,
        .guess = NEXT};
    if (guesses) node.in[6] = mnem_graph_external(g, &routed, 3, 0);
    for (int i = 0; i < 3; i++)
        node.desc.in[1 + i] = mnem_tensor_packed(MNEM_TYPE_F32, rows_of[i], N);
    mnem_graph_node_add(g, &node);
    must(mnem_graph_compile(g, &sizes));
    mnem_graph_node_info info;
    assert_true(mnem_graph_node_get(g, 0, &info));
    assert_int_equal(info.matrix, GATES);
    return g;
}

static mnem_status run(const mnem_graph *g, source *s, int workers, int64_t tokens, float *to) {
    static _Alignas(64) uint8_t workspace[1 << 20];
    mnem_team *team = NULL;
    mnem_graph_node_info info;
    const mnem_graph_weights weights = {
        .resident = get_resident, .context = s, .experts = &experts};
    assert_true(mnem_graph_node_get(g, 0, &info));
    assert_true(info.workspace_bytes <= sizeof workspace);
    must(mnem_team_create(workers, &team));
    memset(to, 0xff, (size_t)tokens * N * sizeof *to);
    const mnem_status status =
        mnem_graph_run(g, team,
                       &(mnem_graph_args){.tokens = tokens,
                                          .workspace = workspace,
                                          .external = (void *[]){x, routes, to, guess},
                                          .cancel = &s->cancel,
                                          .weights = &weights});
    mnem_team_destroy(team);
    return status;
}

static void a_source_gives_the_bits_of_resident_experts(void **state) {
    (void)state;
    mnem_graph *g = build(false);
    for (int64_t tokens = FEW; tokens <= T; tokens += T - FEW)
        for (int workers = 1; workers <= 3; workers++) {
            source all = {.resident = true}, s = {.fail_at = -1, .cancel_at = -1};
            must(run(g, &all, workers, tokens, resident_out));
            must(run(g, &s, workers, tokens, out));
            assert_memory_equal(out, resident_out, (size_t)tokens * N * sizeof *out);
            assert_int_equal(all.wants, 0);
            assert_int_equal(s.wants, 1);
            assert_int_equal(s.given, s.count);
            assert_int_equal(s.count, E - 1);
            assert_int_equal(s.held, 0);
            assert_true(s.held_most <= 2);
            assert_int_equal(s.in_order, tokens == T);
        }
    mnem_graph_destroy(g);
}

static void a_guess_is_told_once_the_most_certain_first(void **state) {
    (void)state;
    mnem_graph *g = build(true);
    source s = {.fail_at = -1, .cancel_at = -1};
    must(run(g, &s, 2, T, out));
    static const int32_t expected[] = {6, 1, 4};
    assert_int_equal(s.guesses, 3);
    assert_memory_equal(s.guessed, expected, sizeof expected);
    mnem_graph_destroy(g);
}

static void a_failure_is_told_and_everything_given_back(void **state) {
    (void)state;
    mnem_graph *g = build(false);
    for (int workers = 1; workers <= 3; workers++)
        for (int32_t at = 0; at < E - 1; at++) {
            source s = {.fail_at = at, .cancel_at = -1};
            assert_int_equal(run(g, &s, workers, T, out), MNEM_IO);
            assert_string_equal(mnem_last_error(), "test: the disk is gone");
            assert_int_equal(s.held, 0);
        }
    mnem_graph_destroy(g);
}

static void a_cancel_ends_a_run_between_experts(void **state) {
    (void)state;
    mnem_graph *g = build(false);
    source s = {.fail_at = -1, .cancel_at = 3};
    assert_int_equal(run(g, &s, 2, T, out), MNEM_CANCELLED);
    assert_int_equal(s.given, 4);
    assert_int_equal(s.held, 0);
    mnem_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_source_gives_the_bits_of_resident_experts),
        cmocka_unit_test(a_guess_is_told_once_the_most_certain_first),
        cmocka_unit_test(a_failure_is_told_and_everything_given_back),
        cmocka_unit_test(a_cancel_ends_a_run_between_experts),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
