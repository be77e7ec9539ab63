/* test_ranks_matrix.c: the matrix of failures over ranks: what every rank says, and how it ends,
 * when one of them is killed, fails or is cancelled at any node of its work.
 *
 * test_ranks_matrix [EVERY]     each so many nodes; 1: all, under the label slow
 *
 * Ranks are threads; a node is what a rank asks of its handle (node_comm.h): a post, a send, the
 * end of either. Ranks plan, create their engines and run a script: a prompt of two passes with
 * logits, a fork, a step of two sequences, a truncation, an embedding; once more with a model that
 * has recurrent states, and snapshots of them. A run without a fault counts
 * the nodes of each rank up to a last step (the fence), which needs all ranks: whatever befell one
 * of them is known by its end, so that a row doesn't depend on who was faster. Then each node in
 * turn has its fault:
 *     killed      the rank ends without a word
 *     cut off     the operation fails, and all that the handle is asked from then on
 *     unreadable  rows of the embedding can't be read from the file (each read is a node)
 *     cancelled   mnem_engine_cancel on that rank
 *     stopped     rank 0's callback wants no more logits (each row of logits is a node)
 * The rules: after the first three every rank ends, the others by MNEM_IO with a text that names
 * the rank (but where rank 0 can't read it may end them in order, as after its script); after the
 * other two the script goes on, and the fence's logits are those of the run without a fault.
 * Nothing is left allocated. The table that is printed depends on nothing else: a row for each kind
 * of node, with how many there were and the ends that were seen.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "engine/ranks/node_comm.h"
#include "kit/kit.h"
#include "kit/kit_model.h"
#include "mnem/mnem.h"

enum { RANKS_MAX = 3, CHUNK = 8, PROMPT = 12, FENCE = 5, EMBD_MOST = 64, HANGS = 900 };
static const char *const made = "ranks_matrix.gguf";
static const char *const stateful = MNEM_TEST_DATA "/architectures/qwen35.gguf";
static const char *path; /* one of these: stateful has recurrent states, and snapshots of them */
static const char *const broken = "the link is broken";

typedef enum fault { NOTHING, KILLED, CUT_OFF, CANCELLED, UNREADABLE, STOPPED } fault;
static const char *const fault_names[] = {"nothing",   "killed",     "cut off",
                                          "cancelled", "unreadable", "stopped"};
static const char *const kind_names[] = {"posts", "sends", "received", "sent"};

/* Of a rank's nodes the first of each kind, and every so many; of its reads others. */
enum { READS_APART = 9 };
static int every = MNEM_SANITIZED ? 977 : 97;

/* ---- a rank ---- */

enum { NODES_MAX = 4096 };
typedef struct node {
    node_kind kind;
    int32_t peer, channel;
} node;

typedef struct rank {
    pthread_t id;
    mnem_comm *comm;
    mnem_cut cut;
    mnem_engine *engine;
    fault fault;
    int at;                 /* the node of the fault; -1: this rank has none */
    int nodes, rows, reads; /* met so far: nodes, rows of logits, reads with an engine */
    node *seen;             /* [NODES_MAX]; NULL: only counted */
    int orders;             /* that were sent to the last rank, or received */
    int fence_orders;       /* rank 0: those before the fence */
    int32_t vocab;
    float *fence; /* [vocab] */
    mnem_status status;
    bool cancelled; /* a step said so */
    char text[300];
    uint64_t bytes_left;
} rank;

static _Thread_local rank *current;

ssize_t __real_pread(int fd, void *to, size_t bytes, off_t offset);
ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t offset);
ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t offset) {
    rank *r = current; /* NULL: no rank's own thread */
    if (r && r->engine && r->reads++ == r->at && r->fault == UNREADABLE) {
        errno = EIO;
        return -1;
    }
    return __real_pread(fd, to, bytes, offset);
}

static mnem_status meet(void *context, node_kind kind, int32_t peer, int32_t channel) {
    rank *r = context;
    const int at = r->nodes++;
    if (channel == 0) r->orders += kind == NODE_SENDS ? peer == 1 : kind == NODE_RECEIVED;
    if (r->seen && at < NODES_MAX) r->seen[at] = (node){kind, peer, channel};
    if (at != r->at) return MNEM_OK;
    if (r->fault == KILLED) return node_comm_kill(r->comm);
    if (r->fault == CUT_OFF) return mnem_comm_fail(r->comm, "%s", broken);
    if (r->fault == CANCELLED && r->engine) mnem_engine_cancel(r->engine);
    return MNEM_OK;
}

static bool stop_at(void *context, int32_t part, int32_t index, const float *logits) {
    rank *r = context;
    (void)part, (void)index, (void)logits;
    return r->rows++ != r->at || r->fault != STOPPED;
}

