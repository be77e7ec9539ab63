/* ranks_mpi.c: the command as one of several ranks under MPI.
 *
 * MPI is initialized before the ledger is made, so that what it takes is measured: what the process
 * has then, all pages of all libraries mapped in, less what it had before.
 * A failure anywhere ends all: who fails tells the others, rank 0 says it (the next one where rank
 * 0 is what is lost), and MPI_Abort follows. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mnem/mpi.h"
#include "ranks/ranks.h"

static struct {
    mnem_comm *comm;
    uint64_t bytes;
    int err;           /* standard error of a rank that is silent; -1: it isn't */
    bool joined, told; /* the others follow; that a signal ends it was said */
} ranks = {.err = -1};

mnem_comm *tool_ranks(void) {
    return ranks.comm;
}
uint64_t tool_ranks_bytes(void) {
    return ranks.bytes;
}
mnem_status tool_ranks_slow(const mnem_comm_link *link) {
    mnem_comm *inner = ranks.comm;
    return mnem_comm_slow_create(inner, link, &ranks.comm);
}
bool tool_ranks_follows(void) {
    return ranks.comm && mnem_comm_rank(ranks.comm) > 0;
}

static void pause_for(double seconds) {
    nanosleep(
        &(struct timespec){(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))},
        NULL);
}

/* ---- what each rank has ---- */

typedef struct row {
    int32_t begin, end, resident, layers; /* layers, or heads of rows */
    uint64_t budget, predicted, peak, sent;
    int32_t sequences;  /* of a training: those of a step that are run here; 0: it is none */
    uint64_t optimizer; /* bytes of its moments */
    double waited;      /* seconds */
} row;
static row mine;
static bool quiet, by_rows;

void tool_ranks_planned(const mnem_engine_plan *plan, bool is_quiet) {
    by_rows = plan->rows.vocab.end > 0;
    mine = (row){.begin = by_rows ? plan->rows.heads.begin : plan->layer_begin,
                 .end = by_rows ? plan->rows.heads.end : plan->layer_end,
                 .layers = plan->layers,
                 .resident = plan->layers_resident,
                 .budget = plan->budget_bytes,
                 .predicted = plan->peak_bytes};
    quiet = is_quiet;
}

void tool_ranks_trains(const mnem_train_plan *plan, uint64_t peak_bytes, bool is_quiet) {
    mine = (row){.sequences = plan->share,
                 .optimizer = plan->optimizer_bytes,
                 .budget = plan->budget_bytes,
                 .predicted = peak_bytes};
    quiet = is_quiet;
}

void tool_ranks_waited(double seconds) {
    mine.waited += seconds;
}

static void show_trained(const row *rows, int32_t count) {
    char size[5][TOOL_TEXT];
    fprintf(stderr, "  rank  sequences   optimizer       peak  predicted     budget       sent  "
                    "waited\n");
    for (int32_t i = 0; i < count; i++) {
        const row *r = &rows[i];
        fprintf(stderr, "  %4d  %9d  %10s %10s %10s %10s %10s  %5.1f s\n", i, r->sequences,
                tool_size(r->optimizer, size[4]), tool_size(r->peak, size[0]),
                tool_size(r->predicted, size[1]), tool_size(r->budget, size[2]),
                tool_size(r->sent, size[3]), r->waited);
    }
}

/* A line for each rank. */
static void show_rows(const row *rows, int32_t count) {
    char size[4][TOOL_TEXT];
    if (rows->sequences) {
        show_trained(rows, count);
        return;
    }
    fprintf(stderr,
            "  rank      %6s  resident       peak  predicted     budget       sent  "
            "waited\n",
            by_rows ? "heads" : "layers");
    for (int32_t i = 0; i < count; i++) {
        const row *r = &rows[i];
        fprintf(stderr, "  %4d  %4d to %3d  %8d %10s %10s %10s %10s  %5.1f s\n", i, r->begin,
                r->end - 1, r->resident, tool_size(r->peak, size[0]),
                tool_size(r->predicted, size[1]), tool_size(r->budget, size[2]),
                tool_size(r->sent, size[3]), r->waited);
    }
}

