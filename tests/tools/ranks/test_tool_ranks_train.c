/* test_tool_ranks_train.c: `mnem train` as several ranks under mpirun: the losses of one process,
 * each rank inside its budget and its prediction, runs that go on with another number of ranks, and
 * ends that leave a whole checkpoint. Without an MPI only what `mnem` says then. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/kit.h"
#include "tools/ranks/marked.h"
#include "tools/ranks/mpirun.h"

static void sharding_needs_ranks(void **state) {
    (void)state;
    const said *s = shell("%s train -d x --shard optimizer", MNEM_COMMAND);
    assert_int_equal(s->code, 2);
    assert_non_null(strstr(s->err, "--shard needs several ranks: start mpirun -n N mnem train"));
}

#ifdef MNEM_MPIRUN

#define TEXT  "-d " MNEM_SOURCE "/LICENSE " MNEM_SOURCE "/docs/training.md"
#define SMALL TEXT " --config tiny --ctx 16 --batch 7 --vocab 256 --precision f32 -t 1"

enum { MORE = MNEM_SANITIZED ? 128 : 0, STEPS = 6 }; /* MiB of a budget: sanitizers take them */

/* Losses of a run's log, one for each step. */
static void read_losses(const char *folder, double losses[STEPS]) {
    char path[300], line[1000];
    int steps = 0;
    snprintf(path, sizeof path, "%s/%s/log.jsonl", tool_scratch(), folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        json_t *object = json_loads(line, 0, NULL);
        const json_t *loss = json_object_get(object, "loss");
        if (loss) {
            assert_true(steps < STEPS);
            assert_int_equal(json_integer_value(json_object_get(object, "step")), steps + 1);
            losses[steps++] = json_number_value(loss);
        }
        json_decref(object);
    }
    fclose(file);
    assert_int_equal(steps, STEPS);
}

static void check_near(const double *a, const double *b, double tolerance) {
    for (int i = 0; i < STEPS; i++)
        if (!(fabs(a[i] - b[i]) <= tolerance * b[i]))
            fail_msg("step %d: loss %.9g, not %.9g", i + 1, a[i], b[i]);
}

static double bytes_of(const char *number, const char *unit) {
    char text[64];
    uint64_t bytes = 0;
    snprintf(text, sizeof text, "%s%s", number, unit);
    must(mnem_size_parse(text, &bytes));
    return (double)bytes;
}

/* Every rank's line of the table: its peak is within its budget, and as predicted. */
static void check_shares(const char *err, int ranks) {
    const char *line = strstr(err, "  rank  sequences");
    assert_non_null(line);
    for (int i = 0; i < ranks; i++) {
        int rank, sequences;
        char number[4][16], unit[4][8];
        line = strchr(line, '\n') + 1;
        assert_int_equal(sscanf(line, "%d %d %15s %7s %15s %7s %15s %7s %15s %7s", &rank,
                                &sequences, number[0], unit[0], number[1], unit[1], number[2],
                                unit[2], number[3], unit[3]),
                         10);
        assert_int_equal(rank, i);
        const double peak = bytes_of(number[1], unit[1]), budget = bytes_of(number[3], unit[3]);
        const double off = fabs(peak - bytes_of(number[2], unit[2]));
        if (!(peak <= budget)) fail_msg("rank %d: %g bytes of %g", i, peak, budget);
        if (!MNEM_SANITIZED && !(off <= 4 * 1048576.0 || off <= 0.02 * peak))
            fail_msg("rank %d: %g bytes, off by %g", i, peak, off);
    }
}

static double alone[STEPS];

/* Those beside each other. */
static const said *end_well(int number) {
    const said *s = shell_end(number);
    if (s->code != 0) fail_msg("run %d: %s", number, s->err);
    return s;
}

enum { CUT = 5 }; /* the number of the run of cut_gradients_change_no_loss */

