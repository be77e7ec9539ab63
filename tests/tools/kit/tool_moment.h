/* tool_moment.h: moments of a process that runs, for tests that send it a signal or a key: what the
 * kernel says of it, instead of a time that ought to be long enough. Each call waits for its moment
 * or for the end of the process, and fails the test after minutes. */
#ifndef MNEM_TESTS_TOOLS_KIT_TOOL_MOMENT_H
#define MNEM_TESTS_TOOLS_KIT_TOOL_MOMENT_H

#include <stdbool.h>

#include <sys/types.h>

/* What the kernel says of it: R runs, S sleeps, T is stopped; Z: it has ended, or isn't there. */
char moment_state(pid_t pid);

/* It has a handler for the signal. */
void moment_handles(pid_t pid, int number);
/* A signal that was sent to it before has been delivered. */
void moment_delivered(pid_t pid, int number);
/* Its main thread sleeps in the kernel: it waits for input, or for who takes its output. */
void moment_sleeps(pid_t pid);
/* SIGSTOP has stopped it. */
void moment_stopped(pid_t pid);
/* What was written to the pipe of fd has been read. */
void moment_taken(int fd);
/* The file holds the text; false: the process ended before. */
bool moment_file_has(pid_t pid, const char *path, const char *text);

/* Runs `mnem args...`, which gets the signal, and another one right behind it unless that is 0,
 * from within the call that makes its first file in the folder: the kernel sends them (fcntl(2),
 * F_NOTIFY: a signal at the next change of a folder). Its standard error goes to at("err.txt").
 * The exit code, or minus the signal that killed it; a kernel without F_NOTIFY skips the test. */
int moment_created(const char *in, int number, int other, const char *const *args);

#endif