static mnem_status tell_rows(int *code) {
    static row rows[MNEM_COMM_RANKS_MAX];
    static size_t begin[MNEM_COMM_RANKS_MAX + 1];
    const int32_t size = mnem_comm_size(ranks.comm), me = mnem_comm_rank(ranks.comm);
    mnem_comm_stats stats;
    mnem_comm_stats_get(ranks.comm, &stats);
    mine.peak = tool_peak_bytes();
    mine.sent = stats.bytes_sent;
    mine.waited += stats.seconds_waiting;
    rows[me] = mine;
    for (int32_t i = 0; i <= size; i++) begin[i] = (size_t)i * sizeof *rows;
    const mnem_status status = mnem_comm_gather(ranks.comm, rows, begin);
    if (status == MNEM_OK && me == 0 && (mine.end > 0 || mine.sequences) && !quiet)
        show_rows(rows, size);
    for (int32_t i = 0; status == MNEM_OK && me == 0 && i < size; i++)
        *code = tool_over_budget_rank(i, rows[i].peak, rows[i].budget, *code);
    return status;
}

/* ---- the end ---- */

/* "comm: rank 0 ": of a text that names a lost rank. */
static bool says_lost(const char *text, int rank) {
    char begin[40];
    snprintf(begin, sizeof begin, "comm: rank %d (", rank);
    return text && strncmp(text, begin, strlen(begin)) == 0;
}

void tool_ranks_joined(void) {
    ranks.joined = true;
}

void tool_ranks_say(const char *text) {
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&said)) return;
    if (ranks.err >= 0) {
        fflush(stderr);
        dup2(ranks.err, STDERR_FILENO);
    }
    tool_message("%s", text);
    fflush(stderr);
}

/* A rank was lost while this one computes: the step that runs is stopped. If it doesn't end in
 * time, this thread ends the process. */
static void on_lost(void *context, const char *text) {
    (void)context;
    enum { PATIENCE = 1 };
    const int me = mnem_comm_rank(ranks.comm);
    const bool first = says_lost(text, 0); /* rank 1 speaks, and needn't wait for it */
    tool_interrupt_stop(SIGTERM);
    if (me == 1 && first) tool_ranks_say(text);
    pause_for(me == 0 ? PATIENCE : me == 1 && first ? 0.1 : 2 * PATIENCE);
    if (me == 0 && !first) tool_ranks_say(text);
    MPI_Abort(MPI_COMM_WORLD, TOOL_FAILED);
    _exit(TOOL_FAILED);
}

static int end_failed(int code) {
    enum { PATIENCE = 3 };
    if (mnem_comm_rank(ranks.comm) > 0 && !mnem_comm_failure(ranks.comm))
        pause_for(1); /* what all refuse rank 0 says in its own words */
    const char *text = mnem_comm_failure(ranks.comm);
    const int me = mnem_comm_rank(ranks.comm);
    static char said[1024];
    tool_failure_said(said, sizeof said);
    const bool first = says_lost(text, 0); /* rank 0 is it: rank 1 speaks */
    if (text && !ranks.told && ((me == 0 && !first && !strstr(said, text)) || (me == 1 && first))) {
        tool_ranks_say(text);
        code = TOOL_FAILED;
    }
    if (!text) text = *said ? said : code > 128 ? "was told to end" : "failed";
    mnem_comm_abort(ranks.comm, text);
    fflush(stdout);
    fflush(stderr);
    pause_for(me == 0 || (me == 1 && first) ? 0.1 : PATIENCE); /* rank 0 has the first word */
    MPI_Abort(MPI_COMM_WORLD, code);
    return code;
}

/* As of any other rank; Ctrl-C is what who sees this has pressed. What the signal stopped may have
 * failed for it on this rank, in words that don't begin as those about others do. */
static void say_told(int code) {
    const char *failure = mnem_comm_failure(ranks.comm);
    if (code <= 128 || code == 128 + SIGINT) return;
    if (failure && strncmp(failure, "comm: ", 6) == 0) return;
    ranks.told = true;
    tool_message("rank %d (process %d) ends, because it received the signal: %s",
                 mnem_comm_rank(ranks.comm), (int)getpid(), strsignal(code - 128));
}

int tool_ranks_end(int code) {
    if (!ranks.comm) return code;
    say_told(code);
    const bool in_order = code == TOOL_OK || (code > 128 && ranks.joined); /* by a signal */
    if (!in_order) return end_failed(code);
    if (mnem_comm_failure(ranks.comm) || tell_rows(&code) != MNEM_OK)
        return end_failed(TOOL_FAILED);
    tool_watch_turn(WATCH_ENDS);
    mnem_comm_destroy(ranks.comm);
    ranks.comm = NULL;
    MPI_Finalize();
    tool_watch_leave();
    return code;
}

/* ---- the begin ---- */

static uint64_t resident(void) {
    mnem_process_usage usage = {0};
    mnem_process_settle();
    (void)mnem_process_usage_get(&usage);
    return usage.bytes_resident;
}

/* What they would say rank 0 says. */
static void fall_silent(void) {
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    ranks.err = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (null < 0) return;
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    close(null);
}

