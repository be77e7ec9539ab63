/* plan_parts.c: walks over the list of parts.
 *
 * Invariant: the bytes taken are those that were measured: one array serves the plan's lines, the
 * taking and the giving back. Cost: a step for each part; there are some tens. */
#include "plan/plan_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "device/backend/backend.h"

#define BY(knob)                       (1u << MNEM_KNOB_##knob)
#define BY_PASS                        (BY(CHUNK) | BY(CONTEXT) | BY(KV))
#define BY_STEP                        (BY(MICRO_BATCH) | BY(COMPUTE))
#define INFO(name, kind, tag, how, by) {MNEM_KIND_##kind, tag, MNEM__HOW_##how, by},
const mnem__part_info mnem__part_infos[MNEM__PARTS] = {MNEM__PART_LIST(INFO)};

static bool is_block(mnem__part part) {
    return part < MNEM__PART_BLOCKS;
}

uint64_t mnem__part_block_bytes(mnem_device *device, uint64_t bytes) {
    if (bytes == 0) return 0;
    if (device) return mnem_device_alloc_bytes(device, MNEM_SPACE_DEVICE, bytes);
    return mnem__align_up(bytes, MNEM__PART_ALIGNMENT);
}

void mnem__parts_complete(mnem__parts *parts, mnem_device *device, int32_t threads) {
    uint64_t *bytes = parts->bytes;
    bytes[MNEM__PART_TEAM] = mnem_team_bytes(threads);
    bytes[MNEM__PART_RESERVE] = MNEM__RESERVE;
    if (!device) bytes[MNEM__PART_HOST_DEVICE] = mnem__device_bytes("host");
    for (int i = 0; i < MNEM__PART_BLOCKS; i++) /* for each of a million ways */
        bytes[i] = device ? mnem__part_block_bytes(device, bytes[i])
                          : mnem__align_up(bytes[i], MNEM__PART_ALIGNMENT);
    mnem__parts_add_up(parts);
}

void mnem__parts_add_up(mnem__parts *parts) {
    parts->total = 0;
    for (int i = 0; i < MNEM__PARTS; i++) parts->total += parts->bytes[i];
}

void mnem__parts_add_lines(const mnem__parts *parts, const mnem__plan_lines *lines) {
    for (int i = 0; i < MNEM__PARTS; i++)
        mnem__plan_lines_add(lines, mnem__part_infos[i].kind, mnem__part_infos[i].tag,
                             parts->bytes[i]);
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
    for (int i = 0; taken->device && i < MNEM__PARTS; i++) mnem__part_give(taken, (mnem__part)i);
    if (taken->owns_device) mnem_device_close(taken->device);
    *taken = (mnem__taken){0};
}

/* A block that isn't there yet, as the device makes it. Where both reach all memory, there is one
 * kind of it. */
static mnem_block block_of(const mnem__taken *taken, mnem__part part) {
    const bool pinned = mnem__part_infos[part].how == MNEM__HOW_PINNED && taken->apart;
    const mnem_space space = pinned ? MNEM_SPACE_PINNED : MNEM_SPACE_DEVICE;
    return (mnem_block){
        .device = taken->device,
        .address = taken->address[part],
        .bytes = mnem_device_alloc_bytes(taken->device, space, taken->parts->bytes[part]),
        .space = space};
}

/* As an account has it, which keeps 31 characters. */
enum { TAG = 32 };
static const char *tag_of(const mnem__taken *taken, mnem__part part, char text[TAG]) {
    const mnem__part_info *info = &mnem__part_infos[part];
    const bool named = info->kind == MNEM_KIND_WEIGHTS || info->kind == MNEM_KIND_KV;
    if (!taken->name || !named) return info->tag;
    snprintf(text, TAG, "%s %.*s", info->tag, (int)(TAG - 2 - strlen(info->tag)), taken->name);
    return text;
}

/* Bytes that a plan placed, with a block of them or without. */
static mnem_status take(mnem__taken *taken, mnem__part part) {
    const mnem__part_info *info = &mnem__part_infos[part];
    char text[TAG];
    const char *tag = tag_of(taken, part, text);
    if (!is_block(part))
        return mnem_ledger_charge_planned(taken->ledger, info->kind, tag,
                                          taken->parts->bytes[part]);
    mnem_block block = block_of(taken, part);
    const uint64_t bytes = block.bytes;
    MNEM__TRY(mnem_ledger_charge_planned(taken->ledger, info->kind, tag, bytes));
    const mnem_status status =
        mnem_device_alloc(taken->device, block.space, bytes, MNEM__PART_ALIGNMENT, &block);
    if (status != MNEM_OK) mnem_ledger_release(taken->ledger, info->kind, tag, bytes);
    taken->address[part] = block.address;
    return status;
}

mnem_status mnem__part_take(mnem__taken *taken, mnem__part part) {
    const mnem__part_how how = mnem__part_infos[part].how;
    const bool here =
        is_block(part) || how == MNEM__HOW_CHARGE || (how == MNEM__HOW_LOAD && !taken->runs);
    if (taken->parts->bytes[part] == 0 || !here) return MNEM_OK;
    MNEM__TRY(take(taken, part));
    taken->is[part] = true;
    return MNEM_OK;
}

mnem_status mnem__parts_take(mnem__taken *taken) {
    for (int i = 0; i < MNEM__PARTS; i++) MNEM__TRY(mnem__part_take(taken, (mnem__part)i));
    return MNEM_OK;
}

void mnem__part_give(mnem__taken *taken, mnem__part part) {
    const mnem__part_info *info = &mnem__part_infos[part];
    uint64_t bytes = taken->parts->bytes[part];
    char text[TAG];
    if (!taken->is[part]) return;
    if (is_block(part)) {
        mnem_block block = block_of(taken, part);
        bytes = block.bytes;
        mnem_device_free(&block);
    }
    mnem_ledger_release(taken->ledger, info->kind, tag_of(taken, part, text), bytes);
    taken->is[part] = false;
}
