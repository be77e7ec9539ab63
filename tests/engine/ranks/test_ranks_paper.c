/* test_ranks_paper.c: what a plan says that ranks send is what they send, to the byte, for layers
 * and for rows; and what it says of speed follows from the link.
 *
 * Ranks are threads. What one step more adds to what a rank has sent at the end is that step's. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"
#include "mnem/mnem.h"

enum { RANKS_MAX = 5, CONTEXT = 128, CHUNK = 24 };

typedef struct rank {
    pthread_t id;
    mnem_comm *comm;
    const char *path;
    mnem_cut cut;
    mnem_comm_link link;
    const mnem_machine_profile *profile;
    int32_t steps, rows; /* that rank 0 runs; 0: only planned */
    mnem_engine_plan plan;
    mnem_status status;
    uint64_t sent;
    char text[300];
} rank;

static bool pass_by(void *context, int32_t part, int32_t index, const float *logits) {
    (void)context, (void)part, (void)index, (void)logits;
    return true;
}

static mnem_status lead(const rank *r, mnem_engine *engine) {
    int32_t ids[CHUNK];
    mnem_sequence *s;
    mnem_status status = mnem_sequence_create(engine, &s);
    for (int32_t i = 0; i < CHUNK; i++) ids[i] = 20 + i;
    for (int32_t i = 0; i < r->steps && status == MNEM_OK; i++) {
        const mnem_step_part part = {s, ids, r->rows, r->rows - 1};
        status = mnem_engine_step(engine, &part, 1, pass_by, NULL);
    }
    return status;
}

static mnem_status run_engine(rank *r, const mnem_model *model, mnem_ledger *ledger) {
    const mnem_engine_options options = {.ledger = ledger,
                                         .comm = r->comm,
                                         .cut = r->cut,
                                         .link = r->link,
                                         .profile = r->profile,
                                         .context = CONTEXT,
                                         .chunk = CHUNK,
                                         .threads = 1};
    mnem_engine *engine = NULL;
    mnem_status status = mnem_engine_plan_ranks(model, &options, &r->plan);
    if (status != MNEM_OK || r->steps == 0) return status;
    status = mnem_engine_create(model, &options, &r->plan, &engine);
    if (status == MNEM_OK)
        status = mnem_comm_rank(r->comm) ? mnem_engine_follow(engine) : lead(r, engine);
    mnem_engine_destroy(engine);
    return status;
}

static void *run_rank(void *context) {
    rank *r = context;
    mnem_ledger *ledger = NULL;
    mnem_model *model = NULL;
    mnem_comm_stats stats;
    r->status = mnem_ledger_create(&(mnem_ledger_options){0}, &ledger);
    if (r->status == MNEM_OK) r->status = mnem_model_open(r->path, &model);
    if (r->status == MNEM_OK) r->status = run_engine(r, model, ledger);
    snprintf(r->text, sizeof r->text, "%s", mnem_last_error());
    mnem_model_close(model);
    mnem_ledger_destroy(ledger);
    mnem_comm_stats_get(r->comm, &stats);
    r->sent = stats.bytes_sent;
    return NULL;
}

static void run_ranks(const rank *of, int32_t size, rank *ranks) {
    mnem_comm *comms[RANKS_MAX];
    must(mnem_comm_thread_create(size, comms));
    for (int32_t i = 0; i < size; i++) {
        ranks[i] = *of;
        ranks[i].comm = comms[i];
        assert_int_equal(pthread_create(&ranks[i].id, NULL, run_rank, &ranks[i]), 0);
    }
    for (int32_t i = 0; i < size; i++) pthread_join(ranks[i].id, NULL);
    for (int32_t i = 0; i < size; i++) {
        if (ranks[i].status != MNEM_OK) fail_msg("rank %d: %s", i, ranks[i].text);
        mnem_comm_destroy(comms[i]);
    }
}

/* ---- bytes ---- */

/* Of a step of so many rows. */
static void check_sent(const rank *of, int32_t size, int32_t rows, bool experts) {
    rank once[RANKS_MAX], thrice[RANKS_MAX], plan = *of;
    plan.rows = rows;
    plan.steps = 1;
    run_ranks(&plan, size, once);
    plan.steps = 3;
    run_ranks(&plan, size, thrice);
    uint64_t sent = 0, said = 0;
    for (int32_t i = 0; i < size; i++) {
        const mnem_engine_plan *p = &once[i].plan;
        const uint64_t will = 2 * (rows == 1 ? p->part_token_sent : p->part_chunk_sent);
        assert_int_equal(p->chunk, CHUNK);
        sent += thrice[i].sent - once[i].sent;
        said += will;
        if (!experts) assert_int_equal(thrice[i].sent - once[i].sent, will);
    }
    /* Which experts are chosen isn't known before; how many are is. Bytes are rounded. */
    assert_in_range(sent, said - (experts ? (uint64_t)size : 0),
                    said + (experts ? (uint64_t)size : 0));
}

