/* kit_apart.h: a device whose memory the host can't reach, though operators of the host run on it.
 *
 * Each block is mapped twice: where the program has it, without any access, and elsewhere, where it
 * can be accessed while the device copies, or while operators run. Whatever else of the program
 * touches it faults. So a model that runs here would run on a processor of its own. */
#ifndef MNEM_TESTS_KIT_KIT_APART_H
#define MNEM_TESTS_KIT_KIT_APART_H

#include "mnem/device.h"

/* From now on mnem_device_open finds it by the name "apart". */
void apart_add(void);
/* How often operators or copies were let in; of all such devices. */
uint64_t apart_entries(void);

#endif
