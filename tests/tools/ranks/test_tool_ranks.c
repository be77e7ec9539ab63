/* test_tool_ranks.c: the command as several ranks under mpirun: the text of one process, each rank
 * inside its budget, and ends that name who ended. Without an MPI only what `mnem` says then. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/kit.h"
#include "kit/kit_model.h"
#include "kit/kit_random.h"
#include "tools/ranks/mpirun.h"

static void a_launcher_without_mnem_mpi_is_told_so(void **state) {
    (void)state;
    const said *s = shell("cp %s alone && OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 ./alone "
                          "run -p hi",
                          MNEM_COMMAND);
    assert_int_equal(s->code, 1);
    assert_non_null(strstr(s->err, "/mnem-mpi"));
    assert_non_null(strstr(s->err, "can't be executed: No such file or directory"));
    s = shell("OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 ./alone run -p hi");
    assert_int_equal(s->code, 1);
    assert_string_equal(s->err, ""); /* once, not twice */
}

static void a_cut_or_a_list_of_budgets_needs_ranks(void **state) {
    (void)state;
    const said *s = shell("%s run -p hi --cut layers", MNEM_COMMAND);
    assert_int_equal(s->code, 2);
    assert_non_null(strstr(s->err, "mpirun -n N mnem run"));
    s = shell("%s run -p hi --memory 1G,2G", MNEM_COMMAND);
    assert_int_equal(s->code, 2);
    assert_non_null(strstr(s->err, "mpirun -n N mnem run"));
}

#ifdef MNEM_MPIRUN

enum { MORE = MNEM_SANITIZED ? 128 : 0 }; /* MiB of a budget: sanitizers take them */

static void the_text_is_that_of_one_process(void **state) {
    (void)state;
    static const char *const kv[] = {"f16", "q8_0", "f32"};
    static char alone[64 * 1024];
    uint64_t random = 5;
    for (int i = 0; i < (MNEM_SANITIZED ? 4 : 12); i++) {
        const int ranks = 2 + (int)(next_random(&random) % 3),
                  chunk = 1 << next_random(&random) % 6;
        const char *type = kv[next_random(&random) % 3];
        const bool rows = next_random(&random) % 2;
        const int first = MORE + 33 + (int)(next_random(&random) % 20);
        const int other = MORE + 33 + (int)(next_random(&random) % 20);
        char words[400];
        snprintf(words, sizeof words,
                 "run %s --raw -p \"And it came to pass, that in the days of\" --temp 0.9 --seed "
                 "%d -n 40 --ctx 128 --kv %s --chunk %d",
                 tool_model, i + 1, type, chunk);
        const said *s = shell("%s %s -q", MNEM_COMMAND, words);
        assert_int_equal(s->code, 0);
        memcpy(alone, s->out, sizeof alone);
        s = shell(MPIRUN "%s --memory %dM,%dM --cut %s", ranks, words, first, other,
                  rows ? "rows" : "layers");
        if (s->code != 0) fail_msg("case %d: %d ranks, rows %d: %s", i, ranks, rows, s->err);
        assert_string_equal(s->out, alone);
        check_table(s->err, ranks);
    }
}

static void several_texts_are_those_of_one_process(void **state) {
    (void)state;
    static char alone[64 * 1024];
    const char *words = "run %s --raw -p \"And it came\" -p \"In the\" -p \"Now\" -p \"The "
                        "LORD\" -p \"A\" --temp 0.9 --seed 3 -n 30 --ctx 128";
    char line[400];
    snprintf(line, sizeof line, words, tool_model);
    const said *s = shell("%s %s -q", MNEM_COMMAND, line);
    assert_int_equal(s->code, 0);
    memcpy(alone, s->out, sizeof alone);
    for (int ranks = 2; ranks <= 3; ranks++) {
        s = shell(MPIRUN "%s --memory %dM -q", ranks, line, MORE + 60);
        if (s->code != 0) fail_msg("%d ranks: %s", ranks, s->err);
        assert_string_equal(s->out, alone);
    }
}

