/* main.c: the mnem command: parse, find the verb, run it, give its exit code. */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "options.h"
#include "output_file.h"
#include "ranks/ranks.h"
#include "screen/pager.h"
#include "tool.h"

/* A standard stream that is closed would be the next file that is opened: a report would go into a
 * model, a model would be the prompt. /dev/null takes its place, opened the wrong way round, so
 * that reading and writing still fail. */
static bool secure_streams(void) {
    static const int wrong_way[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", wrong_way[fd]) != fd) return false;
    return true;
}

static int limit_cpu(void) {
    const char *level = tool_env("MNEM_CPU");
    if (!level || mnem_cpu_limit(level) == MNEM_OK) return TOOL_OK;
    return tool_failed("environment variable MNEM_CPU: %s", mnem_last_error());
}

static int run_command(int argc, char **argv) {
    const tool_args *args;
    int code = tool_parse(argc, argv, &args);
    if (code == TOOL_OK) code = tool_ranks_check(args);
    if (code != TOOL_OK) return code;
    if (args->help) {
        tool_page_begin();
        tool_help_verb(stdout, args->verb);
        return tool_page_end(TOOL_OK);
    }
    code = limit_cpu();
    if (code == TOOL_OK) code = tool_new_check(args);
    if (code == TOOL_OK) code = args->verb->entry(args);
    tool_error_json(args, code);
    code = tool_over_budget_end(args, code);
    return code == TOOL_INTERRUPTED ? tool_interrupt_code() : code;
}

int main(int argc, char **argv) {
    if (!secure_streams()) return TOOL_FAILED; /* there may be nowhere to say so */
    /* Both streams have buffers that don't come from the heap, so that they are in the process's
     * size before the plan is made. */
    static char out[8192], err[4096];
    setvbuf(stdout, out, _IOFBF, sizeof out);
    setvbuf(stderr, err, _IOLBF, sizeof err);
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is told by write, and is a clean end */
    signal(SIGXFSZ, SIG_IGN); /* a limit on files is, too, and is a full disk */

    int code = tool_ranks_begin(argc, argv);
    return code == TOOL_OK ? tool_ranks_end(run_command(argc, argv)) : code;
}
