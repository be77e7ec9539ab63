/* checks_run.c: checks of what a run did beside what the machine can: time, disk, threads. */
#include <math.h>

#include "sight/advice/checks.h"

static bool threads_too_many(const mnem__checking *c) {
    if (V(THREADS) <= V(PROCESSORS)) return false;
    mnem__say_evidence(
        c, "%.0f threads share %.0f processors, so some wait for a processor at each barrier",
        V(THREADS), V(PROCESSORS));
    mnem__say_options(c, "--threads %.0f", V(PROCESSORS));
    const double after = V(CPU_SECONDS) / V(PROCESSORS);
    return mnem__say_gain(c, MNEM_SURE_PERHAPS, V(SECONDS), fmin(after, V(SECONDS)), "seconds",
                          "history");
}

/* How much faster all processors are than those that work: as the probe measured arithmetic, for
 * some share a unit; else in proportion. */
static double threads_gain(const mnem__checking *c) {
    const double all = V(PROCESSORS), some = V(THREADS);
    if (!KNOWN(THREADS_GAIN)) return all / some;
    return V(THREADS_GAIN) / (1 + (V(THREADS_GAIN) - 1) * (some - 1) / (all - 1));
}

/* Where a token takes less than a millisecond, threads mostly wait for one another. */
static bool threads_too_few(const mnem__checking *c) {
    const double all = V(PROCESSORS), bytes_time = V(READ_BYTES) / V(READ_RATE);
    if (V(THREADS) >= all || V(WAITING) > 0.1 * V(SECONDS)) return false;
    if (bytes_time > 0.6 * V(TOKENS_SECONDS)) return false; /* memory is busy already */
    const double gain = threads_gain(c);
    if (gain < 1.1 || V(TOKENS_SECONDS) < 1e-3 * V(TOKENS)) return false;
    mnem__say_evidence(
        c, "%.0f of %.0f processors are in use, and neither memory nor disk is the limit",
        V(THREADS), all);
    mnem__say_options(c, "--threads %.0f", all);
    return mnem__say_gain(c, MNEM_SURE_LIKELY, V(TOKENS_SECONDS),
                          fmax(V(TOKENS_SECONDS) / gain, bytes_time), "seconds", "history");
}

/* Out of a page cache, by the one thread that reads: about what a copy by the kernel gives. */
static const double cached_rate = 2.5e9;

/* What threads wanted to run and didn't, while nothing was waited for. A team that is alone sleeps
 * for up to a tenth, where one of it works and the others wait. */
static bool others_run(const mnem__checking *c) {
    const double lost = 1 - V(CPU_SECONDS) / (V(THREADS) * V(SECONDS));
    if (V(THREADS) > V(PROCESSORS) || V(WAITING) > 0.02 * V(SECONDS) || lost <= 0.2) return false;
    c->out->severe = lost > 0.4;
    mnem__say_evidence(c, "other programs took %.0f %% of the time of %.0f threads", 100 * lost,
                       V(THREADS));
    mnem__say_command(c, "stop other programs, or leave them a processor: --threads %.0f",
                      fmax(1, V(THREADS) - 1));
    return mnem__say_gain(c, MNEM_SURE_LIKELY, V(SECONDS), V(CPU_SECONDS) / V(THREADS), "seconds",
                          "history");
}

/* A token made alone multiplies each weight once, so bytes over products are those of a weight.
 * Below 8 bits, or with several tokens at a time, there is nothing to do about it. */
static bool bandwidth_reached(const mnem__checking *c) {
    const double part = V(READ_BYTES) / V(TOKENS_SECONDS) / V(READ_RATE);
    const double small = 5.0 / 8; /* bytes of a weight in Q4_K_M */
    if (part <= 0.8 || V(STREAMED) || V(READ_BYTES) < V(MACS)) return false;
    mnem__say_evidence(
        c, "generation uses %.0f %% of the memory bandwidth: more threads don't help", 100 * part);
    mnem__say_command(c, "only smaller weights help: mnem quantize %.100s Q4_K_M",
                      *c->facts->model ? c->facts->model : "MODEL");
    return mnem__say_gain(c, MNEM_SURE_LIKELY, V(TOKENS_SECONDS), small * V(MACS) / V(READ_RATE),
                          "seconds", "probe");
}

