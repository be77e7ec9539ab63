/* other_load.c: the processors' time that others took: what /proc/stat counts as busy, less what
 * the kernel counts for this process.
 *
 * /proc/stat counts ticks of each processor, mostly of 10 ms: over the 0.7 s of a measurement on
 * two processors the share is right to about 2 %. */
#include "verbs/measure/other_load.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* proc(5): user, nice, system, idle, iowait, irq, softirq, steal. The time of guests that follows
 * is in user and nice already. */
enum { IDLE = 3, IOWAIT = 4, FIELDS = 8 };

bool tool_load_parse(const char *stat, double ticks_per_s, tool_load_times *times) {
    unsigned long long ticks[FIELDS] = {0};
    if (strncmp(stat, "cpu ", 4) != 0) return false; /* "cpu0" is one processor's */
    const int found =
        sscanf(stat, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &ticks[0], &ticks[1], &ticks[2],
               &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7]);
    if (found <= IDLE || !(ticks_per_s > 0)) return false;
    times->all = times->busy = 0;
    for (int i = 0; i < FIELDS; i++) {
        const double seconds = (double)ticks[i] / ticks_per_s;
        times->all += seconds;
        if (i != IDLE && i != IOWAIT) times->busy += seconds;
    }
    return true;
}

static double seconds_of(struct timeval t) {
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

bool tool_load_get(tool_load_times *now) {
    char line[512] = "";
    struct rusage used;
    *now = (tool_load_times){0};
    FILE *file = fopen("/proc/stat", "re");
    if (!file) return false;
    const bool read = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    if (!read || getrusage(RUSAGE_SELF, &used) != 0) return false;
    now->own = seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
    return tool_load_parse(line, (double)sysconf(_SC_CLK_TCK), now);
}

double tool_load_share(const tool_load_times *before, const tool_load_times *after) {
    const double all = after->all - before->all;
    if (!(all > 0)) return -1;
    const double others = after->busy - before->busy - (after->own - before->own);
    return others <= 0 ? 0 : others >= all ? 1 : others / all;
}
