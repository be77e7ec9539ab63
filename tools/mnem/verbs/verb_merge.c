/* verb_merge.c: `mnem merge`: a model with an adapter added to its weights. */
#include <string.h>

#include "tool.h"

typedef struct work {
    const tool_args *args;
    tool_progress progress;
    uint32_t merged;
    double most;
    char where[64];
} work;

static const char *type_name(mnem_type type) {
    return mnem_type_get(type)->name;
}

static void print_tensor(const work *w, const mnem_merge_report *r) {
    if (w->args->json) {
        tool_out_json(json_pack("{s:s, s:s, s:s, s:i, s:f}", "tensor", r->tensor, "from",
                                type_name(r->from), "to", type_name(r->to), "rank", (int)r->rank,
                                "relative_change", r->relative_change));
        return;
    }
    tool_outf("%4u/%-4u %-28s %4s -> %-4s  rank %d, changed by %.3f %%\n", r->index + 1, r->count,
              r->tensor, type_name(r->from), type_name(r->to), r->rank, 100 * r->relative_change);
}

static void on_report(void *context, const mnem_merge_report *r) {
    work *w = context;
    w->merged++;
    if (r->relative_change >= w->most) {
        w->most = r->relative_change;
        snprintf(w->where, sizeof w->where, "%s", r->tensor);
    }
    tool_progress_hide();
    print_tensor(w, r);
}

static void print_summary(const work *w) {
    if (w->args->json) {
        tool_out_json(json_pack("{s:s, s:i, s:f, s:s}", "out", w->args->out, "merged",
                                (int)w->merged, "relative_change_most", w->most, "tensor_most",
                                w->where));
        return;
    }
    tool_outf("%s: %u tensor%s merged", w->args->out, w->merged, tool_s(w->merged));
    if (*w->where) tool_outf("; the largest change %.3f %% in %s", 100 * w->most, w->where);
    tool_outf("\n");
}

int verb_merge(const tool_args *args) {
    static work w;
    if (!args->out) return tool_usage("merge", "--out is missing: the model to write");
    if (tool_given(args, "scale") && (float)args->scale == 0)
        return tool_usage("merge", "--scale 0 would add nothing");
    w.args = args;
    tool_interrupt_watch(NULL);
    tool_progress_begin(&w.progress, "merging");
    const mnem_merge_options options = {.type = args->type,
                                        .scale = (float)args->scale,
                                        .threads = args->threads,
                                        .progress = {tool_progress_tell, &w.progress},
                                        .on_report = on_report,
                                        .context = &w};
    const mnem_status status =
        mnem_merge_file(args->operand[0], args->operand[1], args->out, &options);
    tool_progress_end(&w.progress);
    if (status != MNEM_OK) return tool_fail(status);
    print_summary(&w);
    return tool_out_end();
}
