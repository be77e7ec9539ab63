/* output_file.h: files that verbs write: models, pictures, tables. */
#ifndef MNEM_TOOLS_MNEM_OUTPUT_FILE_H
#define MNEM_TOOLS_MNEM_OUTPUT_FILE_H

#include <limits.h>
#include <signal.h>
#include <sys/types.h>

#include "tool.h"

/* The suffix of a file's name while it is written. An existing file with this suffix is ours and is
 * replaced. */
#define TOOL_NEW_END ".mnem-tmp"

typedef struct tool_new {
    FILE *file;
    const char *path;
    char beside
        [PATH_MAX];   /* the temporary file; "": path itself is written, it isn't a plain file */
    sigset_t signals; /* the mask before */
} tool_new;

/* Both return exit codes and print the error. Don't call end if open failed. Between the two,
 * signals that would leave a partial file are blocked. */
int tool_new_open(tool_new *file, const char *path);
/* Closes; replaces path with the new file if all of it was written, else leaves path unchanged. */
int tool_new_end(tool_new *file);
/* Closes, and leaves path unchanged. */
void tool_new_drop(tool_new *file);
/* Call it before the library writes path through PATH.mnem-tmp: a second signal then removes
 * that file before it ends the process. NULL: writing has ended. path is borrowed until then. */
void tool_new_writes(const char *path);
/* Writes all of the text without stdio; false, with errno, on failure. */
bool tool_new_write(int fd, const char *text, size_t n);
/* Creates the folders above the file, without reporting errors: opening the file reports them. */
void tool_new_folders(char *path, mode_t mode);
/* Prints that path can't be written, with the reason (an errno). */
int tool_new_failed(const char *path, int error);
/* Whether a new file replaces path; anything but a plain file is written in place. */
bool tool_new_is_replaced(const char *path);
/* Call it before any work: checks that files to write can be written, and aren't inputs. */
int tool_new_check(const tool_args *args);
/* The same for a model to write. An existing model is replaced, with a note; any other existing
 * file is refused unless it is empty. */
int tool_new_check_model(const tool_args *args, const char *path);
/* Checks that the picture and the table are different files; NULL: not written. */
int tool_new_check_apart(const char *svg, const char *out);

#endif
