/* test_comm.c: ranks as threads, alone and behind slow links: messages in any order, collectives,
 * and what ends them. Threads don't assert: each counts what was wrong, and the test looks. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "kit/kit.h"
#include "kit/kit_heap.h"
#include "kit/kit_random.h"
#include "mnem/comm.h"

enum { RANKS_MAX = 5 };

typedef int rank_function(mnem_comm *comm, void *context); /* how much was wrong */

typedef struct rank {
    pthread_t id;
    mnem_comm *comm;
    rank_function *function;
    void *context;
    int wrong;
} rank;

static void *run_rank(void *context) {
    rank *r = context;
    r->wrong = r->function(r->comm, r->context);
    mnem_comm_destroy(r->comm);
    return NULL;
}

static void make_ranks(int32_t size, const mnem_comm_link *link, mnem_comm **ranks) {
    must(mnem_comm_thread_create(size, ranks));
    for (int32_t i = 0; link && i < size; i++)
        must(mnem_comm_slow_create(ranks[i], link, &ranks[i]));
}

/* A thread for each rank; link: NULL or a slow one around each. */
static void run_ranks(int32_t size, const mnem_comm_link *link, rank_function *function,
                      void *context) {
    mnem_comm *comms[RANKS_MAX];
    rank ranks[RANKS_MAX];
    make_ranks(size, link, comms);
    for (int32_t i = 0; i < size; i++) {
        ranks[i] = (rank){.comm = comms[i], .function = function, .context = context};
        assert_int_equal(pthread_create(&ranks[i].id, NULL, run_rank, &ranks[i]), 0);
    }
    for (int32_t i = 0; i < size; i++) pthread_join(ranks[i].id, NULL);
    for (int32_t i = 0; i < size; i++)
        if (ranks[i].wrong) fail_msg("rank %d of %d: %d wrong", i, size, ranks[i].wrong);
}

static const mnem_comm_link quick_link = {.seconds = 2e-5, .bytes_per_second = 1e9};

static void on_each(rank_function *function, void *context) {
    for (int32_t size = 1; size <= RANKS_MAX; size++) {
        run_ranks(size, NULL, function, context);
        run_ranks(size, &quick_link, function, context);
    }
}

static uint64_t below(uint64_t *random, uint64_t n) {
    return next_random(random) % n;
}

static void pause_for(long nanoseconds) {
    nanosleep(&(struct timespec){0, nanoseconds}, NULL);
}

/* ---- messages ---- */

enum { MESSAGES = 24, CHANNELS = 3, BYTES_MAX = 3000 };

typedef struct mail {
    uint8_t data[MESSAGES][BYTES_MAX];
    mnem_comm_request request[MESSAGES];
    int begun; /* of MESSAGES */
} mail;

static size_t size_of(int from, int to, int channel, int i) {
    return (size_t)((from * 7919 + to * 104729 + channel * 1299709 + i * 15485863) % BYTES_MAX);
}
static uint8_t byte_of(int from, int to, int channel, int i) {
    return (uint8_t)(1 + from + 5 * to + 25 * channel + 75 * i);
}

/* One more message of a random kind: posted, or sent. */
static int begin_one(mnem_comm *comm, mail *m, int32_t peer, int channel, bool sends) {
    const int me = mnem_comm_rank(comm), i = m->begun++;
    if (!sends)
        return mnem_comm_post(comm, peer, channel, m->data[i], BYTES_MAX, &m->request[i]) !=
               MNEM_OK;
    const size_t n = size_of(me, peer, channel, i);
    memset(m->data[i], byte_of(me, peer, channel, i), n);
    return mnem_comm_send(comm, peer, channel, m->data[i], n, &m->request[i]) != MNEM_OK;
}

static int check_mail(const mnem_comm *comm, const mail *m, int32_t peer, int channel) {
    const int me = mnem_comm_rank(comm);
    int wrong = 0;
    for (int i = 0; i < MESSAGES; i++) {
        const size_t n = size_of(peer, me, channel, i);
        wrong += m->request[i].bytes != n;
        for (size_t k = 0; k < n; k++) wrong += m->data[i][k] != byte_of(peer, me, channel, i);
    }
    return wrong;
}

