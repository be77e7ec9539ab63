/* message_history.c: see message_history.h.
 *
 * A line is written with one call, so that it is whole beside those of other chats. */
#include "verbs/chat/message_history.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output_file.h"

/* false: no variable says where. */
static bool file_path(char *path, size_t n) {
    const char *state = tool_env("XDG_STATE_HOME"), *home = tool_env("HOME");
    if (!state && !home) return false;
    const int length = state ? snprintf(path, n, "%s/mnem/history", state)
                             : snprintf(path, n, "%s/.local/state/mnem/history", home);
    return length > 0 && (size_t)length < n;
}

/* ---- reading ---- */

/* The file's newest bytes, from the beginning of a line, ended by a zero. */
static char *read_newest(FILE *file, long bytes) {
    const long kept = bytes > MESSAGE_FILE_KEPT ? MESSAGE_FILE_KEPT : bytes;
    char *text = malloc((size_t)kept + 1);
    if (!text || fseek(file, bytes - kept, SEEK_SET) != 0) {
        free(text);
        return NULL;
    }
    text[fread(text, 1, (size_t)kept, file)] = 0;
    if (kept < bytes) {
        const char *line = strchr(text, '\n');
        line = line ? line + 1 : text + strlen(text);
        memmove(text, line, strlen(line) + 1);
    }
    return text;
}

/* What was there is gone only when what stays is written. */
static void rewrite(const char *path, const char *text) {
    char part[PATH_MAX + 8];
    snprintf(part, sizeof part, "%s.XXXXXX", path);
    const int fd = mkstemp(part); /* its owner's only */
    if (fd < 0) return;
    bool good = tool_new_write(fd, text, strlen(text));
    good = close(fd) == 0 && good;
    if (!good || rename(part, path) != 0) unlink(part);
}

static void give_lines(char *text, void (*take)(const char *text)) {
    for (char *end; (end = strchr(text, '\n')) != NULL; text = end + 1) {
        *end = 0;
        json_t *message = json_loads(text, JSON_DECODE_ANY, NULL);
        if (json_is_string(message)) take(json_string_value(message));
        json_decref(message);
    }
}

void tool_messages_read(void (*take)(const char *text)) {
    char path[PATH_MAX];
    if (!file_path(path, sizeof path)) return;
    FILE *file = fopen(path, "re");
    if (!file) return;
    struct stat about;
    char *text = NULL;
    if (fstat(fileno(file), &about) == 0 && S_ISREG(about.st_mode))
        text = read_newest(file, (long)about.st_size);
    fclose(file);
    if (text && about.st_size > MESSAGE_FILE_MOST) rewrite(path, text);
    if (text) give_lines(text, take);
    free(text);
}

/* ---- writing ---- */

static bool append(char *path, const char *line) {
    tool_new_folders(path, 0700);
    const int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd < 0) return false;
    const bool good = tool_new_write(fd, line, strlen(line));
    const int error = errno;
    close(fd);
    errno = error;
    return good;
}

void tool_messages_add(const char *text, bool quiet) {
    static bool told;
    char path[PATH_MAX];
    json_t *message = json_string(text); /* NULL: it isn't UTF-8 */
    char *line = message ? json_dumps(message, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    char *ended = line ? realloc(line, strlen(line) + 2) : NULL;
    if (ended) strcat(ended, "\n");
    if (ended && file_path(path, sizeof path) && !append(path, ended) && !told && !quiet) {
        told = true;
        tool_message("the message history is not saved: can't write %s: %s", path, strerror(errno));
    }
    free(ended ? ended : line);
    json_decref(message);
}
