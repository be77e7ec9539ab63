/* launcher.c: what launchers of MPI tell those that they start, in their environment.
 *
 * Not Slurm's own variables: a batch script has them too, and what it starts is alone. srun starts
 * ranks by PMI or PMIx, which are here. */
#include <stdlib.h>
#include <string.h>

#include "ranks/ranks.h"

/* Open MPI; MPICH, Intel MPI and srun with PMI; MVAPICH; what names a rank only. */
static const struct {
    const char *size, *rank;
} launchers[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                 {"PMI_SIZE", "PMI_RANK"},
                 {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
                 {NULL, "PMIX_RANK"},
                 {NULL, "PALS_RANKID"}};

int tool_launcher_size(int *rank) {
    *rank = 0;
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        const char *size = launchers[i].size ? getenv(launchers[i].size) : NULL;
        const char *which = getenv(launchers[i].rank);
        if (which) *rank = atoi(which);
        if (size) return atoi(size) > 1 ? atoi(size) : 1;
        if (which && !launchers[i].size) return 2; /* or more, or one: MPI knows */
    }
    return 1;
}

int tool_launcher_rank(const char *entry) {
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        const size_t n = strlen(launchers[i].rank);
        if (strncmp(entry, launchers[i].rank, n) == 0 && entry[n] == '=')
            return atoi(entry + n + 1);
    }
    return -1;
}
