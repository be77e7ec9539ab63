/* ranks_alone.c: the static command: it is alone, or it executes mnem-mpi. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "ranks/ranks.h"

int tool_ranks_begin(int argc, char **argv) {
    char path[PATH_MAX + 8];
    int rank;
    (void)argc;
    const int size = tool_launcher_size(&rank);
    if (size < 2) return TOOL_OK;
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (n > 0) {
        path[n] = 0;
        strcpy(strrchr(path, '/') + 1, "mnem-mpi");
        execv(path, argv);
    }
    if (rank == 0)
        tool_message("mnem was started on several ranks (mpirun), but its MPI program %s can't be "
                     "executed: %s; CMake builds it when an MPI library is installed",
                     n > 0 ? path : "mnem-mpi", strerror(errno));
    return TOOL_FAILED;
}

int tool_ranks_end(int code) {
    return code;
}
mnem_comm *tool_ranks(void) {
    return NULL;
}
uint64_t tool_ranks_bytes(void) {
    return 0;
}
void tool_ranks_planned(const mnem_engine_plan *plan, bool quiet) {
    (void)plan, (void)quiet;
}
mnem_status tool_ranks_slow(const mnem_comm_link *link) {
    (void)link;
    return MNEM_OK;
}
void tool_ranks_trains(const mnem_train_plan *plan, uint64_t peak_bytes, bool quiet) {
    (void)plan, (void)peak_bytes, (void)quiet;
}
void tool_ranks_waited(double seconds) {
    (void)seconds;
}
int tool_ranks_file_open(const char **path, mnem_ledger *ledger) {
    (void)path, (void)ledger;
    return TOOL_OK;
}
int tool_ranks_file_fill(const mnem_model *model, const mnem_engine_options *options,
                         const mnem_engine_plan *plan, bool quiet) {
    (void)model, (void)options, (void)plan, (void)quiet;
    return TOOL_OK;
}
void tool_ranks_joined(void) {}
bool tool_ranks_follows(void) {
    return false;
}
int tool_ranks_check(const tool_args *args) {
    (void)args;
    return TOOL_OK;
}
