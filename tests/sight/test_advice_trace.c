/* test_advice_trace.c: what is said of a trace that a program recorded with the library, and that
 * doing it gives what was promised: each program here runs twice, before and after. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/kit_file.h"
#include "mnem/op_queue.h"
#include "mnem/pool.h"
#include "mnem/trace.h"
#include "sight/advice_case.h"

enum { STEPS = 50 };

/* A program: its device, its ledger, and a recording of what it does. */
typedef struct program {
    mnem_ledger *ledger;
    mnem_device *device;
    mnem_trace *trace;
    char path[256];
} program;

static void begin(program *p, uint64_t budget) {
    snprintf(p->path, sizeof p->path, "%s", kit_path("program.pftrace"));
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = budget}, &p->ledger));
    must(mnem_device_open("host", NULL, &p->device));
    must(mnem_trace_create(&(mnem_trace_options){.path = p->path, .ledger = p->ledger}, &p->trace));
}

static mnem_facts end(program *p) {
    mnem_facts facts = {.model = "program.pftrace"};
    must(mnem_trace_write(p->trace));
    mnem_trace_destroy(p->trace);
    must(mnem_device_close(p->device));
    must(mnem_ledger_destroy(p->ledger));
    must(mnem_facts_trace(p->path, &facts));
    return facts;
}

/* ---- bytes that a device is given ---- */

/* Made in memory of the program's own kind, and copied into a block of the device. */
static mnem_facts give_by_copies(uint64_t bytes) {
    program p;
    mnem_block mine, theirs;
    begin(&p, 0);
    must(mnem_device_alloc(p.device, MNEM_SPACE_PINNED, bytes, 64, &mine));
    must(mnem_device_alloc(p.device, MNEM_SPACE_DEVICE, bytes, 64, &theirs));
    for (int i = 0; i < STEPS; i++)
        must(mnem_stream_copy(p.device, NULL, &theirs, 0, &mine, 0, bytes));
    mnem_device_free(&theirs);
    mnem_device_free(&mine);
    return end(&p);
}

static mnem_facts give_by_buffers(uint64_t bytes) {
    program p;
    mnem_buffer buffer;
    begin(&p, 0);
    must(mnem_buffer_alloc(p.device, bytes, 64, &buffer));
    for (int i = 0; i < STEPS; i++) must(mnem_buffer_to_device(&buffer, NULL, 0, bytes));
    mnem_buffer_free(&buffer);
    return end(&p);
}

static void copies_are_gone_after(void **state) {
    (void)state;
    mnem_advice a;
    mnem_facts facts = give_by_copies(64 * KIB);
    advice_need(&facts, "zero-copy", &a);
    assert_true(a.severe);
    assert_int_equal((uint64_t)a.gain.before, STEPS * 64 * KIB);
    facts = give_by_buffers(64 * KIB);
    advice_silent(&facts, "zero-copy");
    assert_int_equal((uint64_t)facts.value[MNEM_FACT_HANDED_OVER], STEPS * 64 * KIB);
    advice_keeps(&a, facts.value[MNEM_FACT_HANDED_OVER] * (1 - facts.value[MNEM_FACT_ZERO_COPY]));
}

/* Within a device nothing goes from one side to the other. */
static void copies_within_a_device_are_its_own(void **state) {
    (void)state;
    program p;
    mnem_block one, other;
    begin(&p, 0);
    must(mnem_device_alloc(p.device, MNEM_SPACE_DEVICE, 4096, 64, &one));
    must(mnem_device_alloc(p.device, MNEM_SPACE_DEVICE, 4096, 64, &other));
    must(mnem_stream_copy(p.device, NULL, &one, 0, &other, 0, 4096));
    mnem_device_free(&one);
    mnem_device_free(&other);
    const mnem_facts facts = end(&p);
    assert_false(facts.known[MNEM_FACT_HANDED_OVER]);
}

/* ---- workspaces ---- */

enum { TOKENS = 64, K = 4096, ROWS = 64 };

typedef struct product {
    mnem_op op;
    mnem_op_args args;
    float *x, *y;
    void *weight;
} product;

