/* tool_server.h: `mnem serve` as a process, for tests that are its clients. */
#ifndef MNEM_TESTS_TOOLS_SERVE_TOOL_SERVER_H
#define MNEM_TESTS_TOOLS_SERVE_TOOL_SERVER_H

#include <stdint.h>
#include <sys/types.h>

#include "tools/serve/http_client.h"
#include "tools/tool_run.h"

#define GET(path) "GET " path " HTTP/1.1\r\n" HOST "\r\n"

typedef struct tool_server {
    pid_t pid;
    int out, err;
} tool_server;

/* Starts it, and waits for its address, where clients go from then on. */
tool_server tool_serve(const char *const *args);
#define SERVE(...) tool_serve((const char *const[]){"serve", "--port", "0", __VA_ARGS__, NULL})
/* Ends it as a service manager does; its exit code. */
int tool_serve_end(const tool_server *s);
/* From now on clients go to this port, where all of the server has begun: the thread of the
 * connections takes its memory after the address is printed, before it answers anybody. */
void tool_ready(int port);
uint64_t tool_peak_of(pid_t pid); /* VmHWM */
answer tool_post(const char *path, const char *body);

#endif
