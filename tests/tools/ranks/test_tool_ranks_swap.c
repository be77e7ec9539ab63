/* test_tool_ranks_swap.c: a server over several ranks under mpirun, whose pages hold a small part
 * of what is asked: what is set aside goes to a file of each rank and comes back, and the answers
 * are those of one process that has room for all. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/kit.h"
#include "tools/ranks/marked.h"
#include "tools/ranks/mpirun.h"

enum { ASKS = 8, TEXT = 8000 };

/* serve.sh FOLDER COMMAND...: a server, run here; the asks at once, or what was run; its metrics;
 * its end. With LOST in the environment the file asked says that pages have come back, and somebody
 * else ends it. What it says to the asks is in the folder. */
static const char serve_sh[] =
    "to=$1; shift; mkdir -p $to; :>$to/address; env \"$@\" >$to/address & P=$!\n"
    "while kill -0 $P 2>/dev/null; do A=$(cat $to/address); [ -n \"$A\" ] && break; sleep 0.1; "
    "done\n"
    "[ -n \"$A\" ] || { touch $to/asked; wait $P; exit; }\n"
    "for i in 1 2 3 4 5 6 7 8; do curl -s $A/v1/completions -d @body$i >$to/answer$i & "
    "C=\"$C $!\"; done\n"
    "[ -z \"$LOST\" ] || { until curl -s $A/metrics | grep -q "
    "'^mnem_swap_bytes_total{direction=\"in\"} [1-9]'; do kill -0 $P || break; sleep 0.02; done; "
    "touch $to/asked; wait $P; exit; }\n"
    "wait $C; curl -s $A/metrics >$to/metrics; kill -TERM $P; wait $P; true\n";

