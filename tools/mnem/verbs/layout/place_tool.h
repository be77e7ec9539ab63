/* place_tool.h: shared by the files of `mnem place`. */
#ifndef MNEM_TOOLS_MNEM_VERBS_LAYOUT_PLACE_TOOL_H
#define MNEM_TOOLS_MNEM_VERBS_LAYOUT_PLACE_TOOL_H

#include "mnem/place.h"

#include "options.h"
#include "svg.h"

enum { PLACE_SHOWN_MAX = 20, PLACE_NAME = 32 };

typedef struct place_options {
    tool_args args;
    uint64_t capacity; /* 0: not given */
    tool_texts space;  /* NAME[=SIZE][:COST] */
    double seconds;
    uint64_t seed;
    const char *out, *svg;
} place_options;

typedef struct placing {
    const tool_args *args;
    const place_options *asked;
    const char *path;
    mnem_place_csv *csv;
    mnem_place_csv_info t;
    mnem_place_result r; /* result with one space */
    double seconds;
    bool stopped;    /* stopped by a signal */
    int64_t busiest; /* the time at which most bytes are alive */
    uint32_t *alive; /* buffers alive at that time, the largest first */
    size_t alive_count;
    /* with several spaces */
    uint32_t space_count; /* 0: one, without a name */
    mnem_place_space spaces[TOOL_SPACES_MAX];
    char space_text[TOOL_SPACES_MAX][PLACE_NAME];
    const char *space_names[TOOL_SPACES_MAX];
    mnem_place_use *uses;
    mnem_place_spaces_result spread;
} placing;

bool place_fits(const placing *p);
const char *place_verdict(const placing *p);
double place_waste(const placing *p); /* percent above the bound */

/* Parses the spaces of the command line; returns an exit code, and prints the error. */
int place_spaces_parse(placing *p);
void place_spaces_text(const placing *p);
void place_spaces_json(const placing *p);

/* Draws time on the x axis, offsets on the y axis, one band per space. Returns an exit code. */
int place_draw(const placing *p, const char *path);

#endif