/* Everybody sends everybody on every channel, begins in any order, and waits in another one. */
static int any_order(mnem_comm *comm, void *context) {
    const int32_t size = mnem_comm_size(comm), me = mnem_comm_rank(comm);
    const int boxes = size * CHANNELS * 2;
    mail *m = calloc((size_t)boxes, sizeof *m);
    if (!m) return 1;
    uint64_t random = *(const uint64_t *)context + (uint64_t)me;
    int wrong = 0, left = (size - 1) * CHANNELS * 2 * MESSAGES;
    while (left > 0 && !wrong) {
        const int b = (int)below(&random, (uint64_t)boxes);
        const int32_t peer = b / (2 * CHANNELS);
        bool done;
        if (peer == me) continue;
        if (m[b].begun < MESSAGES) {
            wrong += begin_one(comm, &m[b], peer, b / 2 % CHANNELS, b % 2);
            left--;
        } else if (below(&random, 4) == 0) {
            wrong += mnem_comm_test(comm, &m[b].request[3], &done) != MNEM_OK;
        }
        if (below(&random, 50) == 0) pause_for(20000);
    }
    for (int k = boxes - 1; k >= 0 && !wrong; k--)
        if (k / (2 * CHANNELS) != me) {
            wrong += mnem_comm_wait_soon(comm, m[k].request, 2e-4 * (k % 3)) != MNEM_OK;
            wrong += mnem_comm_wait(comm, m[k].request, MESSAGES) != MNEM_OK;
        }
    for (int k = 0; k < boxes && !wrong; k += 2)
        if (k / (2 * CHANNELS) != me)
            wrong += check_mail(comm, &m[k], k / (2 * CHANNELS), k / 2 % CHANNELS);
    mnem_comm_stats stats;
    mnem_comm_stats_get(comm, &stats);
    wrong += stats.messages_sent != (uint64_t)(size - 1) * CHANNELS * MESSAGES;
    wrong += stats.messages_received != stats.messages_sent;
    free(m);
    return wrong;
}

static void messages_keep_their_order_whoever_comes_first(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) on_each(any_order, &(uint64_t){1000 * seed});
}

static void a_send_waits_for_what_the_peer_posts(void **state) {
    (void)state;
    mnem_comm *ranks[2];
    make_ranks(2, NULL, ranks);
    char out[] = "abc", in[8] = "";
    mnem_comm_request send, post;
    bool done;
    must(mnem_comm_send(ranks[0], 1, 0, out, sizeof out, &send));
    must(mnem_comm_test(ranks[0], &send, &done));
    assert_false(done);
    must(mnem_comm_post(ranks[1], 0, 0, in, sizeof in, &post));
    must(mnem_comm_test(ranks[0], &send, &done));
    assert_true(done);
    must(mnem_comm_wait(ranks[1], &post, 1));
    assert_int_equal(post.bytes, sizeof out);
    assert_string_equal(in, out);
    mnem_comm_destroy(ranks[0]);
    mnem_comm_destroy(ranks[1]);
}

static void what_is_larger_than_posted_fails_both(void **state) {
    (void)state;
    mnem_comm *ranks[3];
    make_ranks(3, NULL, ranks);
    char data[8] = {0};
    mnem_comm_request send, post;
    must(mnem_comm_post(ranks[1], 2, 0, data, 4, &post));
    assert_int_equal(mnem_comm_send(ranks[2], 1, 0, data, 5, &send), MNEM_IO);
    assert_int_equal(mnem_comm_wait(ranks[1], &post, 1), MNEM_IO);
    assert_string_equal(
        mnem_last_error(),
        "comm: rank 2 sends 5 bytes on channel 0, where rank 1 expects 4: start the same "
        "version of mnem with the same model and options on all ranks");
    assert_string_equal(mnem_comm_failure(ranks[2]), mnem_last_error());
    for (int i = 0; i < 3; i++) mnem_comm_destroy(ranks[i]);
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    mnem_comm *ranks[2], *alone;
    make_ranks(2, NULL, ranks);
    must(mnem_comm_self_create(&alone));
    static char data[1];
    mnem_comm_request r[MNEM_COMM_POSTED_MAX + 1];
    assert_int_equal(mnem_comm_post(ranks[0], 0, 0, data, 1, r), MNEM_INVALID);
    assert_int_equal(mnem_comm_post(ranks[0], 2, 0, data, 1, r), MNEM_INVALID);
    assert_int_equal(mnem_comm_send(ranks[0], 1, MNEM_COMM_CHANNELS, data, 1, r), MNEM_INVALID);
    assert_int_equal(mnem_comm_send(ranks[0], 1, -1, data, 1, r), MNEM_INVALID);
    assert_int_equal(mnem_comm_send(ranks[0], 1, 0, data, (size_t)MNEM_COMM_BYTES_MAX + 1, r),
                     MNEM_INVALID);
    assert_int_equal(mnem_comm_send(alone, 0, 0, data, 1, r), MNEM_INVALID);
    assert_int_equal(mnem_comm_gather(ranks[0], data, (size_t[]){0, 1, 0}), MNEM_INVALID);
    assert_int_equal(mnem_comm_thread_create(0, ranks + 1), MNEM_INVALID);
    for (int i = 0; i < MNEM_COMM_POSTED_MAX; i++)
        must(mnem_comm_post(ranks[0], 1, 0, data, 1, &r[i]));
    assert_int_equal(mnem_comm_post(ranks[0], 1, 0, data, 1, &r[MNEM_COMM_POSTED_MAX]), MNEM_BUSY);
    must(mnem_comm_post(ranks[0], 1, 1, data, 1, &r[MNEM_COMM_POSTED_MAX]));
    mnem_comm_destroy(alone);
    mnem_comm_destroy(ranks[0]);
    mnem_comm_destroy(ranks[1]);
}

