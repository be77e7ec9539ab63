/* test_tool_ranks_trace.c: --trace under mpirun: one file of all ranks, in which each one's sums
 * are its ledger's; and formats that hold one process. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/kit.h"
#include "tools/ranks/mpirun.h"

enum { MORE = MNEM_SANITIZED ? 128 : 0 }; /* MiB of a budget: sanitizers take them */

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

/* Every rank's: within its budget, as predicted, and each sample of its ledger's sums is what its
 * events come to. */
static void check_trace(const char *file, int ranks) {
    const said *s = shell("%s report %s --json", MNEM_COMMAND, file);
    if (s->code != 0) fail_msg("%s", s->err);
    json_t *root = json_loads(s->out, 0, NULL);
    if (!root) fail_msg("%s", s->out);
    const json_t *list = json_object_get(root, "by_rank"), *one;
    assert_int_equal(json_array_size(list), ranks);
    for (int i = 0; i < ranks; i++) {
        one = json_array_get(list, (size_t)i);
        assert_int_equal(json_integer_value(json_object_get(one, "rank")), i);
        const json_int_t samples = json_integer_value(json_object_get(one, "samples"));
        assert_true(samples > 0);
        assert_int_equal(json_integer_value(json_object_get(one, "samples_equal")), samples);
        assert_true(json_integer_value(json_object_get(one, "operators_ns")) > 0);
        const double peak = number(one, "bytes_peak"), resident = number(one, "resident_most");
        const double budget = number(one, "budget_bytes");
        const double planned = number(one, "predicted_bytes");
        if (!(peak <= budget && resident <= budget && planned > 0 && planned <= budget))
            fail_msg("%s, rank %d: peak %g, resident %g, planned %g, budget %g", file, i, peak,
                     resident, planned, budget);
    }
    json_decref(root);
}

static void run_traced(const char *words, int ranks, const char *file) {
    const said *s =
        shell(MPIRUN "%s -t 1 --memory %dM --trace %s </dev/null", ranks, words, MORE + 100, file);
    char line[160];
    if (s->code != 0) fail_msg("%s: %s", words, s->err);
    snprintf(line, sizeof line,
             "%s has the events of all %d ranks on one timeline; their clocks differed from rank "
             "0's by at most ",
             file, ranks);
    if (!strstr(s->err, line)) fail_msg("%s: %s", words, s->err);
    snprintf(line, sizeof line, "%s.rank0.pftrace", file);
    assert_int_not_equal(access(at(line), F_OK), 0); /* parts are gone */
    check_trace(file, ranks);
}

static void each_rank_is_in_one_file(void **state) {
    (void)state;
    run_traced("run -p Hello -n 6 --ctx 64", 3, "run.pftrace");
    run_traced("run -p Hello -n 6 --ctx 64 --cut rows", 2, "rows.json");
    run_traced("bench -p 16 -n 4 -r 1 --ctx 64", 2, "bench.json");
    run_traced("train -d " MNEM_SOURCE "/LICENSE --config tiny --ctx 64 --batch 4 --vocab 256 "
               "--steps 3 -o traced",
               2, "train.pftrace");
    run_traced("train -d " MNEM_SOURCE "/LICENSE --config tiny --ctx 64 --batch 4 --vocab 256 "
               "--shard gradients --steps 3 -o cut",
               2, "cut.pftrace");
}

static void a_text_that_is_read_too(void **state) {
    (void)state;
    char words[600];
    snprintf(words, sizeof words, "perplexity %s " MNEM_SOURCE "/LICENSE --ctx 128", tool_model);
    run_traced(words, 2, "text.pftrace");
    const said *s = shell("%s report text.pftrace --rank 2", MNEM_COMMAND);
    assert_int_equal(s->code, 1);
    assert_non_null(strstr(s->err, "has no rank 2 (it has 2 ranks)"));
    s = shell("%s report text.pftrace --rank 1", MNEM_COMMAND);
    assert_int_equal(s->code, 0);
    assert_non_null(strstr(s->out, "rank 1 of 2"));
    assert_null(strstr(s->out, "by rank "));
}

static bool page_says(const char *file, const char *text) {
    static char page[1 << 20];
    read_said(at(file), page, sizeof page);
    return strstr(page, text);
}

static void the_page_has_a_row_for_each_rank(void **state) {
    (void)state;
    const said *s = shell("%s report run.pftrace --html all.html", MNEM_COMMAND);
    if (s->code != 0) fail_msg("%s", s->err);
    assert_true(page_says("all.html", "<h2>Ranks</h2><p class=\"dim\">All else on this page is of "
                                      "rank 0;"));
    assert_true(page_says("all.html", "<tr><td>2</td>"));
    assert_false(page_says("all.html", "<tr><td>3</td>"));
    s = shell("%s report run.pftrace --rank 1 --html one.html", MNEM_COMMAND);
    if (s->code != 0) fail_msg("%s", s->err);
    assert_true(page_says("one.html", "rank 1 of 3"));
    assert_false(page_says("one.html", "<h2>Ranks</h2>"));
}

static void what_holds_one_process_is_a_file_of_each(void **state) {
    (void)state;
    const said *s =
        shell(MPIRUN "run -p Hello -n 2 --ctx 64 -t 1 --memory %dM --trace a.b/one.pickle", 2,
              MORE + 100);
    assert_int_not_equal(s->code, 0); /* no such folder */
    s = shell(MPIRUN "run -p Hello -n 2 --ctx 64 -t 1 --memory %dM --trace one.pickle", 2,
              MORE + 100);
    if (s->code != 0) fail_msg("%s", s->err);
    assert_non_null(strstr(s->err, "each of the 2 ranks has its own file beside it"));
    s = shell("%s report one.rank1.pickle --json", MNEM_COMMAND);
    if (s->code != 0) fail_msg("%s", s->err);
    assert_int_not_equal(access(at("one.pickle"), F_OK), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rank_is_in_one_file),
        cmocka_unit_test(the_page_has_a_row_for_each_rank),
        cmocka_unit_test(a_text_that_is_read_too),
        cmocka_unit_test(what_holds_one_process_is_a_file_of_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
