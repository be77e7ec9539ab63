/* plan_parts.c: walks over a table of parts.
 *
 * Invariant: the bytes taken are those that were measured: one array serves the plan's lines, the
 * taking and the giving back. Cost: a step for each part; there are some tens. */
#include "plan/plan_parts.h"

#include "base/checked.h"
#include "base/error.h"

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

mnem_status mnem__taken_open(mnem__taken *taken, mnem_device *device) {
    taken->device = device;
    if (!device) MNEM__TRY(mnem_device_open("host", NULL, &taken->device));
    taken->owns_device = !device;
    taken->runs = mnem__device_runs(taken->device);
    taken->apart = mnem__device_is_apart(taken->device);
    return MNEM_OK;
}

void mnem__taken_close(mnem__taken *taken) {
    for (int i = 0; taken->device && i < taken->table->count; i++) mnem__part_give(taken, i);
    if (taken->owns_device) mnem_device_close(taken->device);
    *taken = (mnem__taken){0};
}

/* Where both reach all memory, there is one kind of it. */
static mnem_space space_of(const mnem__taken *taken, mnem__part_how how) {
    return how == MNEM__HOW_PINNED && taken->apart ? MNEM_SPACE_PINNED : MNEM_SPACE_DEVICE;
}

/* Bytes that a plan placed, with a block of them or without. */
static mnem_status take(mnem__taken *taken, int part) {
    const mnem__part_info *info = &taken->table->info[part];
    const bool is_block = mnem__how_is_block(info->how);
    const mnem_space space = space_of(taken, info->how);
    uint64_t bytes = taken->bytes[part];
    if (is_block) bytes = mnem_device_alloc_bytes(taken->device, space, bytes);
    MNEM__TRY(mnem_ledger_charge_planned(taken->ledger, info->kind, info->tag, bytes));
    if (!is_block) return MNEM_OK;
    const mnem_status status =
        mnem_device_alloc(taken->device, space, bytes, MNEM__PART_ALIGNMENT, &taken->block[part]);
    if (status != MNEM_OK) mnem_ledger_release(taken->ledger, info->kind, info->tag, bytes);
    return status;
}

mnem_status mnem__part_take(mnem__taken *taken, int part) {
    const mnem__part_how how = taken->table->info[part].how;
    const bool here = mnem__how_is_block(how) || how == MNEM__HOW_CHARGE ||
                      (how == MNEM__HOW_LOAD && !taken->runs);
    if (taken->bytes[part] == 0 || !here) return MNEM_OK;
    MNEM__TRY(take(taken, part));
    taken->is[part] = true;
    return MNEM_OK;
}

mnem_status mnem__parts_take(mnem__taken *taken) {
    for (int i = 0; i < taken->table->count; i++) MNEM__TRY(mnem__part_take(taken, i));
    return MNEM_OK;
}

void mnem__part_give(mnem__taken *taken, int part) {
    const mnem__part_info *info = &taken->table->info[part];
    const mnem_block *block = &taken->block[part];
    if (!taken->is[part]) return;
    const uint64_t bytes = mnem__how_is_block(info->how) ? block->bytes : taken->bytes[part];
    mnem_device_free(&taken->block[part]);
    mnem_ledger_release(taken->ledger, info->kind, info->tag, bytes);
    taken->is[part] = false;
}
