/* slowness.c: why a run was slower than its plan said, from what the process can see.
 *
 * Before and after it the clock, the processor time of this process and that of the whole machine
 * are read (/proc/stat): the difference is what others took. What can't be seen (a neighbour on the
 * same memory, a clock turned down) is said to be so. */
#include "verbs/run/slowness.h"

#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Of the measured, what doesn't count as slow: predictions are that good. */
#define SLOW_BELOW     0.7
#define LEAST_SECONDS  1.0
#define WAITING_MATTER 0.3
#define OTHERS_MATTER  0.15

/* Seconds that all processors worked since the start of the machine; 0: not known. */
static double machine_busy(void) {
    unsigned long long user, nice, system, idle, wait, irq, soft, steal;
    FILE *file = fopen("/proc/stat", "r");
    if (!file) return 0;
    const int n = fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system,
                         &idle, &wait, &irq, &soft, &steal);
    fclose(file);
    if (n != 8) return 0;
    return (double)(user + nice + system + irq + soft + steal) / (double)sysconf(_SC_CLK_TCK);
}

static double own_busy(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

void tool_pace_begin(tool_pace *pace) {
    *pace = (tool_pace){tool_clock(), machine_busy(), own_busy()};
}

/* The part of all processors that other programs took since then. */
static double others(const tool_pace *pace) {
    const double seconds = tool_clock() - pace->clock, busy = machine_busy();
    const double taken = busy - pace->machine - (own_busy() - pace->own);
    if (busy <= 0 || seconds <= 0 || taken <= 0) return 0;
    return taken / (seconds * (double)sysconf(_SC_NPROCESSORS_ONLN));
}

__attribute__((format(printf, 3, 4))) static void add(char *out, size_t n, const char *format,
                                                      ...) {
    const size_t used = strlen(out);
    va_list list;
    va_start(list, format);
    if (used) snprintf(out + used, n - used, "; ");
    vsnprintf(out + strlen(out), n - strlen(out), format, list);
    va_end(list);
}

static void add_reasons(const tool_generator *g, const tool_pace *pace, char *out, size_t n) {
    const double part = others(pace);
    const int threads = g->stage->plan.threads, have = tool_processors();
    mnem_engine_stats s;
    mnem_session_stats_get(g->stage->session, &s);
    if (s.seconds_waiting > WAITING_MATTER * g->seconds_decode)
        add(out, n, "%.0f %% of the time was spent waiting for the disk",
            100 * s.seconds_waiting / (g->seconds_decode + g->seconds_prompt));
    if (have && threads > have)
        add(out, n, "%d threads share %d processor%s (--threads %d)", threads, have,
            tool_s((uint64_t)have), have);
    if (part > OTHERS_MATTER)
        add(out, n, "other programs took %.0f %% of this machine's processors", 100 * part);
}

bool tool_slowness(const tool_generator *g, const tool_pace *pace, char *out, size_t n) {
    const double rate = tool_generator_rate(g), predicted = g->stage->plan.predicted_generate;
    const bool slow = predicted > 0 && rate < SLOW_BELOW * predicted;
    char why[256] = "";
    *out = 0;
    if (rate <= 0 || g->seconds_decode < LEAST_SECONDS || (!slow && predicted > 0)) return false;
    add_reasons(g, pace, why, sizeof why);
    if (!slow && !*why) return false;
    if (slow)
        add(out, n, "slower than planned, %.1f tokens/s where %.1f were expected: %s", rate,
            predicted,
            *why ? why
                 : "no cause that mnem can measure (perhaps other programs use the memory "
                   "bandwidth, or the clock is lower)");
    else
        add(out, n, "what slows it down: %s", why);
    return true;
}