/* Of 8-bit weights: its inputs are made 8-bit, too, in a workspace. */
static void product_make(product *p, mnem_team *team) {
    mnem_op_desc d = {.kind = MNEM_OP_MATMUL, .workers = mnem_team_count(team)};
    d.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, TOKENS, K);
    d.in[1] = mnem_tensor_packed(MNEM_TYPE_Q8_0, ROWS, K);
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, TOKENS, ROWS);
    must(mnem_op_prepare(&d, &p->op));
    p->x = aligned_alloc(64, TOKENS * K * sizeof(float));
    p->y = aligned_alloc(64, TOKENS * ROWS * sizeof(float));
    p->weight = aligned_alloc(64, ROWS * K * 2);
    assert_true(p->x && p->y && p->weight);
    memset(p->x, 0, TOKENS * K * sizeof(float));
    memset(p->weight, 0, ROWS * K * 2);
    p->args =
        (mnem_op_args){.tokens = TOKENS, .in = {p->x, p->weight}, .out = p->y, .row_end = ROWS};
}

static void product_free(product *p) {
    free(p->x);
    free(p->y);
    free(p->weight);
}

/* Runs it with a workspace of so many bytes by the ledger; what is written is never beyond what
 * there is. */
static mnem_facts run_with(uint64_t charged) {
    program p;
    product work;
    mnem_team *team;
    mnem_op_queue *queue;
    mnem_block workspace;
    begin(&p, 0);
    must(mnem_team_create(1, &team));
    product_make(&work, team);
    const uint64_t real = charged > work.op.workspace_bytes ? charged : work.op.workspace_bytes;
    must(mnem_ledger_charge(p.ledger, MNEM_KIND_WORKSPACE, "operators", charged));
    must(mnem_device_alloc(p.device, MNEM_SPACE_DEVICE, real, 64, &workspace));
    work.args.workspace = mnem_block_host(&workspace);
    must(mnem_op_queue_create(p.device, team, &queue));
    for (int i = 0; i < 3; i++) must(mnem_op_queue_submit(queue, &work.op, &work.args));
    mnem_op_queue_destroy(queue);
    mnem_ledger_release(p.ledger, MNEM_KIND_WORKSPACE, "operators", charged);
    mnem_device_free(&workspace);
    product_free(&work);
    mnem_team_destroy(team);
    return end(&p);
}

static void a_large_workspace_is_small_after(void **state) {
    (void)state;
    mnem_advice a;
    mnem_facts facts = run_with(8 * MIB);
    advice_need(&facts, "workspace-large", &a);
    assert_int_equal((uint64_t)a.gain.before, 8 * MIB);
    assert_true(a.gain.after > 0);
    facts = run_with((uint64_t)a.gain.after);
    advice_silent(&facts, "workspace-large");
    advice_silent(&facts, "workspace-overrun");
    advice_keeps(&a, facts.value[MNEM_FACT_WORKSPACE]);
}

static void a_workspace_that_is_too_small_is_large_enough_after(void **state) {
    (void)state;
    mnem_advice a;
    mnem_facts facts = run_with(64);
    advice_need(&facts, "workspace-overrun", &a);
    assert_true(a.severe);
    const double used = facts.value[MNEM_FACT_WORKSPACE_USED];
    assert_int_equal((uint64_t)a.gain.before, (uint64_t)used - 64);
    facts = run_with((uint64_t)advice_option(&a, "at least"));
    advice_silent(&facts, "workspace-overrun");
    advice_keeps(&a, facts.value[MNEM_FACT_WORKSPACE_USED] - facts.value[MNEM_FACT_WORKSPACE]);
}

/* ---- refusals, leaks ---- */

/* A page more at a time, until all are there or one is refused; tries go on as programs do. */
static mnem_facts take_pages(uint64_t budget) {
    program p;
    uint64_t taken = 0;
    begin(&p, budget);
    for (int i = 0; i < 100; i++)
        taken += mnem_ledger_charge(p.ledger, MNEM_KIND_KV, "pages", 10000) == MNEM_OK ? 10000 : 0;
    mnem_ledger_release(p.ledger, MNEM_KIND_KV, "pages", taken);
    return end(&p);
}

static void nothing_is_refused_after(void **state) {
    (void)state;
    mnem_advice a;
    mnem_facts facts = take_pages(900000);
    advice_need(&facts, "requests-refused", &a);
    assert_int_equal((int)a.gain.before, 10);
    facts = take_pages(advice_option_bytes(&a, "--memory"));
    advice_silent(&facts, "requests-refused");
    advice_keeps(&a, facts.value[MNEM_FACT_REFUSALS]);
}

