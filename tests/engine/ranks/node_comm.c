/* node_comm.c: see node_comm.h. Idea as in comm_slow.c: the inner one's operations do it all. */
#include "engine/ranks/node_comm.h"

#include "comm/comm_private.h"
#include "kit/kit.h"

typedef struct node_comm {
    mnem_comm *comm, *inner; /* inner NULL: killed */
    node_hook *hook;
    void *context;
} node_comm;

/* What the inner one failed with is what this one failed with. */
static mnem_status pass_failure(const node_comm *n, mnem_status status) {
    return status == MNEM_IO ? mnem_comm_fail(n->comm, "%s", mnem_last_error()) : status;
}

static mnem_status node_begin(void *self, mnem_comm_request *r) {
    const node_comm *n = self;
    MNEM__TRY(n->hook(n->context, r->sends ? NODE_SENDS : NODE_POSTS, r->peer, r->channel));
    const mnem_comm_ops *ops = n->inner->ops;
    return pass_failure(n, (r->sends ? ops->send : ops->post)(n->inner->self, r));
}

static mnem_status tell_done(const node_comm *n, const mnem_comm_request *r) {
    return n->hook(n->context, r->sends ? NODE_SENT : NODE_RECEIVED, r->peer, r->channel);
}

static mnem_status node_test(void *self, mnem_comm_request *r, bool *done) {
    const node_comm *n = self;
    const mnem_status status = n->inner->ops->test(n->inner->self, r, done);
    if (status != MNEM_OK) return pass_failure(n, status);
    return *done ? tell_done(n, r) : MNEM_OK;
}

static mnem_status node_wait(void *self, mnem_comm_request *r) {
    const node_comm *n = self;
    const mnem_status status = n->inner->ops->wait(n->inner->self, r);
    return status == MNEM_OK ? tell_done(n, r) : pass_failure(n, status);
}

static void node_abort(void *self, const char *text) {
    const node_comm *n = self;
    if (n->inner) mnem_comm_abort(n->inner, text);
}

static void node_destroy(void *self) {
    const node_comm *n = self;
    mnem_comm_destroy(n->inner);
}

mnem_comm *node_comm_create(mnem_comm *inner, node_hook *hook, void *context) {
    static const mnem_comm_ops ops = {.name = "node",
                                      .post = node_begin,
                                      .send = node_begin,
                                      .test = node_test,
                                      .wait = node_wait,
                                      .abort = node_abort,
                                      .destroy = node_destroy};
    mnem_comm *comm = NULL;
    void *self = NULL;
    must(mnem_comm_create(&ops, inner->rank, inner->size, sizeof(node_comm), &comm, &self));
    comm->inner = inner;
    *(node_comm *)self = (node_comm){comm, inner, hook, context};
    return comm;
}

mnem_status node_comm_kill(mnem_comm *comm) {
    node_comm *n = comm->self;
    mnem_comm *inner = n->inner;
    n->inner = NULL;
    comm->inner = NULL;
    mnem_comm_destroy(inner);
    return mnem_comm_fail(comm, "killed");
}
