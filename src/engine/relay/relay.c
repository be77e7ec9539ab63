/* relay.c: orders, answers, states and logits between ranks (relay.h).
 *
 * Invariant: memory of a message is written again only when it has been sent; a rank posts its next
 * receive as soon as what came is copied or done with. */
#include "engine/relay/relay.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"

enum { CHANNEL_ORDERS, CHANNEL_STATES, CHANNEL_LOGITS, CHANNEL_ANSWERS = 4 };

static size_t order_bytes(const mnem__relay_shape *s) {
    const uint64_t segments = (uint64_t)s->sequences * sizeof(mnem__relay_segment);
    const uint64_t numbers = MNEM__RELAY_HEAD + (uint64_t)s->chunk;
    return (size_t)mnem__align_up(numbers * sizeof(int32_t) + segments, 64);
}

/* The last rank is as many passes behind as there are ranks. */
static int orders_of(const mnem__relay_shape *s) {
    return s->size + 2 < MNEM__RELAY_ORDERS_MAX ? s->size + 2 : MNEM__RELAY_ORDERS_MAX;
}

static size_t states_bytes(const mnem__relay_shape *s) {
    if (s->rank == 0 || s->gather_bytes) return 0;
    return (size_t)((uint64_t)s->chunk * (uint64_t)s->embd * sizeof(float));
}

static size_t answers_bytes(const mnem__relay_shape *s) {
    const uint64_t count = s->rank == 0 ? (uint64_t)s->size : 1;
    return (size_t)mnem__align_up(count * sizeof(mnem__relay_answer), 64);
}

uint64_t mnem__relay_block_bytes(const mnem__relay_shape *s) {
    if (s->size < 2) return 0;
    return (uint64_t)orders_of(s) * order_bytes(s) + answers_bytes(s) + states_bytes(s) +
           mnem__gather_bytes(s->gather_bytes, s->chunk, s->size);
}

uint64_t mnem__relay_requests(const mnem__relay_shape *s) {
    if (s->size < 2) return 0;
    return (uint64_t)(orders_of(s) + 1 + (s->gather_bytes ? MNEM__GATHER_REQUESTS : 0)) *
           (uint64_t)s->size;
}

static mnem_comm_request *requests_of(mnem__relay *r, int order) {
    return r->requests + (int64_t)order * r->size;
}

static mnem_status post_order(mnem__relay *r, int order) {
    r->open[order] = true;
    return mnem_comm_post(r->comm, 0, CHANNEL_ORDERS, r->order[order], r->order_bytes,
                          requests_of(r, order));
}

static mnem_status post_states(mnem__relay *r) {
    return mnem_comm_post(r->comm, r->rank - 1, CHANNEL_STATES, r->states, r->states_bytes, &r->in);
}

mnem_status mnem__relay_start(mnem__relay *r, mnem_comm *comm, const mnem__relay_shape *s,
                              void *block, mnem_comm_request *requests) {
    if (s->size < 2) return MNEM_OK;
    uint8_t *at = block;
    *r = (mnem__relay){.comm = comm,
                       .rank = s->rank,
                       .size = s->size,
                       .orders = orders_of(s),
                       .order_bytes = order_bytes(s),
                       .states_bytes = states_bytes(s),
                       .requests = requests,
                       .together = s->gather_bytes > 0};
    for (int i = 0; i < r->orders; i++, at += r->order_bytes) r->order[i] = (void *)at;
    r->asked = requests_of(r, r->orders);
    r->answers = (void *)at;
    at += answers_bytes(s);
    for (int i = 0; i < r->orders && r->rank > 0; i++) MNEM__TRY(post_order(r, i));
    if (r->together) {
        r->gather = (mnem__gather){.comm = comm,
                                   .device = s->device,
                                   .rank = s->rank,
                                   .size = s->size,
                                   .requests = requests_of(r, r->orders + 1)};
        return mnem__gather_start(&r->gather, at, s->gather_bytes, s->chunk, s->mine);
    }
    if (r->rank == 0) return MNEM_OK;
    r->states = (void *)at;
    return post_states(r);
}

/* ---- orders ---- */