static mnem_facts leak(bool freed) {
    program p;
    mnem_pool *pool;
    static mnem_pool_block block[2000];
    begin(&p, 0);
    must(mnem_pool_create(&(mnem_pool_options){.device = p.device, .ledger = p.ledger}, &pool));
    for (int i = 0; i < 2000; i++)
        must(
            mnem_pool_alloc(pool, &(mnem_pool_request){.bytes = 100, .tag = "answers"}, &block[i]));
    for (int i = 0; i < 2000 && freed; i++) mnem_pool_free(pool, &block[i], NULL);
    if (freed) must(mnem_pool_destroy(pool));
    must(mnem_trace_write(p.trace));
    mnem_trace_destroy(p.trace);
    mnem_facts facts = {.model = "program.pftrace"};
    must(mnem_facts_trace(p.path, &facts));
    for (int i = 0; i < 2000 && !freed; i++) mnem_pool_free(pool, &block[i], NULL);
    if (!freed) must(mnem_pool_destroy(pool));
    must(mnem_device_close(p.device));
    must(mnem_ledger_destroy(p.ledger));
    return facts;
}

static void blocks_that_are_left_are_freed_after(void **state) {
    (void)state;
    mnem_advice a;
    mnem_facts facts = leak(false);
    advice_need(&facts, "live-at-the-end", &a);
    assert_non_null(strstr(a.evidence, "answers"));
    facts = leak(true);
    advice_silent(&facts, "live-at-the-end");
    advice_keeps(&a, facts.value[MNEM_FACT_END_BYTES]);
}

/* ---- what the process takes beyond its ledger ---- */

enum { BESIDE = 32 * MIB };

/* 32 MiB beside the library, charged or not; what the history would say of it. */
static bool take(bool charged, mnem_history_run *run) {
    mnem_ledger *ledger;
    mnem_ledger_info info;
    mnem_process_usage usage;
    if (mnem_ledger_create_process(&(mnem_ledger_options){.own_process = true}, &ledger) != MNEM_OK)
        return false;
    if (charged && mnem_ledger_charge(ledger, MNEM_KIND_HOST, "beside", BESIDE) != MNEM_OK)
        return false;
    char *volatile beside = malloc(BESIDE);
    if (!beside) return false;
    memset(beside, 1, BESIDE);
    if (mnem_process_usage_get(&usage) != MNEM_OK) return false;
    mnem_ledger_info_get(ledger, &info);
    *run = (mnem_history_run){.verb = "run",
                              .peak_bytes = usage.bytes_peak,
                              .ledger_bytes = info.bytes_peak,
                              .predicted_bytes = info.bytes_peak};
    return true;
}

static mnem_history_run take_beside(bool charged) {
    int ends[2], state;
    mnem_history_run run;
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        const bool ok = take(charged, &run);
        _exit(ok && write(ends[1], &run, sizeof run) == sizeof run ? 0 : 1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &run, sizeof run), sizeof run);
    assert_int_equal(waitpid(pid, &state, 0), pid);
    assert_int_equal(state, 0);
    close(ends[0]);
    return run;
}

static void what_was_beside_the_ledger_is_in_it_after(void **state) {
    (void)state;
    mnem_advice unaccounted, off;
    mnem_facts facts = {.model = ""};
    if (MNEM_SANITIZED) skip(); /* its shadow is in no account */
    mnem_history_run run = take_beside(false);
    mnem_facts_history(&run, &facts);
    advice_need(&facts, "bytes-unaccounted", &unaccounted);
    advice_need(&facts, "prediction-off", &off);
    assert_true(unaccounted.severe && off.severe);
    assert_non_null(strstr(unaccounted.command, "mnem_ledger_charge"));
    run = take_beside(true);
    mnem_facts_history(&run, &facts);
    advice_silent(&facts, "bytes-unaccounted");
    advice_silent(&facts, "prediction-off");
    const double left = (double)run.peak_bytes - (double)run.ledger_bytes;
    advice_keeps(&unaccounted, left > 0 ? left : 0);
    advice_keeps(&off, left > 0 ? left : 0);
}

static void another_file_isnt_taken_for_one(void **state) {
    (void)state;
    mnem_facts facts = {.model = ""};
    write_file(kit_path("a.trace"), "a 1 100\nf 1\n", 12);
    assert_int_equal(mnem_facts_trace(kit_path("a.trace"), &facts), MNEM_UNSUPPORTED);
    for (int i = 0; i < MNEM_FACT_COUNT; i++) assert_false(facts.known[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_gone_after),
        cmocka_unit_test(copies_within_a_device_are_its_own),
        cmocka_unit_test(a_large_workspace_is_small_after),
        cmocka_unit_test(a_workspace_that_is_too_small_is_large_enough_after),
        cmocka_unit_test(nothing_is_refused_after),
        cmocka_unit_test(blocks_that_are_left_are_freed_after),
        cmocka_unit_test(what_was_beside_the_ledger_is_in_it_after),
        cmocka_unit_test(another_file_isnt_taken_for_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
