/* marked.c: see marked.h. */
#include "tools/ranks/marked.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/kit.h"
#include "tools/kit/tool_moment.h"

static bool has_mark(int pid, const char *mark) {
    static char text[64 * 1024];
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    const size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = 0;
    for (size_t i = 0; i < n; i += strlen(text + i) + 1)
        if (strcmp(text + i, mark) == 0) return true;
    return false;
}

int marked_find(const char *mark, const char *entry, int *pids) {
    DIR *all = opendir("/proc");
    int n = 0;
    assert_non_null(all);
    for (struct dirent *d; (d = readdir(all)) && n < MARKED_MAX;) {
        const int pid = isdigit((unsigned char)d->d_name[0]) ? atoi(d->d_name) : 0;
        if (!pid || moment_state(pid) == 'Z' || !has_mark(pid, mark)) continue;
        if (!entry || has_mark(pid, entry)) pids[n++] = pid;
    }
    closedir(all);
    return n;
}

pid_t find_rank(const char *mark, int rank) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}; /* Open MPI, MPICH */
    char entry[64];
    int pids[MARKED_MAX];
    for (int i = 0; i < 2; i++) {
        snprintf(entry, sizeof entry, "%s=%d", names[i], rank);
        if (marked_find(mark, entry, pids) > 0) return pids[0];
    }
    return 0;
}

bool marked_are_there(const char *mark) {
    int pids[MARKED_MAX];
    return marked_find(mark, NULL, pids) > 0;
}

void marked_kill(const char *mark) {
    int pids[MARKED_MAX];
    for (int n; (n = marked_find(mark, NULL, pids)) > 0; usleep(20000))
        for (int i = 0; i < n; i++) kill(pids[i], SIGKILL);
}
