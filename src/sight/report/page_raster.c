/* page_raster.c: how full each cell of addresses and time is; and addresses without the gaps.
 *
 * The idea: a block fills its rows at one rate from when it begins to when it ends, so a row keeps
 * changes of the rate only, and the parts of the two cells where it begins and ends; sums along the
 * row give the cells. Granules are a sorted list without doubles; an address's place is its
 * granule's number in the list.
 * Cost: the rows that a block touches, at most 256, whatever its time. */
#include "sight/report/page_raster.h"

#include <string.h>

#include "base/carve.h"
#include "base/heap.h"

enum { GRANULE_SHIFT = 16, GRANULES_MOST = 1 << 20 };

/* ---- regions ---- */

static int compare(uint64_t a, uint64_t b) {
    return a < b ? -1 : a > b;
}

static void sift(uint64_t *of, size_t i, size_t n) {
    const uint64_t value = of[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && compare(of[child], of[child + 1]) < 0) child++;
        if (compare(value, of[child]) >= 0) break;
        of[i] = of[child];
    }
    of[i] = value;
}

/* Sorted (a heap's), each once. */
static void tidy(mnem__regions *r) {
    for (size_t i = r->count / 2; i > 0; i--) sift(r->of, i - 1, r->count);
    for (size_t n = r->count; n > 1; n--) {
        const uint64_t most = r->of[0];
        r->of[0] = r->of[n - 1];
        r->of[n - 1] = most;
        sift(r->of, 0, n - 1);
    }
    size_t kept = 0;
    for (size_t i = 0; i < r->count; i++)
        if (!i || r->of[i] != r->of[kept - 1]) r->of[kept++] = r->of[i];
    r->count = kept;
}

/* Makes room: without doubles, and with larger granules where there are too many. */
static mnem_status shrink(mnem__regions *r) {
    tidy(r);
    while (r->count > GRANULES_MOST / 2) {
        for (size_t i = 0; i < r->count; i++) r->of[i] >>= 1;
        r->shift++;
        tidy(r);
    }
    if (r->count * 2 >= r->room) MNEM__GROW("report", r->of, r->room, 4096, mnem__heap_status());
    return MNEM_OK;
}

mnem_status mnem__regions_add(mnem__regions *r, uint64_t address, uint64_t bytes) {
    if (!r->shift) r->shift = GRANULE_SHIFT;
    if (!bytes || address + bytes < address) return MNEM_OK;
    while (bytes >> r->shift > GRANULES_MOST / 4) {
        for (size_t i = 0; i < r->count; i++) r->of[i] >>= 1;
        r->shift++;
    }
    const unsigned shift = r->shift;
    uint64_t at = address;
    while (at < address + bytes) {
        const uint64_t granule = at >> r->shift;
        if (!r->count || r->of[r->count - 1] != granule) {
            if (r->count == r->room) {
                const mnem_status status = shrink(r);
                if (status != MNEM_OK) return status;
                if (r->shift != shift) return mnem__regions_add(r, address, bytes);
            }
            r->of[r->count++] = granule;
        }
        at = (granule + 1) << r->shift;
        if (!at) break;
    }
    return MNEM_OK;
}

mnem_status mnem__regions_seal(mnem__regions *r) {
    tidy(r);
    return MNEM_OK;
}

uint64_t mnem__regions_place(const mnem__regions *r, uint64_t address) {
    const uint64_t granule = address >> r->shift;
    size_t low = 0, high = r->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (r->of[middle] < granule)
            low = middle + 1;
        else
            high = middle;
    }
    return ((uint64_t)low << r->shift) + (address & (((uint64_t)1 << r->shift) - 1));
}

void mnem__regions_fini(mnem__regions *r) {
    mnem__free(r->of);
    *r = (mnem__regions){0};
}

/* ---- the raster ---- */

mnem_status mnem__raster_init(mnem__raster *r, uint64_t duration, uint64_t bytes) {
    *r = (mnem__raster){.duration = duration + 1, .bytes = bytes};
    r->change = mnem__calloc("report", (size_t)MNEM__RASTER_HEIGHT * (MNEM__RASTER_WIDTH + 2),
                             sizeof *r->change);
    return r->change ? MNEM_OK : mnem__heap_status();
}

void mnem__raster_fini(mnem__raster *r) {
    mnem__free(r->change);
    *r = (mnem__raster){0};
}

/* A row is full by `part` from x to y, in columns. */
static void add_row(double *row, double x, double y, double part) {
    const size_t i = (size_t)x, k = (size_t)y;
    row[i] += part * (1 - (x - (double)i));
    row[i + 1] += part * (x - (double)i);
    row[k] -= part * (1 - (y - (double)k));
    row[k + 1] -= part * (y - (double)k);
}

void mnem__raster_add(mnem__raster *r, uint64_t from, uint64_t to, uint64_t low, uint64_t bytes) {
    const double columns = (double)MNEM__RASTER_WIDTH / (double)r->duration;
    const double rows = (double)MNEM__RASTER_HEIGHT / (double)(r->bytes ? r->bytes : 1);
    const double x = (double)from * columns, y = (double)(to + 1) * columns;
    const double bottom = (double)low * rows, top = (double)(low + bytes) * rows;
    for (size_t i = (size_t)bottom; i < MNEM__RASTER_HEIGHT && (double)i < top; i++) {
        const double a = bottom > (double)i ? bottom : (double)i;
        const double b = top < (double)(i + 1) ? top : (double)(i + 1);
        double *row = r->change + i * (MNEM__RASTER_WIDTH + 2);
        add_row(row, x, y < MNEM__RASTER_WIDTH ? y : MNEM__RASTER_WIDTH, b - a);
    }
}

void mnem__raster_write(const mnem__raster *r, mnem__code *code) {
    mnem__code_begin(code);
    for (size_t i = 0; i < MNEM__RASTER_HEIGHT; i++) {
        const double *row = r->change + i * (MNEM__RASTER_WIDTH + 2);
        double full = 0;
        int64_t before = 0;
        for (size_t k = 0; k < MNEM__RASTER_WIDTH; k++) {
            full += row[k];
            const double part = full < 0 ? 0 : full > 1 ? 1 : full;
            const int64_t n = (int64_t)(part * 255 + 0.5);
            mnem__code_number(code, n - before);
            before = n;
        }
    }
    mnem__code_end(code);
}