/* ---- together ---- */

static int meet(mnem_comm *comm, void *context) {
    atomic_int *came = context;
    int wrong = 0;
    const int size = mnem_comm_size(comm);
    for (int round = 1; round <= 20; round++) {
        if (mnem_comm_rank(comm) == round % size) pause_for(30000);
        atomic_fetch_add(came, 1);
        wrong += mnem_comm_barrier(comm) != MNEM_OK;
        wrong += atomic_load(came) < round * size;
        wrong += mnem_comm_barrier(comm) != MNEM_OK;
    }
    return wrong;
}

static void a_barrier_waits_for_everybody(void **state) {
    (void)state;
    for (int32_t size = 1; size <= RANKS_MAX; size++) {
        atomic_int came = 0;
        run_ranks(size, NULL, meet, &came);
        came = 0;
        run_ranks(size, &quick_link, meet, &came);
    }
}

static int join_parts(mnem_comm *comm, void *context) {
    const uint64_t seed = *(const uint64_t *)context;
    const int32_t size = mnem_comm_size(comm), me = mnem_comm_rank(comm);
    uint64_t random = seed;
    int wrong = 0;
    for (int round = 0; round < 20; round++) {
        size_t begin[RANKS_MAX + 1] = {0};
        uint8_t all[RANKS_MAX * 700];
        for (int32_t i = 0; i < size; i++) /* a part may be empty */
            begin[i + 1] = begin[i] + below(&random, 3) * below(&random, 300);
        memset(all, 0xee, sizeof all);
        memset(all + begin[me], me + round, begin[me + 1] - begin[me]);
        wrong += mnem_comm_gather(comm, all, begin) != MNEM_OK;
        for (int32_t i = 0; i < size; i++)
            for (size_t k = begin[i]; k < begin[i + 1]; k++) wrong += all[k] != i + round;
        wrong += all[begin[size]] != 0xee;
    }
    return wrong;
}

static void everybody_gathers_the_same(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) on_each(join_parts, &seed);
}

static int differ_on_3(mnem_comm *comm, void *context) {
    (void)context;
    const bool differs = mnem_comm_rank(comm) == 3;
    int wrong = mnem_comm_agree(comm, "chunk", "512") != MNEM_OK;
    const mnem_status status = mnem_comm_agree(comm, "build", differs ? "0.1.9" : "0.2.0");
    wrong += status != (mnem_comm_size(comm) > 3 ? MNEM_INVALID : MNEM_OK);
    if (status != MNEM_OK)
        wrong += strcmp(mnem_last_error(),
                        "build differs between ranks: rank 0 has 0.2.0, rank 3 has 0.1.9; "
                        "all ranks need the same") != 0;
    return wrong + (mnem_comm_barrier(comm) != MNEM_OK); /* they go on together */
}

static void what_differs_is_named_on_every_rank(void **state) {
    (void)state;
    on_each(differ_on_3, NULL);
}

/* ---- ends ---- */

static int abort_on_last(mnem_comm *comm, void *context) {
    const double *soon = context;
    const int32_t last = mnem_comm_size(comm) - 1, me = mnem_comm_rank(comm);
    char in[4], expected[64] = "out of disk";
    mnem_comm_request r;
    if (me == last) {
        pause_for(1000000);
        mnem_comm_abort(comm, expected);
        mnem_comm_abort(comm, "this is late");
    } else {
        snprintf(expected, sizeof expected, "comm: rank %d: out of disk", last);
        if (mnem_comm_post(comm, last, 0, in, sizeof in, &r) == MNEM_OK &&
            mnem_comm_wait_soon(comm, &r, *soon) != MNEM_IO)
            return 1;
    }
    return (mnem_comm_barrier(comm) != MNEM_IO) + (strcmp(mnem_last_error(), expected) != 0) +
           (!mnem_comm_failure(comm) || strcmp(mnem_comm_failure(comm), expected) != 0);
}

