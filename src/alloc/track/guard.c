/* guard.c: debug mode of a pool: what was done wrong with its blocks, and by whom.
 *
 * The idea: all free memory of the pool is filled with one value and every block has gaps of
 * another around it, so a wrong write is a byte that differs. Who did it is known from the row of
 * the block (live) or from a ring of the last frees.
 *
 *     free:   DD DD DD DD DD DD DD DD DD DD DD DD           looked at and refilled when taken
 *     live:   DD FD FD FD [ CD CD CD CD ] FD FD DD           gaps looked at when freed
 *                |raw     |address        |gap  |raw + raw_bytes
 *
 * Looking and filling is a job. It runs in the order of the block's stream, since the stream's
 * earlier work may use the memory still; on the default stream that is at once.
 * Invariant: memory that is free, and whose last stream has finished, holds DD only, or somebody
 * wrote to it after its free. A row is live from take to give.
 * Cost: each byte of a block is written twice and read once more; a ring of 4096 frees. */
#include "alloc/track/guard.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/heap.h"
#include "base/minmax.h"

/* A block's place and whose it is. By address, not by number: jobs read this without the pool's
 * lock, and rows never move. */
typedef struct guard_entry {
    mnem__guard_block block;
    uint64_t sequence;
    uint32_t id, generation;
    const mnem__tag *tag;
    const mnem__site *taken, *freed; /* freed NULL: not yet */
    bool told;                       /* a wrong gap was found already */
} guard_entry;

typedef struct guard_row {
    guard_entry entry;
    bool live;
    struct guard_job *taking; /* queued or running; NULL: the gaps are filled */
} guard_row;

typedef struct guard_job {
    struct guard_job *next;
    mnem__guard *guard;
    guard_entry entry;
    guard_row *row;
    bool taken; /* else: freed */
    bool running;
} guard_job;

struct mnem__guard {
    mnem_device *device;
    mnem_space space;
    const mnem__track *track;
    struct mnem__guard *next; /* in the list of all */
    pthread_mutex_t lock;     /* of all below; rows are written under the pool's lock too */
    mnem__rows rows;          /* of guard_row */
    guard_job *jobs;          /* to be used again */
    uint64_t frees;           /* so many entries were put into the ring */
    guard_entry ring[MNEM__GUARD_FREES];
    uint64_t found, told;
    mnem_misuse misuses[MNEM__GUARD_MISUSES]; /* the first */
    mnem_misuse latest[MNEM__GUARD_UNTOLD];   /* a ring */
};

/* All pools in debug mode, to say whose a foreign block is. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static mnem__guard *all;

static guard_row *row_at(const mnem__guard *g, uint32_t id) {
    return mnem__row(&g->rows, sizeof(guard_row), id);
}

/* Where the host sees an address; NULL where it can't. */
static uint8_t *host_of(const mnem__guard *g, uint64_t address, uint64_t bytes) {
    return mnem_block_host(
        &(mnem_block){.device = g->device, .address = address, .bytes = bytes, .space = g->space});
}

static bool at_once(const mnem_stream *stream) {
    return !stream; /* the default stream runs in the calling thread */
}

/* ---- what was found ---- */

static mnem_source source_of(const mnem__site *site) {
    return site ? (mnem_source){.file = site->name, .line = site->line} : (mnem_source){0};
}

static void misuse_of(const guard_entry *e, mnem_misuse *m) {
    m->kind = e->tag->kind;
    m->tag = e->tag->text;
    m->bytes = e->block.bytes;
    m->sequence = e->sequence;
    m->taken = source_of(e->taken);
    m->freed = source_of(e->freed);
}

static void misuse_put(mnem__guard *g, const mnem_misuse *m) {
    if (g->found < MNEM__GUARD_MISUSES) g->misuses[g->found] = *m;
    g->latest[g->found++ % MNEM__GUARD_UNTOLD] = *m;
}

/* The newest free of a block that held the address; NULL: too long ago, or never taken. */
static const guard_entry *freed_at(const mnem__guard *g, uint64_t address) {
    const uint64_t kept = mnem__min_u64(g->frees, MNEM__GUARD_FREES);
    for (uint64_t i = 0; i < kept; i++) {
        const guard_entry *e = &g->ring[(g->frees - 1 - i) % MNEM__GUARD_FREES];
        if (e->block.gap && address - e->block.raw < e->block.raw_bytes) return e;
    }
    return NULL;
}

static const guard_entry *freed_handle(const mnem__guard *g, uint32_t id, uint32_t generation) {
    const uint64_t kept = mnem__min_u64(g->frees, MNEM__GUARD_FREES);
    for (uint64_t i = 0; i < kept; i++) {
        const guard_entry *e = &g->ring[(g->frees - 1 - i) % MNEM__GUARD_FREES];
        if (e->id == id && e->generation == generation) return e;
    }
    return NULL;
}