static bool keep_fence(void *context, int32_t part, int32_t index, const float *logits) {
    const rank *r = context;
    (void)part, (void)index;
    memcpy(r->fence, logits, (size_t)r->vocab * sizeof *logits);
    return true;
}

/* A cancelled step is no failure of the script. */
static mnem_status go_on(rank *r, mnem_status status) {
    if (status != MNEM_CANCELLED) return status;
    r->cancelled = true;
    return MNEM_OK;
}

static int32_t length_at_most(const mnem_sequence *s, int32_t n) {
    return mnem_sequence_length(s) < n ? mnem_sequence_length(s) : n;
}

static mnem_status run_two(rank *r, const int32_t *ids, mnem_sequence *s, mnem_sequence *fork) {
    const mnem_step_part parts[] = {{s, ids, 1, 0}, {fork, ids + 3, 3, 1}};
    MNEM__TRY(go_on(r, mnem_engine_step(r->engine, parts, 2, stop_at, r)));
    return mnem_sequence_truncate(s, length_at_most(s, 5));
}

static mnem_status embed(rank *r, const int32_t *ids) {
    float out[EMBD_MOST];
    const mnem_embed_text text = {ids, 5};
    const mnem_embed_options mean = {.pooling = MNEM_POOLING_MEAN};
    return go_on(r, mnem_engine_embed(r->engine, &text, 1, &mean, out));
}

static mnem_status run_script(rank *r) {
    int32_t ids[PROMPT];
    mnem_sequence *s, *fork;
    for (int32_t i = 0; i < PROMPT; i++) ids[i] = 20 + i;
    MNEM__TRY(mnem_sequence_create(r->engine, &s));
    const mnem_step_part prompt = {s, ids, PROMPT, PROMPT - 6};
    MNEM__TRY(go_on(r, mnem_engine_step(r->engine, &prompt, 1, stop_at, r)));
    MNEM__TRY(mnem_sequence_fork(s, length_at_most(s, 6), &fork));
    MNEM__TRY(run_two(r, ids, s, fork));
    mnem_sequence_destroy(fork);
    MNEM__TRY(embed(r, ids));
    MNEM__TRY(mnem_sequence_truncate(s, 0));
    r->fence_orders = r->orders;
    const mnem_step_part fence = {s, ids, FENCE, FENCE - 1};
    mnem_status status = mnem_engine_step(r->engine, &fence, 1, keep_fence, r);
    if (status == MNEM_CANCELLED) /* it came behind the last step that it could stop */
        status = mnem_engine_step(r->engine, &(mnem_step_part){s, ids, FENCE, FENCE - 1}, 1,
                                  keep_fence, r);
    return status;
}

static mnem_status run_engine(rank *r, const mnem_model *model, mnem_ledger *ledger) {
    const mnem_engine_options options = {.ledger = ledger,
                                         .comm = r->comm,
                                         .cut = r->cut,
                                         .context = 64,
                                         .sequences = 3,
                                         .logits_rows = 2,
                                         .chunk = CHUNK,
                                         .snapshots = path == stateful ? 4 : 0,
                                         .snapshot_tokens = path == stateful ? 4 : 0,
                                         .kv = MNEM_KV_F16,
                                         .threads = 1};
    mnem_engine_plan plan;
    mnem_engine *engine = NULL;
    MNEM__TRY(mnem_engine_plan_ranks(model, &options, &plan));
    MNEM__TRY(mnem_engine_create(model, &options, &plan, &engine));
    r->engine = engine;
    const mnem_status status = mnem_comm_rank(r->comm) ? mnem_engine_follow(engine) : run_script(r);
    strncpy(r->text, status ? mnem_last_error() : "", sizeof r->text - 1);
    r->engine = NULL;
    mnem_engine_destroy(engine);
    return status;
}

/* A rank that fails before it has an engine says so to the others, as the command does; an engine
 * does by itself. */
static void *run_rank(void *context) {
    rank *r = context;
    mnem_ledger *ledger = NULL;
    mnem_model *model = NULL;
    mnem_ledger_info info = {.bytes_live = 1};
    mnem_transformer t;
    current = r;
    must(mnem_ledger_create(&(mnem_ledger_options){0}, &ledger));
    must(mnem_model_open(path, &model));
    must(mnem_model_transformer(model, &t));
    r->vocab = t.vocab;
    r->fence = calloc((size_t)t.vocab, sizeof *r->fence);
    r->status = run_engine(r, model, ledger);
    if (r->status != MNEM_OK && !*r->text) {
        strncpy(r->text, mnem_last_error(), sizeof r->text - 1);
        mnem_comm_abort(r->comm, r->text);
    }
    mnem_model_close(model);
    mnem_ledger_info_get(ledger, &info);
    r->bytes_left = info.bytes_live;
    mnem_ledger_destroy(ledger);
    return NULL;
}

