/* test_scheduler_threads.c: a scheduler whose requests come from other threads. */
#include <pthread.h>
#include <unistd.h>

#include "serve/serve_bench.h"

static void *run_thread(void *scheduler) {
    must(mnem_scheduler_run(scheduler));
    return NULL;
}

typedef struct client {
    serve_bench *b;
    int first;
    pthread_t thread;
} client;

static void *client_thread(void *context) {
    const client *c = context;
    mnem_scheduler_stats stats;
    mnem_scheduler_slot slots[4];
    for (int i = c->first; i < c->first + 4; i++) {
        serve_ask *a = &c->b->ask[i];
        uint64_t number;
        while (mnem_scheduler_submit(c->b->scheduler, &a->request, &number, NULL) == MNEM_BUSY)
            usleep(1000);
        if (i % 4 == 3) mnem_scheduler_cancel(c->b->scheduler, number);
        mnem_scheduler_stats_get(c->b->scheduler, &stats);
        mnem_scheduler_slots_get(c->b->scheduler, slots, 4);
    }
    return NULL;
}

/* Here only what is told is counted: numbers are known to the thread that submits. */
static bool count_token(void *context, const mnem_request_token *token) {
    (void)token;
    ((serve_ask *)context)->got[0]++;
    return true;
}

static void clients_of_several_threads_are_served(void **state) {
    serve_bench *b = *state;
    pthread_t runner;
    client clients[3];
    serve_open(b, 4, SERVE_CONTEXT,
               (mnem_scheduler_options){.queue_requests = 3, .reserve = 1, .swap = "."});
    for (int i = 0; i < SERVE_ASKS; i++) {
        serve_ask *a = serve_request(b, i, i % 4, 40 + i, 60);
        a->request.on_token = count_token;
        a->request.on_event = NULL;
    }
    assert_int_equal(pthread_create(&runner, NULL, run_thread, b->scheduler), 0);
    for (int i = 0; i < 3; i++) {
        clients[i] = (client){.b = b, .first = 4 * i};
        assert_int_equal(pthread_create(&clients[i].thread, NULL, client_thread, &clients[i]), 0);
    }
    for (int i = 0; i < 3; i++) pthread_join(clients[i].thread, NULL);
    mnem_scheduler_stop(b->scheduler, true);
    pthread_join(runner, NULL);
    for (int i = 0; i < SERVE_ASKS; i++) {
        assert_int_equal(b->ask[i].ends, 1);
        if (i % 4 != 3) assert_int_equal(b->ask[i].got[0], 60);
    }
    serve_close(b);
}

/* A step that finds nothing to do must not end a request that comes while it looks. */
typedef struct idle {
    mnem_scheduler *scheduler;
    _Atomic int stop, ended, failed;
} idle;

static void note_end(void *context, const mnem_request_result *result) {
    idle *i = context;
    if (result->end == MNEM_END_ERROR) i->failed++;
    i->ended++;
}

static void *step_thread(void *context) {
    idle *i = context;
    bool more;
    while (!i->stop) must(mnem_scheduler_step(i->scheduler, &more));
    return NULL;
}

static bool take_token(void *context, const mnem_request_token *token) {
    (void)context, (void)token;
    return true;
}

static void a_request_that_comes_during_an_idle_step_is_served(void **state) {
    serve_bench *b = *state;
    pthread_t stepper;
    uint64_t number;
    serve_open(b, 2, SERVE_CONTEXT, (mnem_scheduler_options){.queue_requests = 3});
    idle i = {.scheduler = b->scheduler};
    mnem_request request = serve_request(b, 0, 0, 2, 1)->request;
    request.on_token = take_token;
    request.on_event = NULL;
    request.on_end = note_end;
    request.context = &i;
    assert_int_equal(pthread_create(&stepper, NULL, step_thread, &i), 0);
    for (int n = 0; n < 200; n++) {
        must(mnem_scheduler_submit(b->scheduler, &request, &number, NULL));
        while (i.ended <= n) usleep(50);
    }
    i.stop = 1;
    pthread_join(stepper, NULL);
    assert_int_equal(i.failed, 0);
    serve_close(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_of_several_threads_are_served),
        cmocka_unit_test(a_request_that_comes_during_an_idle_step_is_served),
    };
    return cmocka_run_group_tests(tests, serve_set_up, serve_tear_down);
}
