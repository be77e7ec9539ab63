/* test_tool_ranks_measure.c: what is measured of texts under mpirun is that of one process:
 * embeddings, by `mnem embed` and by a server beside its chats, perplexities and divergences; and
 * the answers of `mnem batch`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "tools/batch/batch_file.h"
#include "tools/ranks/mpirun.h"

enum { MORE = MNEM_SANITIZED ? 128 : 0 }; /* MiB of a budget: sanitizers take them */

enum { ALONE = 0 }; /* the number of the run of one process */

static const said *end_well(int number) {
    const said *s = shell_end(number);
    if (s->code != 0) fail_msg("run %d: %s", number, s->err);
    return s;
}

/* Chunks of 8 tokens are less than a text. */
static void embeddings_are_those_of_one_process(void **state) {
    (void)state;
    static const char *const words[] = {"--pooling mean", "--pooling last --chunk 8"};
    static const struct {
        int ranks, words;
        const char *cut;
    } way[] = {{2, 0, "layers"}, {3, 0, "rows"}, {2, 1, "rows"}, {3, 1, "layers"}, {5, 1, "rows"}};
    enum { WAYS = sizeof way / sizeof way[0], SHORT = MNEM_SANITIZED ? 4 : WAYS };
    static const char texts[] = "hi \"In the beginning God created the heaven\" \"And God said\"";
    for (int i = 0; i < SHORT; i++)
        shell_start(2 + i, MPIRUN "embed %s %s %s --memory %dM --cut %s", way[i].ranks, tool_model,
                    texts, words[way[i].words], MORE + 100, way[i].cut);
    for (int k = 0; k < 2; k++)
        shell_start(k, "%s embed %s %s %s -q", MNEM_COMMAND, tool_model, texts, words[k]);
    const said *alone[] = {end_well(0), end_well(1)};
    assert_true(strlen(alone[0]->out) > 1000);
    assert_string_not_equal(alone[0]->out, alone[1]->out);
    for (int i = 0; i < SHORT; i++)
        assert_string_equal(end_well(2 + i)->out, alone[way[i].words]->out);
}

static void the_perplexity_is_that_of_one_process(void **state) {
    (void)state;
    enum { RANKS = MNEM_SANITIZED ? 3 : 4 };
    char words[400];
    assert_int_equal(shell("head -c 2000 %s/LICENSE >some", MNEM_SOURCE)->code, 0);
    snprintf(words, sizeof words, "perplexity %s some --ctx 128 -t 1", tool_model);
    shell_start(ALONE, "%s %s -q", MNEM_COMMAND, words);
    for (int ranks = 2; ranks <= RANKS; ranks++)
        shell_start(ranks, MPIRUN "%s --memory %dM --cut %s", ranks, words, MORE + 100,
                    ranks % 2 ? "layers" : "rows");
    const said *alone = end_well(ALONE);
    for (int ranks = 2; ranks <= RANKS; ranks++)
        assert_string_equal(end_well(ranks)->out, alone->out);
}

/* ---- a divergence: two models ---- */

static char divergence[400], of_one[600];

/* What one process says of it. */
static void measure_alone(void) {
    if (*of_one) return;
    assert_int_equal(shell("head -c 1200 %s/LICENSE >text", MNEM_SOURCE)->code, 0);
    snprintf(divergence, sizeof divergence,
             "perplexity %s/kjv-5m-q4_0.gguf text --ctx 128 -t 1 --kl %s/kjv-5m-f16.gguf",
             MNEM_TEST_DATA "/model", MNEM_TEST_DATA "/model");
    snprintf(of_one, sizeof of_one, "%.599s", shell("%s %s -q", MNEM_COMMAND, divergence)->out);
    assert_non_null(strstr(of_one, "top-1 "));
}

