/* link.h: what is between ranks: as it is said, as it was measured, as it is kept.
 *
 * `mnem bench` under mpirun measures the slowest link between neighbours and keeps it with the
 * machine's profile, beside what a rank's code and MPI took there; `mnem plan --ranks` reads both.
 */
#ifndef MNEM_TOOLS_MNEM_RANKS_LINK_H
#define MNEM_TOOLS_MNEM_RANKS_LINK_H

#include "tool.h"

/* "1Gbit/s,0.1ms", "125MB/s", "50us": either, or both in any order. Exit code, with the message. */
int tool_link_parse(const char *verb, const char *text, mnem_comm_link *link);
/* "1 Gbit/s, 0.1 ms"; "no link" where it takes no time. */
const char *tool_link_text(const mnem_comm_link *link, char text[TOOL_TEXT]);

/* What was measured of this machine's ranks; zero: not known. */
typedef struct tool_link_kept {
    mnem_comm_link link;
    uint64_t rank_bytes; /* code, libraries and MPI of a rank */
} tool_link_kept;
bool tool_link_load(tool_link_kept *kept);
bool tool_link_save(const tool_link_kept *kept);

/* Round trips between each two neighbours, one pair after another; all ranks call it. *slowest: the
 * largest latency, and the least bandwidth, on rank 0. */
mnem_status tool_link_measure(mnem_comm *comm, mnem_comm_link *slowest);

#endif
