/* serve_ranks.c: see serve_ranks.h. */
#include "serve/serve_ranks.h"

static mnem_status open_rank(serve_rank *r) {
    mnem_status status = mnem_ledger_create(&(mnem_ledger_options){0}, &r->ledger);
    if (status == MNEM_OK) status = mnem_model_open(r->path, &r->model);
    r->options.ledger = r->ledger;
    r->options.comm = r->comm;
    if (status == MNEM_OK) status = mnem_engine_plan_ranks(r->model, &r->options, &r->plan);
    if (status == MNEM_OK) status = mnem_engine_create(r->model, &r->options, &r->plan, &r->engine);
    return status;
}

static void close_rank(serve_rank *r) {
    mnem_engine_destroy(r->engine);
    if (!r->keeps_comm) mnem_comm_destroy(r->comm);
    mnem_model_close(r->model);
    mnem_ledger_destroy(r->ledger);
}

/* What isn't given back to the ledger in order fails by its destruction. */
static void *follow(void *context) {
    serve_rank *r = context;
    r->status = open_rank(r);
    if (r->status == MNEM_OK)
        r->status =
            mnem_scheduler_follow(&(mnem_scheduler_options){.engine = r->engine, .swap = r->swap});
    close_rank(r);
    return NULL;
}

void serve_ranks_open(serve_rank *ranks, int32_t count, const char *path,
                      const mnem_engine_options *options) {
    mnem_comm *comms[SERVE_RANKS_MAX];
    must(mnem_comm_thread_create(count, comms));
    for (int32_t i = 0; i < count; i++)
        ranks[i] = (serve_rank){
            .path = path, .swap = ranks[i].swap, .comm = comms[i], .options = *options};
    for (int32_t i = 1; i < count; i++)
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, follow, &ranks[i]), 0);
    must(open_rank(&ranks[0]));
}

void serve_ranks_close(serve_rank *ranks, int32_t count, mnem_status status) {
    close_rank(&ranks[0]);
    for (int32_t i = 1; i < count; i++) {
        pthread_join(ranks[i].thread, NULL);
        if (ranks[i].keeps_comm) mnem_comm_destroy(ranks[i].comm);
        assert_int_equal(ranks[i].status, status);
    }
}