static void what_ranks_send_is_what_the_plan_says(void **state) {
    (void)state;
    static const char *const made[] = {
        "--arch llama --heads 2 --kv-heads 1 --type BF16 --tied --layers 6 --ff 1024",
        "--arch qwen2 --bias --embd 160 --heads 14 --kv-heads 7 --head-dim 32 --type Q4_0 "
        "--layers 6 --ff 1056 --vocab 390",
        "--arch phi3 --heads 4 --kv-heads 2 --head-dim 32 --type Q4_0 --layers 3 --ff 1056",
        "--arch qwen2moe --heads 6 --kv-heads 3 --head-dim 32 --embd 96 --type Q4_0 --experts 14 "
        "--experts-used 3 --ff 96 --ff-expert 64 --ff-shared 96 --layers 5",
        "--arch olmo2 --heads 6 --kv-heads 2 --head-dim 32 --type F16 --layers 5 --embd 96"};
    enum { MADE = sizeof made / sizeof *made };
    static const int32_t most[MADE + 1] = {2, 5, 3, 5, 5, 5};
    for (int m = 0; m <= MADE; m++) {
        char path[256], name[40];
        snprintf(name, sizeof name, "paper%d.gguf", m);
        snprintf(path, sizeof path, "%s",
                 m < MADE ? kit_path(name) : MNEM_TEST_DATA "/model/kjv-5m-q4_k_m.gguf");
        if (m < MADE) make_model(path, made[m]);
        for (int32_t size = 2; size <= most[m]; size++)
            for (int cut = 0; cut < 2; cut++) {
                const rank of = {.path = path, .cut = (mnem_cut)cut};
                const bool experts = cut && m < MADE && strstr(made[m], "--experts");
                check_sent(&of, size, 1, experts);
                check_sent(&of, size, CHUNK, experts);
            }
    }
}

/* ---- speed ---- */

static mnem_engine_plan plan_with(mnem_cut cut, int32_t size, mnem_comm_link link) {
    static const mnem_machine_profile profile = {
        .read_bytes_per_s = 10e9, .disk_bytes_per_s = 1e9, .macs_per_s = 100e9};
    rank ranks[RANKS_MAX];
    const rank of = {.path = MNEM_TEST_DATA "/model/kjv-5m-q4_k_m.gguf",
                     .cut = cut,
                     .link = link,
                     .profile = &profile};
    run_ranks(&of, size, ranks);
    return ranks[0].plan;
}

static double longer(double slow, double quick) {
    return 1 / slow - 1 / quick;
}

/* Layers: N messages in a row; rows: an order, four meetings in each of 6 layers, the logits. */
static void a_link_costs_a_token_its_latency_and_its_bytes(void **state) {
    (void)state;
    enum { SIZE = 4, MEETINGS = 4 * 6 };
    for (int cut = 0; cut < 2; cut++) {
        const mnem_engine_plan quick = plan_with((mnem_cut)cut, SIZE, (mnem_comm_link){0});
        const mnem_engine_plan late =
            plan_with((mnem_cut)cut, SIZE, (mnem_comm_link){.seconds = 1});
        const mnem_engine_plan thin =
            plan_with((mnem_cut)cut, SIZE, (mnem_comm_link){.bytes_per_second = 1e5});
        const int messages = cut ? MEETINGS + 2 : SIZE;
        assert_true(quick.predicted_generate > 0);
        assert_in_range((int)(longer(late.predicted_generate, quick.predicted_generate) + 0.5),
                        messages, messages);
        const double sent = 1e5 * longer(thin.predicted_generate, quick.predicted_generate);
        const double most = 2.0 * (double)(SIZE * quick.part_token_sent + quick.part_chunk_sent);
        assert_true(sent > (double)quick.part_token_sent / 2 && sent < most);
        assert_true(late.predicted_together <= late.together * late.predicted_generate * 1.001);
        assert_true(late.predicted_prompt < quick.predicted_prompt);
        assert_true(thin.predicted_prompt < quick.predicted_prompt);
    }
}

/* Of two ranks with next to nothing to compute: the first chunk's second, one more for every two
 * behind the second one, since a rank's next message waits until its last one was taken, one that
 * its order takes, and the logits'. */
static void a_prompt_waits_for_latency_that_computing_does_not_hide(void **state) {
    (void)state;
    const mnem_comm_link link = {.seconds = 1};
    const mnem_engine_plan p = plan_with(MNEM_CUT_LAYERS, 2, link);
    assert_int_equal((CONTEXT + CHUNK - 1) / CHUNK, 6);
    assert_in_range((int)(100 * CONTEXT / p.predicted_prompt), 500, 510);
}

/* A layer's pipeline hides latency behind other sequences' steps; eight share a meeting of rows. */
static void sequences_together_share_what_a_link_takes(void **state) {
    (void)state;
    for (int cut = 0; cut < 2; cut++) {
        const mnem_engine_plan p =
            plan_with((mnem_cut)cut, 2, (mnem_comm_link){.seconds = 1e-3, .bytes_per_second = 1e8});
        assert_int_equal(p.together, MNEM_TOGETHER);
        assert_true(p.predicted_together > 2 * p.predicted_generate);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_ranks_send_is_what_the_plan_says),
        cmocka_unit_test(a_link_costs_a_token_its_latency_and_its_bytes),
        cmocka_unit_test(a_prompt_waits_for_latency_that_computing_does_not_hide),
        cmocka_unit_test(sequences_together_share_what_a_link_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
