/* replay_record.c: the bytes of a workload in the recording of `mnem replay --trace`.
 *
 * Replays place numbers, so nobody is charged while they run. Here the operations are told once
 * more as charges and releases of a ledger without a budget, each under the site that asked: the
 * recording's peak is then the workload's, to the byte. What is left is given back behind it. */
#include <stdlib.h>
#include <string.h>

#include "mnem/ledger.h"
#include "mnem/trace.h"
#include "verbs/replay/replay_tool.h"

static const char *tag_of(const replay_case *c, uint32_t block) {
    const char *site = mnem_workload_site(c->workload, block);
    return *site ? site : "blocks";
}

static mnem_status tell(const replay_case *c, mnem_ledger *ledger, uint64_t *bytes) {
    mnem_status status = MNEM_OK;
    for (size_t i = 0; i < c->info.count && status == MNEM_OK; i++) {
        const mnem_workload_op *op = &c->info.ops[i];
        const char *tag = tag_of(c, op->block);
        if (op->bytes)
            status = mnem_ledger_charge(ledger, MNEM_KIND_ACTIVATION, tag, op->bytes);
        else
            mnem_ledger_release(ledger, MNEM_KIND_ACTIVATION, tag, bytes[op->block]);
        bytes[op->block] = op->bytes;
    }
    for (uint32_t i = 0; i < c->info.allocations; i++)
        if (bytes[i]) mnem_ledger_release(ledger, MNEM_KIND_ACTIVATION, tag_of(c, i), bytes[i]);
    return status;
}

int replay_record(const replay_case *c) {
    mnem_ledger *ledger = NULL;
    uint64_t *bytes = calloc(c->info.allocations + 1, sizeof *bytes);
    mnem_status status = bytes ? mnem_ledger_create(NULL, &ledger) : MNEM_NO_MEMORY;
    if (!bytes)
        return tool_failed("out of memory for the sizes of %zu blocks of the trace: end other "
                           "programs, or record a shorter run",
                           c->info.allocations);
    mnem_trace_begin("workload");
    if (status == MNEM_OK) status = tell(c, ledger, bytes);
    mnem_trace_end("workload");
    free(bytes);
    if (status != MNEM_OK) tool_fail(status);
    mnem_ledger_destroy(ledger);
    return status == MNEM_OK ? TOOL_OK : TOOL_FAILED;
}