/* The same words on all ranks; what of them doesn't fit is in a sum. */
static int agree_on_words(int argc, char **argv) {
    char text[MNEM_COMM_TEXT_MAX] = "";
    uint64_t sum = 14695981039346656037u; /* FNV-1a (Fowler, Noll, Vo) */
    size_t used = 0;
    for (int i = 1; i < argc; i++) {
        for (const char *c = argv[i]; *c; c++) sum = (sum ^ (uint8_t)*c) * 1099511628211u;
        sum = (sum ^ ' ') * 1099511628211u;
        if (used + 24 < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - 24 - used, "%s ", argv[i]);
    }
    const size_t at = strlen(text) < sizeof text - 24 ? strlen(text) : sizeof text - 24;
    snprintf(text + at, sizeof text - at, "(%016llx)", (unsigned long long)sum);
    if (mnem_comm_agree(ranks.comm, "the version of mnem", MNEM_VERSION) != MNEM_OK ||
        mnem_comm_agree(ranks.comm, "the command line", text) != MNEM_OK)
        return tool_fail(MNEM_IO);
    return TOOL_OK;
}

/* Open MPI's messages over TCP that are larger than this are asked for by the receiver, and then go
 * one way at a time: 256 KiB both ways at once at 0.6 of 1 Gbit/s each, at 0.95 without the asking
 * (docs/mpi.md). Whose environment says another size keeps it. */
static void let_pieces_go_at_once(void) {
    static const char bytes[] = "266240"; /* a slot of what rows gather, and MPI's header */
    setenv("OMPI_MCA_btl_tcp_eager_limit", bytes, 0);
    setenv("OMPI_MCA_btl_tcp_rndv_eager_limit", bytes, 0);
    setenv("OMPI_MCA_btl_tcp_max_send_size", bytes, 0);
}

int tool_ranks_begin(int argc, char **argv) {
    int provided = 0, rank = 0, size = 1;
    const uint64_t before = resident();
    tool_watch_begin();
    let_pieces_go_at_once();
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
        return tool_failed("MPI could not be initialized: check the MPI installation, or start "
                           "mnem without mpirun");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size == 1) {
        tool_watch_turn(WATCH_OVER);
        ranks.bytes = resident() - before;
        return TOOL_OK;
    }
    if (rank > 0) fall_silent();
    const mnem_comm_mpi_options options = {.on_lost = on_lost};
    const mnem_status status = mnem_comm_mpi_create(MPI_COMM_WORLD, &options, &ranks.comm);
    if (status != MNEM_OK) {
        const int code = tool_fail(status);
        MPI_Abort(MPI_COMM_WORLD, code);
        return code;
    }
    tool_watch_turn(WATCH_RUNS);
    const uint64_t after = resident();
    ranks.bytes = after > before ? after - before : 0;
    const int code = agree_on_words(argc, argv);
    return code == TOOL_OK ? code : tool_ranks_end(code);
}

int tool_ranks_check(const tool_args *args) {
    const char *verb = args->verb->name;
    if (!ranks.comm || args->help) return TOOL_OK;
    static const struct {
        const char *verb;
        uint32_t features;
    } run_so[] = {
        {"run", MNEM_FEATURE_GENERATE | MNEM_FEATURE_RANKS_LAYERS},
        {"serve", MNEM_FEATURE_GENERATE | MNEM_FEATURE_RANKS_LAYERS},
        {"batch", MNEM_FEATURE_GENERATE | MNEM_FEATURE_RANKS_LAYERS},
        {"perplexity", MNEM_FEATURE_GENERATE | MNEM_FEATURE_RANKS_LAYERS},
        {"bench", MNEM_FEATURE_GENERATE | MNEM_FEATURE_RANKS_LAYERS},
        {"train", MNEM_FEATURE_TRAIN | MNEM_FEATURE_RANKS_DATA},
        {"embed", MNEM_FEATURE_EMBED | MNEM_FEATURE_RANKS_LAYERS},
    };
    for (size_t i = 0; i < sizeof run_so / sizeof run_so[0]; i++)
        if (strcmp(verb, run_so[i].verb) == 0 &&
            mnem_transformer_supports(NULL, run_so[i].features) == MNEM_OK)
            return TOOL_OK;
    if (strcmp(verb, "plan") == 0)
        return tool_usage(verb,
                          "mnem plan runs as one process, without mpirun: use mnem plan --ranks N");
    return tool_usage(verb,
                      "mnem %s does not support several ranks: start it without mpirun (run, "
                      "serve, batch, perplexity, bench, train and embed support several)",
                      verb);
}
