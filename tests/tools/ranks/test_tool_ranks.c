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
#include "tools/ranks/marked.h"
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

enum { MOST = 100 + MORE }; /* MiB: all is in memory */

static const said *end_well(int number) {
    const said *s = shell_end(number);
    if (s->code != 0) fail_msg("run %d: %s", number, s->err);
    return s;
}

/* In all memory, and in the least that a refusal names, whatever MPI takes in that run. */
static const struct {
    int ranks, chunk;
    const char *kv, *cut, *refused; /* budgets of a run that is refused; NULL: all memory */
} ways[] = {{2, 32, "f32", "rows", NULL},     {3, 4, "q8_0", "layers", NULL},
            {4, 16, "f16", "rows", NULL},     {2, 1, "q8_0", "layers", "1M"},
            {3, 8, "f32", "rows", "1M"},      {4, 2, "f16", "layers", "100M,1M"},
            {2, 32, "f16", "rows", "5M,100M"}};
/* Sanitizers take more than is planned. */
enum { WAYS = MNEM_SANITIZED ? 3 : sizeof ways / sizeof ways[0] };

static void words_of(int i, char words[400]) {
    snprintf(words, 400,
             "run %s --raw -p \"And it came to pass, that in the days of\" --temp 0.9 --seed %d "
             "-n 24 --ctx 128 --kv %s --chunk %d",
             tool_model, i + 1, ways[i].kv, ways[i].chunk);
}

static void start_way(int i, const char *memory) {
    char words[400];
    words_of(i, words);
    shell_start(i, MPIRUN "%s --memory %s --cut %s", ways[i].ranks, words, memory, ways[i].cut);
}

/* What a refusal of way i names; as it stands there. */
static void end_refused(int i, char least[64]) {
    const said *s = shell_end(i);
    const char *named = strstr(s->err, "the smallest budget that works is --memory ");
    assert_int_equal(s->code, 3);
    assert_non_null(named);
    assert_int_equal(sscanf(named, "the smallest budget that works is --memory %63s", least), 1);
    assert_int_equal(strchr(least, ',') != NULL, strchr(ways[i].refused, ',') != NULL);
}

static void start_ways(void) {
    char least[WAYS][64];
    for (int i = 0; i < WAYS; i++)
        if (ways[i].refused) start_way(i, ways[i].refused);
    for (int i = 0; i < WAYS; i++) {
        snprintf(least[i], sizeof least[i], "%dM", MOST);
        if (ways[i].refused) end_refused(i, least[i]);
    }
    for (int i = 0; i < WAYS; i++) start_way(i, least[i]);
}

static void the_text_is_that_of_one_process_in_any_budget(void **state) {
    (void)state;
    char words[400];
    start_ways();
    for (int i = 0; i < WAYS; i++) {
        words_of(i, words);
        const said *alone = shell("%s %s -q", MNEM_COMMAND, words), *s = end_well(i);
        assert_int_equal(alone->code, 0);
        if (strcmp(s->out, alone->out) != 0)
            fail_msg("way %d: \"%s\", not \"%s\"", i, s->out, alone->out);
        check_table(s->err, ways[i].ranks);
    }
}

static void several_texts_are_those_of_one_process(void **state) {
    (void)state;
    enum { ALONE = 0, RANKS = 3 };
    const char *words = "run %s --raw -p \"And it came\" -p \"In the\" -p \"Now\" -p \"The "
                        "LORD\" -p \"A\" --temp 0.9 --seed 3 -n 20 --ctx 128";
    char line[400];
    snprintf(line, sizeof line, words, tool_model);
    shell_start(ALONE, "%s %s -q", MNEM_COMMAND, line);
    for (int ranks = 2; ranks <= RANKS; ranks++)
        shell_start(ranks, MPIRUN "%s --memory %dM -q", ranks, line, MOST);
    const said *alone = end_well(ALONE);
    for (int ranks = 2; ranks <= RANKS; ranks++)
        assert_string_equal(end_well(ranks)->out, alone->out);
}

static void so_is_that_of_models_with_states(void **state) {
    (void)state;
    static const char *const models[] = {"qwen35", "mamba2", "falcon_h1", "lfm2"};
    enum { MODELS = sizeof models / sizeof *models };
    for (int i = 0; i < MODELS; i++) {
        char line[400];
        snprintf(
            line, sizeof line,
            "run %s/architectures/%s.gguf --raw -p the --temp 0 -n 24 --ctx 128 --memory %dM -q",
            MNEM_TEST_DATA, models[i], MOST);
        shell_start(2 * i, "%s %s", MNEM_COMMAND, line);
        shell_start(2 * i + 1, MPIRUN "%s", 2, line);
    }
    for (int i = 0; i < MODELS; i++) {
        const said *alone = end_well(2 * i);
        assert_true(strlen(alone->out) > 8);
        assert_string_equal(end_well(2 * i + 1)->out, alone->out);
    }
}

