/* page_raster.h: how full each cell of addresses and time is; and addresses without the gaps. */
#ifndef MNEM_SRC_SIGHT_REPORT_PAGE_RASTER_H
#define MNEM_SRC_SIGHT_REPORT_PAGE_RASTER_H

#include "sight/report/page_code.h"

enum { MNEM__RASTER_WIDTH = 1024, MNEM__RASTER_HEIGHT = 256 };

/* ---- addresses: only the regions that hold blocks, one behind another ---- */
typedef struct mnem__regions {
    uint64_t *of; /* [count]: numbers of granules; sorted after seal */
    size_t count, room;
    unsigned shift; /* a granule is so many bits of addresses */
    uint64_t last;
} mnem__regions;
mnem_status mnem__regions_add(mnem__regions *r, uint64_t address, uint64_t bytes);
mnem_status mnem__regions_seal(mnem__regions *r);
/* Where it lies among them, in bytes. */
uint64_t mnem__regions_place(const mnem__regions *r, uint64_t address);
static inline uint64_t mnem__regions_bytes(const mnem__regions *r) {
    return (uint64_t)r->count << r->shift;
}
void mnem__regions_fini(mnem__regions *r);

/* ---- the raster ---- */
typedef struct mnem__raster {
    double *change; /* [HEIGHT][WIDTH + 1]: of how full a cell is, from one to the next */
    uint64_t duration, bytes;
} mnem__raster;
mnem_status mnem__raster_init(mnem__raster *r, uint64_t duration, uint64_t bytes);
void mnem__raster_fini(mnem__raster *r);
void mnem__raster_add(mnem__raster *r, uint64_t from, uint64_t to, uint64_t low, uint64_t bytes);
/* Cells from 0 (empty) to 255, row by row from the lowest address. */
void mnem__raster_write(const mnem__raster *r, mnem__code *code);

#endif