static void an_abort_ends_everybodys_wait_with_its_text(void **state) {
    (void)state;
    for (int32_t size = 2; size <= RANKS_MAX; size++) {
        for (int i = 0; i < 3; i++) { /* while they sleep; or look */
            double soon = 0.01 * i;
            run_ranks(size, NULL, abort_on_last, &soon);
            run_ranks(size, &quick_link, abort_on_last, &soon);
        }
    }
}

static int end_on_0(mnem_comm *comm, void *context) {
    (void)context;
    const int32_t me = mnem_comm_rank(comm);
    if (me == 0) return 0; /* run_rank destroys it */
    if (mnem_comm_barrier(comm) != MNEM_IO) return 1;
    return strstr(mnem_last_error(), "has ended") == NULL;
}

static void nobody_waits_for_a_rank_that_ended(void **state) {
    (void)state;
    for (int32_t size = 2; size <= RANKS_MAX; size++) {
        run_ranks(size, NULL, end_on_0, NULL);
        run_ranks(size, &quick_link, end_on_0, NULL);
    }
}

/* ---- slow links ---- */

typedef struct timing {
    mnem_comm_link link;
    double begin; /* before the first is sent */
} timing;

static int two_in_a_row(mnem_comm *comm, void *context) {
    timing *t = context;
    enum { BYTES = 20000 };
    static char data[4][BYTES];
    const double each = BYTES / t->link.bytes_per_second;
    mnem_comm_request r[2];
    int wrong = 0;
    bool done = false;
    if (mnem_comm_rank(comm) == 0) {
        t->begin = mnem__seconds();
        for (int i = 0; i < 2; i++)
            wrong += mnem_comm_send(comm, 1, 0, data[i], BYTES, &r[i]) != MNEM_OK;
        return wrong + (mnem_comm_wait(comm, r, 2) != MNEM_OK) +
               (mnem_comm_barrier(comm) != MNEM_OK);
    }
    for (int i = 0; i < 2; i++)
        wrong += mnem_comm_post(comm, 0, 0, data[2 + i], BYTES, &r[i]) != MNEM_OK;
    wrong += mnem_comm_wait(comm, &r[0], 1) != MNEM_OK;
    wrong += mnem__seconds() - t->begin < t->link.seconds + each;
    while (!done && !wrong) wrong += mnem_comm_test(comm, &r[1], &done) != MNEM_OK;
    wrong += mnem__seconds() - t->begin < t->link.seconds + 2 * each;
    return wrong + (mnem_comm_barrier(comm) != MNEM_OK);
}

static void a_slow_link_takes_its_time(void **state) {
    (void)state;
    timing t = {.link = {.seconds = 0.005, .bytes_per_second = 1e6}};
    run_ranks(2, &t.link, two_in_a_row, &t);
}

static void a_link_that_makes_no_sense_is_refused(void **state) {
    (void)state;
    mnem_comm *comm;
    must(mnem_comm_self_create(&comm));
    const mnem_comm_link link = {.seconds = -1};
    assert_int_equal(mnem_comm_slow_create(comm, &link, &comm), MNEM_INVALID); /* and took it */
}

/* ---- memory ---- */

static mnem_status create_and_destroy(void) {
    mnem_comm *ranks[3];
    MNEM__TRY(mnem_comm_thread_create(3, ranks));
    mnem_status status = MNEM_OK;
    for (int i = 0; i < 3; i++) {
        if (status == MNEM_OK) {
            status = mnem_comm_slow_create(ranks[i], &quick_link, &ranks[i]);
            if (status != MNEM_OK) continue; /* it is gone */
        }
        mnem_comm_destroy(ranks[i]);
    }
    return status;
}

static void without_memory_nothing_is_left(void **state) {
    (void)state;
    heap_sweep sweep = {.most = 100};
    mnem_status status;
    do {
        heap_sweep_begin(&sweep, false);
        status = create_and_destroy();
    } while (heap_sweep_next(&sweep, status));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_keep_their_order_whoever_comes_first),
        cmocka_unit_test(a_send_waits_for_what_the_peer_posts),
        cmocka_unit_test(what_is_larger_than_posted_fails_both),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(a_barrier_waits_for_everybody),
        cmocka_unit_test(everybody_gathers_the_same),
        cmocka_unit_test(what_differs_is_named_on_every_rank),
        cmocka_unit_test(an_abort_ends_everybodys_wait_with_its_text),
        cmocka_unit_test(nobody_waits_for_a_rank_that_ended),
        cmocka_unit_test(a_slow_link_takes_its_time),
        cmocka_unit_test(a_link_that_makes_no_sense_is_refused),
        cmocka_unit_test(without_memory_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