static bool roofs_far(const mnem__checking *c) {
    const double memory = V(READ_BYTES) / V(READ_RATE), work = V(MACS) / V(MAC_RATE);
    const double roof = fmax(memory, work), all = V(TOKENS_SECONDS);
    if (roof >= 0.6 * all || V(WAITING) > 0.1 * V(SECONDS) || V(THREADS) != V(PROCESSORS))
        return false;
    mnem__say_evidence(c, "memory is busy for %.0f %% of the time, arithmetic for %.0f %%",
                       100 * memory / all, 100 * work / all);
    mnem__say_command(c, "batch several texts, which share each pass over the weights: mnem run -p "
                         "A -p B, or mnem serve --parallel 8");
    return mnem__say_gain(c, MNEM_SURE_PERHAPS, all, roof / 0.6, "seconds", "probe");
}

static bool disk_awaited(const mnem__checking *c) {
    char a[MNEM__SIZE];
    if (V(WAITING) <= 0.1 * V(SECONDS) || V(DISK_BYTES) <= 0) return false;
    const bool larger = KNOWN(TRY_LARGER) && KNOWN(AVAILABLE) && V(TRY_LARGER) <= V(AVAILABLE);
    const double cached = fmax(V(SECONDS) - V(WAITING), V(DISK_BYTES) / cached_rate);
    if (!larger && ((KNOWN(PAGE_CACHE) && V(PAGE_CACHE)) || cached >= 0.95 * V(SECONDS)))
        return false;
    c->out->severe = V(WAITING) > 0.5 * V(SECONDS);
    mnem__say_evidence(c, "%.1f of %.1f seconds were spent waiting for %s from disk", V(WAITING),
                       V(SECONDS), mnem__size(V(DISK_BYTES), a));
    if (larger)
        mnem__say_options(c, "--memory %s", mnem__budget(V(TRY_LARGER), a));
    else
        mnem__say_options(c, "--page-cache");
    const bool planned = larger && KNOWN(TRY_LARGER_SECONDS) && KNOWN(PLAN_SECONDS);
    const double part = planned ? V(TRY_LARGER_SECONDS) / V(PLAN_SECONDS) : 1;
    const double after = planned  ? V(SECONDS) - V(WAITING) * (1 - fmin(1, part))
                         : larger ? V(SECONDS) - V(WAITING)
                                  : cached;
    return mnem__say_gain(c, MNEM_SURE_LIKELY, V(SECONDS), after, "seconds", "history");
}

static bool disk_slow(const mnem__checking *c) {
    char a[MNEM__SIZE];
    const double rate = V(DISK_BYTES) / V(SECONDS), limit = V(DISK_RATE);
    if (!V(STREAMED) || V(PAGE_CACHE) || V(WAITING) <= 0.1 * V(SECONDS) || rate >= 0.7 * limit)
        return false;
    mnem__say_evidence(c,
                       "the disk delivered %.0f %% of its %s a second while the run waited for it",
                       100 * rate / limit, mnem__size(limit, a));
    mnem__say_command(c, "stop other programs that use this disk (iotop -o lists them)");
    return mnem__say_gain(c, MNEM_SURE_PERHAPS, V(SECONDS),
                          fmax(V(SECONDS) - V(WAITING), V(DISK_BYTES) / limit), "seconds", "probe");
}

/* What a run that streams takes with all processors at work: its arithmetic is so many times as
 * fast; the reader's own processor time isn't, and is reckoned as if the whole team waited
 * meanwhile; and what was waited for is waited for longer, since there is less to do beside. */
static double streamed_by_all(const mnem__checking *c) {
    const double gain = threads_gain(c), computing = V(SECONDS) - V(WAITING);
    const double reader = fmax(0, V(CPU_SECONDS) - computing * V(THREADS));
    return fmax(V(DISK_BYTES) / V(DISK_RATE), computing / gain + reader + V(WAITING) * gain);
}

/* The reader of weights stands still, since the arithmetic can't keep up. Above a tenth of waiting
 * it is the disk that is awaited. */
static bool reader_idle(const mnem__checking *c) {
    const double busy = V(DISK_BYTES) / V(DISK_RATE), after = streamed_by_all(c);
    if (!V(STREAMED) || V(WAITING) > 0.1 * V(SECONDS) || busy >= 0.9 * V(SECONDS)) return false;
    if (V(THREADS) >= V(PROCESSORS) || after > 0.9 * V(SECONDS)) return false;
    mnem__say_evidence(
        c, "the disk is idle for %.0f %% of the time, and %.0f of %.0f processors are in use",
        100 * (1 - busy / V(SECONDS)), V(THREADS), V(PROCESSORS));
    mnem__say_options(c, "--threads %.0f", V(PROCESSORS));
    return mnem__say_gain(c, MNEM_SURE_LIKELY, V(SECONDS), after, "seconds", "history");
}