/* What a server says to one prompt, before a signal ends it; command starts it. */
static const said *serve_once(const char *command, char text[400]) {
    static char answer[64 * 1024];
    const said *s = shell(
        "rm -f address; %s serve %s --memory %dM --port 0 --no-history >address & P=$!; "
        "for i in $(seq 1200); do A=$(cat address 2>/dev/null); [ -n \"$A\" ] && break; sleep 0.1; "
        "done; curl -s $A/v1/completions -d @body >answer; kill -TERM $P; wait $P; true",
        command, tool_model, MORE + 100);
    read_said(at("answer"), answer, sizeof answer);
    json_t *object = json_loads(answer, 0, NULL);
    if (!object) fail_msg("%s: %s", answer, s->err);
    const json_t *choice = json_array_get(json_object_get(object, "choices"), 0);
    const char *said_ = json_string_value(json_object_get(choice, "text"));
    assert_non_null(said_);
    snprintf(text, 400, "%.399s", said_);
    json_decref(object);
    return s;
}

/* A signal at mpirun ends the server and its ranks in order: their table comes at the end only. */
static void a_server_over_ranks_answers_and_ends(void **state) {
    (void)state;
    char command[600], alone[400], text[400];
    if (system("command -v curl >/dev/null") != 0) skip();
    FILE *body = fopen(at("body"), "wb");
    assert_non_null(body);
    fputs("{\"prompt\": \"And it came to pass\", \"max_tokens\": 30, \"seed\": 4}", body);
    fclose(body);
    serve_once(MNEM_COMMAND, alone);
    snprintf(command, sizeof command, MPIRUN, 2);
    const said *s = serve_once(command, text);
    assert_string_equal(text, alone);
    check_table(s->err, 2);
}

/* Ranks but the first run where the model (in the folder) isn't: in the folder `none`. */
static const said *run_without(const char *model, const char *cut, int ranks) {
    FILE *script = fopen(at("rank.sh"), "wb");
    assert_non_null(script);
    fprintf(script,
            "[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 0 ] || cd none\n"
            "exec %s run %s --raw -p 'And it came' --temp 0.9 --seed 3 -n 20 --ctx 128 "
            "--memory %dM --cut %s\n",
            MNEM_COMMAND, model, MORE + 60, cut);
    assert_int_equal(fclose(script), 0);
    const said *s =
        shell("mkdir -p none; export XDG_CACHE_HOME=$PWD/kept; " MPIRUN_OF "sh rank.sh", ranks);
    if (s->code != 0) fail_msg("%s: %s", cut, s->err);
    return s;
}

static const said *without_file(const char *cut, int ranks) {
    shell("[ -e here.gguf ] || cp %s here.gguf", tool_model);
    return run_without("here.gguf", cut, ranks);
}

/* It keeps what came: another run needs nothing more, another cut something. */
static void a_rank_without_the_file_gets_its_part(void **state) {
    (void)state;
    static char alone[64 * 1024];
    const said *s = shell("%s run %s --raw -p \"And it came\" --temp 0.9 --seed 3 -n 20 --ctx 128 "
                          "-q",
                          MNEM_COMMAND, tool_model);
    assert_int_equal(s->code, 0);
    memcpy(alone, s->out, sizeof alone);
    for (int i = 0; i < 4; i++) {
        s = without_file(i < 2 ? "layers" : "rows", 3);
        assert_string_equal(s->out, alone);
        check_table(s->err, 3);
        assert_non_null(strstr(s->err, i % 2 ? "rank 2 hasn't here.gguf: its part was kept there"
                                             : "rank 2 hasn't here.gguf: "));
        assert_true((strstr(s->err, " of it came from rank 0") != NULL) == (i % 2 == 0));
    }
    /* Parts they are: half of the file's bytes or so. */
    s = shell("du -k kept/mnem/parts/here.gguf.*.2 here.gguf | cut -f1");
    long part, whole;
    assert_int_equal(sscanf(s->out, "%ld %ld", &part, &whole), 2);
    assert_in_range(part, whole / 6, whole * 3 / 4);
    /* A list that was cut off, or a part that is gone, is had anew. */
    shell("for f in kept/mnem/parts/*.list; do head -c 30 $f >cut; cat cut >$f; done");
    assert_string_equal(without_file("rows", 3)->out, alone);
    shell("rm kept/mnem/parts/*[0-9]");
    assert_string_equal(without_file("layers", 3)->out, alone);
    /* Another file of that name is another part. */
    shell("touch -d 2020-01-01 here.gguf");
    assert_string_equal(without_file("layers", 2)->out, alone);
}

