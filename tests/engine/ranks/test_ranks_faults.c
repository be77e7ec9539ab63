/* test_ranks_faults.c: ranks as threads of which one ends all at any moment: the others end too,
 * with its text, and nothing of theirs is left or written any more.
 *
 * test_ranks_faults [CASES]     40 by default (8 under ThreadSanitizer) */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_random.h"
#include "mnem/mnem.h"

enum { RANKS_MAX = 4, ROWS = 24 };
static const char *const path = MNEM_TEST_DATA "/model/kjv-5m-q4_k_m.gguf";

#ifdef __SANITIZE_THREAD__
static int cases = 8;
#else
static int cases = 40;
#endif

typedef struct rank {
    pthread_t id;
    mnem_comm *comm;
    mnem_status status;
    char text[300];
    uint64_t bytes_left;
} rank;

static bool pass_by(void *context, int32_t part, int32_t index, const float *logits) {
    (void)context, (void)part, (void)index, (void)logits;
    return true;
}

/* Steps until one fails. */
static mnem_status lead(mnem_engine *engine) {
    int32_t ids[ROWS];
    mnem_sequence *s;
    mnem_status status = mnem_sequence_create(engine, &s);
    for (int32_t i = 0; i < ROWS; i++) ids[i] = 20 + i;
    for (int32_t i = 0; status == MNEM_OK; i++) {
        const mnem_step_part part = {s, ids, i % ROWS + 1, 0};
        status = mnem_sequence_truncate(s, 0);
        if (status == MNEM_OK) status = mnem_engine_step(engine, &part, 1, pass_by, NULL);
    }
    return status;
}

static mnem_status run_engine(const rank *r, const mnem_model *model, mnem_ledger *ledger) {
    const mnem_engine_options options = {
        .ledger = ledger, .comm = r->comm, .context = 64, .chunk = 8, .threads = 1};
    mnem_engine_plan plan;
    mnem_engine *engine = NULL;
    mnem_status status = mnem_engine_plan_ranks(model, &options, &plan);
    if (status == MNEM_OK) status = mnem_engine_create(model, &options, &plan, &engine);
    if (status == MNEM_OK)
        status = mnem_comm_rank(r->comm) ? mnem_engine_follow(engine) : lead(engine);
    mnem_engine_destroy(engine);
    return status;
}

static void *run_rank(void *context) {
    rank *r = context;
    mnem_ledger *ledger = NULL;
    mnem_model *model = NULL;
    mnem_ledger_info info = {.bytes_live = 1};
    r->status = mnem_ledger_create(&(mnem_ledger_options){0}, &ledger);
    if (r->status == MNEM_OK) r->status = mnem_model_open(path, &model);
    if (r->status == MNEM_OK) r->status = run_engine(r, model, ledger);
    strncpy(r->text, mnem_last_error(), sizeof r->text - 1);
    mnem_model_close(model);
    mnem_ledger_info_get(ledger, &info);
    r->bytes_left = info.bytes_live;
    mnem_ledger_destroy(ledger);
    return NULL;
}

static void run_case(uint64_t *random) {
    mnem_comm *comms[RANKS_MAX];
    rank ranks[RANKS_MAX] = {0};
    char text[80];
    const int32_t size = 2 + (int32_t)(next_random(random) % (RANKS_MAX - 1));
    const int32_t who = (int32_t)(next_random(random) % (uint64_t)size);
    const bool slow = next_random(random) % 3 == 0;
    must(mnem_comm_thread_create(size, comms));
    for (int32_t i = 0; slow && i < size; i++)
        must(mnem_comm_slow_create(
            comms[i], &(mnem_comm_link){.seconds = 1e-4, .bytes_per_second = 1e9}, &comms[i]));
    for (int32_t i = 0; i < size; i++) {
        ranks[i].comm = comms[i];
        assert_int_equal(pthread_create(&ranks[i].id, NULL, run_rank, &ranks[i]), 0);
    }
    usleep((unsigned)(next_random(random) % 40000));
    mnem_comm_abort(comms[who], "the disk is on fire");
    for (int32_t i = 0; i < size; i++) pthread_join(ranks[i].id, NULL);
    for (int32_t i = 0; i < size; i++) {
        if (i == who)
            snprintf(text, sizeof text, "the disk is on fire");
        else
            snprintf(text, sizeof text, "comm: rank %d: the disk is on fire", who);
        assert_int_equal(ranks[i].status, MNEM_IO);
        assert_string_equal(ranks[i].text, text);
        assert_int_equal(ranks[i].bytes_left, 0);
    }
    for (int32_t i = 0; i < size; i++) mnem_comm_destroy(comms[i]);
}

static void one_that_aborts_ends_all(void **state) {
    uint64_t random = 3;
    (void)state;
    for (int i = 0; i < cases; i++) run_case(&random);
}

int main(int argc, char **argv) {
    if (argc > 1) cases = atoi(argv[1]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_that_aborts_ends_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