/* ---- bytes ---- */

/* How many of n bytes differ from value; the first at *first. Comparing the bytes with themselves,
 * one further, is as fast as the machine compares memory. */
static uint64_t wrong_bytes(const uint8_t *p, uint64_t n, uint8_t value, uint64_t *first) {
    uint64_t wrong = 0;
    if (!n || (p[0] == value && !memcmp(p, p + 1, n - 1))) return 0;
    for (uint64_t i = n; i-- > 0;) {
        if (p[i] == value) continue;
        *first = i;
        wrong++;
    }
    return wrong;
}

/* Memory that should hold nothing but the poison of free memory. caller: NULL for a check. */
static void look_free(mnem__guard *g, uint64_t address, uint64_t bytes, const mnem__site *caller) {
    uint64_t first = 0;
    const uint64_t wrong =
        wrong_bytes(host_of(g, address, bytes), bytes, MNEM__POISON_FREE, &first);
    if (!wrong) return;
    mnem_misuse m = {.what = MNEM_MISUSE_USE_AFTER_FREE,
                     .address = address + first,
                     .wrong = wrong,
                     .caller = source_of(caller)};
    pthread_mutex_lock(&g->lock);
    const guard_entry *e = freed_at(g, m.address);
    if (e) {
        misuse_of(e, &m);
        m.offset = (int64_t)(m.address - e->block.address);
    }
    misuse_put(g, &m);
    pthread_mutex_unlock(&g->lock);
}

/* One gap of a block. Returns whether it was written to. */
static bool look_gap(mnem__guard *g, const guard_entry *e, uint64_t begin, uint64_t end) {
    uint64_t first = 0;
    const uint64_t wrong =
        wrong_bytes(host_of(g, begin, end - begin), end - begin, MNEM__POISON_GAP, &first);
    if (!wrong) return false;
    mnem_misuse m = {.what = begin < e->block.address ? MNEM_MISUSE_WRITE_BEFORE
                                                      : MNEM_MISUSE_WRITE_PAST,
                     .address = begin + first,
                     .wrong = wrong};
    m.offset = (int64_t)(m.address - e->block.address);
    misuse_of(e, &m);
    m.caller = m.freed;
    pthread_mutex_lock(&g->lock);
    misuse_put(g, &m);
    pthread_mutex_unlock(&g->lock);
    return true;
}

static bool look_gaps(mnem__guard *g, const guard_entry *e) {
    const mnem__guard_block *b = &e->block;
    const bool before = look_gap(g, e, b->raw, b->address);
    const bool past = look_gap(g, e, b->address + b->bytes, b->raw + b->raw_bytes);
    return before || past;
}

/* ---- jobs: with no lock, in the order of a stream ---- */

static void take_run(mnem__guard *g, const guard_entry *e) {
    const mnem__guard_block *b = &e->block;
    look_free(g, b->raw, b->raw_bytes, e->taken);
    uint8_t *p = host_of(g, b->raw, b->raw_bytes);
    const uint64_t front = b->address - b->raw, end = front + b->bytes;
    memset(p, MNEM__POISON_GAP, front);
    memset(p + front, MNEM__POISON_TAKEN, b->bytes);
    memset(p + end, MNEM__POISON_GAP, b->raw_bytes - end);
}

static bool end_run(mnem__guard *g, const guard_entry *e) {
    const bool wrong = !e->told && look_gaps(g, e);
    memset(host_of(g, e->block.raw, e->block.raw_bytes), MNEM__POISON_FREE, e->block.raw_bytes);
    return wrong;
}

static bool entry_run(mnem__guard *g, const guard_entry *e, bool taken) {
    if (!taken) return end_run(g, e);
    take_run(g, e);
    return false;
}

static void job_run(void *context) {
    guard_job *job = context;
    mnem__guard *g = job->guard;
    pthread_mutex_lock(&g->lock);
    job->running = true;
    pthread_mutex_unlock(&g->lock);
    entry_run(g, &job->entry, job->taken);
    pthread_mutex_lock(&g->lock);
    if (job->row->taking == job) job->row->taking = NULL;
    job->next = g->jobs;
    g->jobs = job;
    pthread_mutex_unlock(&g->lock);
}

bool mnem__guard_taking(mnem__guard *g, uint32_t id) {
    guard_row *row = row_at(g, id);
    pthread_mutex_lock(&g->lock);
    while (row->taking && row->taking->running) {
        pthread_mutex_unlock(&g->lock);
        sched_yield();
        pthread_mutex_lock(&g->lock);
    }
    const bool to_come = row->taking;
    pthread_mutex_unlock(&g->lock);
    return to_come;
}

