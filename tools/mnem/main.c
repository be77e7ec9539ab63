/* main.c: the mnem command: parse, find the verb, run it, give its exit code. */
#include <signal.h>

#include "options.h"
#include "output_file.h"
#include "tool.h"

int main(int argc, char **argv) {
    /* Both streams have buffers that don't come from the heap, so that they are in the process's
     * size before the plan is made. */
    static char out[8192], err[4096];
    setvbuf(stdout, out, _IOFBF, sizeof out);
    setvbuf(stderr, err, _IOLBF, sizeof err);
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is told by write, and is a clean end */

    tool_args args;
    int code = tool_parse(argc, argv, &args);
    if (code != TOOL_OK) return code;
    if (args.help) {
        tool_help_verb(stdout, args.verb);
        return tool_out_end();
    }
    code = tool_new_check(&args);
    if (code == TOOL_OK) code = tool_verbs[args.verb].entry(&args);
    tool_error_json(&args, code);
    return code;
}
