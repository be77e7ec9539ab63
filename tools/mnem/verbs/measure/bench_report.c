/* bench_report.c: what `mnem bench` measured, as a table and as JSON.
 *
 * Rows of the table have at most 80 columns; what explains a figure is on the lines below it. */
#include <stdio.h>
#include <time.h>

#include "ranks/link.h"
#include "sight/roofline.h"
#include "verbs/measure/bench.h"

double bench_best(const bench_lengths *of) {
    double best = 0;
    for (int i = 0; i < of->count; i++)
        if (of->rate[i] > best) best = of->rate[i];
    return best;
}

bool bench_is_beaten(const bench *b) {
    return tool_profile_is_beaten(b->stage->profile.read_bytes_per_s,
                                  b->bytes_per_token * bench_best(&b->generated),
                                  b->bytes_per_token, tool_profile_cache(&b->age));
}

/* The part of the read bandwidth that generation at this rate reaches; 0: not known. */
static double fraction(const bench *b, double rate) {
    double read = b->stage->profile.read_bytes_per_s;
    return read > 0 && !tool_profile_is_loaded(&b->age) ? b->bytes_per_token * rate / read : 0;
}

/* What follows is beside the figure above, on lines of its own. */
static void print_beside(const char *text) {
    tool_out_flush();
    tool_wrap(stdout, "                 ", text);
}

static void print_fraction(const bench *b, double rate) {
    char text[160];
    const double part = fraction(b, rate);
    snprintf(text, sizeof text, "%.0f %% of read bandwidth%s", 100 * part,
             bench_is_beaten(b) ? " (the profile is too low)"
             : part > 1         ? " (caches help)"
                                : "");
    if (part > 0)
        print_beside(text);
    else if (bench_is_beaten(b))
        print_beside("(the profile is too low)");
}

static void print_generation(const bench *b, int32_t tokens, double rate) {
    char name[24], size[TOOL_TEXT];
    snprintf(name, sizeof name, "tg%d", tokens);
    tool_outf("%-16s %10.1f tokens/s   %s a token: %.1f GB/s\n", name, rate,
              tool_size((uint64_t)b->bytes_per_token, size), b->bytes_per_token * rate / 1e9);
    print_fraction(b, rate);
}

static void print_together(const bench *b) {
    for (int i = 0; i < b->together.count; i++) {
        char name[40];
        snprintf(name, sizeof name, "tg%d x %d", b->together.tokens[i], b->asked->sequences);
        tool_outf("%-16s %10.1f tokens/s   all sequences together\n", name, b->together.rate[i]);
    }
}

/* Between ranks, and what the plan said with it. */
static void print_ranks(const bench *b) {
    const mnem_engine_plan *p = &b->stage->plan;
    char link[TOOL_TEXT];
    if (!tool_ranks()) return;
    tool_outf("%-16s %s: the slowest of %d\n", "link of ranks", tool_link_text(&b->link, link),
              mnem_comm_size(tool_ranks()) - 1);
    if (p->predicted_generate > 0)
        tool_outf("%-16s %10.1f tokens/s, prompt %.1f tokens/s\n", "predicted",
                  p->predicted_generate, p->predicted_prompt);
}

/* When, and beside what: one measured beside others is too low. */
static void print_age(const tool_profile_age *age) {
    char when[24] = "", load[64], text[128];
    const time_t at = (time_t)age->measured_at;
    struct tm local;
    if (age->measured_at > 0 && localtime_r(&at, &local))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M", &local);
    if (age->load < 0)
        snprintf(load, sizeof load, "load not known");
    else
        snprintf(load, sizeof load, "others took %.0f %% of the processors", 100 * age->load);
    snprintf(text, sizeof text, "%s%s, %s", *when ? "measured " : "measured at an unknown time",
             when, load);
    print_beside(text);
    if (tool_profile_is_loaded(age))
        print_beside("under load, so it is too low: measure again with --refresh");
}

static void print_machine(const bench *b) {
    const mnem_machine_profile *p = &b->stage->profile;
    if (p->read_bytes_per_s > 0) {
        tool_outf("%-16s %10.1f GB/s\n", "read bandwidth", p->read_bytes_per_s / 1e9);
        print_age(&b->age);
    } else
        tool_outf("%-16s %10s            the budget is too small to measure it\n", "read bandwidth",
                  "-");
    if (p->disk_bytes_per_s > 0)
        tool_outf("%-16s %10.2f GB/s       past the page cache\n", "disk bandwidth",
                  p->disk_bytes_per_s / 1e9);
    tool_outf("%-16s %10.1f GMAC/s     in prompts\n", "arithmetic", p->macs_per_s / 1e9);
    if (b->beaten > 0)
        tool_outf("%-16s %10.1f GB/s       this run read more than the profile had\n",
                  "measured again", b->beaten / 1e9);
}

