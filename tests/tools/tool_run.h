/* tool_run.h: runs the mnem command as a user does, and keeps what it says. */
#ifndef MNEM_TESTS_TOOLS_TOOL_RUN_H
#define MNEM_TESTS_TOOLS_TOOL_RUN_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>
#include <sys/types.h>

enum { TOOL_RUN_BYTES = 512 * 1024 };

/* What a run left; texts end with a zero; the next run overwrites them. */
typedef struct tool_result {
    int code; /* exit code; 128 + number for a signal */
    char *out, *err;
    size_t out_bytes, err_bytes;
} tool_result;

/* Runs `mnem args...` (NULL ends them) with input as standard input (NULL: none). A run that takes
 * over ten minutes is killed. */
tool_result tool_run(const char *input, const char *const *args);
#define RUN(...)             tool_run(NULL, (const char *const[]){__VA_ARGS__, NULL})
#define RUN_INPUT(text, ...) tool_run(text, (const char *const[]){__VA_ARGS__, NULL})

/* The object on the last line of what a run that went well printed. */
json_t *tool_last_object(tool_result r);

/* Starts it without waiting; *out and *err are the ends to read from. */
pid_t tool_start(const char *const *args, int *out, int *err);
/* Waits for its end; the exit code as above. */
int tool_wait(pid_t pid);
/* Fills the pipe that fd reads from, so that who writes to it waits. Returns an end to write to,
 * which keeps it open. */
int tool_stuff(int fd);

/* The folder of this program (kit_folder). XDG_CACHE_HOME of every run is in it. */
const char *tool_scratch(void);
/* scratch/name; kit_path's storage, as that of the next two. */
const char *at(const char *name);
/* scratch/name with these bytes. */
const char *tool_file(const char *name, const char *text);
/* scratch/name, where nothing is now. */
const char *folder(const char *name);
/* Compares text with a file of tests/tools/golden. With MNEM_GOLDEN_UPDATE set it is written. */
void tool_golden(const char *name, const char *text);

extern const char *const tool_model; /* the one that ships */
extern const char *tool_command;     /* another build of the command; NULL: the command */

#endif