/* A server, asked once, before a signal ends it; command starts it. */
static void start_server(int number, const char *command) {
    shell_start(number,
                "%s serve %s --memory %dM --port 0 --no-history >address%d & P=$!; "
                "for i in $(seq 3000); do A=$(cat address%d); [ -n \"$A\" ] && break; sleep 0.1; "
                "done; curl -s $A/v1/completions -d @body >answer%d; kill -TERM $P; wait $P; true",
                command, tool_model, MOST, number, number, number);
}

static const said *end_server(int number, char text[400]) {
    static char answer[64 * 1024];
    char name[16];
    const said *s = shell_end(number);
    snprintf(name, sizeof name, "answer%d", number);
    read_said(at(name), answer, sizeof answer);
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
    snprintf(command, sizeof command, MPIRUN, 2);
    start_server(0, MNEM_COMMAND);
    start_server(1, command);
    end_server(0, alone);
    const said *s = end_server(1, text);
    assert_string_equal(text, alone);
    check_table(s->err, 2);
}

/* ---- ranks without the file ---- */

#define FEW "--raw -p \"And it came\" --temp 0.9 --seed 3 -n 12 --ctx 128"

/* Ranks but the first run where the model (in the folder) isn't: in the folder `none`. */
static void start_without(int number, const char *model, const char *cut, int ranks) {
    char name[16];
    snprintf(name, sizeof name, "rank%d.sh", number);
    FILE *script = fopen(at(name), "wb");
    assert_non_null(script);
    fprintf(script,
            "[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 0 ] || cd none\n"
            "exec %s run %s " FEW " --memory %dM --cut %s\n",
            MNEM_COMMAND, model, MOST, cut);
    assert_int_equal(fclose(script), 0);
    shell_start(number, "mkdir -p none; export XDG_CACHE_HOME=$PWD/kept; " MPIRUN_OF "sh %s", ranks,
                name);
}

static const said *without_file(const char *cut, int ranks) {
    start_without(0, "here.gguf", cut, ranks);
    return end_well(0);
}

/* It keeps what came: another run needs nothing more, another cut something. */
static void a_rank_without_the_file_gets_its_part(void **state) {
    (void)state;
    enum { RANKS = 3 };
    static char alone[64 * 1024];
    const said *s = shell("cp %s here.gguf; %s run here.gguf " FEW " -q", tool_model, MNEM_COMMAND);
    assert_int_equal(s->code, 0);
    memcpy(alone, s->out, sizeof alone);
    for (int i = 0; i < 4; i++) {
        s = without_file(i < 2 ? "layers" : "rows", RANKS);
        assert_string_equal(s->out, alone);
        check_table(s->err, RANKS);
        assert_non_null(strstr(s->err, i % 2 ? "rank 2 has no file here.gguf: it uses its part of "
                                               "the model, which an earlier run stored"
                                             : "rank 2 has no file here.gguf: it received "));
        assert_true((strstr(s->err, " of the model from rank 0") != NULL) == (i % 2 == 0));
    }
    /* Parts they are: half of the file's bytes or so. */
    s = shell("du -k kept/mnem/parts/here.gguf.*.2 here.gguf | cut -f1");
    long part, whole;
    assert_int_equal(sscanf(s->out, "%ld %ld", &part, &whole), 2);
    assert_in_range(part, whole / 6, whole * 3 / 4);
    /* A list that was cut off (of rank 1), or a part that is gone (of rank 2), is had anew. */
    s = shell("cd kept/mnem/parts && for f in *.1.list; do head -c 30 $f >cut && cat cut >$f || "
              "exit 1; done && rm cut *.2");
    if (s->code != 0) fail_msg("%s", s->err);
    assert_string_equal(without_file("rows", RANKS)->out, alone);
    /* Another file of that name is another part. */
    shell("touch -d 2020-01-01 here.gguf");
    assert_string_equal(without_file("layers", 2)->out, alone);
}

