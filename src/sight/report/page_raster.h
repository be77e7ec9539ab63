/* page_raster.h: the occupied part of each cell of addresses and time; and addresses without
 * gaps. */
#ifndef MNEM_SRC_SIGHT_REPORT_PAGE_RASTER_H
#define MNEM_SRC_SIGHT_REPORT_PAGE_RASTER_H

#include "sight/report/page_code.h"

enum { MNEM__RASTER_WIDTH = 1024, MNEM__RASTER_HEIGHT = 256 };

/* ---- addresses: only regions that hold blocks, joined without gaps ---- */
typedef struct mnem__regions {
    uint64_t *of; /* [count]: granule numbers; sorted by seal */
    size_t count, room;
    unsigned shift; /* log2 of a granule's bytes */
    uint64_t last;
} mnem__regions;
mnem_status mnem__regions_add(mnem__regions *r, uint64_t address, uint64_t bytes);
mnem_status mnem__regions_seal(mnem__regions *r);
/* The position of an address in the joined regions, in bytes. */
uint64_t mnem__regions_place(const mnem__regions *r, uint64_t address);
static inline uint64_t mnem__regions_bytes(const mnem__regions *r) {
    return (uint64_t)r->count << r->shift;
}
void mnem__regions_fini(mnem__regions *r);

/* ---- the raster ---- */
typedef struct mnem__raster {
    double *change; /* [HEIGHT][WIDTH + 1]: differences of occupancy between neighbours in a row */
    uint64_t duration, bytes;
} mnem__raster;
mnem_status mnem__raster_init(mnem__raster *r, uint64_t duration, uint64_t bytes);
void mnem__raster_fini(mnem__raster *r);
void mnem__raster_add(mnem__raster *r, uint64_t from, uint64_t to, uint64_t low, uint64_t bytes);
/* Writes the cells, 0 (empty) to 255, row by row from the lowest address. */
void mnem__raster_write(const mnem__raster *r, mnem__code *code);

#endif
