/* serve_notify.c: a word to the service manager: sd_notify(3)'s protocol, a datagram to the socket
 * that $NOTIFY_SOCKET names; a name that begins with @ is an abstract one. */
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "verbs/serve/serve_tool.h"

void serve_notify(const char *state) {
    const char *path = tool_env("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (!path || (*path != '/' && *path != '@') || strlen(path) >= sizeof to.sun_path) return;
    strcpy(to.sun_path, path);
    if (*path == '@') to.sun_path[0] = 0;
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    const socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    /* Nobody there: whoever set the variable isn't interested any more. */
    const ssize_t sent =
        sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&to, n);
    (void)sent;
    close(fd);
}
