/* replay_advice.c: what a trace wants: policy, maximum and segment, with the reasons.
 *
 * Policy: of those that need at most 1 % more memory than the least, the fastest; within a tenth,
 * the one named first. Maximum: what it needs and 2 % for the day that isn't like this one.
 * Segment: of a few sizes from 2 to 512 MiB, the one that reserves least among those with under 100
 * calls to the device; if none has so few, the one with the fewest. */
#include <string.h>

#include "verbs/replay/replay_tool.h"

static const uint64_t segments[] = {2u << 20, 8u << 20, 32u << 20, 128u << 20, 512u << 20};
enum { SEGMENTS = sizeof segments / sizeof segments[0], CALLS_FEW = 100 };

/* A model of somebody else's logic can be looked at, not chosen. */
static bool can_be_chosen(const mnem_replay_result *r) {
    mnem_offset_policy policy;
    return (r->measured & MNEM_REPLAY_FIT) && mnem_offset_policy_parse(r->name, &policy) == MNEM_OK;
}

static void choose_policy(const replay_case *c, replay_advice *a) {
    for (int i = 0; i < c->policies; i++) {
        const mnem_replay_result *r = &c->results[i];
        if (can_be_chosen(r) &&
            (!a->least || r->bytes_capacity_needed < a->least->bytes_capacity_needed))
            a->least = r;
    }
    for (int i = 0; i < c->policies && a->least; i++) {
        const mnem_replay_result *r = &c->results[i];
        if (!can_be_chosen(r) || r->capacity_over_live > 1.01 * a->least->capacity_over_live)
            continue;
        /* The timed passes may lack, when a capacity was given that is too small. A tenth is noise:
         * then the one named first. */
        if (!a->choice || (r->ns_mean > 0 && r->ns_mean < 0.9 * a->choice->ns_mean)) a->choice = r;
    }
}

/* Reserved bytes and calls of the chosen policy, growing by so much. */
static mnem_status try_segment(const replay_case *c, const char *name, uint64_t segment,
                               mnem_replay_result *r) {
    mnem_replay_target *target;
    const mnem_replay_settings settings = {c->settings.alignment, segment};
    mnem_status status = mnem_replay_target_create(name, &settings, &target);
    if (status != MNEM_OK) return status;
    status = mnem_replay_run(c->workload, target,
                             &(mnem_replay_options){.measure = MNEM_REPLAY_GROWTH}, r);
    mnem_replay_target_destroy(target);
    return status;
}

static mnem_status choose_segment(const replay_case *c, replay_advice *a) {
    for (int i = 0; i < SEGMENTS; i++) {
        mnem_replay_result r;
        const mnem_status status = try_segment(c, a->choice->name, segments[i], &r);
        if (status != MNEM_OK || tool_interrupted()) return status;
        if (!a->segment_tight || r.bytes_reserved_peak < a->reserved_tight) {
            a->segment_tight = segments[i];
            a->reserved_tight = r.bytes_reserved_peak;
            a->calls_tight = r.upstream_calls;
        }
        const bool few = r.upstream_calls < CALLS_FEW, had_few = a->upstream_calls < CALLS_FEW;
        if (a->segment_bytes && !(few && !had_few) &&
            !(few ? r.bytes_reserved_peak < a->bytes_reserved
                  : !had_few && r.upstream_calls < a->upstream_calls))
            continue;
        a->segment_bytes = segments[i];
        a->bytes_reserved = r.bytes_reserved_peak;
        a->upstream_calls = r.upstream_calls;
    }
    return MNEM_OK;
}

/* With what users have today: PyTorch itself if the snapshot shows it, else the model of it. */
static void compare(const replay_case *c, replay_advice *a) {
    a->bytes_other = c->info.bytes_reserved_peak;
    a->other = "PyTorch reserved when this was recorded";
    for (int i = 0; i < c->policies && !a->bytes_other; i++)
        if (strcmp(c->results[i].name, "pytorch") == 0) {
            a->bytes_other = c->results[i].bytes_reserved_peak;
            a->other = "PyTorch's allocator reserves";
        }
    if (a->bytes_other > a->bytes_reserved) a->bytes_saved = a->bytes_other - a->bytes_reserved;
}

