/* kept_part.h: a rank's local copy of parts of a model file that only rank 0 has.
 *
 * The copy is a sparse file of the same size and modification time, with holes for missing bytes,
 * beside a list of the ranges that it has. Both stay for the next run; a run that finds them in use
 * makes another copy. */
#ifndef MNEM_TOOLS_MNEM_RANKS_KEPT_PART_H
#define MNEM_TOOLS_MNEM_RANKS_KEPT_PART_H

#include <limits.h>

#include "tool.h"

typedef struct tool_range {
    uint64_t begin, end; /* bytes of the file */
} tool_range;

/* sort sorts the ranges and joins adjacent ones. */
typedef struct tool_ranges {
    tool_range *range; /* owned by the caller */
    int32_t count, room;
} tool_ranges;
bool tool_ranges_add(tool_ranges *ranges, uint64_t begin,
                     uint64_t end); /* false: the array is full */
void tool_ranges_sort(tool_ranges *ranges);
/* The first part of [begin, end) that isn't covered; empty: all of it is. */
tool_range tool_ranges_missing(const tool_ranges *sorted, uint64_t begin, uint64_t end);

typedef struct tool_kept_part {
    char path[PATH_MAX];
    int fd, list;
    int64_t written;  /* the file's modification time, ns */
    tool_ranges have; /* sorted; the same ranges as in the list on disk */
    tool_ranges more; /* ranges written since then */
} tool_kept_part;
/* Opens or creates the copy of a file of this name, size and time; sum identifies the file. number:
 * the copy to try first, for several ranks on a machine. Sets have.range and more.range. */
int tool_kept_open(tool_kept_part *kept, const char *name, uint64_t sum, uint64_t bytes,
                   int32_t number);
int tool_kept_write(tool_kept_part *kept, uint64_t at, const void *data, size_t bytes);
/* Flushes written bytes to the disk, and then updates the list. */
int tool_kept_flush(tool_kept_part *kept);

#endif
