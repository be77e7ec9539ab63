/* http_thread.c: see http_thread.h. */
#include "server/http/http_thread.h"

#include <signal.h>

int http_thread_start(pthread_t *thread, void *(*function)(void *context), void *context) {
    pthread_attr_t attr;
    sigset_t all, before;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, HTTP_THREAD_BYTES);
    sigfillset(&all); /* signals come to the other threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(thread, &attr, function, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return error;
}

void http_thread_touch(void) {
    enum { PAGE = 4 << 10, BELOW = 2 * PAGE }; /* of this call itself */
    pthread_attr_t attr;
    void *low;
    size_t bytes, guard;
    if (pthread_getattr_np(pthread_self(), &attr) != 0) return;
    if (pthread_attr_getstack(&attr, &low, &bytes) == 0 &&
        pthread_attr_getguardsize(&attr, &guard) == 0) {
        char *here = (char *)&attr;
        for (char *at = (char *)low + guard; at + BELOW < here; at += PAGE)
            *(volatile char *)at = 0;
    }
    pthread_attr_destroy(&attr);
}
