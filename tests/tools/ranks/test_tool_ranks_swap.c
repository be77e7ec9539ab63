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
#include "tools/ranks/mpirun.h"

enum { ASKS = 8, TEXT = 8000 };

/* serve.sh COMMAND...: a server; the asks at once, or what was run; its metrics; its end. */
static const char serve_sh[] =
    "rm -f address; env \"$@\" >address & P=$!\n"
    "while kill -0 $P 2>/dev/null; do A=$(cat address); [ -n \"$A\" ] && break; sleep 0.1; done\n"
    "[ -n \"$A\" ] || { touch asked; wait $P; exit; }\n"
    "for i in 1 2 3 4 5 6 7 8; do curl -s $A/v1/completions -d @body$i >answer$i & C=\"$C $!\"; "
    "done\n"
    "[ -z \"$LOST\" ] || { touch asked; wait $P; exit; }\n"
    "wait $C; curl -s $A/metrics >metrics; kill -TERM $P; wait $P; true\n";

static void write_script(const char *name, const char *text) {
    FILE *f = fopen(at(name), "wb");
    assert_true(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void read_answer(int i, char text[TEXT]) {
    static char bytes[64 * 1024];
    char name[16];
    snprintf(name, sizeof name, "answer%d", i + 1);
    read_said(at(name), bytes, sizeof bytes);
    json_t *object = json_loads(bytes, 0, NULL);
    const json_t *choice = json_array_get(json_object_get(object, "choices"), 0);
    const char *said_ = json_string_value(json_object_get(choice, "text"));
    if (!said_) fail_msg("answer %d: \"%s\"", i, bytes);
    snprintf(text, TEXT, "%s", said_);
    json_decref(object);
}

static double metric(const char *name) {
    static char bytes[64 * 1024];
    double value = -1;
    read_said(at("metrics"), bytes, sizeof bytes);
    const char *line = strstr(bytes, name);
    if (!line || sscanf(line + strlen(name), " %lf", &value) != 1) fail_msg("no %s", name);
    return value;
}

/* Every rank's line of the table: its peak is within its budget of so many MiB. */
static void check_peaks(const char *err, int ranks, int budget) {
    const char *line = strstr(err, "  rank ");
    assert_non_null(line);
    for (int i = 0; i < ranks; i++) {
        int rank, begin, end, resident;
        double peak;
        line = strchr(line, '\n') + 1;
        assert_int_equal(
            sscanf(line, "%d %d to %d %d %lf MiB", &rank, &begin, &end, &resident, &peak), 5);
        assert_int_equal(rank, i);
        assert_true(peak <= budget);
    }
}

#define ASKED "--port 0 --no-history --ctx 1024 --kv f32 -t 1"

static void what_was_set_aside_comes_back(void **state) {
    (void)state;
    static char alone[ASKS][TEXT], text[TEXT];
    const said *s = shell("sh serve.sh %s serve %s --memory 300M " ASKED, MNEM_COMMAND, tool_model);
    if (s->code != 0) fail_msg("%s", s->err);
    assert_true(metric("mnem_num_preemptions_total") == 0);
    for (int i = 0; i < ASKS; i++) read_answer(i, alone[i]);
    assert_true(strlen(alone[0]) > 500 && strcmp(alone[0], alone[1]) != 0);
    for (int i = 0; i < 4; i++) {
        const int ranks = 2 + i / 2, budget = ranks == 2 ? 45 : 51;
        s = shell("mkdir -p pages && sh serve.sh " MPIRUN "serve %s --memory %dM --cut %s --swap "
                  "pages%s " ASKED,
                  ranks, tool_model, budget, i % 2 ? "rows" : "layers", i < 2 ? "/file" : "");
        if (s->code != 0) fail_msg("%s", s->err);
        for (int k = 0; k < ASKS; k++) {
            read_answer(k, text);
            assert_string_equal(text, alone[k]);
        }
        assert_true(metric("mnem_set_aside_total{way=\"swap\",why=\"faster\"}") > 0);
        assert_true(metric("mnem_swap_bytes_total{direction=\"out\"}") > 0);
        assert_true(metric("mnem_swap_bytes_total{direction=\"in\"}") > 0);
        assert_true(metric("mnem_swap_failures_total") == 0);
        check_peaks(s->err, ranks, budget);
    }
    s = shell("ls -s pages | tail -n +2; rm -r pages"); /* rank 0's file, empty */
    assert_string_equal(s->out, "0 file\n");
}

/* Ranks but the first run in a folder where pages have none. */
static void a_rank_without_the_folder_is_named(void **state) {
    (void)state;
    char line[400];
    snprintf(line, sizeof line,
             "[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 0 ] || cd none\n"
             "exec %s serve %s --memory 60M --swap pages/file " ASKED "\n",
             MNEM_COMMAND, tool_model);
    write_script("rank.sh", line);
    const said *s =
        shell("mkdir -p none pages && sh serve.sh " MPIRUN_OF "sh rank.sh; C=$?; rm -r pages; "
              "exit $C",
              2);
    assert_int_equal(s->code, 1);
    assert_non_null(strstr(s->err, "mnem: rank 1: swap file: none can be made in pages (No such "
                                   "file or directory)"));
}

/* While pages of many go out and come back. */
static void a_rank_that_dies_meanwhile_is_named(void **state) {
    (void)state;
    static char err[64 * 1024];
    char mark[64], line[2048], named[80];
    for (int rank = 1; rank < 3; rank++) {
        snprintf(mark, sizeof mark, "MNEM_TEST_SWAP=%d_%d", (int)getpid(), rank);
        snprintf(line, sizeof line,
                 "cd %s && %s LOST=1 MNEM_HISTORY=off timeout 300 sh -c 'sh "
                 "serve.sh " MPIRUN "serve %s --memory 51M --swap . " ASKED
                 "' </dev/null >out 2>err",
                 tool_scratch(), mark, 3, tool_model);
        remove(at("asked"));
        FILE *run = popen(line, "r");
        assert_non_null(run);
        while (access(at("asked"), R_OK) != 0) usleep(20000);
        usleep(100000 * (useconds_t)rank);
        const pid_t pid = find_rank(mark, rank);
        assert_true(pid > 0 && kill(pid, SIGKILL) == 0);
        assert_int_not_equal(pclose(run), 0);
        read_said(at("err"), err, sizeof err);
        snprintf(named, sizeof named, "comm: rank %d (process %d on ", rank, (int)pid);
        if (!strstr(err, named)) fail_msg("rank %d: %s", rank, err);
    }
}

static void what_is_kept_over_a_restart_is_refused_by_name(void **state) {
    (void)state;
    const said *s = shell(MPIRUN "serve --memory 60M --swap file --keep-cache", 2);
    assert_int_equal(s->code, 2);
    assert_non_null(strstr(s->err, "--keep-cache isn"));
}

static int set_up(void **state) {
    (void)state;
    char name[16], body[300];
    write_script("serve.sh", serve_sh);
    for (int i = 1; i <= ASKS; i++) {
        snprintf(name, sizeof name, "body%d", i);
        snprintf(body, sizeof body,
                 "{\"prompt\": \"And it came to pass in verse %d of\", \"max_tokens\": 900, "
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
        cmocka_unit_test(what_is_kept_over_a_restart_is_refused_by_name),
    };
    /* What sanitizers take isn't planned, so that pages don't run short. */
    if (MNEM_SANITIZED || system("command -v curl >/dev/null") != 0) return 0;
    return cmocka_run_group_tests(tests, set_up, NULL);
}