/* Rows of each part of a matrix that is several, and of their bias; experts, and theirs. */
static void rows_in_several_places_come_too(void **state) {
    (void)state;
    static const char *const made[] = {
        "--arch phi3 --heads 4 --kv-heads 2 --head-dim 32 --type Q4_0 --layers 3 --ff 1056",
        "--arch gpt2 --heads 4 --kv-heads 4 --head-dim 16 --type F16 --layers 3",
        "--arch gpt-oss --heads 4 --kv-heads 2 --head-dim 32 --type Q8_0 --experts 7"};
    static char alone[64 * 1024];
    for (int i = 0; i < 3; i++) {
        make_model(at("fused.gguf"), made[i]);
        const said *s =
            shell("%s run fused.gguf --raw -p \"And it came\" --temp 0.9 --seed 3 -n 20 "
                  "--ctx 128 -q",
                  MNEM_COMMAND);
        if (s->code != 0) fail_msg("%s", s->err);
        memcpy(alone, s->out, sizeof alone);
        for (int ranks = 2; ranks <= 3; ranks++) {
            s = run_without("fused.gguf", "rows", ranks);
            assert_string_equal(s->out, alone);
            check_table(s->err, ranks);
            assert_non_null(strstr(s->err, "rank 1 hasn't fused.gguf: "));
        }
    }
}

static void the_link_is_measured_and_kept(void **state) {
    (void)state;
    const said *s = shell("export XDG_CACHE_HOME=.; " MPIRUN
                          "bench %s --memory %dM -p 32 -n 8 -r 1 --sequences 3 -t 1",
                          2, tool_model, MORE + 100);
    if (s->code != 0) fail_msg("%s", s->err);
    assert_non_null(strstr(s->out, "tg8 x 3"));
    assert_non_null(strstr(s->out, "link of ranks"));
    s = shell("XDG_CACHE_HOME=. %s plan %s --ranks 2 --memory %dM --json", MNEM_COMMAND, tool_model,
              MORE + 100);
    assert_int_equal(s->code, 0);
    assert_non_null(strstr(s->out, "\"rank_bytes_measured\":true"));
    s = shell(MPIRUN "bench %s --memory %dM -p 32 -n 8 -r 1 -t 1 --link 1Gbit/s,5ms", 2, tool_model,
              MORE + 100);
    double ms = 0;
    const char *link = strstr(s->out, "link of ranks");
    assert_non_null(link);
    assert_int_equal(sscanf(strchr(link, ',') + 1, "%lf ms", &ms), 1);
    assert_true(ms >= 5);
}

/* The paper's object of these ranks; its rank i's bytes. */
static uint64_t paper_bytes(const json_t *plan, int i, const char *key) {
    const json_t *rank = json_array_get(json_object_get(plan, "ranks"), (size_t)i);
    return (uint64_t)json_integer_value(json_object_get(rank, key));
}

static uint64_t apart(uint64_t a, uint64_t b) {
    return a > b ? a - b : b - a;
}

/* What the paper says beforehand is what ranks plan, and what they take: within 2 % or 4 MiB, since
 * what MPI takes differs a little from run to run. */
