/* comm_self.c: one rank. It has no peers, so that nothing is ever sent. */
#include "comm/comm_private.h"

static mnem_status no_message(void *self, mnem_comm_request *request) {
    (void)self;
    return mnem__fail(MNEM_INVALID,
                      "comm: rank %d does not exist: there is one process only, rank 0",
                      request->peer);
}
static mnem_status no_test(void *self, mnem_comm_request *request, bool *done) {
    *done = false;
    return no_message(self, request);
}
static void no_abort(void *self, const char *text) {
    (void)self, (void)text;
}
static void no_destroy(void *self) {
    (void)self;
}

mnem_status mnem_comm_self_create(mnem_comm **comm) {
    static const mnem_comm_ops ops = {.name = "self",
                                      .post = no_message,
                                      .send = no_message,
                                      .test = no_test,
                                      .wait = no_message,
                                      .abort = no_abort,
                                      .destroy = no_destroy};
    void *self;
    return mnem_comm_create(&ops, 0, 1, 0, comm, &self);
}
