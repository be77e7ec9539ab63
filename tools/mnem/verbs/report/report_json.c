/* report_json.c: a report as JSON. Names of keys are stable; null is what isn't known. Times are
 * nanoseconds where "clock" says so, operations elsewhere. */
#include <stdio.h>
#include <string.h>

#include "verbs/report/report_tool.h"

/* Text of others may be any bytes; JSON takes UTF-8 only. */
static json_t *text_json(const char *text) {
    json_t *value = json_string(text);
    return value ? value : json_string("?");
}

static json_t *level_json(const mnem_report_level *l) {
    if (!l->known) return json_null();
    return json_pack("{s:I, s:o, s:I}", "at_peak", (json_int_t)l->at_peak, "mean",
                     tool_json_real(l->mean), "most", (json_int_t)l->most);
}

static json_t *owner_json(const mnem_report_facts *f, const mnem_report_owner *o) {
    const double share = f->bytes_peak ? (double)o->bytes_at_peak / (double)f->bytes_peak : 0;
    return json_pack("{s:o, s:o, s:o, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I}", "kind",
                     text_json(o->kind), "tag", text_json(o->tag), "site", text_json(o->site),
                     "bytes_at_peak", (json_int_t)o->bytes_at_peak, "share", tool_json_real(share),
                     "blocks_at_peak", (json_int_t)o->blocks_at_peak, "bytes_peak",
                     (json_int_t)o->bytes_most, "bytes_end", (json_int_t)o->bytes_end, "blocks_end",
                     (json_int_t)o->blocks_end, "bytes_total", (json_int_t)o->bytes_total,
                     "allocations", (json_int_t)o->allocations);
}

static json_t *owners_json(const mnem_report_facts *f, const mnem_report_owner *o, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) json_array_append_new(list, owner_json(f, &o[i]));
    return list;
}

static json_t *leaks_json(const mnem_report_facts *f) {
    json_t *list = json_array();
    for (size_t i = 0; i < f->leaks; i++) {
        const mnem_report_leak *l = &f->leak[i];
        json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:b}", "kind",
                                              text_json(l->kind), "tag", text_json(l->tag), "site",
                                              text_json(l->site), "bytes", (json_int_t)l->bytes,
                                              "blocks", (json_int_t)l->blocks, "age_oldest",
                                              (json_int_t)l->age_oldest, "age_median",
                                              (json_int_t)l->age_median, "growing", l->growing));
    }
    return list;
}

static json_t *operators_json(const mnem_report_facts *f) {
    json_t *list = json_array();
    for (size_t i = 0; i < f->ops; i++) {
        const mnem_report_operator *o = &f->op[i];
        json_array_append_new(
            list, json_pack("{s:o, s:s, s:I, s:s, s:I, s:I, s:o, s:o}", "name", text_json(o->name),
                            "sort", o->sort, "count", (json_int_t)o->count, "unit", report_unit(o),
                            "ns_total", (json_int_t)o->ns_total, "ns_longest",
                            (json_int_t)o->ns_longest, "bytes", tool_json_count(o->bytes, o->bytes),
                            "multiply_adds", tool_json_count(o->multiply_adds, o->multiply_adds)));
    }
    return list;
}

/* "NAME RATE,NAME RATE" up to the end or a semicolon, as a list of pairs. */
static json_t *rates_json(const char *text) {
    json_t *list = json_array();
    char name[16];
    double rate;
    int n;
    while (sscanf(text, "%15[^ ;,] %lf%n", name, &rate, &n) == 2) {
        json_array_append_new(list,
                              json_pack("{s:o, s:f}", "name", text_json(name), "per_s", rate));
        text += n;
        if (*text++ != ',') break;
    }
    return list;
}

static json_t *roofs_json(const mnem_report_facts *f) {
    const char *peaks = f->roofs ? strchr(f->roofs, ';') : NULL;
    if (!peaks) return json_null();
    return json_pack("{s:o, s:o}", "bytes", rates_json(f->roofs), "operations",
                     rates_json(peaks + 1));
}