mnem_status replay_advice_make(const replay_case *c, replay_advice *a) {
    *a = (replay_advice){0};
    choose_policy(c, a);
    if (!a->choice) return MNEM_OK;
    const mnem_status status = choose_segment(c, a);
    if (status != MNEM_OK) return status;
    const uint64_t wanted = a->choice->bytes_capacity_needed / 50 * 51;
    const uint64_t granule = 2u << 20;
    a->bytes_max = (wanted / granule + 1) * granule;
    const uint64_t given = c->asked->capacity, needed = a->choice->bytes_capacity_needed;
    if (given && given >= needed && given < a->bytes_max) a->bytes_max = given;
    compare(c, a);
    return MNEM_OK;
}

/* ---- as text ---- */

static void line(const char *what, const char *text) {
    char lead[16];
    snprintf(lead, sizeof lead, "  %-10s ", what);
    tool_wrap(stdout, lead, text);
}

static void print_policy(const replay_advice *a) {
    char text[300];
    const mnem_replay_result *r = a->choice;
    int n = snprintf(text, sizeof text, "%s: needs %.3f times the live peak", r->name,
                     r->capacity_over_live);
    if (r->ns_mean > 0)
        n += snprintf(text + n, sizeof text - (size_t)n, " at %.0f ns an operation", r->ns_mean);
    if (a->least != r)
        snprintf(text + n, sizeof text - (size_t)n, "; %s needs the least, %.3f, at %.0f ns",
                 a->least->name, a->least->capacity_over_live, a->least->ns_mean);
    else
        snprintf(text + n, sizeof text - (size_t)n, "; no other policy tried needs less");
    line("policy", text);
}

static void print_maximum(const replay_advice *a, uint64_t given) {
    char text[300], one[TOOL_TEXT], two[TOOL_TEXT];
    const uint64_t needed = a->choice->bytes_capacity_needed;
    const char *why = "2 % reserve for runs that differ from this one";
    if (given && a->bytes_max == given)
        why = "the rest is a reserve for runs that differ from this one";
    if (given && given < needed) why = "more than the given capacity";
    snprintf(text, sizeof text, "%s (%llu bytes): the smallest capacity that completes is %s; %s",
             tool_size(a->bytes_max, one), (unsigned long long)a->bytes_max, tool_size(needed, two),
             why);
    line("maximum", text);
}

static void print_segments(const replay_advice *a) {
    char text[300], one[TOOL_TEXT], two[TOOL_TEXT], three[TOOL_TEXT];
    const int n = snprintf(text, sizeof text, "grow by %s: %llu call%s to the device, %s reserved",
                           tool_size(a->segment_bytes, one), (unsigned long long)a->upstream_calls,
                           tool_s(a->upstream_calls), tool_size(a->bytes_reserved, two));
    if (a->segment_tight != a->segment_bytes)
        snprintf(text + n, sizeof text - (size_t)n, "; %s would save %s and ask %llu time%s",
                 tool_size(a->segment_tight, one),
                 tool_size(a->bytes_reserved - a->reserved_tight, three),
                 (unsigned long long)a->calls_tight, tool_s(a->calls_tight));
    line("segments", text);
}

void replay_advice_print(const replay_case *c, const replay_advice *a) {
    char text[300], one[TOOL_TEXT], two[TOOL_TEXT];
    if (!a->choice) return;
    tool_outf("\nadvice for a pool that runs this\n");
    tool_out_flush();
    print_policy(a);
    print_maximum(a, c->asked->capacity);
    print_segments(a);
    if (a->bytes_saved) {
        snprintf(text, sizeof text, "%s of the %s that %s", tool_size(a->bytes_saved, one),
                 tool_size(a->bytes_other, two), a->other);
        line("saves", text);
    } else if (a->bytes_other) {
        snprintf(text, sizeof text, "nothing: %s %s", a->other, tool_size(a->bytes_other, one));
        line("saves", text);
    }
    if (c->policies < 4) line("more", "--policy all compares every policy");
}

json_t *replay_advice_json(const replay_advice *a) {
    if (!a->choice) return json_null();
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:s}", "policy", a->choice->name, "bytes_max",
                     (json_int_t)a->bytes_max, "segment_bytes", (json_int_t)a->segment_bytes,
                     "upstream_calls", (json_int_t)a->upstream_calls, "bytes_reserved",
                     (json_int_t)a->bytes_reserved, "bytes_saved", (json_int_t)a->bytes_saved,
                     "compared_with", a->bytes_other ? a->other : "");
}
