/* link.h: the link between ranks: parsed, printed, measured and stored.
 *
 * `mnem bench` under mpirun measures the slowest link between neighbours and stores it in the
 * machine's profile, with the memory that a rank's code and MPI need; `mnem plan --ranks` reads
 * both. */
#ifndef MNEM_TOOLS_MNEM_RANKS_LINK_H
#define MNEM_TOOLS_MNEM_RANKS_LINK_H

#include "tool.h"

/* Parses a rate and a latency, either or both in any order: "1Gbit/s,0.1ms", "125MB/s", "50us".
 * Returns an exit code; prints the error. */
int tool_link_parse(const char *verb, const char *text, mnem_comm_link *link);
/* "1 Gbit/s, 0.1 ms"; "no link" if messages take no time. */
const char *tool_link_text(const mnem_comm_link *link, char text[TOOL_TEXT]);

/* Measurements of ranks on this machine; zero: unknown. */
typedef struct tool_link_kept {
    mnem_comm_link link;
    uint64_t rank_bytes; /* code, libraries and MPI of a rank */
} tool_link_kept;
bool tool_link_load(tool_link_kept *kept);
bool tool_link_save(const tool_link_kept *kept);

/* Measures round trips between neighbours, one pair at a time; all ranks call it. *slowest, on
 * rank 0: the largest latency and the smallest bandwidth. */
mnem_status tool_link_measure(mnem_comm *comm, mnem_comm_link *slowest);

#endif