static json_t *refusals_json(const mnem_report_facts *f) {
    json_t *all = json_object();
    for (int i = 0; i < MNEM_REPORT_REFUSALS; i++) {
        const mnem_report_refused *r = &f->refused[i];
        json_object_set_new(all, mnem_report_refusal_text((mnem_report_refusal)i),
                            json_pack("{s:I, s:I, s:I}", "count", (json_int_t)r->count,
                                      "bytes_largest", (json_int_t)r->bytes_largest, "bytes_last",
                                      (json_int_t)r->bytes_last));
    }
    return all;
}

static json_t *metrics_json(const mnem_report_facts *f) {
    json_t *all = json_object();
    for (int i = 0; i < MNEM_REPORT_METRICS; i++) {
        const mnem_report_metric metric = (mnem_report_metric)i;
        double value;
        const bool known = mnem_report_measure(f, metric, &value);
        json_object_set_new(all, mnem_report_metric_get(metric).key,
                            !known ? json_null()
                            : *mnem_report_metric_get(metric).unit == '%'
                                ? tool_json_real(value)
                                : json_integer((json_int_t)value));
    }
    return all;
}

static json_t *verdict_json(const mnem_report_facts *f) {
    report_verdict v;
    json_t *list = json_array();
    report_verdict_make(f, &v);
    for (int i = 0; i < REPORT_VERDICTS; i++) json_array_append_new(list, text_json(v.line[i]));
    return list;
}

json_t *report_json(const mnem_report_facts *f) {
    json_t *root = json_pack(
        "{s:o, s:o, s:o, s:s, s:I, s:I, s:I, s:o, s:o, s:o}", "trace", text_json(f->path), "format",
        text_json(f->format), "program", text_json(f->program), "clock",
        f->clocked ? "ns" : "operations", "events", (json_int_t)f->events, "peak_at",
        (json_int_t)f->peak_at, "before_bytes", (json_int_t)f->bytes_before, "budget_bytes",
        tool_json_count(f->budget_bytes, f->budget_bytes), "predicted_bytes",
        tool_json_count(f->predicted_bytes, f->predicted_bytes), "verdict", verdict_json(f));
    json_object_set_new(root, "rank", tool_json_count(f->ranks, f->rank));
    json_object_set_new(root, "ranks", tool_json_count(f->ranks, f->ranks));
    json_object_set_new(root, "metrics", metrics_json(f));
    json_object_set_new(root, "live", level_json(&f->live));
    json_object_set_new(root, "granted", level_json(&f->granted));
    json_object_set_new(root, "reserved", level_json(&f->reserved));
    json_object_set_new(root, "samples", tool_json_count(f->samples, f->samples));
    json_object_set_new(root, "samples_equal", tool_json_count(f->samples, f->samples_equal));
    json_object_set_new(root, "hole_at_peak", tool_json_count(f->hole_known, f->hole_at_peak));
    json_object_set_new(root, "refusals", refusals_json(f));
    json_object_set_new(root, "tags", owners_json(f, f->account, f->accounts));
    json_object_set_new(root, "sites", owners_json(f, f->site, f->sites));
    json_object_set_new(root, "leaks", leaks_json(f));
    json_object_set_new(root, "operators", operators_json(f));
    json_object_set_new(root, "runs_left_out", json_integer((json_int_t)f->runs_left_out));
    json_object_set_new(root, "roofs", roofs_json(f));
    json_object_set_new(root, "disk",
                        f->disk_reads
                            ? json_pack("{s:I, s:I, s:I}", "bytes", (json_int_t)f->disk_bytes, "ns",
                                        (json_int_t)f->disk_ns, "reads", (json_int_t)f->disk_reads)
                            : json_null());
    return root;
}