static void write_script(const char *name, const char *text) {
    FILE *f = fopen(at(name), "wb");
    assert_true(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void read_answer(const char *to, int i, char text[TEXT]) {
    static char bytes[64 * 1024];
    char name[32];
    snprintf(name, sizeof name, "%s/answer%d", to, i + 1);
    read_said(at(name), bytes, sizeof bytes);
    json_t *object = json_loads(bytes, 0, NULL);
    const json_t *choice = json_array_get(json_object_get(object, "choices"), 0);
    const char *said_ = json_string_value(json_object_get(choice, "text"));
    if (!said_) fail_msg("answer %d: \"%s\"", i, bytes);
    snprintf(text, TEXT, "%s", said_);
    json_decref(object);
}

static double metric(const char *to, const char *name) {
    static char bytes[64 * 1024];
    char path[32];
    double value = -1;
    snprintf(path, sizeof path, "%s/metrics", to);
    read_said(at(path), bytes, sizeof bytes);
    const char *line = strstr(bytes, name);
    if (!line || sscanf(line + strlen(name), " %lf", &value) != 1) fail_msg("no %s", name);
    return value;
}

#define ASKED "--port 0 --no-history --ctx 512 --kv f32 -t 1"

/* Pages for less than two of the asks: what a refusal names holds a context's. */
enum { WAYS = 2, BESIDE = 2 << 20 };
static const struct {
    int ranks;
    const char *to, *cut, *swap;
} ways[WAYS] = {{2, "of2", "layers", "pages/file"}, {3, "of3", "rows", "pages"}};
static uint64_t budget[WAYS];

static void find_budgets(void) {
    for (int i = 0; i < WAYS; i++)
        shell_start(i, MPIRUN "serve %s --memory 1M --cut %s " ASKED, ways[i].ranks, tool_model,
                    ways[i].cut);
    for (int i = 0; i < WAYS; i++) budget[i] = least_named(shell_end(i)) + BESIDE;
}

static void check_way(int i, char (*alone)[TEXT]) {
    static char text[TEXT];
    const char *to = ways[i].to;
    const said *s = shell_end(i);
    if (s->code != 0) fail_msg("%s", s->err);
    for (int k = 0; k < ASKS; k++) {
        read_answer(to, k, text);
        assert_string_equal(text, alone[k]);
    }
    assert_true(metric(to, "mnem_set_aside_total{way=\"swap\",why=\"faster\"}") > 0);
    assert_true(metric(to, "mnem_set_aside_total{way=\"recompute\",why=\"faster\"}") == 0);
    assert_true(metric(to, "mnem_swap_bytes_total{direction=\"out\"}") > 0);
    assert_true(metric(to, "mnem_swap_bytes_total{direction=\"in\"}") > 0);
    assert_true(metric(to, "mnem_swap_failures_total") == 0);
    check_table(s->err, ways[i].ranks);
}

static void what_was_set_aside_comes_back(void **state) {
    (void)state;
    static char alone[ASKS][TEXT];
    find_budgets();
    shell("mkdir -p pages");
    shell_start(WAYS, "sh serve.sh of1 %s serve %s --memory 300M " ASKED, MNEM_COMMAND, tool_model);
    for (int i = 0; i < WAYS; i++)
        shell_start(i, "sh serve.sh %s " MPIRUN "serve %s --memory %llu --cut %s --swap %s " ASKED,
                    ways[i].to, ways[i].ranks, tool_model, (unsigned long long)budget[i],
                    ways[i].cut, ways[i].swap);
    const said *s = shell_end(WAYS);
    if (s->code != 0) fail_msg("%s", s->err);
    assert_true(metric("of1", "mnem_num_preemptions_total") == 0);
    for (int i = 0; i < ASKS; i++) read_answer("of1", i, alone[i]);
    assert_true(strlen(alone[0]) > 200 && strcmp(alone[0], alone[1]) != 0);
    for (int i = 0; i < WAYS; i++) check_way(i, alone);
    s = shell("ls -s pages | tail -n +2; rm -r pages"); /* rank 0's file, empty */
    assert_string_equal(s->out, "0 file\n");
}

/* least.sh TO COMMAND...: a server that is ended once it has an address; fails if it gets none. */
static const char least_sh[] =
    "to=$1; shift; :>$to; env \"$@\" >$to & P=$!\n"
    "while kill -0 $P 2>/dev/null && ! grep -q http $to; do sleep 0.1; done\n"
    "kill -TERM $P; wait $P; grep -q http $to\n";

/* Also where what is named is more than the connections, which 1 MiB has no room for. */
static void what_a_refusal_names_is_enough_for_a_server(void **state) {
    (void)state;
    static const char *const cuts[] = {"layers", "rows"};
    if (!MNEM_RELEASE) return;
    write_script("least.sh", least_sh);
    for (int i = 0; i < 2; i++)
        shell_start(i, MPIRUN "serve %s --memory 1M --queue 1000 --cut %s " ASKED, 2, tool_model,
                    cuts[i]);
    for (int i = 0; i < 2; i++) {
        const said *s = shell_end(i);
        assert_int_equal(s->code, 3);
        const uint64_t least = least_named(s);
        assert_true(least > 1000 * (48 << 10));
        shell_start(
            i, "sh least.sh least%d " MPIRUN "serve %s --memory %llu --queue 1000 --cut %s " ASKED,
            i, 2, tool_model, (unsigned long long)least, cuts[i]);
    }
    for (int i = 0; i < 2; i++) {
        const said *s = shell_end(i);
        if (s->code != 0) fail_msg("%s: %s", cuts[i], s->err);
    }
}

/* Ranks but the first run in a folder where pages have none. */
static void a_rank_without_the_folder_is_named(void **state) {
    (void)state;
    char line[400];
    snprintf(line, sizeof line,
             "[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 0 ] || cd none\n"
             "exec %s serve %s --memory 100M --swap pages/file " ASKED "\n",
             MNEM_COMMAND, tool_model);
    write_script("rank.sh", line);
    const said *s =
        shell("mkdir -p none pages && sh serve.sh none " MPIRUN_OF "sh rank.sh; C=$?; rm -r pages; "
              "exit $C",
              2);
    assert_int_equal(s->code, 1);
    assert_non_null(strstr(s->err, "mnem: rank 1: swap file: can't create a file in the folder "
                                   "pages (No such file or directory)"));
}

/* While pages of many go out and come back. */
static void a_rank_that_dies_meanwhile_is_named(void **state) {
    (void)state;
    enum { RANKS = 3 };
    char mark[RANKS][64], to[32];
    pid_t pid[RANKS];
    if (!budget[1]) find_budgets();
    for (int rank = 1; rank < RANKS; rank++) {
        snprintf(mark[rank], sizeof mark[rank], "MNEM_TEST_SWAP=%d_%d", (int)getpid(), rank);
        shell_start(rank,
                    "export %s LOST=1; sh serve.sh lost%d " MPIRUN
                    "serve %s --memory %llu --cut %s --swap . " ASKED,
                    mark[rank], rank, RANKS, tool_model, (unsigned long long)budget[1],
                    ways[1].cut);
    }
    for (int rank = 1; rank < RANKS; rank++) {
        snprintf(to, sizeof to, "lost%d/asked", rank);
        while (access(at(to), R_OK) != 0) usleep(20000);
        pid[rank] = find_rank(mark[rank], rank);
        assert_true(pid[rank] > 0 && kill(pid[rank], SIGKILL) == 0);
    }
    for (int rank = 1; rank < RANKS; rank++) check_named(shell_end(rank), rank, pid[rank], "");
}

static void what_is_kept_over_a_restart_is_refused_by_name(void **state) {
    (void)state;
    const said *s = shell(MPIRUN "serve --memory 60M --swap file --keep-cache", 2);
    assert_int_equal(s->code, 2);
    assert_non_null(strstr(
        s->err, "--keep-cache can't be used: saving and loading a sequence is not supported"));
}

static int set_up(void **state) {
    /* A disk so fast that nothing is computed again for its sake, whatever this one is. */
    static const char profile[] = "{\"swap_bytes_per_s\": 1e15}";
    (void)state;
    char name[16], body[300];
    mkdir(at("mnem"), 0777);
    write_script("mnem/profile.json", profile);
    write_script("serve.sh", serve_sh);
    for (int i = 1; i <= ASKS; i++) {
        snprintf(name, sizeof name, "body%d", i);
        snprintf(body, sizeof body,
                 "{\"prompt\": \"And it came to pass in verse %d of\", \"max_tokens\": 400, "
                 "\"seed\": %d, \"temperature\": 0.9, \"ignore_eos\": true}",
                 i, i);
        write_script(name, body);
    }
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_set_aside_comes_back),
        cmocka_unit_test(a_rank_without_the_folder_is_named),
        cmocka_unit_test(a_rank_that_dies_meanwhile_is_named),
        cmocka_unit_test(what_a_refusal_names_is_enough_for_a_server),
        cmocka_unit_test(what_is_kept_over_a_restart_is_refused_by_name),
    };
    /* What sanitizers take isn't planned, so that pages don't run short. */
    if (MNEM_SANITIZED || system("command -v curl >/dev/null") != 0) return 0;
    return cmocka_run_group_tests(tests, set_up, NULL);
}
