/* guarded.h: memory with a page behind it that faults. */
#ifndef MNEM_TESTS_OPS_VIEWS_GUARDED_H
#define MNEM_TESTS_OPS_VIEWS_GUARDED_H

#include <stddef.h>

typedef struct guarded {
    void *map, *data; /* data ends where the page that faults begins */
    size_t map_bytes;
} guarded;

guarded guarded_alloc(size_t bytes);
void guarded_free(guarded *g);

#endif
