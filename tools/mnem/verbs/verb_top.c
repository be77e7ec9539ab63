/* verb_top.c: `mnem top`: what a running program takes and does, from its status file
 * (mnem/monitor.h). */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "options.h"
#include "verbs/top/top.h"

/* A screen to draw on. */
static bool is_screen(void) {
    const char *terminal = tool_env("TERM");
    return isatty(STDOUT_FILENO) && terminal && strcmp(terminal, "dumb") != 0;
}

static int show_once(const top_options *o, const char *path) {
    mnem_monitor_view view;
    const mnem_status status = mnem_monitor_read(path, &view);
    if (status != MNEM_OK) return tool_fail(status);
    if (!mnem_monitor_alive(&view))
        return tool_failed(
            "%s is the status file of process %u (%s), which has ended: nothing is running there",
            path, view.pid, view.program);
    if (o->openmetrics)
        top_open_metrics(&view);
    else if (o->args.json)
        top_json(&view);
    else
        top_text(&view, 80, 0, false);
    return tool_out_end();
}

static int verb_top(const tool_args *args) {
    const top_options *o = (const top_options *)args;
    char path[PATH_MAX + 320];
    if (o->openmetrics && args->json)
        return tool_usage("top", "--json and --openmetrics can't be combined: leave one out");
    const int code = top_find(args->operand[0], path, sizeof path);
    if (code != TOOL_OK) return code;
    const bool once = o->once || o->openmetrics || args->json || !is_screen();
    return once ? show_once(o, path) : top_live(path, o->interval);
}

/* ---- the command line ---- */

#define AT(field) offsetof(top_options, field)
static const tool_option options[] = {
    {"once", 0, NULL, TOOL_VALUE_FLAG, AT(once),
     .help = "print the view once, 80 columns wide; the default where standard output isn't a "
             "terminal"},
    {"interval", 0, "SECONDS", TOOL_VALUE_REAL, AT(interval), .least = 0.1, .most = 3600,
     .help = "seconds between two updates (default: 1)"},
    {"openmetrics", 0, NULL, TOOL_VALUE_FLAG, AT(openmetrics),
     .help = "print the numbers once, in the text format of OpenMetrics"},
    TOOL_JSON_OPTION("one object, as with --once"),
    {0},
};

static void defaults(tool_args *args) {
    ((top_options *)args)->interval = 1;
}

static top_options asked;
TOOL_VERB_WITH(
    top, defaults, "[PID | FILE]", 0, 1, "show the memory and speed of a running mnem live",
    "Shows the state of a running program: the budget and the ledger's accounts by kind and\n"
    "tag, steps, tokens a second, pages, requests. It reads the status file that mnem run,\n"
    "train and serve update about ten times a second, in $XDG_RUNTIME_DIR/mnem or\n"
    "/tmp/mnem-UID. They remove it when they end; with MNEM_STATUS=off they write none. Any\n"
    "other program can write one with the library (mnem/monitor.h). Without an operand mnem top\n"
    "shows the program that is running, if there is only one. q ends the view.\n",
    "mnem top  # watch the mnem that is running\n"
    "mnem top 4121 --interval 0.2  # watch process 4121, five times a second\n"
    "mnem top --json | jq .tokens_per_s  # print the tokens per second\n"
    "mnem top --openmetrics >node/mnem.prom  # for node_exporter's textfile collector\n");
