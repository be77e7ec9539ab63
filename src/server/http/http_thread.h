/* http_thread.h: a thread for http_server_run with a stack of known size. */
#ifndef MNEM_SRC_SERVER_HTTP_HTTP_THREAD_H
#define MNEM_SRC_SERVER_HTTP_HTTP_THREAD_H

#include <pthread.h>

enum { HTTP_THREAD_BYTES = 1 << 20 }; /* its stack: for the caller to charge */

/* Starts function with context, with signals blocked. Returns 0 or an errno value. */
int http_thread_start(pthread_t *thread, void *(*function)(void *context), void *context);
/* Call it on the thread before serving: touches all of its stack, so that the charged memory is
 * resident and no deep call needs a new page later. */
void http_thread_touch(void);

#endif
