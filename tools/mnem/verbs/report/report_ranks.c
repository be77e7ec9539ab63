/* report_ranks.c: a trace of several ranks, a line for each. */
#include <string.h>

#include "verbs/report/report_tool.h"

/* What a rank's operators took. */
static uint64_t busy_of(const mnem_report_facts *f) {
    uint64_t ns = 0;
    for (size_t i = 0; i < f->ops; i++)
        if (strcmp(f->op[i].sort, "operator") == 0) ns += f->op[i].ns_total;
    return ns;
}

void report_ranks(mnem_report *const *reports, int count) {
    char text[5][TOOL_TEXT];
    tool_outf("by rank  events        peak      budget    resident   operators  sums  clock\n");
    for (int i = 0; i < count; i++) {
        const mnem_report_facts *f = mnem_report_facts_get(reports[i]);
        const char *clock = f->clock ? f->clock + strlen("clock ") : "-";
        tool_outf("   %4u %7s  %10s  %10s  %10s  %10s  %4s  %s\n", f->rank,
                  tool_exact(f->events, text[0]), tool_size(f->bytes_peak, text[1]),
                  f->budget_bytes ? tool_size(f->budget_bytes, text[2]) : "-",
                  f->resident_most ? tool_size(f->resident_most, text[3]) : "-",
                  report_time(f, busy_of(f), text[4]),
                  !f->samples                      ? "-"
                  : f->samples == f->samples_equal ? "hold"
                                                   : "off",
                  clock);
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