/* Room for the next one: the one that was there has been sent. */
static mnem_status order_begin(mnem__relay *r) {
    if (r->open[r->at]) MNEM__TRY(mnem_comm_wait(r->comm, requests_of(r, r->at) + 1, r->size - 1));
    r->open[r->at] = false;
    return MNEM_OK;
}

static mnem_status order_end(mnem__relay *r, size_t bytes) {
    for (int32_t p = 1; p < r->size; p++)
        MNEM__TRY(mnem_comm_send(r->comm, p, CHANNEL_ORDERS, r->order[r->at], bytes,
                                 requests_of(r, r->at) + p));
    r->open[r->at] = true;
    r->at = (r->at + 1) % r->orders;
    return MNEM_OK;
}

static void fill_head(mnem__relay *r, mnem__relay_op op, int32_t a, int32_t b, int32_t c) {
    const int32_t head[MNEM__RELAY_HEAD] = {(int32_t)op, a, b, c};
    memcpy(r->order[r->at], head, sizeof head);
}

mnem_status mnem__relay_tell(mnem__relay *r, mnem__relay_op op, int32_t a, int32_t b, int32_t c) {
    if (!mnem__relay_leads(r)) return MNEM_OK;
    MNEM__TRY(order_begin(r));
    fill_head(r, op, a, b, c);
    return order_end(r, MNEM__RELAY_HEAD * sizeof(int32_t));
}

mnem_status mnem__relay_segments(mnem__relay *r, mnem__relay_segment **segments) {
    MNEM__TRY(order_begin(r));
    *segments = (void *)(r->order[r->at] + MNEM__RELAY_HEAD);
    return MNEM_OK;
}

mnem_status mnem__relay_tell_pass(mnem__relay *r, int32_t count, const int32_t *ids, int32_t rows,
                                  bool hidden) {
    fill_head(r, hidden ? MNEM__RELAY_HIDDEN : MNEM__RELAY_PASS, count, rows, 0);
    int32_t *to = r->order[r->at] + MNEM__RELAY_HEAD;
    to += (size_t)count * sizeof(mnem__relay_segment) / sizeof *to;
    memcpy(to, ids, (size_t)rows * sizeof *ids);
    return order_end(r, (size_t)(to + rows - r->order[r->at]) * sizeof *to);
}

mnem_status mnem__relay_next(mnem__relay *r, const int32_t **order) {
    MNEM__TRY(mnem_comm_wait(r->comm, requests_of(r, r->at), 1));
    *order = r->order[r->at];
    return MNEM_OK;
}

mnem_status mnem__relay_done(mnem__relay *r) {
    const int was = r->at;
    r->at = (r->at + 1) % r->orders;
    return post_order(r, was);
}

/* ---- answers ---- */

mnem_status mnem__relay_ask(mnem__relay *r, mnem__relay_op op, int32_t a, int32_t b) {
    for (int32_t p = 1; p < r->size; p++)
        MNEM__TRY(mnem_comm_post(r->comm, p, CHANNEL_ANSWERS, &r->answers[p], sizeof *r->answers,
                                 &r->asked[p]));
    return mnem__relay_tell(r, op, a, b, 0);
}

mnem_status mnem__relay_asked(mnem__relay *r, bool wait, bool *done) {
    *done = true;
    if (wait) return mnem_comm_wait(r->comm, r->asked + 1, r->size - 1);
    for (int32_t p = 1; p < r->size && *done; p++)
        MNEM__TRY(mnem_comm_test(r->comm, &r->asked[p], done));
    return MNEM_OK;
}

static mnem_status answer_sent(mnem__relay *r) {
    if (r->answer_open) MNEM__TRY(mnem_comm_wait(r->comm, r->asked, 1));
    r->answer_open = false;
    return MNEM_OK;
}

mnem_status mnem__relay_answer_send(mnem__relay *r, const mnem__relay_answer *answer) {
    MNEM__TRY(answer_sent(r));
    *r->answers = *answer;
    r->answer_open = true;
    return mnem_comm_send(r->comm, 0, CHANNEL_ANSWERS, r->answers, sizeof *r->answers, r->asked);
}

/* ---- a pass ---- */