/* ---- a case ---- */

typedef struct matrix_case {
    mnem_cut cut;
    int32_t size, who;
    fault fault;
    int at;
    rank ranks[RANKS_MAX];
} matrix_case;

static const char *cut_name(mnem_cut cut) {
    return cut == MNEM_CUT_ROWS ? "rows" : path == stateful ? "states" : "layers";
}

static char hanging[160]; /* what is under way, for the alarm */

static void say_hanging(int number) {
    (void)number;
    const ssize_t n = write(2, hanging, strlen(hanging));
    _exit(n < 0 ? 3 : 2);
}

static void run_case(matrix_case *c) {
    mnem_comm *comms[RANKS_MAX];
    snprintf(hanging, sizeof hanging, "hangs: %s over %d: rank %d %s at node %d\n",
             cut_name(c->cut), c->size, c->who, fault_names[c->fault], c->at);
    must(mnem_comm_thread_create(c->size, comms));
    for (int32_t i = 0; i < c->size; i++) {
        rank *r = &c->ranks[i];
        node *seen = r->seen;
        *r = (rank){.cut = c->cut, .fault = c->fault, .at = i == c->who ? c->at : -1, .seen = seen};
        r->comm = node_comm_create(comms[i], meet, r);
    }
    alarm(HANGS);
    for (int32_t i = 0; i < c->size; i++)
        assert_int_equal(pthread_create(&c->ranks[i].id, NULL, run_rank, &c->ranks[i]), 0);
    for (int32_t i = 0; i < c->size; i++) pthread_join(c->ranks[i].id, NULL);
    alarm(0);
    for (int32_t i = 0; i < c->size; i++) mnem_comm_destroy(c->ranks[i].comm);
}

static void free_fences(matrix_case *c) {
    for (int32_t i = 0; i < c->size; i++) free(c->ranks[i].fence);
}

/* ---- what it must leave ---- */

static void wrong(const matrix_case *c, int32_t i, const char *what) {
    const rank *r = &c->ranks[i];
    fail_msg("%s over %d: rank %d %s at node %d: rank %d: %s: %s: %s", cut_name(c->cut), c->size,
             c->who, fault_names[c->fault], c->at, i, what, mnem_status_text(r->status), r->text);
}

static void check_other(const matrix_case *c, int32_t i) {
    char named[40];
    const rank *r = &c->ranks[i];
    snprintf(named, sizeof named, "comm: rank %d", c->who);
    if (r->status == MNEM_OK && c->fault == UNREADABLE && c->who == 0) return;
    if (r->status != MNEM_IO) wrong(c, i, "hasn't failed so");
    if (strncmp(r->text, named, strlen(named)) != 0) wrong(c, i, "names another rank");
}

static const char *own_text(fault f) {
    return f == KILLED ? "killed" : f == CUT_OFF ? broken : "Input/output error";
}

static void check_end(const matrix_case *c, const float *fence) {
    const bool ends = c->fault != NOTHING && c->fault != CANCELLED && c->fault != STOPPED;
    for (int32_t i = 0; i < c->size; i++) {
        const rank *r = &c->ranks[i];
        if (r->bytes_left) wrong(c, i, "bytes are left");
        if (!ends && r->status != MNEM_OK) wrong(c, i, "has failed");
        if (ends && i != c->who) check_other(c, i);
        if (ends && i == c->who && !strstr(r->text, own_text(c->fault)))
            wrong(c, i, "says something else");
    }
    if (!ends && fence && memcmp(fence, c->ranks[0].fence, (size_t)c->ranks[0].vocab * 4) != 0)
        wrong(c, 0, "the fence's logits differ");
}

/* ---- the table ---- */

static const char *channel_name(int32_t channel) {
    static const char *const names[] = {"orders",  "states", "logits", "?",
                                        "answers", "?",      "columns"};
    return channel < 7 ? names[channel] : "plan";
}

/* How all ranks ended, of a kind of node. */
typedef struct row {
    char key[80], end[120];
    int cases;
} row;
enum { ROWS_MAX = 800 };
static row rows[ROWS_MAX];
static int rows_count;

static row *row_of(const char *key, const char *end) {
    for (int i = 0; i < rows_count; i++)
        if (strcmp(rows[i].key, key) == 0 && strcmp(rows[i].end, end) == 0) return &rows[i];
    assert_true(rows_count < ROWS_MAX);
    row *r = &rows[rows_count++];
    snprintf(r->key, sizeof r->key, "%s", key);
    snprintf(r->end, sizeof r->end, "%s", end);
    return r;
}

