/* plan_parts.c: walks over a table of parts.
 *
 * Invariant: the bytes taken are those that were measured: one array serves the plan's lines, the
 * taking and the giving back. Cost: a step for each part; there are some tens. */
#include "plan/plan_parts.h"

#include "base/checked.h"

uint64_t mnem__part_block_bytes(mnem_device *device, uint64_t bytes) {
    if (bytes == 0) return 0;
    if (device) return mnem_device_alloc_bytes(device, MNEM_SPACE_DEVICE, bytes);
    return mnem__align_up(bytes, MNEM__PART_ALIGNMENT);
}

void mnem__parts_round(const mnem__part_table *table, mnem_device *device, uint64_t *bytes) {
    const mnem__part_info *info = table->info;
    const int count = table->count;
    for (int i = 0; i < count; i++) /* for each of a million ways */
        if (mnem__how_is_block(info[i].how))
            bytes[i] = device ? mnem__part_block_bytes(device, bytes[i])
                              : mnem__align_up(bytes[i], MNEM__PART_ALIGNMENT);
}

uint64_t mnem__parts_total(const mnem__part_table *table, const uint64_t *bytes) {
    uint64_t total = 0;
    for (int i = 0; i < table->count; i++) total += bytes[i];
    return total;
}

void mnem__parts_add_lines(const mnem__part_table *table, const uint64_t *bytes,
                           const mnem__plan_lines *lines) {
    for (int i = 0; i < table->count; i++)
        mnem__plan_lines_add(lines, table->info[i].kind, table->info[i].tag, bytes[i]);
    mnem__plan_lines_sort(lines);
}

static bool is_charged_here(const mnem__taker *taker, mnem__part_how how) {
    return how == MNEM__HOW_CHARGE || (how == MNEM__HOW_LOAD && !taker->loads);
}

mnem_status mnem__part_take(const mnem__taker *taker, int part) {
    const mnem__part_info *info = &taker->table.info[part];
    const uint64_t bytes = taker->bytes[part];
    mnem_status status;
    if (bytes == 0) return MNEM_OK;
    if (mnem__how_is_block(info->how))
        status = taker->block_take(taker->owner, part, bytes);
    else if (is_charged_here(taker, info->how))
        status = mnem_ledger_charge_planned(taker->ledger, info->kind, info->tag, bytes);
    else
        return MNEM_OK;
    taker->taken[part] = status == MNEM_OK;
    return status;
}

mnem_status mnem__parts_take(const mnem__taker *taker) {
    mnem_status status = MNEM_OK;
    for (int i = 0; i < taker->table.count && status == MNEM_OK; i++)
        status = mnem__part_take(taker, i);
    return status;
}

void mnem__part_give(const mnem__taker *taker, int part) {
    const mnem__part_info *info = &taker->table.info[part];
    if (!taker->taken[part]) return;
    if (mnem__how_is_block(info->how))
        taker->block_give(taker->owner, part);
    else
        mnem_ledger_release(taker->ledger, info->kind, info->tag, taker->bytes[part]);
    taker->taken[part] = false;
}

void mnem__parts_give(const mnem__taker *taker) {
    for (int i = 0; i < taker->table.count; i++) mnem__part_give(taker, i);
}
