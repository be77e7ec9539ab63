/* serve_keys.c: the keys of clients, one a line of a file. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verbs/serve/serve_tool.h"

static int read_file(serve_keys *keys, const char *path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return tool_failed("can't open the file of API keys %s: %s", path, strerror(errno));
    size_t n = 0;
    ssize_t got = 1;
    struct stat info;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && (info.st_mode & 077))
        tool_message("warning: other users of this machine can read the API keys in %s; chmod 600 "
                     "prevents that",
                     path);
    while (got > 0 && n < sizeof keys->text - 1) {
        got = read(fd, keys->text + n, sizeof keys->text - 1 - n);
        if (got > 0) n += (size_t)got;
    }
    close(fd);
    keys->text[n] = 0;
    if (got < 0)
        return tool_failed("can't read the file of API keys %s: %s", path, strerror(errno));
    if (strlen(keys->text) != n)
        return tool_failed("%s has a zero byte, so it is not a file of API keys: it must be plain "
                           "text with one key on each line",
                           path);
    if (n == sizeof keys->text - 1)
        return tool_failed("the file of API keys %s is too large; it must have less than %zu bytes",
                           path, sizeof keys->text - 1);
    return TOOL_OK;
}

int serve_keys_read(serve_keys *keys, const char *path) {
    const int code = read_file(keys, path);
    if (code != TOOL_OK) return code;
    char *rest = keys->text;
    for (char *line; (line = strsep(&rest, "\r\n"));) {
        line += strspn(line, " \t");
        line[strcspn(line, " \t#")] = 0;
        if (!*line) continue;
        if (strlen(line) > SERVE_KEY_MOST)
            return tool_failed(
                "the file of API keys %s has a key of more than %d bytes; shorten that line", path,
                SERVE_KEY_MOST);
        if (keys->count == SERVE_KEYS)
            return tool_failed("the file of API keys %s has more than %d keys; remove some", path,
                               SERVE_KEYS);
        keys->key[keys->count++] = line;
    }
    return keys->count
               ? TOOL_OK
               : tool_failed("the file %s contains no API key; write one key on each line", path);
}