static void end_of(const matrix_case *c, char end[120]) {
    int n = 0;
    for (int32_t i = 0; i < c->size; i++) {
        const rank *r = &c->ranks[i];
        const char *how = r->status == MNEM_OK ? r->cancelled ? "goes on, cancelled" : "goes on"
                          : i == c->who        ? "says its own"
                                               : "names it";
        n += snprintf(end + n, 120 - (size_t)n, "%s%d %s", i ? "; " : "", (int)i, how);
    }
}

static void add_row(const matrix_case *c, const node *at) {
    char key[80], end[120];
    const char *kind = at ? kind_names[at->kind] : c->fault == STOPPED ? "gives" : "reads";
    const char *what = at ? channel_name(at->channel) : c->fault == STOPPED ? "logits" : "rows";
    snprintf(key, sizeof key, "%-6s %d  rank %d  %-8s %-7s  %-10s", cut_name(c->cut), c->size,
             c->who, kind, what, fault_names[c->fault]);
    end_of(c, end);
    row_of(key, end)->cases++;
}

static void print_rows(void) {
    print_message("cut, ranks, who, node, fault: cases: how each rank ends\n");
    for (int i = 0; i < rows_count; i++)
        print_message("%s %4d: %s\n", rows[i].key, rows[i].cases, rows[i].end);
}

/* ---- the cases ---- */

static bool is_first_of_kind(const node *nodes, int at) {
    for (int i = 0; i < at; i++)
        if (nodes[i].kind == nodes[at].kind && nodes[i].channel == nodes[at].channel) return false;
    return true;
}

/* Of a run without a fault: the nodes of a rank before the fence. */
static int nodes_before_fence(const matrix_case *c, int32_t who) {
    const rank *r = &c->ranks[who];
    int orders = 0;
    for (int i = 0; i < r->nodes; i++) {
        const node *n = &r->seen[i];
        orders += n->channel == 0 &&
                  (who ? n->kind == NODE_RECEIVED : n->kind == NODE_SENDS && n->peer == 1);
        if (orders > c->ranks[0].fence_orders) return i;
    }
    return r->nodes;
}

static int nodes_of(const matrix_case *calm, int32_t who, fault f) {
    if (f == STOPPED) return calm->ranks[who].rows;
    return f == UNREADABLE ? calm->ranks[who].reads : nodes_before_fence(calm, who);
}

static void run_faults(const matrix_case *calm, int32_t who, fault f) {
    const int count = nodes_of(calm, who, f);
    for (int at = 0; at < count; at++) {
        const node *n = f >= UNREADABLE ? NULL : &calm->ranks[who].seen[at];
        if (!n && f == UNREADABLE && every > 1 && at % READS_APART != 0) continue;
        if (n && at % every != 0 && !is_first_of_kind(calm->ranks[who].seen, at)) continue;
        matrix_case c = {.cut = calm->cut, .size = calm->size, .who = who, .fault = f, .at = at};
        run_case(&c);
        check_end(&c, calm->ranks[0].fence);
        add_row(&c, n);
        free_fences(&c);
    }
}

static void run_matrix(mnem_cut cut, int32_t size) {
    matrix_case calm = {.cut = cut, .size = size, .at = -1};
    for (int32_t i = 0; i < size; i++) calm.ranks[i].seen = calloc(NODES_MAX, sizeof(node));
    run_case(&calm);
    check_end(&calm, NULL);
    for (int32_t i = 0; i < size; i++) assert_in_range(calm.ranks[i].nodes, 1, NODES_MAX);
    for (int32_t who = 0; who < size; who++)
        for (fault f = KILLED; f <= STOPPED; f++) run_faults(&calm, who, f);
    free_fences(&calm);
    for (int32_t i = 0; i < size; i++) free(calm.ranks[i].seen);
}

static void every_rank_ends_and_names_who_failed(void **state) {
    (void)state;
    for (int32_t size = 2; size <= RANKS_MAX; size++) {
        path = made;
        run_matrix(MNEM_CUT_LAYERS, size);
        run_matrix(MNEM_CUT_ROWS, size);
        path = stateful;
        run_matrix(MNEM_CUT_LAYERS, size);
    }
    print_rows();
}

int main(int argc, char **argv) {
    if (argc > 1) every = atoi(argv[1]);
    signal(SIGALRM, say_hanging);
    make_model(made, "--arch llama --heads 3 --kv-heads 3 --head-dim 32 --type Q8_0 --layers 3 "
                     "--ff 96");
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_rank_ends_and_names_who_failed)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove(made);
    return failed;
}