static guard_job *job_make(mnem__guard *g) {
    pthread_mutex_lock(&g->lock);
    guard_job *job = g->jobs;
    if (job) g->jobs = job->next;
    pthread_mutex_unlock(&g->lock);
    return job ? job : mnem__alloc("guard", sizeof *job);
}

/* The device fills what the host can't see. */
static void fill_hidden(mnem__guard *g, const guard_entry *e, bool taken, mnem_stream *stream) {
    const mnem_block raw = {.device = g->device,
                            .address = e->block.raw,
                            .bytes = e->block.raw_bytes,
                            .space = g->space};
    mnem_stream_fill(g->device, stream, &raw, 0, raw.bytes,
                     taken ? MNEM__POISON_TAKEN : MNEM__POISON_FREE);
}

static void taking_set(mnem__guard *g, guard_row *row, guard_job *job) {
    pthread_mutex_lock(&g->lock);
    row->taking = job;
    pthread_mutex_unlock(&g->lock);
}

/* Runs a job in the stream's order. With no memory for a job the stream is waited for. Returns
 * whether it ran here and found a gap that was written to. */
static bool job_queue(mnem__guard *g, guard_row *row, bool taken, mnem_stream *stream) {
    const guard_entry *e = &row->entry;
    if (!host_of(g, e->block.raw, e->block.raw_bytes)) {
        fill_hidden(g, e, taken, stream);
        return false;
    }
    guard_job *job = at_once(stream) ? NULL : job_make(g);
    if (job) {
        *job = (guard_job){.guard = g, .entry = *e, .row = row, .taken = taken};
        taking_set(g, row, taken ? job : NULL); /* what comes later is in order after it */
        if (mnem_stream_launch(g->device, stream, job_run, job) == MNEM_OK) return false;
        mnem__free(job);
    }
    taking_set(g, row, NULL);
    if (!at_once(stream)) mnem_stream_synchronize(stream);
    return entry_run(g, e, taken);
}

/* ---- calls ---- */

void mnem__guard_fresh(mnem__guard *g, uint64_t address, uint64_t bytes) {
    uint8_t *p = host_of(g, address, bytes);
    if (p) memset(p, MNEM__POISON_FREE, bytes);
}

void mnem__guard_take(mnem__guard *g, uint32_t id, uint32_t generation,
                      const mnem__guard_block *block, mnem_stream *stream) {
    const mnem__record *r = mnem__record_at(g->track, id);
    guard_row *row = row_at(g, id);
    pthread_mutex_lock(&g->lock);
    row->entry = (guard_entry){.block = *block,
                               .sequence = r->sequence,
                               .id = id,
                               .generation = generation,
                               .tag = mnem__tag_at(&g->track->sites, mnem__site_tag(r->site)),
                               .taken = mnem__site_at(&g->track->sites, r->site)};
    row->live = true;
    pthread_mutex_unlock(&g->lock);
    if (block->gap) job_queue(g, row, true, stream);
}

void mnem__guard_give(mnem__guard *g, uint32_t id, uint32_t site) {
    guard_row *row = row_at(g, id);
    pthread_mutex_lock(&g->lock);
    row->entry.freed = mnem__site_at(&g->track->sites, site);
    row->live = false;
    g->ring[g->frees++ % MNEM__GUARD_FREES] = row->entry;
    pthread_mutex_unlock(&g->lock);
}

bool mnem__guard_end(mnem__guard *g, uint32_t id, bool queue, mnem_stream *stream) {
    guard_row *row = row_at(g, id);
    const mnem__guard_block *b = &row->entry.block;
    row->live = false;
    if (!b->gap) return false;
    if (queue) return job_queue(g, row, false, stream);
    if (!host_of(g, b->raw, b->raw_bytes)) return false;
    return end_run(g, &row->entry);
}

/* A handle that another pool gave: live there, or freed not long ago. */
static bool foreign_find(const mnem__guard *not_here, uint32_t id, uint32_t generation,
                         mnem_misuse *m) {
    bool found = false;
    pthread_mutex_lock(&all_lock);
    for (mnem__guard *g = all; g && !found; g = g->next) {
        if (g == not_here) continue;
        pthread_mutex_lock(&g->lock);
        const guard_row *row = id < g->rows.capacity ? row_at(g, id) : NULL;
        const guard_entry *e = row && row->entry.generation == generation
                                   ? &row->entry
                                   : freed_handle(g, id, generation);
        found = e != NULL;
        if (found) misuse_of(e, m);
        pthread_mutex_unlock(&g->lock);
    }
    pthread_mutex_unlock(&all_lock);
    return found;
}

