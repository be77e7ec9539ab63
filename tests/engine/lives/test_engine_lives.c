/* test_engine_lives.c: lives of engines under one held ledger, in two threads at a time, as the
 * Python package has them (python/mnem/_worker.py): each is opened, generates, is asked to stop by
 * another thread at any moment, and is destroyed. Requests reach an engine only while its thread
 * isn't destroying it; which of them stop a step is chance, and the tokens are the same ones. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/session_case.h"
#include "kit/kit.h"
#include "mnem/mnem.h"

enum { LIVES = 4, THREADS = 2, TOKENS = 12, PROMPT = 3 };

static const int32_t PROMPTS[2][PROMPT] = {{1, 2, 3}, {5, 4, 3}};

typedef struct life {
    mnem_model *model;
    mnem_tokenizer *tokenizer;
    mnem_engine *engine;
    mnem_sequence *sequence;
    mnem_sampler *sampler;
    mnem_engine_options options;
    mnem_engine_plan plan;
    int32_t next;
} life;

/* A worker's life goes on in its own thread; the lock guards what the canceller reads. */
typedef struct worker {
    pthread_t thread, canceller;
    pthread_mutex_t lock;
    mnem_engine *running; /* may be asked to stop */
    atomic_bool ended;
    mnem_ledger *ledger;
    int number, stopped;
    int32_t tokens[2][TOKENS]; /* of each prompt */
    mnem_status status;        /* the first that failed, with its text */
    char text[200];
} worker;

static mnem_status life_open(life *l, mnem_ledger *ledger, int kind) {
    *l = (life){.options = {.ledger = ledger,
                            .context = 64,
                            .threads = 1 + kind % 3,
                            .kv = kind % 2   ? MNEM_KV_Q8_0
                                  : kind % 4 ? MNEM_KV_Q4_0
                                             : MNEM_KV_F16,
                            .budget_bytes = 24 * MIB}};
    mnem_status status = mnem_model_open(MODEL_SHIPPED, &l->model);
    if (status == MNEM_OK) status = mnem_tokenizer_create(l->model, &l->tokenizer);
    if (status == MNEM_OK) status = mnem_engine_plan_make(l->model, &l->options, &l->plan);
    if (status == MNEM_OK) status = mnem_engine_create(l->model, &l->options, &l->plan, &l->engine);
    if (status == MNEM_OK) status = mnem_sequence_create(l->engine, &l->sequence);
    return status;
}

static void life_close(life *l) {
    mnem_sampler_destroy(l->sampler);
    mnem_engine_destroy(l->engine);
    mnem_tokenizer_destroy(l->tokenizer);
    mnem_model_close(l->model);
}

static bool choose(void *context, int32_t part, int32_t index, const float *logits) {
    life *l = context;
    (void)part;
    (void)index;
    l->next = mnem_sampler_choose(l->sampler, logits);
    mnem_sampler_accept_chosen(l->sampler, l->next);
    return true;
}

/* A step that was stopped has changed nothing but what it had run; it is run again from there. */
static mnem_status life_step(life *l, const int32_t *ids, int32_t n, int *stopped) {
    mnem_status status;
    do {
        const int32_t at = mnem_sequence_length(l->sequence);
        const mnem_step_part part = {l->sequence, ids + at, n - at, n - at - 1};
        status = mnem_engine_step(l->engine, &part, 1, choose, l);
        *stopped += status == MNEM_CANCELLED;
    } while (status == MNEM_CANCELLED);
    return status;
}

static mnem_status life_run(life *l, const int32_t *prompt, int32_t *tokens, int *stopped) {
    mnem_tokenizer_info info;
    int32_t ids[PROMPT + TOKENS];
    mnem_sampler_options options = mnem_sampler_usual();
    options.seed = 7;
    mnem_tokenizer_info_get(l->tokenizer, &info);
    mnem_status status = mnem_sampler_create(&options, info.vocab, &l->sampler);
    memcpy(ids, prompt, PROMPT * sizeof(*ids));
    for (int i = 0; status == MNEM_OK && i < TOKENS; i++) {
        status = life_step(l, ids, PROMPT + i, stopped);
        tokens[i] = ids[PROMPT + i] = l->next;
    }
    return status;
}

static void set_running(worker *w, mnem_engine *engine) {
    pthread_mutex_lock(&w->lock);
    w->running = engine;
    pthread_mutex_unlock(&w->lock);
}

static void *worker_thread(void *context) {
    worker *w = context;
    for (int i = 0; i < LIVES && w->status == MNEM_OK; i++) {
        life l;
        const int prompt = i % 2;
        w->status = life_open(&l, w->ledger, 2 * (i / 2) + w->number);
        set_running(w, l.engine);
        if (w->status == MNEM_OK)
            w->status = life_run(&l, PROMPTS[prompt], w->tokens[prompt], &w->stopped);
        set_running(w, NULL);
        if (w->status != MNEM_OK) strncpy(w->text, mnem_last_error(), sizeof(w->text) - 1);
        life_close(&l);
    }
    atomic_store(&w->ended, true);
    return NULL;
}

/* Asks now and then, so that steps also end: at most as often as there are tokens. */
static void *canceller_thread(void *context) {
    worker *w = context;
    for (int asked = 0; asked < LIVES * TOKENS && !atomic_load(&w->ended); asked++) {
        pthread_mutex_lock(&w->lock);
        if (w->running) mnem_engine_cancel(w->running);
        pthread_mutex_unlock(&w->lock);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return NULL;
}

static void work_begin(worker *w, int number, mnem_ledger *ledger) {
    *w = (worker){.number = number, .ledger = ledger};
    pthread_mutex_init(&w->lock, NULL);
    assert_int_equal(pthread_create(&w->thread, NULL, worker_thread, w), 0);
    assert_int_equal(pthread_create(&w->canceller, NULL, canceller_thread, w), 0);
}

static void work_end(worker *w) {
    pthread_join(w->thread, NULL);
    pthread_join(w->canceller, NULL);
    pthread_mutex_destroy(&w->lock);
    if (w->status != MNEM_OK) fail_msg("worker %d: %s", w->number, w->text);
}

static uint64_t live(const mnem_ledger *ledger) {
    mnem_ledger_info info;
    mnem_ledger_info_get(ledger, &info);
    return info.bytes_live;
}

/* Worker 0 has F16 keys and values, worker 1 Q8_0: each is compared with itself alone. */
static void two_at_a_time_are_stopped_and_say_the_same(void **state) {
    (void)state;
    mnem_ledger *ledger;
    mnem_process_usage usage;
    worker alone[THREADS], together[THREADS];
    must(mnem_process_usage_get(&usage));
    must(mnem_ledger_create_process(
        &(mnem_ledger_options){.budget_bytes = usage.bytes_resident + GIB}, &ledger));
    must(mnem_ledger_hold(ledger));
    const uint64_t before = live(ledger);
    for (int i = 0; i < THREADS; i++) {
        work_begin(&alone[i], i, ledger);
        work_end(&alone[i]);
    }
    for (int i = 0; i < THREADS; i++) work_begin(&together[i], i, ledger);
    for (int i = 0; i < THREADS; i++) work_end(&together[i]);
    for (int i = 0; i < THREADS; i++)
        assert_memory_equal(together[i].tokens, alone[i].tokens, sizeof(alone[i].tokens));
    assert_true(live(ledger) <= before + MIB / 10);
    must(mnem_ledger_destroy(ledger));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_at_a_time_are_stopped_and_say_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