/* A page that came back from disk costs about a tenth of a millisecond. */
static bool pages_lost(const mnem__checking *c) {
    const double each = 1e-4, few = 1000;
    if (V(FAULTS) <= few || V(PAGE_CACHE)) return false;
    mnem__say_evidence(
        c, "%.0f pages were evicted by the machine and read back from disk during the run",
        V(FAULTS));
    mnem__say_command(
        c, "use less than the available memory: --memory 70%%; or lock pages: raise ulimit -l");
    return mnem__say_gain(c, MNEM_SURE_PERHAPS, V(SECONDS), fmax(0, V(SECONDS) - each * V(FAULTS)),
                          "seconds", "history");
}

static bool pages_small(const mnem__checking *c) {
    char a[MNEM__SIZE];
    if (V(HUGE_PAGES) || V(WEIGHTS) < 64 << 20) return false;
    mnem__say_evidence(c, "%s of weights are in pages of 4 KiB", mnem__size(V(WEIGHTS), a));
    mnem__say_command(c, "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
    return mnem__say_gain(c, MNEM_SURE_PERHAPS, 0, 0, NULL, "probe");
}

/* Within 4 MiB is what a plan promises (docs/architecture.md), however small the model. */
static bool prediction_off(const mnem__checking *c) {
    char a[MNEM__SIZE], b[MNEM__SIZE];
    const double off = V(PREDICTED) - V(COUNTED);
    if (fabs(off) <= 0.03 * V(COUNTED) || fabs(off) < 4 << 20) return false;
    c->out->severe = off < 0;
    mnem__say_evidence(c, "%s were planned, but the peak RSS was %s", mnem__size(V(PREDICTED), a),
                       mnem__size(V(COUNTED), b));
    if (off < 0)
        mnem__say_command(c,
                          "leave room: --memory %s; your own program must charge its own memory "
                          "before it plans (mnem_ledger_charge); for mnem alone this is a bug: "
                          "report it with the output of --verbose",
                          mnem__budget(1.2 * V(COUNTED), a));
    else
        mnem__say_command(c, "the run reserved more than it used; report this as a bug, with the "
                             "output of --verbose");
    return mnem__say_gain(c, off < 0 ? MNEM_SURE_LIKELY : MNEM_SURE_PERHAPS, fabs(off), 0, "bytes",
                          "history");
}

static bool bytes_unaccounted(const mnem__checking *c) {
    char a[MNEM__SIZE];
    const double lacks = V(COUNTED) - V(LEDGER);
    if (lacks <= fmax(4 << 20, 0.02 * V(COUNTED))) return false;
    c->out->severe = true;
    mnem__say_evidence(c, "%s of the peak are missing from the ledger", mnem__size(lacks, a));
    mnem__say_command(
        c, "your own program must charge its own memory (mnem_ledger_charge); --trace FILE and "
           "mnem report FILE show when it grows; for mnem alone this is a bug: report it");
    return mnem__say_gain(c, MNEM_SURE_LIKELY, lacks, 0, "bytes", "history");
}

static bool time_off(const mnem__checking *c) {
    const double off = V(TOKENS_SECONDS) / V(TOKENS_PREDICTED);
    if (off < 1.5 && off > 1 / 1.5) return false;
    mnem__say_evidence(
        c, "tokens took %.2f times as long as predicted from the measured speed of this machine",
        off);
    mnem__say_command(c, "mnem bench --refresh");
    return mnem__say_gain(c, MNEM_SURE_PERHAPS, 0, 0, NULL, "history");
}

static bool profile_missing(const mnem__checking *c) {
    if (V(PROFILE)) return false;
    if (KNOWN(READ_RATE))
        mnem__say_evidence(c, "`mnem probe` measured the limits of this machine, but not the speed "
                              "of the kernels, so no speed can be predicted");
    else
        mnem__say_evidence(
            c, "the speed of this machine was never measured, so no speed can be predicted");
    mnem__say_command(c, "mnem bench");
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, 0, 0, NULL, "plan");
}

static bool requests_refused(const mnem__checking *c) {
    char a[MNEM__SIZE];
    if (V(REFUSALS) <= 0) return false;
    mnem__say_evidence(c, "%.0f requests for memory were over the budget of %s", V(REFUSALS),
                       mnem__size(V(BUDGET), a));
    mnem__say_options(c, "--memory %s", mnem__budget(1.2 * V(BUDGET), a));
    return mnem__say_gain(c, MNEM_SURE_PERHAPS, V(REFUSALS), 0, "refusals", "history");
}

static bool work_repeated(const mnem__checking *c) {
    if (V(PREEMPTIONS) <= 0 || V(RECOMPUTED_TOKENS) <= 0 || (KNOWN(SWAP) && V(SWAP))) return false;
    c->out->severe = V(RECOMPUTED_TOKENS) > 0.1 * V(TOKENS);
    mnem__say_evidence(c, "%.0f conversations were preempted: %.0f tokens were computed again",
                       V(PREEMPTIONS), V(RECOMPUTED_TOKENS));
    mnem__say_options(c, "--swap /var/tmp");
    return mnem__say_gain(c, MNEM_SURE_LIKELY, V(RECOMPUTED_TOKENS), 0, "tokens again", "history");
}