/* Rank 0 has the reference; where not all of it is in memory is below. */
static void divergences_are_those_of_one_process(void **state) {
    (void)state;
    static const struct {
        int ranks, others;
        const char *cut;
    } way[] = {{2, 100, "layers"}, {3, 60, "layers"}, {3, 60, "rows"}};
    enum { WAYS = sizeof way / sizeof way[0] };
    measure_alone();
    for (int i = 0; i < WAYS; i++)
        shell_start(i, MPIRUN "%s --memory %dM,%dM --cut %s", way[i].ranks, divergence, MORE + 100,
                    MORE + way[i].others, way[i].cut);
    for (int i = 0; i < WAYS; i++) {
        const said *s = end_well(i);
        assert_string_equal(s->out, of_one);
        check_table(s->err, way[i].ranks);
    }
}

static void refuse(int number, uint64_t budget) {
    shell_start(number, MPIRUN "%s --memory %llu,60M --cut %s", 2, divergence,
                (unsigned long long)budget, number % 2 ? "rows" : "layers");
}

static uint64_t refused(int number) {
    const said *s = shell_end(number);
    if (!strstr(s->err, "mnem: rank 0 of 2 ")) fail_msg("%s", s->err);
    assert_int_not_equal(s->code, 0);
    return least_named(s);
}

/* Below what code and MPI take, and a little below both models: rank 0 is named, and what is
 * enough, with which the reference streams. What MPI takes differs a little from run to run. */
static void a_budget_too_small_for_both_names_one_that_is_enough(void **state) {
    (void)state;
    uint64_t least[4];
    if (!MNEM_RELEASE) skip(); /* sanitizers take more */
    measure_alone();
    for (int i = 0; i < 2; i++) refuse(i, 1 << 20);
    for (int i = 0; i < 2; i++) least[i] = refused(i);
    for (int i = 2; i < 4; i++) refuse(i, least[i - 2] - (3 << 20));
    for (int i = 2; i < 4; i++) least[i] = refused(i);
    for (int i = 0; i < 4; i++)
        shell_start(i, MPIRUN "%s --memory %llu,60M --cut %s", 2, divergence,
                    (unsigned long long)least[i], i % 2 ? "rows" : "layers");
    for (int i = 0; i < 4; i++) {
        const said *s = end_well(i);
        assert_string_equal(s->out, of_one);
        check_table(s->err, 2);
    }
}

/* sh beside.sh FOLDER COMMAND...: what a server says to four chats and eight lists of texts at once
 * is in files there. */
static const char beside[] =
    "to=$1; shift; rm -rf $to; mkdir $to; :>$to.address; \"$@\" >$to.address & P=$!\n"
    "until A=$(cat $to.address) && [ -n \"$A\" ]; do kill -0 $P || exit 1; sleep 0.1; done\n"
    "for i in 1 2 3 4; do curl -s $A/v1/completions -d '{\"prompt\": \"And it came to pass\", "
    "\"max_tokens\": 100, \"seed\": '$i'}' >$to/chat$i & W=\"$W $!\"; done\n"
    "for i in 1 2 3 4 5 6 7 8; do curl -s $A/v1/embeddings -d '{\"input\": [\"In the beginning "
    "'$i'\","
    " \"God\", \"And God said, Let there be light: and there was light\"]}' >$to/list$i & "
    "W=\"$W $!\"; done\n"
    "wait $W; kill -TERM $P; wait $P\n"
    "sed -i 's/.*\"text\"://; s/\"usage\".*//' $to/chat*\n"
    "grep -q '\"logprobs\"' $to/chat4 && grep -q '\"index\":2' $to/list8\n";

/* Numbers are printed so that no two have the same text. */
static void embeddings_beside_chats_are_those_of_one_process(void **state) {
    (void)state;
    static const char *const cuts[] = {"", "", "rows", "layers"}; /* of 2 ranks, and of 3 */
    enum { RANKS = 3 };
    char words[400];
    if (system("command -v curl >/dev/null") != 0) skip();
    FILE *script = fopen(at("beside.sh"), "wb");
    assert_non_null(script);
    fputs(beside, script);
    assert_int_equal(fclose(script), 0);
    snprintf(words, sizeof words,
             "serve %s --memory %dM --port 0 --no-history --pooling mean --ctx 256", tool_model,
             MORE + 100);
    shell_start(ALONE, "sh beside.sh alone %s %s", MNEM_COMMAND, words);
    for (int ranks = 2; ranks <= RANKS; ranks++)
        shell_start(ranks, "export R=\"" MPIRUN "%s --cut %s\"; sh beside.sh of%d env $R", ranks,
                    words, cuts[ranks], ranks);
    end_well(ALONE);
    for (int ranks = 2; ranks <= RANKS; ranks++) check_table(end_well(ranks)->err, ranks);
    const said *s = shell("diff -r alone of2 && diff -r alone of3");
    if (s->code != 0) fail_msg("%s", s->out);
}