static void what_the_paper_says_is_what_ranks_take(void **state) {
    (void)state;
    if (MNEM_SANITIZED) skip(); /* what those take isn't planned */
    for (int i = 0; i < 6; i++) {
        const int ranks = 2 + i / 2;
        const char *cut = i % 2 ? "rows" : "layers";
        const said *s = shell("export XDG_CACHE_HOME=.; " MPIRUN
                              "bench %s --memory 70M,60M -p 32 -n 8 -r 1 -t 1 --ctx 256 --cut %s",
                              ranks, tool_model, cut);
        if (s->code != 0) fail_msg("%d ranks, %s: %s", ranks, cut, s->err);
        uint64_t peak[8], planned[8];
        read_table(s->err, ranks, peak, planned);
        s = shell("XDG_CACHE_HOME=. %s plan %s --ranks %d --memory 70M,60M -t 1 --ctx 256 --cut %s "
                  "--json",
                  MNEM_COMMAND, tool_model, ranks, cut);
        json_t *plan = json_loads(s->out, 0, NULL);
        if (!plan) fail_msg("%s", s->err);
        for (int r = 0; r < ranks; r++) {
            const uint64_t paper = paper_bytes(plan, r, "peak_bytes");
            const uint64_t most = paper / 50 > 4 << 20 ? paper / 50 : 4 << 20;
            if (apart(paper, planned[r]) > most || apart(paper, peak[r]) > most)
                fail_msg("%d ranks, %s, rank %d: %llu on paper, %llu planned, %llu taken", ranks,
                         cut, r, (unsigned long long)paper, (unsigned long long)planned[r],
                         (unsigned long long)peak[r]);
        }
        json_decref(plan);
    }
}

/* At any start, whatever MPI takes then. */
static void what_a_refusal_names_is_enough(void **state) {
    (void)state;
    static const char *const budgets[] = {"1M", "5M,100M", "100M,1M"};
    if (MNEM_SANITIZED) return; /* they take more than 100M */
    for (size_t i = 0; i < 2 * sizeof budgets / sizeof budgets[0]; i++) {
        const char *cut = i % 2 ? "rows" : "layers";
        char least[64] = "";
        const said *s =
            shell(MPIRUN "run -p hi -n 4 --ctx 64 --memory %s --cut %s", 2, budgets[i / 2], cut);
        const char *at = strstr(s->err, "the least is --memory ");
        assert_int_equal(s->code, 3);
        assert_non_null(at);
        assert_int_equal(sscanf(at, "the least is --memory %63s", least), 1);
        assert_int_equal(strchr(least, ',') != NULL, i > 1);
        s = shell(MPIRUN "run -p hi -n 4 --ctx 64 --memory %s --cut %s", 2, least, cut);
        if (s->code != 0) fail_msg("%s of %s: %s", least, budgets[i / 2], s->err);
    }
}

static void what_does_not_run_is_refused_once(void **state) {
    (void)state;
    static const struct {
        const char *words, *text;
        int code;
    } refused[] = {
        {"run -p hi --memory 100M,18M", "rank 1 of 2 (layers ", 3},
        {"run -p hi", "several ranks may share a machine", 2},
        {"run -p hi --memory 100M,18M --cut rows", "rank 1 of 2 (heads ", 3},
        {"run " MNEM_TEST_DATA "/architectures/deepseek2.gguf -p hi --memory 100M --cut rows",
         "ranks: attention through a latent isn", 1},
        {"tokenize model.gguf hi", "tokenize doesn", 2},
        {"plan", "mnem plan --ranks N", 2},
        {"serve --memory 100M --swap f --keep-cache", "--keep-cache isn", 2},
        {"run nosuch.gguf -p hi --memory 100M", "nosuch.gguf: can", 1},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const said *s = shell(MPIRUN "%s", 2, refused[i].words);
        const char *first = strstr(s->err, "mnem: ");
        assert_int_equal(s->code, refused[i].code);
        assert_non_null(first);
        assert_non_null(strstr(s->err, refused[i].text));
        assert_null(strstr(first + 1, "mnem: "));
    }
}