static void losses_are_those_of_one_process(void **state) {
    (void)state;
    enum { RANKS = MNEM_SANITIZED ? 2 : 4 };
    double losses[STEPS];
    shell_start(1, "%s train " SMALL " --steps %d --memory %dM -o one", MNEM_COMMAND, STEPS,
                MORE + 100);
    for (int ranks = 2; ranks <= RANKS; ranks++)
        shell_start(ranks, MPIRUN "train " SMALL " --steps %d --memory %dM,%dM -o of%d", ranks,
                    STEPS, MORE + 100, MORE + 60, ranks);
    shell_start(CUT, MPIRUN "train " SMALL " --steps %d --memory %dM --shard gradients -o cut2", 2,
                STEPS, MORE + 100);
    end_well(1);
    read_losses("one", alone);
    for (int ranks = 2; ranks <= RANKS; ranks++) {
        check_shares(end_well(ranks)->err, ranks);
        char folder[16];
        snprintf(folder, sizeof folder, "of%d", ranks);
        read_losses(folder, losses);
        check_near(losses, alone, 1e-5);
    }
}

/* Whole gradients' bits, of a run that was started beside those. */
static void cut_gradients_change_no_loss(void **state) {
    (void)state;
    double whole[STEPS], cut[STEPS];
    read_losses("of2", whole);
    check_shares(end_well(CUT)->err, 2);
    read_losses("cut2", cut);
    check_near(cut, whole, 0);
}

/* The least that a rank of a deep model needs, of a run that was refused. */
static const char DEEP[] = TEXT " --config deep.json -t 1 --heldout 0";
static uint64_t least_of(int number) {
    const said *s = shell_end(number);
    assert_int_equal(s->code, 3);
    const char *needs = strstr(s->err, "needs ");
    if (!needs) fail_msg("%s", s->err);
    return strtoull(needs + strlen("needs "), NULL, 10);
}

/* In a budget that holds nothing else gradients are cut without being told. */
static void a_budget_chooses_what_is_cut(void **state) {
    (void)state;
    FILE *file = fopen(at("deep.json"), "w");
    fputs("{\"architecture\": \"llama\", \"layers\": 12, \"embd\": 128, \"heads\": 4, "
          "\"kv_heads\": 4,"
          " \"ff\": 512, \"vocab\": 256, \"context\": 64, \"batch\": 3, \"dropout\": 0,"
          " \"precision\": \"f32\", \"steps\": 3}",
          file);
    fclose(file);
    for (int i = 0; i < 2; i++)
        shell_start(i, MPIRUN "train %s --memory 5M --shard %s --dry-run", 3, DEEP,
                    i ? "gradients" : "optimizer");
    const uint64_t optimizer = least_of(0), gradients = least_of(1);
    const uint64_t budget = (optimizer + gradients) / 2;
    assert_true(gradients + (4 << 20) < optimizer);
    const said *s =
        shell(MPIRUN "train %s --memory %llu -v -o deep", 3, DEEP, (unsigned long long)budget);
    if (s->code != 0) fail_msg("%s", s->err);
    if (!strstr(s->err, "moments and gradients are")) fail_msg("%s", s->err);
    check_shares(s->err, 3);
}

/* Stopped on some ranks, gone on with on others. */
static void a_run_goes_on_with_any_number_of_ranks(void **state) {
    (void)state;
    enum { RANKS = 3 };
    double losses[STEPS], of2[STEPS];
    char folder[16];
    read_losses("of2", of2);
    const said *s = shell(MPIRUN "train " SMALL " --steps %d --stop-after 2 --memory %dM -o again1 "
                                 "&& cp -r again1 again2 && cp -r again1 again3",
                          2, STEPS, MORE + 100);
    if (s->code != 0) fail_msg("%s", s->err);
    assert_non_null(strstr(s->err, "stopped after step 2"));
    for (int ranks = 1; ranks <= RANKS; ranks++)
        shell_start(ranks, MPIRUN "train --resume again%d -t 1 --memory %dM", ranks, ranks,
                    MORE + 100);
    for (int ranks = 1; ranks <= RANKS; ranks++) {
        assert_non_null(strstr(end_well(ranks)->err, "continuing after step 2 of 6"));
        snprintf(folder, sizeof folder, "again%d", ranks);
        read_losses(folder, losses);
        check_near(losses, of2, ranks == 2 ? 0 : 1e-5);
    }
}