static bool clients_refused(const mnem__checking *c) {
    if (V(REFUSED_FULL) <= 0) return false;
    mnem__say_evidence(c, "%.0f requests were refused because the queue was full", V(REFUSED_FULL));
    mnem__say_options(c, "--queue %.0f", 32 + fmin(992, 2 * V(REFUSED_FULL)));
    return mnem__say_gain(c, MNEM_SURE_LIKELY, V(REFUSED_FULL), 0, "refusals", "history");
}

#define F(name) MNEM_FACT_##name
const mnem__check mnem__checks_run[] = {
    MNEM__CHECK(threads_too_many, "threads-too-many", "more threads than processors", F(THREADS),
                F(PROCESSORS), F(SECONDS), F(CPU_SECONDS)),
    MNEM__CHECK(threads_too_few, "threads-too-few",
                "processors are idle, and neither memory nor disk is busy", F(THREADS),
                F(PROCESSORS), F(SECONDS), F(WAITING), F(READ_BYTES), F(READ_RATE),
                F(TOKENS_SECONDS), F(TOKENS)),
    MNEM__CHECK(others_run, "others-run", "other programs took more than 20 % of the threads' time",
                F(THREADS), F(PROCESSORS), F(SECONDS), F(CPU_SECONDS), F(WAITING)),
    MNEM__CHECK(
        bandwidth_reached, "bandwidth-reached",
        "generation uses more than 80 % of the memory bandwidth, for weights of 8 bits or more",
        F(READ_BYTES), F(MACS), F(TOKENS_SECONDS), F(READ_RATE), F(STREAMED)),
    MNEM__CHECK(roofs_far, "roofs-far",
                "generation uses less than 60 % of the machine's memory bandwidth and of its "
                "arithmetic peak",
                F(READ_BYTES), F(READ_RATE), F(MACS), F(MAC_RATE), F(TOKENS_SECONDS), F(WAITING),
                F(THREADS), F(PROCESSORS)),
    MNEM__CHECK(disk_awaited, "disk-awaited",
                "more than 10 % of the time is spent waiting for the disk", F(WAITING), F(SECONDS),
                F(DISK_BYTES)),
    MNEM__CHECK(disk_slow, "disk-slow",
                "the disk delivers less than 70 % of its measured rate while the run waits for it",
                F(STREAMED), F(PAGE_CACHE), F(WAITING), F(SECONDS), F(DISK_BYTES), F(DISK_RATE)),
    MNEM__CHECK(reader_idle, "reader-idle",
                "the disk is idle for more than 10 % of the time, and the run has fewer threads "
                "than processors",
                F(STREAMED), F(DISK_BYTES), F(DISK_RATE), F(WAITING), F(SECONDS), F(CPU_SECONDS),
                F(THREADS), F(PROCESSORS)),
    MNEM__CHECK(pages_lost, "pages-lost", "more than 1000 pages were read back from disk",
                F(FAULTS), F(PAGE_CACHE), F(SECONDS)),
    MNEM__CHECK(pages_small, "pages-small", "64 MiB of weights or more are in pages of 4 KiB",
                F(HUGE_PAGES), F(WEIGHTS)),
    MNEM__CHECK(prediction_off, "prediction-off",
                "the planned peak is off by more than 3 % and 4 MiB", F(PREDICTED), F(COUNTED)),
    MNEM__CHECK(bytes_unaccounted, "bytes-unaccounted",
                "more than 2 % of the peak, and more than 4 MiB, are missing from the ledger",
                F(COUNTED), F(LEDGER)),
    MNEM__CHECK(time_off, "time-off", "the predicted time is off by more than half",
                F(TOKENS_SECONDS), F(TOKENS_PREDICTED)),
    MNEM__CHECK(profile_missing, "profile-missing", "the kernels' speed was never measured here",
                F(PROFILE)),
    MNEM__CHECK(requests_refused, "requests-refused", "requests for memory were refused",
                F(REFUSALS), F(BUDGET)),
    MNEM__CHECK(work_repeated, "work-repeated",
                "conversations were preempted and recomputed, without --swap", F(PREEMPTIONS),
                F(RECOMPUTED_TOKENS), F(TOKENS)),
    MNEM__CHECK(clients_refused, "clients-refused", "the server's queue was full", F(REFUSED_FULL)),
    {{.name = NULL}, NULL},
};