/* ---- a rank above its budget ---- */

/* Only rank 1 touches memory that nobody charges, before its program begins: 8 MiB more than it
 * may take. */
static void a_rank_above_its_budget_is_named(void **state) {
    (void)state;
    enum { TOUCHED = 128, OVER = 8, BUDGET = (TOUCHED - OVER) << 20 };
    if (MNEM_SANITIZED) skip(); /* their libraries must be the first that are loaded */
    char words[200];
    tool_file("touch.sh", "[ $OMPI_COMM_WORLD_RANK = 1 ] && export LD_PRELOAD=$1\n"
                          "shift\nexec \"$@\"\n");
    snprintf(words, sizeof words, "run %s -p And -n 2 -t 1 --memory %d --json", tool_model, BUDGET);
    const said *s = shell("export MNEM_TEST_TOUCH=%d; " MPIRUN_OF "sh touch.sh %s %s %s",
                          TOUCHED << 20, 2, TOUCH_FIRST, MNEM_COMMAND, words);
    if (s->code != 3) fail_msg("exit code %d: %s", s->code, s->err);
    assert_non_null(strstr(s->err, "the peak RSS of rank 1 was "));
    assert_null(strstr(s->err, "the peak of rank 0 was "));
    const char *told = strstr(s->out, "{\"error\":\"the peak RSS of rank 1 was ");
    assert_non_null(told);
    json_t *object = json_loads(told, JSON_DISABLE_EOF_CHECK, NULL);
    assert_int_equal(json_integer_value(json_object_get(object, "rank")), 1);
    assert_int_equal(json_integer_value(json_object_get(object, "budget_bytes")), BUDGET);
    assert_true(json_integer_value(json_object_get(object, "over_budget_bytes")) >= OVER << 20);
    json_decref(object);
}

/* Also where it goes on, and where nothing is left to do. */
static void a_batch_is_that_of_one_process(void **state) {
    (void)state;
    static const char words[] = "--pooling last --ctx 128 -q";
    batch_requests("asked.jsonl", 21, 12);
    shell_start(ALONE, "%s batch %s asked.jsonl -o of_one.jsonl %s", MNEM_COMMAND, tool_model,
                words);
    shell_start(2, MPIRUN "batch %s asked.jsonl -o of_two.jsonl %s --memory %dM", 2, tool_model,
                words, MORE + 100);
    end_well(ALONE);
    end_well(2);
    json_t *want = batch_answers(at("of_one.jsonl")), *got = batch_answers(at("of_two.jsonl"));
    assert_true(json_equal(got, want));
    json_decref(got);
    assert_int_equal(shell("head -c 2000 of_two.jsonl >part.jsonl")->code, 0);
    shell_start(2, MPIRUN "batch %s asked.jsonl -o part.jsonl %s --memory %dM", 2, tool_model,
                words, MORE + 100);
    shell_start(3, MPIRUN "batch %s asked.jsonl -o of_two.jsonl %s --memory %dM", 2, tool_model,
                words, MORE + 100);
    end_well(2);
    end_well(3);
    got = batch_answers(at("part.jsonl"));
    assert_true(json_equal(got, want));
    json_decref(got);
    json_decref(want);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embeddings_are_those_of_one_process),
        cmocka_unit_test(embeddings_beside_chats_are_those_of_one_process),
        cmocka_unit_test(a_batch_is_that_of_one_process),
        cmocka_unit_test(the_perplexity_is_that_of_one_process),
        cmocka_unit_test(divergences_are_those_of_one_process),
        cmocka_unit_test(a_budget_too_small_for_both_names_one_that_is_enough),
        cmocka_unit_test(a_rank_above_its_budget_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