static void adapters_are_trained_so_too(void **state) {
    (void)state;
    double one[STEPS], losses[STEPS];
    const char *words = "--lora 4 --ctx 16 --batch 5 --precision f32 -t 1";
    shell_start(1, "%s train --init %s " TEXT " %s --steps %d --memory %dM -o lora1", MNEM_COMMAND,
                tool_model, words, STEPS, MORE + 200);
    shell_start(3, MPIRUN "train --init %s " TEXT " %s --steps %d --memory %dM -o lora3", 3,
                tool_model, words, STEPS, MORE + 200);
    end_well(1);
    check_shares(end_well(3)->err, 3);
    read_losses("lora1", one);
    read_losses("lora3", losses);
    check_near(losses, one, 1e-5);
}

static void a_batch_per_rank_counts_the_ranks(void **state) {
    (void)state;
    const said *s = shell(MPIRUN "train " TEXT " --config tiny --ctx 16 --vocab 256 -t 1 --memory "
                                 "100M --batch-per-rank 400000 -o each",
                          3);
    assert_int_equal(s->code, 2);
    assert_non_null(strstr(s->err, "a step of 1200000 sequences is too large"));
}

static void what_does_not_run_is_refused_once(void **state) {
    (void)state;
    static const struct {
        const char *words, *text;
        int code;
    } refused[] = {
        {"--memory 100M,4M", "rank 1: train: needs ", 3},
        {"", "ranks may share a machine", 2},
        {"--memory 100M --shard gradients --masked", "--shard gradients does not support --masked",
         2},
        {"--memory 100M --shard weights", "--shard weights is not supported", 2},
        {"--memory 100M --adapt", "--adapt is not supported with several ranks", 2},
        {"--memory 100M --batch 1", "a batch has 1 sequence, too few for 2 ranks", 2},
        {"--memory 100M --accumulate 300000", "a step of 2100000 sequences is too large", 2},
    };
    enum { COUNT = sizeof refused / sizeof refused[0] };
    char config[32];
    for (int i = 0; i < COUNT; i++)
        shell_start(i, MPIRUN "train " SMALL " -o refused%d %s", 2, i, refused[i].words);
    for (int i = 0; i < COUNT; i++) {
        const said *s = shell_end(i);
        const char *first = strstr(s->err, "mnem: ");
        if (!first || !strstr(s->err, refused[i].text)) fail_msg("%s", s->err);
        assert_int_equal(s->code, refused[i].code);
        assert_null(strstr(first + 1, "mnem: "));
        snprintf(config, sizeof config, "refused%d/config.json", i);
        assert_int_not_equal(access(at(config), F_OK), 0);
    }
}

/* ---- ends ---- */

/* Trainings of 3 ranks beside each other; once there is a checkpoint one of each gets a signal, and
 * all end by themselves, and say who it was. Of one more (the last number) all get a signal. */
static const struct {
    int rank, number;
    const char *text;
} ends[] = {
    {2, SIGSTOP, ") has sent nothing for "}, {1, SIGKILL, ") ended"}, {0, SIGKILL, ") ended"}};
enum { ENDS = sizeof ends / sizeof ends[0] };
static pid_t ended[ENDS]; /* who got it */

