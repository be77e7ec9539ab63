/* ranks_speed.c: how fast ranks are together, and what they send for it.
 *
 * Layers: a token goes through the ranks one after another, so it takes what all take, and what the
 * links take between them. Chunks of a prompt follow each other:
 *
 *     rank 0   1 2 3 4 . . .            chunks; a prompt takes the first one's way through all,
 *     rank 1   . 1 2 3 4 . .            and for each other one what the slowest rank takes, or the
 *     rank 2   . . 1 2 3 4 . logits     link where that is slower
 *
 * A rank has one chunk on its way: its next one begins when the rank behind has ended the one
 * before and takes it. So latency is hidden only as far as there is computing (prompt_through).
 *
 * So do steps of several sequences, as many as can be under way: they take what the slowest rank
 * takes of each, or the way of one through all where that is longer.
 *
 * Rows: all work on the same rows at once, wait for the slowest, and meet: each sends its columns
 * to all others through its one link, in pieces of what a slot holds (relay/relay_gather.h), and a
 * piece waits for the link's latency. Nothing is hidden behind computing. What experts make is
 * reckoned as though all were chosen as often: the sum over ranks is exact, a rank's part isn't. */
#include "engine/ranks/ranks_private.h"

#include "base/minmax.h"
#include "engine/relay/relay.h"

/* ---- what is sent ---- */

static double floats(double n) {
    return n * sizeof(float);
}

static double order_bytes(const mnem__ranks_job *job, int32_t rows, int32_t sequences) {
    const double head = MNEM__RELAY_HEAD * sizeof(int32_t);
    return (job->ranks - 1) * (head + (double)sequences * sizeof(mnem__relay_segment) +
                               (double)rows * sizeof(int32_t));
}

static double columns_bytes(const mnem__ranks_job *job, const mnem__ranks_meeting *m,
                            int32_t rank) {
    const mnem_transformer t = {.head_dim = job->head_dim};
    const mnem_row_range own = mnem__transformer_gathered(&t, &job->parts[rank], m->what);
    if (m->what == MNEM__GATHERS_EXPERTS)
        return floats((double)job->expert_columns) * (own.end - own.begin) / job->experts;
    return (double)mnem__gather_columns(m->type, own.end - own.begin);
}

static double words_bytes(const mnem__ranks_job *job, int32_t rank) {
    const mnem_row_range own = job->parts[rank].vocab;
    return (own.end - own.begin) * (double)sizeof(float);
}

static double sent_of_rows(const mnem__ranks_job *job, int32_t rank, int32_t rows) {
    double bytes = rank ? words_bytes(job, rank) : order_bytes(job, rows, 1);
    for (int i = 0; i < MNEM__RANKS_MEETINGS; i++) {
        const mnem__ranks_meeting *m = &job->meetings[i];
        const double of = (double)m->times * rows + m->last;
        bytes += of * (job->ranks - 1) * columns_bytes(job, m, rank);
    }
    return bytes;
}

uint64_t mnem__ranks_sent(const mnem__ranks_job *job, int32_t rank, int32_t rows) {
    if (job->parts) return (uint64_t)(sent_of_rows(job, rank, rows) + 0.5);
    if (rank == job->ranks - 1) return (uint64_t)job->vocab * sizeof(float);
    return (uint64_t)rows * (uint64_t)job->embd * sizeof(float) +
           (rank == 0 ? (uint64_t)order_bytes(job, rows, 1) : 0);
}

/* ---- links ---- */

static double on_link(const mnem__ranks_job *job, double bytes) {
    return job->link.bytes_per_second > 0 ? bytes / job->link.bytes_per_second : 0;
}

/* Of a message, until the last byte has come. */
static double message(const mnem__ranks_job *job, double bytes) {
    return job->link.seconds + on_link(job, bytes);
}

/* ---- layers ---- */

/* From rank to rank, and the logits' way back. */
static double way_through(const mnem__ranks_job *job, int32_t rows, int32_t logits) {
    return (job->ranks - 1) * message(job, floats((double)rows * job->embd)) +
           message(job, floats((double)logits * job->vocab));
}

/* A rank on the way of a prompt: when it ended the chunk before, and the one before that; when its
 * last message has left. */
typedef struct on_way {
    double ended, before, left;
} on_way;

/* So many rows of a prompt go through the ranks, behind those that went before. */
static void chunk_through(const mnem__ranks_job *job, const mnem__rank_seconds *parts, int32_t rows,
                          on_way *ranks) {
    const double share = (double)rows / job->chunk;
    const double wire = on_link(job, floats((double)rows * job->embd));
    double comes = 0;
    for (int32_t i = 0; i < job->ranks; i++) {
        on_way *r = &ranks[i];
        const double taken = i + 1 < job->ranks ? ranks[i + 1].before : 0;
        const double begins = mnem__max_f64(mnem__max_f64(r->ended, taken), comes);
        r->before = r->ended;
        r->ended = begins + share * parts[i].chunk;
        r->left = mnem__max_f64(r->ended, r->left) + wire;
        comes = r->left + job->link.seconds;
    }
}

