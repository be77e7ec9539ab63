/* monitor.c: the status file's writer.
 *
 * Idea: the file's bytes are kept in the caller's storage and written over the file's, with the
 * sequence odd before and even behind: three writes, no mapping, so that a file which somebody cuts
 * off or a disk that is full is an error and no signal.
 * Invariant: one thread writes at a time; another one's call that isn't for now is left out.
 * Cost: a clock where it isn't due; else about 60 us, most of it the kernel's counts. */
#include "mnem/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "sight/monitor/monitor_process.h"

_Static_assert(sizeof(mnem_monitor_numbers) == 128, "the layout is fixed");
_Static_assert(sizeof(mnem_monitor_account) == 72, "the layout is fixed");
_Static_assert(sizeof(mnem_monitor_model) == 56, "the layout is fixed");
_Static_assert(sizeof(mnem_monitor_view) ==
                   336 + 72 * MNEM_MONITOR_ACCOUNTS + 8 + 56 * MNEM_MONITOR_MODELS,
               "the layout is fixed");
_Static_assert(sizeof(mnem_monitor_file) == 24 + sizeof(mnem_monitor_view), "the layout is fixed");

static const uint64_t every_ns = 100000000;

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- one at a time ---- */

static bool lock_try(mnem_monitor *m) {
    return !__atomic_exchange_n(&m->lock, 1, __ATOMIC_ACQUIRE);
}

static void lock_take(mnem_monitor *m) {
    while (!lock_try(m)) sched_yield();
}

static void lock_give(mnem_monitor *m) {
    __atomic_store_n(&m->lock, 0, __ATOMIC_RELEASE);
}

/* ---- what is told ---- */

static void set_account(mnem_monitor_account *to, const mnem_account_info *from) {
    *to = (mnem_monitor_account){.bytes_live = from->bytes_live,
                                 .bytes_peak = from->bytes_peak,
                                 .limit_bytes = from->limit_bytes};
    snprintf(to->kind, sizeof to->kind, "%s", mnem_kind_text(from->kind));
    snprintf(to->tag, sizeof to->tag, "%s", from->tag);
}

/* Into the last row, as those before it had no room. */
static void add_rest(mnem_monitor_account *rest, const mnem_account_info *from) {
    snprintf(rest->kind, sizeof rest->kind, "others");
    rest->tag[0] = 0;
    rest->limit_bytes = 0;
    rest->bytes_live += from->bytes_live;
    rest->bytes_peak += from->bytes_peak;
}

static void fill_ledger(const mnem_ledger *ledger, mnem_monitor_view *v) {
    mnem_ledger_info info;
    mnem_account_info account;
    mnem_ledger_info_get(ledger, &info);
    v->budget_bytes = info.budget_bytes;
    v->bytes_live = info.bytes_live;
    v->bytes_peak = info.bytes_peak;
    v->refusals = info.refusals;
    v->accounts = 0;
    for (unsigned i = 0; mnem_ledger_account_get(ledger, i, &account); i++) {
        if (v->accounts < MNEM_MONITOR_ACCOUNTS)
            set_account(&v->account[v->accounts++], &account);
        else
            add_rest(&v->account[MNEM_MONITOR_ACCOUNTS - 1], &account);
    }
}

static void fill_view(const mnem_monitor *m, mnem_monitor_view *v) {
    mnem_process_usage usage;
    v->updated_ms = now_ms();
    if (m->ledger) fill_ledger(m->ledger, v);
    if (mnem_process_usage_get(&usage) == MNEM_OK) {
        v->bytes_resident = usage.bytes_resident;
        v->bytes_resident_peak = usage.bytes_peak;
    }
}

/* ---- the file ---- */

static bool write_at(const mnem_monitor *m, const void *bytes, size_t n, off_t at) {
    return pwrite(m->fd, bytes, n, at) == (ssize_t)n;
}

static bool write_sequence(mnem_monitor *m) {
    m->file.sequence++;
    return write_at(m, &m->file.sequence, sizeof m->file.sequence,
                    offsetof(mnem_monitor_file, sequence));
}

/* Under the lock. */
static void publish(mnem_monitor *m) {
    fill_view(m, &m->file.view);
    if (!write_sequence(m)) return;
    const bool whole =
        write_at(m, &m->file.view, sizeof m->file.view, offsetof(mnem_monitor_file, view));
    if (whole)
        write_sequence(m);
    else
        m->file.sequence++; /* readers see the odd one, until a write succeeds */
}

mnem_status mnem_monitor_init(mnem_monitor *m, const char *path, const char *program,
                              const char *model) {
    memset(m, 0, sizeof *m);
    mnem_monitor_view *v = &m->file.view;
    memcpy(m->file.magic, MNEM_MONITOR_MAGIC, sizeof m->file.magic);
    m->file.version = MNEM_MONITOR_VERSION;
    m->file.file_bytes = sizeof m->file;
    v->pid = (uint32_t)getpid();
    v->process_start = mnem__process_start(v->pid);
    v->started_ms = v->updated_ms = now_ms();
    snprintf(v->program, sizeof v->program, "%s", program ? program : "");
    snprintf(v->model, sizeof v->model, "%s", model ? model : "");
    if (strlen(path) >= sizeof m->path)
        return mnem__fail(MNEM_INVALID, "%s: the path is longer than %zu bytes", path,
                          sizeof m->path - 1);
    memcpy(m->path, path, strlen(path) + 1);
    if (unlink(path) != 0 && errno != ENOENT)
        return mnem__fail(MNEM_IO, "%s: %s", path, strerror(errno));
    m->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (m->fd < 0) return mnem__fail(MNEM_IO, "%s: %s", path, strerror(errno));
    const char *all = (const char *)m + offsetof(mnem_monitor, file);
    if (write_at(m, all, sizeof m->file, 0)) return MNEM_OK;
    const int error = errno;
    mnem_monitor_fini(m);
    return mnem__fail(MNEM_IO, "%s: %s", path, strerror(error));
}

void mnem_monitor_watch(mnem_monitor *m, const mnem_ledger *ledger) {
    if (m->fd <= 0) return;
    lock_take(m);
    m->ledger = ledger;
    lock_give(m);
}

void mnem_monitor_serve(mnem_monitor *m, const mnem_monitor_model *models, uint32_t count) {
    mnem_monitor_view *v = &m->file.view;
    const uint32_t n = count < MNEM_MONITOR_MODELS ? count : MNEM_MONITOR_MODELS;
    if (m->fd <= 0) return;
    lock_take(m);
    if (n) memcpy(v->served, models, n * sizeof *models);
    v->models = n;
    v->models_more = count - n;
    lock_give(m);
}

void mnem_monitor_tell(mnem_monitor *m, const mnem_monitor_numbers *numbers, bool now) {
    if (m->fd <= 0) return;
    const uint64_t time = mnem__nanoseconds();
    const uint64_t last = __atomic_load_n(&m->written_ns, __ATOMIC_RELAXED);
    if (!now && last && time - last < every_ns) return;
    if (now)
        lock_take(m);
    else if (!lock_try(m))
        return;
    if (numbers) {
        m->file.view.numbers = *numbers;
        m->file.view.numbers.phase[sizeof numbers->phase - 1] = 0;
    }
    publish(m);
    __atomic_store_n(&m->written_ns, time, __ATOMIC_RELAXED);
    lock_give(m);
}

void mnem_monitor_fini(mnem_monitor *m) {
    if (m->fd <= 0) return;
    unlink(m->path);
    close(m->fd);
    m->fd = 0;
}