/* What is there goes on, alone. */
static void check_checkpoint(int number) {
    const said *s =
        shell("%s train --resume ended%d -t 1 --memory %dM --steps 100000 --stop-after 1",
              MNEM_COMMAND, number, MORE + 100);
    if (s->code != 0) fail_msg("%s", s->err);
    assert_non_null(strstr(s->err, "continuing after step "));
}

static void mark_of(int i, char mark[64]) {
    snprintf(mark, 64, "MNEM_TEST_RANKS=%d_%d_%d", (int)getpid(), ends[i].rank, ends[i].number);
}

static void strike(int i) {
    char mark[64], checkpoint[32];
    mark_of(i, mark);
    snprintf(checkpoint, sizeof checkpoint, "ended%d/checkpoint", i);
    for (int k = 0; !ended[i] || access(at(checkpoint), F_OK) != 0; k++) {
        if (k > 300 * 50) fail_msg("end %d: no checkpoint in 300 s", i); /* as timeout has it */
        usleep(20000);
        if (!ended[i]) ended[i] = find_rank(mark, ends[i].rank);
    }
    assert_int_equal(kill(ended[i], ends[i].number), 0);
}

static void begin_ends(void) {
    char mark[64];
    if (ended[0]) return;
    for (int i = 0; i < ENDS; i++) {
        mark_of(i, mark);
        shell_start(i,
                    "export %s; " MPIRUN "train " SMALL
                    " --steps 100000 --save-every 3 --memory %dM -o ended%d",
                    mark, 3, MORE + 100, i);
    }
    /* Open MPI kills the ranks so many seconds after it passed SIGTERM on, and waits them out. By
     * default it is one, in which a busy machine makes no step. */
    shell_start(ENDS,
                "export OMPI_MCA_odls_base_sigkill_timeout=10; " MPIRUN "train " SMALL
                " --steps 100000 --save-every 3 --memory %dM -o ended%d & pid=$!; "
                "while ! test -f ended%d/checkpoint && kill -0 $pid; do sleep 0.05; done; "
                "kill -TERM $pid; wait $pid",
                3, MORE + 100, ENDS, ENDS);
    for (int i = 0; i < ENDS; i++) strike(i);
}

static void check_end(int i) {
    const said *s = shell_end(i);
    kill(ended[i], SIGKILL); /* one that hangs */
    check_named(s, ends[i].rank, ended[i], ends[i].text);
    check_checkpoint(i);
}

static void a_rank_that_dies_leaves_a_whole_checkpoint(void **state) {
    (void)state;
    begin_ends();
    check_end(1);
    check_end(2);
}

static void so_does_one_that_hangs(void **state) {
    (void)state;
    begin_ends();
    check_end(0);
}

static void a_signal_to_all_ends_in_order(void **state) {
    (void)state;
    begin_ends();
    const said *s = shell_end(ENDS);
    assert_int_not_equal(s->code, 0);
    /* On a busy machine another rank may get the signal, and end all, long before rank 0. */
    if (!strstr(s->err, "the run was stopped; its last checkpoint is of step ") &&
        !(strstr(s->err, "was told to end: Terminated") && strstr(s->err, "the last checkpoint, ")))
        fail_msg("%s", s->err);
    check_checkpoint(ENDS);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sharding_needs_ranks),
#ifdef MNEM_MPIRUN
        cmocka_unit_test(losses_are_those_of_one_process),
        cmocka_unit_test(cut_gradients_change_no_loss),
        cmocka_unit_test(a_budget_chooses_what_is_cut),
        cmocka_unit_test(a_run_goes_on_with_any_number_of_ranks),
        cmocka_unit_test(adapters_are_trained_so_too),
        cmocka_unit_test(a_batch_per_rank_counts_the_ranks),
        cmocka_unit_test(what_does_not_run_is_refused_once),
        cmocka_unit_test(a_rank_that_dies_leaves_a_whole_checkpoint),
        cmocka_unit_test(so_does_one_that_hangs),
        cmocka_unit_test(a_signal_to_all_ends_in_order),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