/* Until the logits of its last token have come to rank 0. */
static double prompt_through(const mnem__ranks_job *job, const mnem__rank_seconds *parts) {
    on_way ranks[MNEM_COMM_RANKS_MAX] = {{0}};
    for (int32_t i = 1; i < job->ranks; i++) ranks[i].ended = job->link.seconds; /* the order */
    for (int32_t at = 0; at < job->prompt; at += job->chunk)
        chunk_through(job, parts, mnem__min_i32(job->chunk, job->prompt - at), ranks);
    return ranks[job->ranks - 1].ended + message(job, floats(job->vocab));
}

static mnem__ranks_seconds speed_of_layers(const mnem__ranks_job *job,
                                           const mnem__rank_seconds *parts) {
    const int32_t steps = mnem__relay_ahead(job->ranks);
    const int32_t step = (job->together + steps - 1) / steps; /* sequences of one */
    const double wire = on_link(job, floats((double)job->chunk * job->embd));
    double round = way_through(job, step, step), slowest = 0;
    mnem__ranks_seconds s = {
        .token = way_through(job, 1, 1), .chunk = wire, .prompt = prompt_through(job, parts)};
    for (int32_t i = 0; i < job->ranks; i++) {
        const double two = i ? parts[i - 1].chunk + parts[i].chunk + wire + job->link.seconds : 0;
        s.token += parts[i].token;
        s.chunk = mnem__max_f64(s.chunk, mnem__max_f64(parts[i].chunk, two / 2));
        round += parts[i].together;
        slowest = mnem__max_f64(slowest, parts[i].together);
    }
    const double busy = (double)job->together / step * slowest;
    s.together = busy > round ? busy : round;
    return s;
}

/* ---- rows ---- */

/* A meeting of so many rows, which go in pieces. */
static double meet_once(const mnem__ranks_job *job, int32_t rows, double widest) {
    const int32_t piece = mnem__max_i32((int32_t)((double)job->slot_bytes / widest), 1);
    const int32_t pieces = (rows + piece - 1) / piece;
    return pieces * job->link.seconds + on_link(job, (double)rows * (job->ranks - 1) * widest);
}

/* All meetings of a pass, of whose rows some are wanted. */
static double meet(const mnem__ranks_job *job, int32_t rows, int32_t wanted) {
    double seconds = 0;
    for (int i = 0; i < MNEM__RANKS_MEETINGS; i++) {
        const mnem__ranks_meeting *m = &job->meetings[i];
        double widest = 1;
        if (m->times + m->last == 0) continue;
        for (int32_t p = 0; p < job->ranks; p++) {
            const double bytes = columns_bytes(job, m, p);
            if (bytes > widest) widest = bytes;
        }
        seconds +=
            m->times * meet_once(job, rows, widest) + m->last * meet_once(job, wanted, widest);
    }
    return seconds;
}

/* To rank 0, some rows at once. */
static double logits(const mnem__ranks_job *job, int32_t rows) {
    const double bytes = floats(job->vocab) - words_bytes(job, 0);
    const int32_t turns = (rows + MNEM__GATHER_LOGITS - 1) / MNEM__GATHER_LOGITS;
    return turns * job->link.seconds + on_link(job, rows * bytes);
}

/* With the order for it, and the logits. */
static double pass(const mnem__ranks_job *job, int32_t rows, int32_t wanted, double computing) {
    return message(job, order_bytes(job, rows, wanted)) + computing + meet(job, rows, wanted) +
           logits(job, wanted);
}

static mnem__ranks_seconds speed_of_rows(const mnem__ranks_job *job,
                                         const mnem__rank_seconds *parts) {
    mnem__rank_seconds most = {0};
    for (int32_t i = 0; i < job->ranks; i++) {
        if (parts[i].token > most.token) most.token = parts[i].token;
        if (parts[i].chunk > most.chunk) most.chunk = parts[i].chunk;
        if (parts[i].together > most.together) most.together = parts[i].together;
    }
    mnem__ranks_seconds s = {.token = pass(job, 1, 1, most.token),
                             .chunk = pass(job, job->chunk, 0, most.chunk),
                             .together = pass(job, job->together, job->together, most.together)};
    const double last = pass(job, job->chunk, 1, most.chunk) - s.chunk; /* beside a chunk's */
    s.prompt = (double)job->prompt / job->chunk * s.chunk + last;
    return s;
}

mnem__ranks_seconds mnem__ranks_speed(const mnem__ranks_job *job, const mnem__rank_seconds *parts) {
    for (int32_t i = 0; i < job->ranks; i++)
        if (!(parts[i].token > 0) || !(parts[i].chunk > 0)) return (mnem__ranks_seconds){0};
    return job->parts ? speed_of_rows(job, parts) : speed_of_layers(job, parts);
}
