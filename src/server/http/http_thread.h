/* http_thread.h: a thread for http_server_run, whose stack is known to the byte. */
#ifndef MNEM_SRC_SERVER_HTTP_HTTP_THREAD_H
#define MNEM_SRC_SERVER_HTTP_HTTP_THREAD_H

#include <pthread.h>

enum { HTTP_THREAD_BYTES = 1 << 20 }; /* its stack: for the caller to charge */

/* Starts function with context; signals are blocked on its thread. 0, or an error number. */
int http_thread_start(pthread_t *thread, void *(*function)(void *context), void *context);
/* On the thread, before it serves: touches all of its stack, as blocks are, so that what is charged
 * is there, and no deep call takes a page of the machine later. */
void http_thread_touch(void);

#endif
