/* swap_ranks.c: what is set aside, on all ranks.
 *
 * Invariant: pages are taken and given back by orders, so that they are on every rank; whether what
 * a rank's thread did went well is known to all before anything depends on it. One job at a time is
 * asked about, in the order in which their own parts were done. */
#include "serve/swap_ranks.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "mnem/serve.h"
#include "serve/swap_nodes.h"

/* ---- rank 0 ---- */

static mnem__relay *relay_of(const mnem__swap_file *f) {
    return &f->engine->relay;
}

/* A rank that is lost is noticed by the next step. */
static mnem_status tell(const mnem__swap_move *m, mnem__relay_op op, int32_t c) {
    const mnem_sequence *sequences = m->file->engine->tables.sequences;
    (void)mnem__relay_tell(relay_of(m->file), op, (int32_t)(m->job->sequence - sequences),
                           m->job->lane, c);
    return MNEM_OK;
}

mnem_status mnem__swap_tell_write(mnem__swap_move *m) {
    return tell(m, MNEM__RELAY_SWAP_WRITE, (int32_t)(uint32_t)m->job->saved.ids_checksum);
}

mnem_status mnem__swap_tell_read(mnem__swap_move *m) {
    return tell(m, MNEM__RELAY_SWAP_READ, 0);
}

mnem_status mnem__swap_tell_join(mnem__swap_move *m) {
    return tell(m, MNEM__RELAY_SWAP_READ_END, m->status == MNEM_OK);
}

mnem_status mnem__swap_tell_drop(mnem__swap_move *m) {
    return tell(m, MNEM__RELAY_SWAP_DROP, 0);
}

/* Every rank has its file, or the first that hasn't is named. */
static mnem_status share(mnem__swap_file *f) {
    const mnem__relay *relay = relay_of(f);
    uint64_t widest[MNEM__KV_KINDS];
    bool done;
    memcpy(widest, f->page_bytes, sizeof widest);
    MNEM__TRY(mnem__relay_ask(relay_of(f), MNEM__RELAY_SWAP_OPEN, 0, 0));
    MNEM__TRY(mnem__relay_asked(relay_of(f), true, &done));
    for (int32_t i = 1; i < relay->size; i++) {
        const mnem__relay_answer *a = &relay->answers[i];
        if (a->status != MNEM_OK)
            return mnem__fail((mnem_status)a->status, "rank %d: %s", i, a->text);
        for (int k = 0; k < MNEM__KV_KINDS; k++) widest[k] = mnem__max_u64(widest[k], a->bytes[k]);
    }
    mnem__swap_share(f, widest);
    return MNEM_OK;
}

mnem_status mnem__swap_ranks_open(mnem__swap_file *f, const char *path, mnem_engine *engine,
                                  uint64_t bytes_most) {
    const bool shared = path && mnem__relay_leads(&engine->relay);
    MNEM__TRY(mnem__swap_open(f, path, engine, bytes_most));
    f->nodes = mnem__swap_compile(shared);
    return shared ? share(f) : MNEM_OK;
}

/* What all say of the job that they were asked about. */
static void join(mnem__swap_file *f, mnem__swap_job *job, mnem_status heard) {
    const mnem__relay *relay = relay_of(f);
    char why[sizeof f->failure];
    double seconds = job->seconds;
    for (int32_t i = 1; i < relay->size && heard == MNEM_OK; i++) {
        const mnem__relay_answer *a = &relay->answers[i];
        seconds = a->seconds > seconds ? a->seconds : seconds;
        if (a->status == MNEM_OK) continue;
        snprintf(why, sizeof why, " of rank %d%.120s", i, a->text);
        if (job->status == MNEM_OK) mnem__swap_failed(f, why);
        job->status = (mnem_status)a->status;
    }
    if (heard != MNEM_OK) job->status = heard; /* a rank is lost: all end */
    mnem__swap_learn(f, job, seconds);
    job->joined = true;
}

static mnem_status hear(mnem__swap_file *f, bool wait) {
    bool done;
    const mnem_status heard = mnem__relay_asked(relay_of(f), wait, &done);
    if (heard == MNEM_OK && !done) return MNEM_NOT_READY;
    join(f, f->asked, heard);
    f->asked = NULL;
    return MNEM_OK;
}

/* All are asked about the job; where that fails nobody answers. */
static void ask(mnem__swap_file *f, mnem__swap_job *job) {
    const mnem_status status = mnem__relay_ask(relay_of(f), MNEM__RELAY_SWAP_DONE, 0, job->lane);
    if (status == MNEM_OK)
        f->asked = job;
    else
        join(f, job, status);
}

