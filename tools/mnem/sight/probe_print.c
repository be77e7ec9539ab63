/* probe_print.c: a probe as tables: levels, teams, arithmetic; what is doubtful says so. */
#include <string.h>

#include "sight/probe_tool.h"

/* What of mnem is there, by a level's name. */
static const char *inhabitants(const char *level) {
    static const struct {
        const char *level, *text;
    } row[] = {{"L1", "tiles of a kernel"},
               {"L2", "panels of a product"},
               {"L3", "activations, small models"},
               {"memory", "weights, keys and values"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (!strcmp(row[i].level, level)) return row[i].text;
    return "";
}

/* "12.3", "-" where it wasn't measured, "~12.3" where passes differ. */
static char *figure(const mnem_probe_value *v, double unit, char text[TOOL_TEXT]) {
    const double n = v->best / unit;
    if (!v->passes)
        snprintf(text, TOOL_TEXT, "-");
    else
        snprintf(text, TOOL_TEXT, "%s%.*f", mnem_probe_noisy(v) ? "~" : "", n < 99.95 ? 1 : 0, n);
    return text;
}

static char *size_or_dash(uint64_t bytes, char text[TOOL_TEXT]) {
    if (bytes) return tool_size(bytes, text);
    snprintf(text, TOOL_TEXT, "-");
    return text;
}

static void print_levels(const mnem_probe *p) {
    char said[TOOL_TEXT], seen[TOOL_TEXT], fast[TOOL_TEXT], slow[TOOL_TEXT];
    tool_outf("level     capacity   measured  latency   4K pages   what mnem keeps there\n");
    for (int i = 0; i < p->levels; i++) {
        const mnem_probe_level *l = &p->level[i];
        tool_outf("%-8s %9s %10s %5s ns %7s ns   %s\n", l->name, tool_size(l->said_bytes, said),
                  size_or_dash(l->measured_bytes, seen), figure(&l->latency, 1, fast),
                  figure(&l->latency_small, 1, slow), inhabitants(l->name));
    }
}

/* Operations a byte from where arithmetic, not this level, is what limits. */
static double ridge(const mnem_probe *p, const mnem_probe_level *l, const char *type) {
    const double rate = l->rate[p->teams - 1][MNEM_PROBE_LOAD].best;
    return rate > 0 ? mnem_probe_peak_of(p, type) / rate : 0;
}

static void print_ridge(const mnem_probe *p, const mnem_probe_level *l) {
    static const char *const type[] = {"f32", "bf16", "int8"};
    for (size_t i = 0; i < sizeof type / sizeof *type; i++) {
        const double at = ridge(p, l, type[i]);
        if (at > 0)
            tool_outf(" %6.1f", at);
        else
            tool_outf(" %6s", "-");
    }
}

static void print_rates(const mnem_probe *p) {
    char text[TOOL_TEXT];
    tool_outf("\n%53sFLOP a byte at the ridge\n"
              "GB/s    threads   load  store nt store   copy  triad     f32   bf16   int8\n",
              "");
    for (int i = 0; i < p->levels; i++) {
        const mnem_probe_level *l = &p->level[i];
        for (int t = 0; t < p->teams; t++) {
            tool_outf("%-7s %7d", t ? "" : l->name, p->team[t]);
            for (int s = 0; s < MNEM_PROBE_STREAMS; s++)
                tool_outf(" %*s", s == MNEM_PROBE_STREAM ? 8 : 6,
                          figure(&l->rate[t][s], 1e9, text));
            if (t == p->teams - 1) print_ridge(p, l);
            tool_outf("\n");
        }
    }
}

static void print_peaks(const mnem_probe *p) {
    char one[TOOL_TEXT], all[TOOL_TEXT], name[TOOL_TEXT];
    snprintf(name, sizeof name, "%d threads", p->threads);
    tool_outf("\nGFLOP/s  instructions    1 thread  %10s\n", p->threads > 1 ? name : "");
    for (int i = 0; i < p->peaks; i++) {
        const mnem_probe_peak *k = &p->peak[i];
        tool_outf("%-8s %-14s %9s  %10s%s\n", k->type, k->instructions,
                  figure(&k->rate[0], 1e9, one),
                  p->threads > 1 ? figure(&k->rate[1], 1e9, all) : "",
                  k->used ? "  the peak of its type" : "");
    }
    if (*p->unused)
        tool_outf("%s: supported by the processor, not used by any kernel of mnem\n", p->unused);
}

static void print_disk(const mnem_probe *p, const char *file) {
    char rate[TOOL_TEXT], wait[TOOL_TEXT];
    if (p->disk.passes)
        tool_outf("\n"
                  "disk     %s GB/s sequential, %s us for a random 4 KiB read\n"
                  "         (without the page cache)\n",
                  figure(&p->disk, 1e9, rate), figure(&p->disk_wait, 1e3, wait));
    else if (file)
        tool_outf("\ndisk     %s can't be read without the page cache here\n",
                  tool_file_name(file));
}

/* ---- what is doubtful ---- */

static int noisy(const mnem_probe *p) {
    int count = mnem_probe_noisy(&p->clock) + mnem_probe_noisy(&p->disk);
    for (int i = 0; i < p->levels; i++) {
        const mnem_probe_level *l = &p->level[i];
        count += mnem_probe_noisy(&l->latency) + mnem_probe_noisy(&l->latency_small);
        for (int t = 0; t < p->teams; t++)
            for (int s = 0; s < MNEM_PROBE_STREAMS; s++) count += mnem_probe_noisy(&l->rate[t][s]);
    }
    for (int i = 0; i < p->peaks; i++)
        count += mnem_probe_noisy(&p->peak[i].rate[0]) + mnem_probe_noisy(&p->peak[i].rate[1]);
    return count;
}

void probe_doubts(const mnem_probe *p) {
    char said[TOOL_TEXT], seen[TOOL_TEXT], enough[TOOL_TEXT];
    for (int i = 0; i < p->levels; i++) {
        const mnem_probe_level *l = &p->level[i];
        if (mnem_probe_level_lies(l))
            tool_message(
                "cache %s: the system reports %s, but the measured latencies suggest %s; this "
                "happens on a virtual machine, or when other programs share the cache; the table "
                "shows both",
                l->name, tool_size(l->said_bytes, said), tool_size(l->measured_bytes, seen));
        if (l->partly)
            tool_message(
                "memory was measured with a block of %s, part of which fits in the %s "
                "cache of %s, so memory is slower than these figures: use a --memory of %s or more",
                tool_size(l->latency_bytes, seen), p->level[i - 1].name,
                tool_size(p->level[i - 1].said_bytes, said),
                tool_size(4 * p->level[i - 1].said_bytes, enough));
    }
    const int count = noisy(p);
    if (count)
        tool_message("warning: %d value%s (marked ~) differed by more than 3 %% between passes; "
                     "end other programs and measure again",
                     count, tool_s((uint64_t)count));
}

void probe_print(const mnem_probe *p, const char *file) {
    tool_outf("%s, %d thread%s, %.2f GHz while adding", p->processor, p->threads,
              tool_s((uint64_t)p->threads), p->clock.best / 1e9);
    if (p->clock_wide.passes) tool_outf(", %.2f multiplying", p->clock_wide.best / 1e9);
    tool_outf("\n\n");
    print_levels(p);
    print_rates(p);
    print_peaks(p);
    print_disk(p, file);
}
