/* library.c: what leaky.c opens, uses and closes. */
#include <stdlib.h>

void *library_take(size_t bytes);

void *library_take(size_t bytes) {
    return malloc(bytes);
}
