/* mpirun.c: runs under mpirun, what they say, and their processes. */
#include "tools/ranks/mpirun.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "kit/kit.h"
#include "mnem/mnem.h"
#include "tools/tool_run.h"

void read_said(const char *path, char *text, size_t n) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    text[fread(text, 1, n - 1, file)] = 0;
    fclose(file);
}

/* Of the runs beside each other, and (the last one) of one alone. */
static FILE *running[AT_ONCE + 1];

/* Where one says what it says. */
static void name_said(int number, char out[16], char err[16]) {
    snprintf(out, 16, number < AT_ONCE ? "out%d" : "out", number);
    snprintf(err, 16, number < AT_ONCE ? "err%d" : "err", number);
}

/* A test that fails leaves its runs: they end with the program. */
static void end_running(void) {
    for (int i = 0; i <= AT_ONCE; i++) {
        char name[16], text[16];
        if (!running[i]) continue;
        snprintf(name, sizeof name, "pid%d", i);
        read_said(at(name), text, sizeof text);
        if (atoi(text) > 0) kill(atoi(text), SIGTERM); /* timeout, which passes it on */
    }
}

static void start(int number, const char *format, va_list list) {
    static bool watched;
    char words[3072], line[4096], out[16], err[16];
    if (!watched) watched = atexit(end_running) == 0;
    assert_true(number <= AT_ONCE);
    if (running[number]) pclose(running[number]); /* of a test that failed */
    name_said(number, out, err);
    vsnprintf(words, sizeof words, format, list);
    snprintf(line, sizeof line,
             "cd %s && echo $$ >pid%d && "
             "MNEM_HISTORY=off exec timeout 1200 sh -c '%s' </dev/null >%s 2>%s",
             tool_scratch(), number, words, out, err);
    remove(at(out)); /* what is there is this run's from now on */
    running[number] = popen(line, "r");
    assert_non_null(running[number]);
}

const said *shell_end(int number) {
    static said all[AT_ONCE + 1];
    said *s = &all[number];
    char out[16], err[16];
    name_said(number, out, err);
    assert_non_null(running[number]);
    const int status = pclose(running[number]);
    running[number] = NULL;
    s->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    read_said(at(out), s->out, sizeof s->out);
    read_said(at(err), s->err, sizeof s->err);
    return s;
}

void shell_start(int number, const char *format, ...) {
    va_list list;
    va_start(list, format);
    start(number, format, list);
    va_end(list);
}

const said *shell(const char *format, ...) {
    va_list list;
    va_start(list, format);
    start(AT_ONCE, format, list);
    va_end(list);
    return shell_end(AT_ONCE);
}

uint64_t least_named(const said *refusal) {
    char least[64];
    uint64_t bytes = 0;
    const char *named = strstr(refusal->err, "the smallest budget that works is --memory ");
    if (!named ||
        sscanf(named, "the smallest budget that works is --memory %63[0-9.KMGi]", least) != 1)
        fail_msg("no budget that is enough: %s", refusal->err);
    must(mnem_size_parse(least, &bytes));
    return bytes;
}

static uint64_t bytes_of(const char *number, const char *unit) {
    char text[64];
    uint64_t bytes = 0;
    snprintf(text, sizeof text, "%s%s", number, unit);
    must(mnem_size_parse(text, &bytes));
    return bytes;
}

void read_table(const char *err, int ranks, uint64_t *peak, uint64_t *planned) {
    const char *line = strstr(err, "  rank ");
    assert_non_null(line);
    for (int i = 0; i < ranks; i++) {
        int rank, begin, end, resident;
        char number[3][16], unit[3][8];
        line = strchr(line, '\n') + 1;
        assert_int_equal(sscanf(line, "%d %d to %d %d %15s %7s %15s %7s %15s %7s", &rank, &begin,
                                &end, &resident, number[0], unit[0], number[1], unit[1], number[2],
                                unit[2]),
                         10);
        assert_int_equal(rank, i);
        peak[i] = bytes_of(number[0], unit[0]);
        planned[i] = bytes_of(number[1], unit[1]);
        assert_true(peak[i] <= bytes_of(number[2], unit[2]));
    }
}

void check_table(const char *err, int ranks) {
    uint64_t peak[8], planned[8];
    read_table(err, ranks, peak, planned);
}

/* Only the launcher names the rank: Open MPI was copying from the memory of the rank that died, and
 * ends the others by itself; or the launcher killed them before one could print anything. */
static bool launcher_names(const said *s, int rank) {
    char named[64];
    snprintf(named, sizeof named, "process rank %d with PID", rank);
    const bool others_say = strstr(s->err, "mnem: ") || strstr(s->err, "comm: ");
    return strstr(s->err, named) && (!others_say || strstr(s->err, "Read -1, expected "));
}

void check_named(const said *s, int rank, pid_t process, const char *text) {
    char named[80];
    assert_int_not_equal(s->code, 0);
    if (launcher_names(s, rank)) return;
    snprintf(named, sizeof named, "comm: rank %d (process %d on ", rank, (int)process);
    /* Where rank 0 is gone the launcher kills the others, maybe before one has said it. */
    if (rank > 0 && (!strstr(s->err, named) || !strstr(s->err, text)))
        fail_msg("rank %d: %s", rank, s->err);
}
