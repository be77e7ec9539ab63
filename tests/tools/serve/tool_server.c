/* tool_server.c: see tool_server.h. */
#include "tools/serve/tool_server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

tool_server tool_serve(const char *const *args) {
    tool_server s;
    char line[200] = "";
    s.pid = tool_start(args, &s.out, &s.err);
    for (size_t n = 0; n < sizeof line - 1 && !strchr(line, '\n'); n++)
        if (read(s.out, line + n, 1) != 1) {
            char why[1000];
            const ssize_t got = read(s.err, why, sizeof why - 1);
            fail_msg("no address: %.*s", (int)(got > 0 ? got : 0), why);
        }
    const char *port = strrchr(line, ':');
    if (!port || strncmp(line, "http://", 7) != 0) fail_msg("\"%s\" is no address", line);
    client_to(atoi(port + 1));
    return s;
}

int tool_serve_end(const tool_server *s) {
    kill(s->pid, SIGTERM);
    const int code = tool_wait(s->pid);
    close(s->out);
    close(s->err);
    return code;
}

void tool_ready(int port) {
    client_to(port);
    assert_int_equal(ask(GET("/ready")).status, 200);
}

uint64_t tool_peak_of(pid_t pid) {
    char path[64], line[200];
    uint64_t kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "VmHWM:", 6) == 0) kib = strtoull(line + 6, NULL, 10);
    if (file) fclose(file);
    return kib * KIB;
}

answer tool_post(const char *path, const char *body) {
    char text[4000];
    snprintf(text, sizeof text, "POST %s HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n%s", path,
             strlen(body), body);
    return ask(text);
}
