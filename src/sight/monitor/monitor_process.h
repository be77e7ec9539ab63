/* monitor_process.h: tells a process from a later one with the same number. */
#ifndef MNEM_SRC_SIGHT_MONITOR_MONITOR_PROCESS_H
#define MNEM_SRC_SIGHT_MONITOR_MONITOR_PROCESS_H

#include <stdint.h>

/* The start time of a process, in the kernel's ticks since boot; 0: there is no such process, or
 * it is a zombie. */
uint64_t mnem__process_start(uint32_t pid);

#endif
