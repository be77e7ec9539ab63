/* recording.c: a trace from the command's beginning to its end, also where it failed or was
 * interrupted. What is said of the run is its verb, version and model: no text of prompts. */
#include "sight/recording.h"

#include <string.h>

#include "mnem/trace.h"
#include "output_file.h"
#include "ranks/ranks.h"
#include "sight/probe_file.h"

const tool_option tool_trace_options[] = {
    {"trace", 0, "FILE", TOOL_VALUE_TEXT, 0, .path = TOOL_PATH_WRITE | TOOL_PATH_PLAIN,
     .help =
         "write a trace of memory use, operators, steps, requests and reads to FILE, whose "
         "extension chooses the format: .pftrace, .perfetto or .json (opens in ui.perfetto.dev; "
         "under mpirun one file for all ranks), .pickle (PyTorch's memory viewer), .folded (flame "
         "graph of the peak) or _ascend_pt (a folder for MindStudio Insight)"},
    {0},
};

int tool_recording_check(const tool_args *args, const char *path) {
    mnem_trace_format format;
    if (!path || mnem_trace_format_of(path, &format) == MNEM_OK) return TOOL_OK;
    return tool_usage(args->verb->name, "%s", mnem_last_error());
}

static mnem_status note_run(mnem_trace *trace, const tool_args *args, const char *model) {
    const char *slash = model ? strrchr(model, '/') : NULL;
    mnem_status status = mnem_trace_note(trace, "verb", args->verb->name);
    if (status == MNEM_OK) status = mnem_trace_note(trace, "version", mnem_version());
    if (status == MNEM_OK && model)
        status = mnem_trace_note(trace, "model", slash ? slash + 1 : model);
    return status;
}

/* What this machine gives, where it was measured: a report places operators under it. */
static void note_roofs(mnem_trace *trace) {
    static mnem_probe probe;
    char text[512];
    double age;
    size_t n = 0;
    if (!tool_probe_load(&probe, &age)) return;
    for (int i = 0; i < probe.levels; i++) {
        const mnem_probe_level *l = &probe.level[i];
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %.0f", i ? "," : "", l->name,
                              l->rate[probe.teams - 1][MNEM_PROBE_LOAD].best);
    }
    for (int i = 0, shown = 0; i < probe.peaks && n < sizeof text - 48; i++)
        if (probe.peak[i].used)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %.0f", shown++ ? "," : ";",
                                  probe.peak[i].type, probe.peak[i].rate[1].best);
    mnem_trace_note(trace, "roofs", text);
}

int tool_recording_begin(const tool_args *args, const char *path, const char *model,
                         mnem_ledger *ledger, tool_recording *recording) {
    *recording = (tool_recording){.path = path, .quiet = args->quiet};
    if (!path) return TOOL_OK;
    if (tool_ranks()) tool_recording_part(path, recording->part);
    const mnem_trace_options options = {.path = tool_ranks() ? recording->part : path,
                                        .ledger = ledger};
    mnem_status status = mnem_trace_create(&options, &recording->trace);
    if (status == MNEM_OK) status = tool_recording_clocks();
    if (status == MNEM_OK) status = note_run(recording->trace, args, model);
    if (status == MNEM_OK) note_roofs(recording->trace);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

void tool_recording_predicted(tool_recording *recording, uint64_t bytes) {
    char text[24];
    if (!recording->trace || !bytes) return;
    snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
    mnem_trace_note(recording->trace, "predicted_bytes", text);
}

/* Where the run failed the others don't get here: each rank's own file stays. */
static bool can_merge(int code) {
    return tool_ranks() && (code == TOOL_OK || code > 128) && !mnem_comm_failure(tool_ranks());
}

int tool_recording_end(tool_recording *recording, int code) {
    mnem_trace_info info;
    if (!recording->trace) return code;
    const uint64_t began = mnem_trace_began(recording->trace);
    tool_new_writes(*recording->part ? recording->part : recording->path);
    mnem_status status = mnem_trace_write(recording->trace);
    tool_new_writes(NULL);
    mnem_trace_info_get(recording->trace, &info);
    mnem_trace_destroy(recording->trace);
    recording->trace = NULL;
    if (status == MNEM_OK && can_merge(code))
        status = tool_recording_merge(recording, began, &info.dropped);
    if (status != MNEM_OK) {
        const int failed = tool_fail(status);
        return code == TOOL_OK ? failed : code;
    }
    if (info.dropped)
        tool_message("warning: the trace %s lacks %llu of %llu events, because its buffer was "
                     "full; trace a shorter run to get all",
                     recording->path, (unsigned long long)info.dropped,
                     (unsigned long long)(info.dropped + info.events));
    return code;
}
