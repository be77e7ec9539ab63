/* test_tool_faults.c: ranks that end, stop or differ: the whole ends, says who it was, and leaves
 * nothing behind.
 *
 * test_tool_faults [CASES [SEED [SECONDS]]]     15 by default (6 under sanitizers), under mpirun
 *
 * A case runs a target (a verb with its words) as three ranks and does one thing to it: to a rank
 * or to the launcher, at a moment of a phase (it begins, reads its prompt, generates, ends), known
 * by what it has said; or to what one rank finds: its file, its options, its budget. Then it waits
 * for all processes of the case. Cases mostly wait: several run beside each other, each in a folder
 * of its own. With SECONDS they run one by one, and one that takes longer from the fault to the end
 * fails. A fault that comes when all was done is counted as late, not as a case: it is made again,
 * earlier. A training whose checkpoint is there then goes on from it, as three ranks, with the
 * losses of one without a fault. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_random.h"
#include "tools/ranks/marked.h"
#include "tools/tool_run.h"

enum { RANKS = 3, TEXT_BYTES = 64 * 1024, LIMIT_SECONDS = 1200, BESIDE = 4 };
enum { MORE = MNEM_SANITIZED ? 128 : 0 }; /* MiB of a budget: sanitizers take them */

static int cases = MNEM_SANITIZED ? 6 : 15;
static uint64_t seed = 1;
static double seconds_most; /* 0: as long as it takes */
static int resumed;         /* trainings that went on */

/* ---- what is run ---- */

/* Of a shell, in a folder of the rank's own; %d: MiB of each rank's budget. */
typedef struct target {
    const char *name, *words;
    bool text;   /* its output is that of a run without a fault */
    bool trains; /* in the folder of all ranks: what it says is its log */
    char out[TEXT_BYTES];
} target;

static target targets[] = {
    {"run",
     "run model.gguf --raw -f prompt.txt -n 48 --temp 0.9 --seed 1 --ctx 1024 --chunk 64 -t 1",
     true, false, ""},
    {"perplexity", "perplexity model.gguf prompt.txt --ctx 128 -t 1", true, false, ""},
    {"bench", "bench model.gguf -p 64 -n 16 -r 1 --ctx 256 -t 1", false, false, ""},
    {"train",
     "train -d text.txt --config tiny --vocab 256 --ctx 16 --batch 3 --precision f32 -t 1 "
     "--steps 60 --save-every 5 -o ../trained",
     false, true, ""},
};
/* Not trainings, the last one, where sanitizers make minutes of each. */
enum { TARGETS = sizeof targets / sizeof targets[0] - MNEM_SANITIZED };
#define RESUME "train --resume ../trained -t 1"

typedef enum phase { BEGINS, READS, GENERATES, ENDS, PHASES } phase;
static const char *const phase_names[] = {"begins", "reads", "generates", "ends"};

/* What happens. A number is a signal, to a rank or to the launcher. */
typedef struct fault {
    const char *name;
    int number;
    bool launcher, slow; /* slow: it isn't missed, and all ends well */
    const char *rank_do; /* what the shell of the rank does before */
    bool file;           /* of the model's file, which a training from nothing hasn't */
    const char *says;    /* what is said; %d: the rank */
    const char *or_says; /* or this */
} fault;