/* How near it comes to what the kept probe allows, if there is one. */
static void print_most(const bench *b) {
    roofline_most most;
    char text[160];
    if (b->stage->asked->threads > 0 || !roofline_most_get(b->stage, &most)) return;
    const double prompt = bench_best(&b->prompt), generated = bench_best(&b->generated);
    tool_outf("%-16s", "of the roofline");
    if (prompt > 0 && most.prompt > 0)
        tool_outf(" %9.0f %% in prompts", 100 * prompt / most.prompt);
    if (generated > 0 && most.generate > 0)
        tool_outf(" %9.0f %% in generation", 100 * generated / most.generate);
    snprintf(text, sizeof text, "%.1f GB/s from %s, %.0f GOP/s of int8: %s", most.level_rate / 1e9,
             most.level, most.int8_rate / 1e9, most.when);
    tool_outf("\n");
    print_beside(text);
}

static void print_prompt(const bench *b, int32_t tokens, double rate) {
    char name[24], text[96];
    snprintf(name, sizeof name, "pp%d", tokens);
    tool_outf("%-16s %10.1f tokens/s\n", name, rate);
    if (!(b->prompt_limit > 0)) return;
    snprintf(text, sizeof text, "%.0f %% of the limit of the products (%.0f tokens/s)",
             100 * rate / b->prompt_limit, b->prompt_limit);
    print_beside(text);
}

static void print_table(const bench *b) {
    for (int i = 0; i < b->prompt.count; i++)
        print_prompt(b, b->prompt.tokens[i], b->prompt.rate[i]);
    for (int i = 0; i < b->generated.count; i++)
        print_generation(b, b->generated.tokens[i], b->generated.rate[i]);
    print_together(b);
    print_ranks(b);
    print_machine(b);
    print_most(b);
}

/* Of one prompt's length and one of generation; 0: not measured. */
static void print_object(const bench *b, int32_t prompt, double prompt_rate, int32_t tokens,
                         double rate, double together) {
    const mnem_machine_profile *p = &b->stage->profile;
    tool_out_json(
        "bench",
        json_pack("{s:o?, s:i, s:i, s:o, s:i, s:o, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:i, s:o, "
                  "s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o}",
                  "model", json_string(tool_model_path(b->stage->args)), "threads",
                  b->stage->plan.threads, "prompt_tokens", prompt, "prompt_tokens_per_s",
                  tool_json_known(prompt_rate), "tokens", tokens, "tokens_per_s",
                  tool_json_known(rate), "bytes_per_token", (json_int_t)b->bytes_per_token,
                  "read_bytes_per_s", tool_json_known(p->read_bytes_per_s), "disk_bytes_per_s",
                  tool_json_known(p->disk_bytes_per_s), "macs_per_s",
                  tool_json_known(p->macs_per_s), "read_fraction",
                  tool_json_known(fraction(b, rate)), "vmhwm", (json_int_t)b->peak_bytes,
                  "predicted_peak", (json_int_t)b->stage->plan.peak_bytes, "sequences",
                  b->asked->sequences ? b->asked->sequences : 1, "together_tokens_per_s",
                  tool_json_known(together), "link_seconds", tool_json_known(b->link.seconds),
                  "link_bytes_per_s", tool_json_known(b->link.bytes_per_second),
                  "predicted_tokens_per_s", tool_json_known(b->stage->plan.predicted_generate),
                  "predicted_prompt_tokens_per_s", tool_json_known(b->stage->plan.predicted_prompt),
                  "profile_measured_at", tool_json_known(b->age.measured_at), "profile_load",
                  b->age.load < 0 ? json_null() : json_real(b->age.load), "profile_measured_again",
                  b->beaten > 0, "prompt_limit_fraction",
                  tool_json_known(b->prompt_limit > 0 ? prompt_rate / b->prompt_limit : 0)));
}

/* An object for each pair of lengths; one that isn't measured is 0, with no rate. */
static void print_json(const bench *b) {
    const bench_lengths *p = &b->prompt, *g = &b->generated;
    for (int i = 0; i < p->count || i == 0; i++)
        for (int k = 0; k < g->count || k == 0; k++)
            print_object(b, p->tokens[i], p->rate[i], g->tokens[k], g->rate[k],
                         b->together.count ? b->together.rate[k] : 0);
}

void bench_print(const bench *b) {
    if (b->stage->args->json)
        print_json(b);
    else
        print_table(b);
}