void mnem__guard_stale(mnem__guard *g, uint32_t id, uint32_t generation, uint64_t address,
                       mnem_source caller, mnem_misuse *found) {
    mnem_misuse m = {.address = address, .caller = caller};
    pthread_mutex_lock(&g->lock);
    const guard_entry *e = freed_handle(g, id, generation);
    if (e) misuse_of(e, &m);
    pthread_mutex_unlock(&g->lock);
    const bool ours = e || mnem__track_was(g->track, id, generation);
    m.what = ours ? MNEM_MISUSE_DOUBLE_FREE : MNEM_MISUSE_FOREIGN_FREE;
    if (!ours) foreign_find(g, id, generation, &m);
    pthread_mutex_lock(&g->lock);
    misuse_put(g, &m);
    pthread_mutex_unlock(&g->lock);
    *found = m;
}

static bool gaps_filled(mnem__guard *g, const guard_row *row) {
    pthread_mutex_lock(&g->lock);
    const bool filled = row->live && row->entry.block.gap && !row->entry.told && !row->taking;
    pthread_mutex_unlock(&g->lock);
    return filled;
}

void mnem__guard_check(mnem__guard *g) {
    for (uint32_t id = 0; id < g->track->used; id++) {
        guard_row *row = row_at(g, id);
        if (!gaps_filled(g, row) || !host_of(g, row->entry.block.raw, 1)) continue;
        row->entry.told = look_gaps(g, &row->entry);
    }
}

void mnem__guard_check_free(mnem__guard *g, uint64_t address, uint64_t bytes) {
    uint8_t *p = host_of(g, address, bytes);
    if (!p) return;
    const uint64_t before = mnem__guard_found(g);
    look_free(g, address, bytes, NULL);
    if (mnem__guard_found(g) != before) memset(p, MNEM__POISON_FREE, bytes); /* told once */
}

bool mnem__guard_next(mnem__guard *g, mnem_misuse *misuse) {
    pthread_mutex_lock(&g->lock);
    if (g->found - g->told > MNEM__GUARD_UNTOLD) g->told = g->found - MNEM__GUARD_UNTOLD;
    const bool there = g->told < g->found;
    if (there) *misuse = g->latest[g->told++ % MNEM__GUARD_UNTOLD];
    pthread_mutex_unlock(&g->lock);
    return there;
}

bool mnem__guard_untold(mnem__guard *g) {
    pthread_mutex_lock(&g->lock);
    const bool untold = g->told < g->found;
    pthread_mutex_unlock(&g->lock);
    return untold;
}

bool mnem__guard_misuse(mnem__guard *g, uint64_t index, mnem_misuse *misuse) {
    pthread_mutex_lock(&g->lock);
    const bool there = index < g->found && index < MNEM__GUARD_MISUSES;
    if (there) *misuse = g->misuses[index];
    pthread_mutex_unlock(&g->lock);
    return there;
}

uint64_t mnem__guard_found(mnem__guard *g) {
    pthread_mutex_lock(&g->lock);
    const uint64_t found = g->found;
    pthread_mutex_unlock(&g->lock);
    return found;
}

/* ---- create and destroy ---- */

mnem_status mnem__guard_reserve(mnem__guard *g, uint32_t count) {
    pthread_mutex_lock(&g->lock); /* other pools look into the rows */
    const bool done = mnem__rows_reserve(&g->rows, sizeof(guard_row), count);
    pthread_mutex_unlock(&g->lock);
    return done ? MNEM_OK : mnem__heap_status();
}

mnem_status mnem__guard_create(mnem_device *device, mnem_space space, const mnem__track *track,
                               mnem__guard **out) {
    mnem__guard *g = mnem__calloc("guard", 1, sizeof *g);
    if (!g) return mnem__heap_status();
    g->device = device;
    g->space = space;
    g->track = track;
    pthread_mutex_init(&g->lock, NULL);
    pthread_mutex_lock(&all_lock);
    g->next = all;
    all = g;
    pthread_mutex_unlock(&all_lock);
    *out = g;
    return MNEM_OK;
}

void mnem__guard_destroy(mnem__guard *g) {
    if (!g) return;
    pthread_mutex_lock(&all_lock);
    mnem__guard **link = &all;
    while (*link != g) link = &(*link)->next;
    *link = g->next;
    pthread_mutex_unlock(&all_lock);
    for (guard_job *job = g->jobs, *next; job; job = next) {
        next = job->next;
        mnem__free(job);
    }
    mnem__rows_free(&g->rows);
    pthread_mutex_destroy(&g->lock);
    mnem__free(g);
}