mnem_status mnem__swap_hear(mnem__swap_move *m) {
    mnem__swap_file *f = m->file;
    if (m->job->joined) return MNEM_OK;
    if (f->asked && f->asked != m->job) MNEM__TRY(hear(f, m->wait));
    if (!f->asked) ask(f, m->job);
    return m->job->joined ? MNEM_OK : hear(f, m->wait);
}

/* ---- the others ---- */

typedef struct follower {
    mnem_engine *engine;
    const char *path;
    mnem__swap_file file;
    mnem__swap_job *job; /* [sequences] */
} follower;

uint64_t mnem_scheduler_follow_bytes(const mnem_scheduler_options *options, int32_t sequences) {
    if (!options->swap) return 0;
    return (uint64_t)sequences * sizeof(mnem__swap_job) + MNEM__SWAP_STACK_BYTES;
}

static void nobody_waits(void *context) {
    (void)context; /* rank 0 asks */
}

static mnem_status answer(const follower *x, mnem_status status, const char *text, double seconds) {
    mnem__relay_answer a = {.status = (int32_t)status, .seconds = seconds};
    for (int k = 0; k < MNEM__KV_KINDS; k++) a.bytes[k] = x->engine->pages[k].page_bytes;
    if (status != MNEM_OK) snprintf(a.text, sizeof a.text, "%s", text);
    return mnem__relay_answer_send(&x->engine->relay, &a);
}

/* What can't be opened is rank 0's to say. */
static mnem_status open_file(follower *x) {
    x->file.on_done = nobody_waits;
    mnem_status status = mnem__swap_open(&x->file, x->path, x->engine, UINT64_MAX);
    if (status == MNEM_OK) status = mnem__swap_begin(&x->file);
    return answer(x, status, mnem_last_error(), 0);
}

static mnem_status tell_done(follower *x, const mnem__swap_job *job) {
    char why[sizeof x->file.failure] = "";
    mnem__swap_is_done(&x->file, job, true);
    pthread_mutex_lock(&x->file.lock);
    const char *behind = strchr(x->file.failure, ':');
    if (behind) snprintf(why, sizeof why, "%s", behind);
    pthread_mutex_unlock(&x->file.lock);
    return answer(x, job->status, why, job->seconds);
}

static mnem_status on_order(void *context, const int32_t *order) {
    follower *x = context;
    const int32_t most = x->engine->sequences;
    if (order[0] == MNEM__RELAY_SWAP_OPEN) return open_file(x);
    if (!x->file.started || order[1] < 0 || order[1] >= most || order[2] < 0 || order[2] >= most)
        return mnem__fail(MNEM_IO,
                          "serve: rank 0 sent an invalid order: %d %d %d (do all ranks run the "
                          "same version of mnem?)",
                          order[0], order[1], order[2]);
    mnem_sequence *s = &x->engine->tables.sequences[order[1]];
    mnem__swap_job *job = &x->job[order[2]];
    switch (order[0]) {
    case MNEM__RELAY_SWAP_WRITE:
        mnem__swap_write(&x->file, job, s, NULL, (uint32_t)order[3], order[2]);
        return MNEM_OK;
    case MNEM__RELAY_SWAP_READ: return mnem__swap_read(&x->file, job, s);
    case MNEM__RELAY_SWAP_DONE: return tell_done(x, job);
    case MNEM__RELAY_SWAP_READ_END:
        (void)mnem_sequence_load_end(s, &job->saved, order[3] ? MNEM_OK : MNEM_IO);
        return MNEM_OK;
    default: mnem__swap_drop(&x->file, job); return MNEM_OK;
    }
}

mnem_status mnem_scheduler_follow(const mnem_scheduler_options *options) {
    mnem_engine *e = options->engine;
    follower x = {.engine = e, .path = options->swap};
    if (!x.path) return mnem_engine_follow(e);
    x.job = mnem__calloc("serve", (size_t)e->sequences, sizeof *x.job);
    if (!x.job) {
        const mnem_status status = mnem__heap_status();
        mnem_comm_abort(e->relay.comm, mnem_last_error());
        return status;
    }
    e->on_order = on_order;
    e->on_order_context = &x;
    const mnem_status status = mnem_engine_follow(e);
    e->on_order = NULL;
    mnem__swap_close(&x.file);
    mnem__free(x.job);
    return status;
}