static const fault nothing = {.name = "nothing", .slow = true};
static const fault faults[] = {
    {"kill -KILL", SIGKILL, .says = "rank %d (process "},
    {"kill -STOP", SIGSTOP, .says = "rank %d (process "},
    {"kill -TERM", SIGTERM, .says = "rank %d: process ", .or_says = "rank %d (process "},
    {"kill -KILL mpirun", SIGKILL, .launcher = true},
    {"kill -INT mpirun", SIGINT, .launcher = true},
    {"kill -TERM mpirun", SIGTERM, .launcher = true},
    {"stopped for 3 s", SIGSTOP, .slow = true},
    {"nice 19", 0, .slow = true, .rank_do = "renice -n 19 $$ >/dev/null"},
    {"no file", 0, .slow = true, .rank_do = "rm model.gguf", .file = true},
    {"no file, and no place for one", 0,
     .rank_do = "rm model.gguf; export XDG_CACHE_HOME=/dev/null",
     .says = "rank %d: ", .or_says = "model.gguf", .file = true},
    {"another file", 0, .rank_do = "rm model.gguf; cp ../../other.gguf model.gguf",
     .says = "rank %d has ", .file = true},
    {"a shorter file", 0, .rank_do = "rm model.gguf; head -c 3000000 ../../model.gguf >model.gguf",
     .says = "rank %d: ", .or_says = "model.gguf", .file = true},
    {"another option", 0, .rank_do = "set -- \"$@\" --kv f16", .says = "rank %d has "},
    {"a small budget", 0, .says = "rank %d of ", .or_says = "rank %d: train: needs "},
    {"a full disk", 0, .rank_do = "exec >/dev/full", .says = "No space left",
     .or_says = "checkpoint"},
};
enum { SILENCE = 5 }; /* seconds: less than the 6 for which ranks wait for one that is stopped */
enum { ALONE = 30 };  /* seconds a launcher has for its own end after all ranks are gone */
enum { FAULTS = sizeof faults / sizeof faults[0], FULL_DISK = FAULTS - 1, BUDGET = FAULTS - 2 };

/* The disk of a training is full for its checkpoint (9 MiB): files end at 8 MiB, which all that MPI
 * has is below. */
static const char no_room[] = "trap '' XFSZ; ulimit -f 16384";

typedef struct fault_case {
    const fault *fault;
    target *target;
    const char *words; /* the target's, or those that go on */
    phase phase;
    int rank;
    double later;  /* seconds after the phase has begun */
    char mark[64]; /* in the environment of all its processes */
    char folder[16];
    pid_t launcher, victim;
    /* What has happened; when: the phase began, the fault was made, it was started again, its last
     * rank was gone (0: one is there). */
    enum { FREE, STARTED, BEGUN, STRUCK } state;
    double begun, at, started, alone;
    double paused; /* seconds for which it was stopped */
    bool hung;     /* its launcher didn't end, and was ended here */
    bool again;    /* it goes on from the checkpoint of a case */
    int code;
    char out[TEXT_BYTES], err[TEXT_BYTES];
} fault_case;

