/* make_trace.c: a trace of as many events as one wants, recorded by the library as a program's.
 *
 * Steps of operators on one thread take blocks of a pool on the device that is only numbers, and
 * give most of them back; others live long. A ledger has accounts of several kinds, some of which
 * rise and fall; its limit refuses now and then. VmRSS is said as the engine says it.
 *
 *     make_trace EVENTS FILE [SEED]
 *
 * bench/compare_page.py makes a page of it. What comes out depends on EVENTS and SEED only, but for
 * its times. */
#include <stdio.h>
#include <stdlib.h>

#include "base/event.h"
#include "mnem/pool.h"
#include "mnem/trace.h"

enum { BLOCKS = 4096, OPERATORS = 120, SITES = 300, ACCOUNTS = 24 };

typedef struct made {
    mnem_ledger *ledger;
    mnem_pool *pool;
    mnem_pool_block block[BLOCKS];
    uint64_t charged[ACCOUNTS];
    uint64_t roll, said; /* said: events so far */
    uint32_t owner;
} made;

static void must(mnem_status status) {
    if (status == MNEM_OK) return;
    fprintf(stderr, "make_trace: %s\n", mnem_last_error());
    exit(1);
}

/* Knuth's multiplier (MMIX); its upper bits. */
static uint64_t below(made *m, uint64_t n) {
    m->roll = m->roll * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (m->roll >> 33) % n;
}

/* ---- what a step does ---- */

static void take(made *m, uint32_t i) {
    static const char *const tag[] = {"activations", "scratch", "pages", "gradients", "cache"};
    static const mnem_kind kind[] = {MNEM_KIND_ACTIVATION, MNEM_KIND_WORKSPACE, MNEM_KIND_KV,
                                     MNEM_KIND_GRADIENT, MNEM_KIND_IO};
    static const char *const file[] = {"attention.c", "matmul.c", "loader.c", "sampler.c"};
    const uint64_t site = below(m, SITES), of = site % 5;
    const mnem_pool_request r = {.bytes = 64 + below(m, (uint64_t)1 << (8 + below(m, 13))),
                                 .kind = kind[of],
                                 .tag = tag[of]};
    must(mnem_pool_alloc_from(m->pool, file[site % 4], 10 + (int)site, &r, &m->block[i]));
    m->said++;
}

static void give(made *m, uint32_t i) {
    if (!m->block[i].memory.bytes) return;
    must(mnem_pool_free(m->pool, &m->block[i], NULL));
    m->said++;
}

/* Blocks of the first quarter live long, so that addresses are never quite free. */
static void turn_over(made *m) {
    const uint32_t i =
        (uint32_t)(below(m, 16) ? BLOCKS / 4 + below(m, BLOCKS * 3 / 4) : below(m, BLOCKS / 4));
    if (m->block[i].memory.bytes)
        give(m, i);
    else
        take(m, i);
}

static void charge(made *m) {
    static const char *const tag[] = {"matrices", "pages", "graph", "texts", "tables", "names"};
    const uint32_t i = (uint32_t)below(m, ACCOUNTS);
    const mnem_kind kind = (mnem_kind)(i % 4 == 0 ? MNEM_KIND_HOST : i % MNEM_KIND_COUNT);
    char name[32];
    snprintf(name, sizeof name, "%s %u", tag[i % 6], i);
    if (m->charged[i] && below(m, 2)) {
        mnem_ledger_release(m->ledger, kind, name, m->charged[i]);
        m->charged[i] = 0;
    } else {
        const uint64_t bytes = 1 + below(m, 4 << 20);
        if (mnem_ledger_charge(m->ledger, kind, name, bytes) == MNEM_OK) m->charged[i] += bytes;
    }
    m->said++;
}

static void run_operator(made *m, uint32_t i) {
    static const char *const kind[] = {"matmul", "rms_norm", "attention", "rope", "swiglu", "add"};
    char matrix[32];
    snprintf(matrix, sizeof matrix, "blk.%u.part_%u", i / 6, i % 6);
    mnem__event_say(MNEM__EVENT_BEGIN, m->owner, i, MNEM__SPAN_OPERATOR, kind[i % 6], matrix, 0);
    for (int k = 0; k < 6; k++) turn_over(m);
    if (i % 10 == 0) charge(m);
    mnem__event_say(MNEM__EVENT_END, m->owner, i, MNEM__SPAN_OPERATOR, kind[i % 6], matrix, 0);
    mnem__event_sample();
    m->said += 2;
}

static void run_step(made *m) {
    mnem_trace_begin("step");
    for (uint32_t i = 0; i < OPERATORS; i++) run_operator(m, i);
    mnem_trace_end("step");
    m->said += 2;
}

/* ---- all of it ---- */

static void finish(made *m) {
    for (uint32_t i = 0; i < BLOCKS; i++)
        if (i % 64) give(m, i); /* the others are what a report calls leaks */
}

int main(int count, char **word) {
    static made m;
    mnem_trace *trace;
    mnem_device *device;
    if (count < 3) {
        fprintf(stderr, "usage: make_trace EVENTS FILE [SEED]\n");
        return 2;
    }
    const uint64_t events = strtoull(word[1], NULL, 10);
    m.roll = count > 3 ? strtoull(word[3], NULL, 10) : 1;
    must(mnem_ledger_create_process(
        &(mnem_ledger_options){.budget_bytes = 128 << 20, .own_process = true}, &m.ledger));
    must(mnem_trace_create(&(mnem_trace_options){.path = word[2], .ledger = m.ledger}, &trace));
    must(mnem_trace_note(trace, "program", "make_trace"));
    must(mnem_device_open("null", &(mnem_device_options){.capacity_bytes = 1 << 30}, &device));
    must(mnem_pool_create(&(mnem_pool_options){.device = device, .blocks_max = BLOCKS}, &m.pool));
    m.owner = mnem__event_owner();
    while (m.said < events) run_step(&m);
    finish(&m);
    must(mnem_trace_write(trace));
    mnem_trace_info info;
    mnem_trace_info_get(trace, &info);
    printf("%llu events, %llu not kept\n", (unsigned long long)info.events,
           (unsigned long long)info.dropped);
    mnem_trace_destroy(trace);
    mnem_pool_destroy_forced(m.pool);
    mnem_device_close(device);
    return 0;
}
