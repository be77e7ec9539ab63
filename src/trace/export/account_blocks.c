/* account_blocks.c: charges and releases as blocks.
 *
 * Each account's live blocks are a list from the latest to the oldest, in one table of all. Cost:
 * constant for a charge; a release looks at the latest 64 for one of its size. Addresses only grow,
 * but for the latest block's, which is used again: 2^52 is beyond any run, and what viewers in
 * JavaScript can hold exactly. */
#include "trace/export/account_blocks.h"

#include "base/heap.h"

enum { LOOK = 64, ALIGNMENT = 256 };

#define NONE         UINT32_MAX
#define ADDRESS_LOW  ((uint64_t)1 << 20)
#define ADDRESS_HIGH ((uint64_t)1 << 52)

static mnem_status room_for_account(mnem__account_blocks *a, uint32_t account) {
    if (account < a->accounts) return MNEM_OK;
    const uint32_t n = account + 16;
    struct mnem__account_top *more = mnem__realloc("trace", a->account, n * sizeof *more);
    if (!more) return mnem__heap_status();
    for (uint32_t i = a->accounts; i < n; i++) more[i] = (struct mnem__account_top){0, NONE};
    a->account = more;
    a->accounts = n;
    return MNEM_OK;
}

static mnem_status room_for_block(mnem__account_blocks *a) {
    if (!a->room) a->unused = NONE;
    if (a->unused != NONE || a->count < a->room) return MNEM_OK;
    const uint32_t n = a->room ? a->room + a->room / 2 : 64;
    mnem__account_block *more = mnem__realloc("trace", a->block, n * sizeof *more);
    if (!more) return mnem__heap_status();
    a->block = more;
    a->room = n;
    return MNEM_OK;
}

static uint64_t end_of(const mnem__block *b) {
    return b->address + ((b->bytes + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1));
}

static mnem_status begin(mnem__account_blocks *a, mnem__block b) {
    MNEM__TRY(room_for_block(a));
    b.address = a->address < ADDRESS_LOW ? ADDRESS_LOW : a->address;
    if (b.bytes > ADDRESS_HIGH || end_of(&b) > ADDRESS_HIGH)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "trace: the charges of the trace add up to more than 4 PiB, the most "
                          "that this format supports; write a .pftrace");
    const uint32_t at = a->unused != NONE ? a->unused : a->count++;
    if (at == a->unused) a->unused = a->block[at].below;
    struct mnem__account_top *account = &a->account[b.account];
    a->block[at] = (mnem__account_block){b, account->top, true};
    account->top = at;
    account->live += b.bytes;
    a->address = end_of(&b);
    a->on.begin(a->on.context, &a->block[at].block);
    return MNEM_OK;
}

/* above: the account's next younger block, or NONE. */
static void end(mnem__account_blocks *a, uint32_t at, uint32_t above, uint64_t ns) {
    mnem__account_block *slot = &a->block[at];
    const mnem__block *b = &slot->block;
    struct mnem__account_top *account = &a->account[b->account];
    if (above == NONE)
        account->top = slot->below;
    else
        a->block[above].below = slot->below;
    account->live -= b->bytes;
    slot->live = false;
    a->on.end(a->on.context, b, ns);
    if (end_of(b) == a->address) a->address = b->address;
    slot->below = a->unused;
    a->unused = at;
}

/* Ends the latest block of so many bytes; false: there is none among those looked at. */
static bool end_same(mnem__account_blocks *a, uint32_t account, uint64_t bytes, uint64_t ns) {
    uint32_t above = NONE, at = a->account[account].top;
    for (int i = 0; i < LOOK && at != NONE; i++, above = at, at = a->block[at].below)
        if (a->block[at].block.bytes == bytes) {
            end(a, at, above, ns);
            return true;
        }
    return false;
}

static mnem_status release(mnem__account_blocks *a, uint64_t ns, uint32_t account, uint64_t bytes) {
    if (end_same(a, account, bytes, ns)) return MNEM_OK;
    while (bytes) {
        const uint32_t top = a->account[account].top;
        const mnem__block b = a->block[top].block;
        end(a, top, NONE, ns);
        if (b.bytes > bytes)
            return begin(a, (mnem__block){.bytes = b.bytes - bytes,
                                          .born_ns = ns,
                                          .account = account,
                                          .site = b.site});
        bytes -= b.bytes;
    }
    return MNEM_OK;
}

mnem_status mnem__account_blocks_set(mnem__account_blocks *a, uint64_t ns, uint32_t account,
                                     uint64_t live, uint32_t site) {
    MNEM__TRY(room_for_account(a, account));
    const uint64_t before = a->account[account].live;
    if (live == before) return MNEM_OK;
    if (live < before) return release(a, ns, account, before - live);
    return begin(
        a, (mnem__block){.bytes = live - before, .born_ns = ns, .account = account, .site = site});
}

void mnem__account_blocks_fini(mnem__account_blocks *a) {
    mnem__free(a->block);
    mnem__free(a->account);
    a->block = NULL;
    a->account = NULL;
    a->count = a->room = a->accounts = 0;
    a->address = 0;
}