/* Rows of each part of a matrix that is several, and of their bias; experts, and theirs. */
static void rows_in_several_places_come_too(void **state) {
    (void)state;
    static const struct {
        const char *name, *made;
        int ranks;
    } models[] = {
        {"phi3.gguf",
         "--arch phi3 --heads 4 --kv-heads 2 --head-dim 32 --type Q4_0 --layers 3 --ff 1056", 3},
        {"gpt2.gguf", "--arch gpt2 --heads 4 --kv-heads 4 --head-dim 16 --type F16 --layers 3", 2},
        {"gpt-oss.gguf",
         "--arch gpt-oss --heads 4 --kv-heads 2 --head-dim 32 --type Q8_0 --experts 7", 3}};
    enum { MODELS = sizeof models / sizeof models[0] };
    char hasnt[64];
    for (int i = 0; i < MODELS; i++) {
        make_model(at(models[i].name), models[i].made);
        start_without(i, models[i].name, "rows", models[i].ranks);
    }
    for (int i = 0; i < MODELS; i++) {
        const said *alone = shell("%s run %s " FEW " -q", MNEM_COMMAND, models[i].name);
        if (alone->code != 0) fail_msg("%s", alone->err);
        const said *s = end_well(i);
        assert_string_equal(s->out, alone->out);
        check_table(s->err, models[i].ranks);
        snprintf(hasnt, sizeof hasnt, "rank 1 has no file %s: ", models[i].name);
        assert_non_null(strstr(s->err, hasnt));
    }
}

/* ---- the link, and plans on paper ---- */

