/* report_ranks.c: a trace of several ranks, a line for each. */
#include <stdio.h>
#include <string.h>

#include "verbs/report/report_tool.h"

/* What a rank's operators took. */
static uint64_t busy_of(const mnem_report_facts *f) {
    uint64_t ns = 0;
    for (size_t i = 0; i < f->ops; i++)
        if (strcmp(f->op[i].sort, "operator") == 0) ns += f->op[i].ns_total;
    return ns;
}

const char *const report_rank_columns[REPORT_RANK_CELLS + 1] = {
    "by rank", "events", "peak", "budget", "resident", "operators", "sums", "clock", NULL};

void report_rank_cells(const mnem_report_facts *f, char cell[REPORT_RANK_CELLS][TOOL_TEXT]) {
    for (int i = 0; i < REPORT_RANK_CELLS; i++) snprintf(cell[i], TOOL_TEXT, "-");
    snprintf(cell[0], TOOL_TEXT, "%u", f->rank);
    tool_exact(f->events, cell[1]);
    tool_size(f->bytes_peak, cell[2]);
    if (f->budget_bytes) tool_size(f->budget_bytes, cell[3]);
    if (f->resident_most) tool_size(f->resident_most, cell[4]);
    report_time(f, busy_of(f), cell[5]);
    if (f->samples) snprintf(cell[6], TOOL_TEXT, f->samples == f->samples_equal ? "hold" : "off");
    if (f->clock) snprintf(cell[7], TOOL_TEXT, "%s", f->clock + strlen("clock "));
}

static void print_rank(const char *const cell[REPORT_RANK_CELLS]) {
    tool_outf("%7s %7s  %10s  %10s  %10s  %10s  %4s  %s\n", cell[0], cell[1], cell[2], cell[3],
              cell[4], cell[5], cell[6], cell[7]);
}

void report_ranks(mnem_report *const *reports, int count) {
    char text[REPORT_RANK_CELLS][TOOL_TEXT];
    const char *cell[REPORT_RANK_CELLS];
    print_rank(report_rank_columns);
    for (int i = 0; i < count; i++) {
        report_rank_cells(mnem_report_facts_get(reports[i]), text);
        for (int k = 0; k < REPORT_RANK_CELLS; k++) cell[k] = text[k];
        print_rank(cell);
    }
    tool_outf("\n");
}

json_t *report_ranks_json(mnem_report *const *reports, int count) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        const mnem_report_facts *f = mnem_report_facts_get(reports[i]);
        json_t *one = json_pack(
            "{s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:I, s:o, s:o, s:o}", "rank", (json_int_t)f->rank,
            "events", (json_int_t)f->events, "bytes_peak", (json_int_t)f->bytes_peak, "bytes_end",
            (json_int_t)f->bytes_end, "budget_bytes",
            tool_json_count(f->budget_bytes, f->budget_bytes), "predicted_bytes",
            tool_json_count(f->predicted_bytes, f->predicted_bytes), "resident_most",
            tool_json_count(f->resident_most, f->resident_most), "operators_ns",
            (json_int_t)busy_of(f), "samples", tool_json_count(f->samples, f->samples),
            "samples_equal", tool_json_count(f->samples, f->samples_equal), "clock",
            f->clock ? json_string(f->clock) : json_null());
        json_array_append_new(list, one);
    }
    return list;
}
