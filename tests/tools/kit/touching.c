/* touching.c: the command with memory that no ledger knows: where MNEM_TEST_TOUCH is a number of
 * bytes, they are touched when a ledger ends. Linked with --wrap=mnem_ledger_destroy. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "mnem/mnem.h"

void __real_mnem_ledger_destroy(mnem_ledger *ledger);
void __wrap_mnem_ledger_destroy(mnem_ledger *ledger);

void __wrap_mnem_ledger_destroy(mnem_ledger *ledger) {
    const char *text = getenv("MNEM_TEST_TOUCH");
    const size_t bytes = text ? strtoull(text, NULL, 10) : 0;
    void *memory = MAP_FAILED;
    if (ledger && bytes)
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) {
        memset(memory, 1, bytes);
        munmap(memory, bytes);
    }
    __real_mnem_ledger_destroy(ledger);
}
