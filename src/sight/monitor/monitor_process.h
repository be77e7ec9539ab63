/* monitor_process.h: which process a number means. */
#ifndef MNEM_SRC_SIGHT_MONITOR_MONITOR_PROCESS_H
#define MNEM_SRC_SIGHT_MONITOR_MONITOR_PROCESS_H

#include <stdint.h>

/* When the process began, in the kernel's ticks since the machine did; 0: there is none, or it has
 * ended and waits for its parent. */
uint64_t mnem__process_start(uint32_t pid);

#endif
