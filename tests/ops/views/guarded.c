/* guarded.c: see guarded.h. */
#include "ops/views/guarded.h"

#include <sys/mman.h>
#include <unistd.h>

#include "kit/kit.h"

guarded guarded_alloc(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
    guarded g = {.map_bytes = room + page};
    g.map = mmap(NULL, g.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.map != MAP_FAILED);
    assert_int_equal(mprotect((char *)g.map + room, page, PROT_NONE), 0);
    g.data = (char *)g.map + room - bytes;
    return g;
}

void guarded_free(guarded *g) {
    munmap(g->map, g->map_bytes);
    *g = (guarded){0};
}