mnem_status mnem__relay_receive(mnem__relay *r, float *hidden, int32_t rows, int32_t embd,
                                bool *stopped) {
    const size_t bytes = (size_t)rows * (size_t)embd * sizeof *hidden;
    MNEM__TRY(mnem_comm_wait(r->comm, &r->in, 1));
    *stopped = r->in.bytes == 0;
    if (!*stopped && r->in.bytes != bytes)
        return mnem__fail(MNEM_IO,
                          "engine: the previous rank sent %zu bytes of hidden states, expected %d "
                          "rows of %d numbers (do all ranks run the same version of mnem?)",
                          r->in.bytes, rows, embd);
    memcpy(hidden, r->states, r->in.bytes);
    return post_states(r);
}

mnem_status mnem__relay_send(mnem__relay *r, const float *hidden, int32_t rows, int32_t embd) {
    const size_t bytes = (size_t)rows * (size_t)embd * sizeof *hidden;
    r->out_open = true;
    return mnem_comm_send(r->comm, r->rank + 1, CHANNEL_STATES, hidden, bytes, &r->out);
}

mnem_status mnem__relay_sent(mnem__relay *r) {
    if (r->out_open) MNEM__TRY(mnem_comm_wait(r->comm, &r->out, 1));
    r->out_open = false;
    return MNEM_OK;
}

mnem_status mnem__relay_logits_send(mnem__relay *r, const float *logits, size_t bytes) {
    r->logits_open = true;
    return mnem_comm_send(r->comm, 0, CHANNEL_LOGITS, logits, bytes, &r->logits);
}

mnem_status mnem__relay_logits_sent(mnem__relay *r) {
    if (r->logits_open) MNEM__TRY(mnem_comm_wait(r->comm, &r->logits, 1));
    r->logits_open = false;
    return MNEM_OK;
}

mnem_status mnem__relay_logits_post(mnem__relay *r, float *logits, size_t bytes,
                                    mnem_comm_request *request) {
    return mnem_comm_post(r->comm, r->size - 1, CHANNEL_LOGITS, logits, bytes, request);
}

mnem_status mnem__relay_logits_wait(mnem__relay *r, mnem_comm_request *request, size_t bytes) {
    MNEM__TRY(mnem_comm_wait(r->comm, request, 1));
    if (request->bytes == bytes) return MNEM_OK;
    return mnem__fail(MNEM_IO,
                      "engine: the last rank sent %zu bytes of logits, expected %zu (do all ranks "
                      "run the same version of mnem?)",
                      request->bytes, bytes);
}

mnem_status mnem__relay_logits_receive(mnem__relay *r, float *logits, size_t bytes) {
    MNEM__TRY(mnem__relay_logits_post(r, logits, bytes, &r->logits));
    return mnem__relay_logits_wait(r, &r->logits, bytes);
}

/* ---- the end ---- */

/* What is posted is met by something: all orders say the end, and states of no rows go round. */
mnem_status mnem__relay_end(mnem__relay *r) {
    if (!r->comm) return MNEM_OK;
    for (int i = 0; i < r->orders && r->rank == 0; i++)
        MNEM__TRY(mnem__relay_tell(r, MNEM__RELAY_END, 0, 0, 0));
    for (int i = 0; i < r->orders && r->rank == 0; i++) {
        MNEM__TRY(order_begin(r));
        r->at = (r->at + 1) % r->orders;
    }
    for (int i = 1; i < r->orders && r->rank > 0; i++)
        MNEM__TRY(mnem_comm_wait(r->comm, requests_of(r, (r->at + i) % r->orders), 1));
    MNEM__TRY(mnem__relay_sent(r));
    MNEM__TRY(mnem__relay_logits_sent(r));
    MNEM__TRY(answer_sent(r));
    if (r->together) MNEM__TRY(mnem__gather_end(&r->gather));
    if (mnem__relay_receives(r)) MNEM__TRY(mnem_comm_wait(r->comm, &r->in, 1));
    if (mnem__relay_sends(r)) MNEM__TRY(mnem__relay_send(r, r->states, 0, 0));
    MNEM__TRY(mnem__relay_sent(r));
    r->comm = NULL;
    return MNEM_OK;
}

void mnem__relay_let_go(mnem__relay *r) {
    if (!r->comm) return;
    const char *text = mnem_comm_failure(r->comm);
    mnem_comm_abort(r->comm, text ? text : "its engine was destroyed");
    r->comm = NULL;
}
