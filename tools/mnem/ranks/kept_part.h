/* kept_part.h: what a rank keeps of a model's file that it doesn't have.
 *
 * A file of the same size and time of writing, with holes where nothing has come yet, and beside it
 * a list of what has. Both stay for the next run; a run that finds them in use takes others. */
#ifndef MNEM_TOOLS_MNEM_RANKS_KEPT_PART_H
#define MNEM_TOOLS_MNEM_RANKS_KEPT_PART_H

#include <limits.h>

#include "tool.h"

typedef struct tool_range {
    uint64_t begin, end; /* bytes of the file */
} tool_range;

/* Sorted by sort, which joins what touches. */
typedef struct tool_ranges {
    tool_range *range; /* the caller's */
    int32_t count, room;
} tool_ranges;
bool tool_ranges_add(tool_ranges *ranges, uint64_t begin, uint64_t end); /* false: no room */
void tool_ranges_sort(tool_ranges *ranges);
/* The first bytes of [begin, end) that aren't among them; empty: all are. */
tool_range tool_ranges_missing(const tool_ranges *sorted, uint64_t begin, uint64_t end);

typedef struct tool_kept_part {
    char path[PATH_MAX];
    int fd, list;
    int64_t written;  /* the file's time of writing, ns */
    tool_ranges have; /* sorted; the list says the same */
    tool_ranges more; /* what was written since */
} tool_kept_part;
/* Of a file of this name, size and time that sum tells from others; number: which to try first,
 * where a machine has several ranks. have.range and more.range are set. */
int tool_kept_open(tool_kept_part *kept, const char *name, uint64_t sum, uint64_t bytes,
                   int32_t number);
int tool_kept_write(tool_kept_part *kept, uint64_t at, const void *data, size_t bytes);
/* What was written is on the disk, and in the list. */
int tool_kept_flush(tool_kept_part *kept);

#endif