static void ranks_that_differ_are_named(void **state) {
    (void)state;
    const said *s = shell("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " MNEM_MPIRUN
                          " --oversubscribe -n 1 %s run -p hi --memory 60M : -n 1 %s run -p ho "
                          "--memory 60M",
                          MNEM_COMMAND, MNEM_COMMAND);
    assert_int_not_equal(s->code, 0);
    assert_non_null(strstr(s->err, "the command line differs between ranks: rank 0 has "));
    assert_non_null(strstr(s->err, "rank 1 has run -p ho"));
}

/* While 3 ranks generate, one gets a signal; all end by themselves, and say who it was. */
static void end_one(const char *cut, int rank, int number, const char *text) {
    char mark[64], line[4096], named[80];
    snprintf(mark, sizeof mark, "MNEM_TEST_RANKS=%d_%d_%d", (int)getpid(), rank, number);
    snprintf(line, sizeof line,
             "cd %s && rm -f out && %s MNEM_HISTORY=off timeout 300 sh -c '" MPIRUN
             "run %s --raw -p And -n -1 --temp 2 --seed 1 --ctx 65536 --memory 200M --cut %s' "
             "</dev/null "
             ">out 2>err",
             tool_scratch(), mark, 3, tool_model, cut);
    FILE *run = popen(line, "r");
    assert_non_null(run);
    char out[4096] = "";
    pid_t pid = 0;
    while (!*out || !pid) { /* it generates */
        usleep(20000);
        if (access(at("out"), R_OK) == 0) read_said(at("out"), out, sizeof out);
        pid = find_rank(mark, rank);
    }
    assert_int_equal(kill(pid, number), 0);
    assert_int_not_equal(pclose(run), 0);
    kill(pid, SIGKILL);
    static char err[64 * 1024];
    read_said(at("err"), err, sizeof err);
    snprintf(named, sizeof named, "comm: rank %d (process %d on ", rank, (int)pid);
    /* Where rank 0 is gone the launcher kills the others, maybe before one has said it. */
    if (rank > 0 && (!strstr(err, named) || !strstr(err, text))) fail_msg("rank %d: %s", rank, err);
}

static void a_rank_that_dies_is_named(void **state) {
    (void)state;
    end_one("layers", 1, SIGKILL, ") ended");
    end_one("layers", 2, SIGKILL, ") ended");
    end_one("layers", 0, SIGKILL, ") ended");
    end_one("rows", 2, SIGKILL, ") ended");
}

static void a_rank_that_hangs_is_named(void **state) {
    (void)state;
    end_one("layers", 2, SIGSTOP, ") hasn't been heard of for ");
    end_one("rows", 1, SIGSTOP, ") hasn't been heard of for ");
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launcher_without_mnem_mpi_is_told_so),
        cmocka_unit_test(a_cut_or_a_list_of_budgets_needs_ranks),
#ifdef MNEM_MPIRUN
        cmocka_unit_test(the_text_is_that_of_one_process),
        cmocka_unit_test(several_texts_are_those_of_one_process),
        cmocka_unit_test(a_server_over_ranks_answers_and_ends),
        cmocka_unit_test(a_rank_without_the_file_gets_its_part),
        cmocka_unit_test(rows_in_several_places_come_too),
        cmocka_unit_test(the_link_is_measured_and_kept),
        cmocka_unit_test(what_the_paper_says_is_what_ranks_take),
        cmocka_unit_test(what_a_refusal_names_is_enough),
        cmocka_unit_test(what_does_not_run_is_refused_once),
        cmocka_unit_test(ranks_that_differ_are_named),
        cmocka_unit_test(a_rank_that_dies_is_named),
        cmocka_unit_test(a_rank_that_hangs_is_named),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
