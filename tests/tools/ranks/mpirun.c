/* mpirun.c: runs under mpirun, what they say, and their processes. */
#include "tools/ranks/mpirun.h"

#include <ctype.h>
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "kit/kit.h"
#include "tools/tool_run.h"

void read_said(const char *path, char *text, size_t n) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    text[fread(text, 1, n - 1, file)] = 0;
    fclose(file);
}

const said *shell(const char *format, ...) {
    static said s;
    char words[3072], line[4096];
    va_list list;
    va_start(list, format);
    vsnprintf(words, sizeof words, format, list);
    va_end(list);
    snprintf(line, sizeof line,
             "cd %s && MNEM_HISTORY=off timeout 300 sh -c '%s' </dev/null >out 2>err",
             tool_scratch(), words);
    const int status = system(line);
    s.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    read_said(at("out"), s.out, sizeof s.out);
    read_said(at("err"), s.err, sizeof s.err);
    return &s;
}

pid_t find_rank(const char *mark, int rank) {
    char which[40];
    DIR *all = opendir("/proc");
    pid_t found = 0;
    snprintf(which, sizeof which, "OMPI_COMM_WORLD_RANK=%d", rank);
    assert_non_null(all);
    for (struct dirent *d; (d = readdir(all)) && !found;) {
        char path[300], text[32 * 1024];
        bool marked = false, ranked = false;
        snprintf(path, sizeof path, "/proc/%s/environ", d->d_name);
        FILE *file = isdigit((unsigned char)d->d_name[0]) ? fopen(path, "rb") : NULL;
        if (!file) continue;
        const size_t n = fread(text, 1, sizeof text - 1, file);
        fclose(file);
        text[n] = 0;
        for (size_t k = 0; k < n; k += strlen(text + k) + 1) {
            marked = marked || strcmp(text + k, mark) == 0;
            ranked = ranked || strcmp(text + k, which) == 0;
        }
        if (marked && ranked) found = (pid_t)atoi(d->d_name);
    }
    closedir(all);
    return found;
}
