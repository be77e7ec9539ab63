/* output_file.h: files that verbs write beside their output: pictures, tables. */
#ifndef MNEM_TOOLS_MNEM_OUTPUT_FILE_H
#define MNEM_TOOLS_MNEM_OUTPUT_FILE_H

#include <limits.h>
#include <signal.h>
#include <sys/types.h>

#include "tool.h"

/* Behind the name of a file while it is written. What has such a name is ours: it is replaced, and
 * nothing of another name is. */
#define TOOL_NEW_END ".mnem-tmp"

typedef struct tool_new {
    FILE *file;
    const char *path;
    char beside[PATH_MAX]; /* what is written; "": path itself, which isn't a plain file */
    sigset_t signals;      /* the mask before */
} tool_new;

/* Exit codes, with the message printed. After open fails there is nothing to end. Between the two
 * signals wait, where they would leave a half file behind. */
int tool_new_open(tool_new *file, const char *path);
/* Closes; with all written, path is the new file, otherwise what it was. */
int tool_new_end(tool_new *file);
/* Closes, and path is what it was. */
void tool_new_drop(tool_new *file);
/* The library writes path from here on, through PATH.mnem-tmp, which a second signal removes before
 * it ends the process; NULL: it doesn't any more. path is borrowed until then. */
void tool_new_writes(const char *path);
/* All of the text, past stdio; false, with errno, when it can't be. */
bool tool_new_write(int fd, const char *text, size_t n);
/* Makes the folders above the file; one that can't be made is told by who writes there. */
void tool_new_folders(char *path, mode_t mode);
/* Prints that path can't be written, and why (an errno). */
int tool_new_failed(const char *path, int error);
/* Is path replaced by the new file? What isn't a plain file is written as it is. */
bool tool_new_is_replaced(const char *path);
/* Before any work: what options name as files to write can be written, and isn't read. */
int tool_new_check(const tool_args *args);
/* The same of a model to write. An old model is replaced, with a note; any other file that isn't
 * empty is refused, since its bytes would be lost. */
int tool_new_check_model(const tool_args *args, const char *path);
/* A picture and a table aren't written over each other; NULL: there is none. */
int tool_new_check_apart(const char *svg, const char *out);

#endif