static void the_link_is_measured_and_kept(void **state) {
    (void)state;
    shell_start(0,
                "mkdir -p link; export XDG_CACHE_HOME=link; " MPIRUN
                "bench %s --memory %dM -p 32 -n 8 -r 1 --sequences 3 -t 1",
                2, tool_model, MOST);
    shell_start(1, MPIRUN "bench %s --memory %dM -p 8 -n 2 -r 1 -t 1 --link 1Gbit/s,5ms", 2,
                tool_model, MOST);
    const said *s = end_well(0);
    assert_non_null(strstr(s->out, "tg8 x 3"));
    assert_non_null(strstr(s->out, "link of ranks"));
    s = shell("XDG_CACHE_HOME=link %s plan %s --ranks 2 --memory %dM --json", MNEM_COMMAND,
              tool_model, MOST);
    assert_int_equal(s->code, 0);
    assert_non_null(strstr(s->out, "\"rank_bytes_measured\":true"));
    s = end_well(1);
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

static void check_paper(const json_t *plan, int ranks, const uint64_t *planned,
                        const uint64_t *peak) {
    for (int r = 0; r < ranks; r++) {
        const uint64_t paper = paper_bytes(plan, r, "peak_bytes");
        const uint64_t most = paper / 50 > 4 << 20 ? paper / 50 : 4 << 20;
        if (apart(paper, planned[r]) > most || apart(paper, peak[r]) > most)
            fail_msg("rank %d of %d: %llu on paper, %llu planned, %llu taken", r, ranks,
                     (unsigned long long)paper, (unsigned long long)planned[r],
                     (unsigned long long)peak[r]);
    }
}

/* The first rank's budget: a little more than is enough on paper, so that bench, which measures
 * memory where there is room for that, doesn't. The others have less. */
static void start_paper(int i, int ranks, const char *cut, char memory[64]) {
    const said *s = shell("%s plan %s --ranks %d --memory 1M -t 1 --ctx 256 --cut %s", MNEM_COMMAND,
                          tool_model, ranks, cut);
    const uint64_t least = least_named(s);
    snprintf(memory, 64, "%llu,%llu", (unsigned long long)least + (20 << 20),
             (unsigned long long)least + (12 << 20));
    shell_start(i,
                "mkdir -p paper%d; export XDG_CACHE_HOME=paper%d; " MPIRUN
                "bench %s --memory %s -p 32 -n 8 -r 1 -t 1 --ctx 256 --cut %s",
                i, i, ranks, tool_model, memory, cut);
}

/* What the paper says beforehand is what ranks plan, and what they take: within 2 % or 4 MiB, since
 * what MPI takes differs a little from run to run. */
static void what_the_paper_says_is_what_ranks_take(void **state) {
    (void)state;
    static const struct {
        int ranks;
        const char *cut;
    } way[] = {{2, "rows"}, {3, "layers"}, {4, "rows"}};
    enum { PAPERS = sizeof way / sizeof way[0] };
    char memory[PAPERS][64];
    if (MNEM_SANITIZED) skip(); /* what those take isn't planned */
    for (int i = 0; i < PAPERS; i++) start_paper(i, way[i].ranks, way[i].cut, memory[i]);
    for (int i = 0; i < PAPERS; i++) {
        uint64_t peak[8], planned[8];
        read_table(end_well(i)->err, way[i].ranks, peak, planned);
        const said *s = shell("XDG_CACHE_HOME=paper%d %s plan %s --ranks %d --memory %s -t 1 "
                              "--ctx 256 --cut %s --json",
                              i, MNEM_COMMAND, tool_model, way[i].ranks, memory[i], way[i].cut);
        json_t *plan = json_loads(s->out, 0, NULL);
        if (!plan) fail_msg("%s", s->err);
        check_paper(plan, way[i].ranks, planned, peak);
        json_decref(plan);
    }
}

/* ---- refusals, and ends ---- */

static void what_does_not_run_is_refused_once(void **state) {
    (void)state;
    static const struct {
        const char *words, *text;
        int code;
    } refused[] = {
        {"run -p hi --memory 100M,18M", "rank 1 of 2 (layers ", 3},
        {"run -p hi", "ranks may share a machine", 2},
        {"run -p hi --memory 100M,18M --cut rows", "rank 1 of 2 (heads ", 3},
        {"run " MNEM_TEST_DATA "/architectures/deepseek2.gguf -p hi --memory 100M --cut rows",
         "deepseek2: splitting by rows over ranks is not supported", 1},
        {"tokenize model.gguf hi",
         "mnem tokenize does not support several ranks: start it without mpirun", 2},
        {"plan", "mnem plan --ranks N", 2},
        {"serve --memory 100M --swap f --keep-cache",
         "--keep-cache can't be used: saving and loading a sequence is not supported (implemented "
         "for one rank "
         "only)",
         2},
        {"run nosuch.gguf -p hi --memory 100M", "nosuch.gguf: can", 1},
    };
    enum { COUNT = sizeof refused / sizeof refused[0] };
    for (int i = 0; i < COUNT; i++) shell_start(i, MPIRUN "%s", 2, refused[i].words);
    for (int i = 0; i < COUNT; i++) {
        const said *s = shell_end(i);
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

/* Runs of 3 ranks beside each other; while they generate one of each gets a signal; all end by
 * themselves, and say who it was. */
static const struct {
    int rank, number;
    const char *cut, *text;
} ends[] = {{2, SIGSTOP, "layers", ") has sent nothing for "},
            {1, SIGSTOP, "rows", ") has sent nothing for "},
            {1, SIGKILL, "layers", ") ended"},
            {2, SIGKILL, "layers", ") ended"},
            {0, SIGKILL, "layers", ") ended"},
            {2, SIGKILL, "rows", ") ended"}};
enum { ENDS = sizeof ends / sizeof ends[0], HANG = 2 /* of them */ };
static pid_t ended[ENDS]; /* who got it */

static void mark_of(int i, char mark[64]) {
    snprintf(mark, 64, "MNEM_TEST_RANKS=%d_%d", (int)getpid(), i);
}

static void strike(int i) {
    char mark[64], name[16], out[4096] = "";
    mark_of(i, mark);
    snprintf(name, sizeof name, "out%d", i);
    for (int k = 0; !*out || !ended[i]; k++) {                     /* it generates */
        if (k > 300 * 50) fail_msg("end %d: no text in 300 s", i); /* as timeout has it */
        usleep(20000);
        if (access(at(name), R_OK) == 0) read_said(at(name), out, sizeof out);
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
                    "export %s; " MPIRUN
                    "run %s --raw -p And -n -1 --temp 2 --seed 1 --ctx 65536 --memory 200M --cut "
                    "%s",
                    mark, 3, tool_model, ends[i].cut);
    }
    for (int i = 0; i < ENDS; i++) strike(i);
}

static void check_end(int i) {
    const said *s = shell_end(i);
    kill(ended[i], SIGKILL); /* one that hangs */
    check_named(s, ends[i].rank, ended[i], ends[i].text);
}

static void a_rank_that_dies_is_named(void **state) {
    (void)state;
    begin_ends();
    for (int i = HANG; i < ENDS; i++) check_end(i);
}

static void a_rank_that_hangs_is_named(void **state) {
    (void)state;
    begin_ends();
    for (int i = 0; i < HANG; i++) check_end(i);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launcher_without_mnem_mpi_is_told_so),
        cmocka_unit_test(a_cut_or_a_list_of_budgets_needs_ranks),
#ifdef MNEM_MPIRUN
        cmocka_unit_test(the_text_is_that_of_one_process_in_any_budget),
        cmocka_unit_test(several_texts_are_those_of_one_process),
        cmocka_unit_test(so_is_that_of_models_with_states),
        cmocka_unit_test(a_server_over_ranks_answers_and_ends),
        cmocka_unit_test(a_rank_without_the_file_gets_its_part),
        cmocka_unit_test(rows_in_several_places_come_too),
        cmocka_unit_test(the_link_is_measured_and_kept),
        cmocka_unit_test(what_the_paper_says_is_what_ranks_take),
        cmocka_unit_test(what_does_not_run_is_refused_once),
        cmocka_unit_test(ranks_that_differ_are_named),
        cmocka_unit_test(a_rank_that_dies_is_named),
        cmocka_unit_test(a_rank_that_hangs_is_named),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