/* A file of a case, or "": its folder; until the eighth next call. kit_path keeps too few. */
static const char *in(const fault_case *c, const char *name) {
    static char paths[8][512];
    static int next;
    next = (next + 1) % 8;
    snprintf(paths[next], sizeof paths[0], "%s/%s/%s", at("."), c->folder, name);
    return paths[next];
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void read_text(const char *path, char *text) {
    FILE *file = fopen(path, "rb");
    *text = 0;
    if (!file) return;
    text[fread(text, 1, TEXT_BYTES - 1, file)] = 0;
    fclose(file);
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* ---- a run ---- */

/* What it has made so far: its output, or the losses of its log. */
static void read_made(const fault_case *c, char *text) {
    static char log[TEXT_BYTES];
    char *to = text;
    if (!c->target->trains) {
        read_text(in(c, "out"), text);
        return;
    }
    read_text(in(c, "trained/log.jsonl"), log);
    for (char *p = log; (p = strstr(p, "\"loss\":")); p++)
        to += snprintf(to, (size_t)(text + TEXT_BYTES - to), "%.*s\n", (int)strcspn(p, ",}"), p);
    *to = 0;
}

/* Each rank's shell: its folder has the model and the prompt; then what the fault does there. */
static void write_script(const fault_case *c) {
    char text[2048], budget[64];
    const bool small = c->fault == &faults[BUDGET];
    const char *rank_do = c->fault->rank_do ? c->fault->rank_do : "";
    if (c->target->trains && c->fault == &faults[FULL_DISK]) rank_do = no_room;
    int n = 0;
    for (int i = 0; i < RANKS; i++)
        n += snprintf(budget + n, sizeof budget - (size_t)n, "%s%dM", i ? "," : "",
                      small && i == c->rank ? 18 : 90 + MORE);
    snprintf(text, sizeof text,
             "rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\n"
             "rm -rf r$rank; mkdir r$rank; cd r$rank\n"
             "export XDG_CACHE_HOME=$PWD\n"
             "ln -s ../../model.gguf ../../prompt.txt ../../text.txt .\n"
             "set -- %s --memory %s\n"
             "if [ $rank = %d ]; then :; %s\nfi\n"
             "exec %s \"$@\"\n",
             c->words, budget, c->rank, rank_do, MNEM_COMMAND);
    write_text(in(c, "rank.sh"), text);
}

static void become_launcher(const fault_case *c) {
    const int out = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    const int err = open("err", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    const int in = open("/dev/null", O_RDONLY);
    char ranks[8], asan[512];
    snprintf(ranks, sizeof ranks, "%d", RANKS);
    snprintf(asan, sizeof asan, "%s:detect_leaks=0",
             getenv("ASAN_OPTIONS") ? getenv("ASAN_OPTIONS") : "");
    setenv("ASAN_OPTIONS", asan, 1); /* Open MPI keeps some memory to the end */
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
    setenv("MNEM_HISTORY", "off", 1);
    putenv((char *)(uintptr_t)c->mark);
    setpgid(0, 0);
    dup2(in, 0), dup2(out, 1), dup2(err, 2);
    execl(MNEM_MPIRUN, MNEM_MPIRUN, "-n", ranks, "sh", "rank.sh", (char *)NULL);
    _exit(127);
}

static void start(fault_case *c) {
    static int number;
    if (!c->words) c->words = c->target->words;
    if (!c->again) {
        snprintf(c->folder, sizeof c->folder, "case%d", ++number);
        assert_int_equal(mkdir(in(c, ""), 0777), 0);
    }
    snprintf(c->mark, sizeof c->mark, "MNEM_TEST_FAULTS=%d_%s", (int)getpid(), c->folder);
    write_script(c);
    remove(in(c, "out"));
    remove(in(c, "err"));
    c->victim = 0;
    c->alone = 0;
    c->hung = false;
    c->state = STARTED;
    c->started = c->at = now();
    c->launcher = fork();
    assert_true(c->launcher >= 0);
    if (c->launcher == 0) {
        if (chdir(in(c, "")) != 0) _exit(127);
        become_launcher(c);
    }
}

/* Whether the launcher has ended; its code. */
static bool has_ended(fault_case *c) {
    int status;
    if (c->launcher && waitpid(c->launcher, &status, WNOHANG) == c->launcher) {
        c->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        c->launcher = 0;
    }
    return c->launcher == 0;
}

static bool has_begun(fault_case *c) {
    if (!c->victim) c->victim = find_rank(c->mark, c->rank);
    if (!c->victim || c->phase == BEGINS) return c->victim != 0;
    read_text(in(c, "err"), c->err);
    read_made(c, c->out);
    if (c->phase == READS) return strstr(c->err, " of ") != NULL; /* the plan's line */
    if (c->phase == GENERATES && c->target->trains)
        return access(in(c, "trained/checkpoint"), F_OK) == 0;
    return c->phase == GENERATES ? *c->out != 0 : strlen(c->out) >= strlen(c->target->out);
}

/* The launcher of Open MPI 4.1 sometimes waits for ever after all ranks have ended: for a lock in
 * PMIx_server_finalize, or after a signal meanwhile. It is ended here; its code says nothing. */
static void end_alone(fault_case *c) {
    int pids[MARKED_MAX];
    const bool alone =
        c->launcher && marked_find(c->mark, NULL, pids) == 1 && pids[0] == c->launcher;
    if (!alone) c->alone = 0;
    if (alone && !(c->alone > 0)) c->alone = now();
    if (!alone || now() < c->alone + ALONE) return;
    print_message("the launcher waits for itself: %s of rank %d\n", c->fault->name, c->rank);
    c->hung = true;
    kill(c->launcher, SIGKILL);
}

/* Whether all of it has ended. */
static bool has_finished(fault_case *c) {
    if (!has_ended(c) || marked_are_there(c->mark)) {
        end_alone(c);
        if (now() < c->started + LIMIT_SECONDS) return false;
        marked_kill(c->mark);
        read_text(in(c, "err"), c->err);
        fail_msg("%s of rank %d while it %s: waits without end: %s", c->fault->name, c->rank,
                 phase_names[c->phase], c->err);
    }
    read_text(in(c, "err"), c->err);
    read_text(in(c, "out"), c->out); /* the launcher may have said something there */
    return true;
}

static void hit(fault_case *c, int number) {
    if (!has_ended(c)) kill(c->fault->launcher ? c->launcher : c->victim, number);
}

/* What is to be done next, where its time has come; whether all of it has ended. */
static bool go_on(fault_case *c) {
    enum { PAUSE = 3 }; /* seconds, of who is stopped for a while */
    if (!c->fault->number) return has_finished(c);
    if (c->state == STARTED && (has_ended(c) || has_begun(c))) {
        c->state = BEGUN;
        c->begun = now();
    }
    if (c->state == BEGUN && (has_ended(c) || now() >= c->begun + c->later)) {
        c->state = STRUCK;
        c->at = now();
        hit(c, c->fault->number);
    }
    if (c->state != STRUCK) return false;
    if (c->fault->slow && now() < c->at + PAUSE && !has_ended(c)) return false;
    if (c->fault->slow) hit(c, SIGCONT);
    if (c->paused == 0) c->paused = now() - c->at;
    return has_finished(c);
}

/* ---- what it must leave ---- */

static bool says(const fault_case *c, const char *format) {
    char text[128];
    if (!format) return false;
    snprintf(text, sizeof text, format, c->rank);
    return strstr(c->err, text) != NULL;
}

/* In Open MPI's words: of who was killed, and of who ended with a code of its own; while MPI begins
 * it may say that one did and end without its second text, which one. MPICH's say that one was, and
 * not always which. */
static bool launcher_says(const fault_case *c) {
    const bool begins = c->phase == BEGINS && strstr(c->err, "Primary job  terminated normally");
    return begins || says(c, "process rank %d with PID") ||
           strstr(c->out, "YOUR APPLICATION TERMINATED") ||
           (strstr(c->err, "Exit code:") && says(c, ",%d]"));
}

/* A launcher may have said more. */
static bool is_whole(const fault_case *c) {
    static char made[TEXT_BYTES];
    const char *text = c->target->out;
    const bool in_order = c->code == 0 || c->hung;
    if (c->target->trains) {
        read_made(c, made);
        return in_order && strcmp(made, text) == 0;
    }
    return in_order && (!c->target->text || strncmp(c->out, text, strlen(text)) == 0);
}

static void check_end(const fault_case *c, double seconds) {
    const fault *f = c->fault;
    char what[200];
    snprintf(what, sizeof what, "%s: %s, rank %d, %.2f s after it %s", c->target->name, f->name,
             c->rank, c->later, phase_names[c->phase]);
    if (f->slow) {
        /* On a busy machine it was stopped for longer than others wait: it is missed rightly. */
        if (c->paused > SILENCE && !is_whole(c)) return;
        if (!is_whole(c)) fail_msg("%s: %d: %s", what, c->code, c->err);
        return;
    }
    if (c->code == 0) fail_msg("%s: no failure: %s", what, c->err);
    if (f->says && !says(c, f->says) && !says(c, f->or_says) && !launcher_says(c))
        fail_msg("%s: it isn't named: %s%s", what, c->out, c->err);
    if (seconds_most > 0 && seconds > seconds_most && !c->hung)
        fail_msg("%s: ended after %.1f s: %s", what, seconds, c->err);
}

/* What a training has left goes on, with the losses of one that nothing happened to. Whether there
 * is something. */
static bool resume(fault_case *c) {
    if (!c->target->trains || c->again || access(in(c, "trained/checkpoint"), F_OK) != 0)
        return false;
    c->again = true;
    c->words = RESUME;
    c->fault = &nothing;
    c->rank = RANKS;
    start(c);
    return true;
}

static void check_resumed(const fault_case *c) {
    if (!is_whole(c))
        fail_msg("train: goes on after a fault with code %d and other losses: %s", c->code, c->err);
    resumed++;
}

static void draw(fault_case *c, int number, uint64_t *random) {
    static const double later[] = {0.5, 0.4, 1, 0.05}; /* at most, for each phase */
    *c = (fault_case){.fault = &faults[number % FAULTS],
                      .target = &targets[next_random(random) % TARGETS],
                      .phase = (phase)(next_random(random) % PHASES),
                      .rank = (int)(next_random(random) % RANKS)};
    if (c->fault->slow && c->fault->file && c->rank == 0) c->rank = 1; /* it has it from rank 0 */
    c->later = later[c->phase] * (double)(next_random(random) % 1000) / 1000;
    if (c->fault == &faults[FULL_DISK]) c->rank = 0;
    if (c->fault->file && c->target->trains) c->target = &targets[0];
}

/* What came of all cases. */
static struct {
    int drawn, ended, late, count[FAULTS], of[TARGETS];
    double worst[FAULTS];
} sums;

/* A case that was over before its fault came is made again, a little earlier. */
static void end_case(fault_case *c) {
    const fault *f = c->fault;
    const double seconds = now() - c->at;
    if (c->again) {
        check_resumed(c);
        c->state = FREE;
        return;
    }
    if (f->number && !f->slow && is_whole(c)) {
        sums.late++;
        c->later /= 2;
        if (c->phase > BEGINS) c->phase--;
        start(c);
        return;
    }
    check_end(c, seconds);
    sums.ended++;
    sums.count[f - faults]++;
    sums.of[c->target - targets]++;
    if (seconds > sums.worst[f - faults]) sums.worst[f - faults] = seconds;
    if (!resume(c)) c->state = FREE;
}

static void what_ends_a_rank_ends_all_and_is_named(void **state) {
    static fault_case all[BESIDE];
    uint64_t random = seed;
    (void)state;
    for (int busy = 0; busy > 0 || sums.drawn < cases;) {
        busy = 0;
        for (int i = 0; i < (seconds_most > 0 ? 1 : BESIDE); i++) {
            fault_case *c = &all[i];
            if (c->state == FREE && sums.drawn < cases) {
                draw(c, sums.drawn++, &random);
                start(c);
            } else if (c->state != FREE && go_on(c)) {
                end_case(c);
            }
            busy += c->state != FREE;
        }
        usleep(30000);
    }
    for (int f = 0; f < FAULTS; f++)
        print_message("%-18s %3d cases, %5.1f s at most\n", faults[f].name, sums.count[f],
                      sums.worst[f]);
    assert_int_equal(sums.ended, cases);
    assert_true(resumed > 0 || cases < (seed == 1 ? 15 : 100));
    for (int i = 0; i < TARGETS; i++) print_message("%s: %d; ", targets[i].name, sums.of[i]);
    print_message("%d trainings went on; %d faults came too late\n", resumed, sums.late);
}

/* ---- the files ---- */

static void copy(const char *from, const char *to, bool changed) {
    static uint8_t bytes[1 << 16];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_non_null(in);
    assert_non_null(out);
    long at_ = 0;
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, in)) > 0; at_ += (long)n) {
        if (changed && at_ > 2000000) memset(bytes, 0, n);
        assert_int_equal(fwrite(bytes, 1, n, out), n);
    }
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

static int make_files(void **state) {
    static fault_case all[TARGETS];
    static char text[4000];
    (void)state;
    copy(tool_model, at("model.gguf"), false);
    copy(tool_model, at("other.gguf"), true);
    FILE *file = fopen(MNEM_SOURCE "/LICENSE", "rb");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    write_text(at("text.txt"), text);
    text[MNEM_SANITIZED ? 1000 : 2000] = 0;
    write_text(at("prompt.txt"), text);
    for (int i = 0; i < TARGETS; i++) { /* what they say without a fault */
        all[i] = (fault_case){.fault = &nothing, .target = &targets[i], .rank = RANKS};
        start(&all[i]);
    }
    for (int i = 0; i < TARGETS; i++) {
        fault_case *c = &all[i];
        while (!has_finished(c)) usleep(20000);
        if (c->code != 0) fail_msg("%s: %s", targets[i].name, c->err);
        read_made(c, targets[i].out);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1) cases = atoi(argv[1]);
    if (argc > 2) seed = strtoull(argv[2], NULL, 10);
    if (argc > 3) seconds_most = atof(argv[3]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_ends_a_rank_ends_all_and_is_named)};
    return cmocka_run_group_tests(tests, make_files, NULL);
}
