/* place_tool.h: what the files of `mnem place` share. */
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
    mnem_place_result r; /* with one space */
    double seconds;
    bool stopped;    /* by a signal */
    int64_t busiest; /* when most bytes are alive */
    uint32_t *alive; /* then, the largest first */
    size_t alive_count;
    /* with several */
    uint32_t space_count; /* 0: one, without a name */
    mnem_place_space spaces[TOOL_SPACES_MAX];
    char space_text[TOOL_SPACES_MAX][PLACE_NAME];
    const char *space_names[TOOL_SPACES_MAX];
    mnem_place_use *uses;
    mnem_place_spaces_result spread;
} placing;

bool place_fits(const placing *p);
const char *place_verdict(const placing *p);
double place_waste(const placing *p); /* percent over the bound */

/* Takes the command line's spaces; an exit code, with a message. */
int place_spaces_parse(placing *p);
void place_spaces_text(const placing *p);
void place_spaces_json(const placing *p);

/* Time to the right, offsets up, a band for each space. An exit code. */
int place_draw(const placing *p, const char *path);

#endif
