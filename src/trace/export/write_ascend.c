/* write_ascend.c: a trace as the folder that MindStudio Insight opens as a run of PyTorch's:
 *
 *     NAME_ascend_pt/ASCEND_PROFILER_OUTPUT/operator_memory.csv  a row a block, when it ends
 *                                           memory_record.csv    a row a change of a sum
 *
 * It silently skips rows with another number of columns than the header, splits at commas even
 * within quotes, and needs Component as the first column. Sizes in KB are of 1024 bytes with four
 * digits, in MB of 2^20 with seven: a byte more is another number. A device's sum is its component
 * PTA, what the kernel counts of the process is APP. What is reserved is what is live, as in a
 * ledger. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "trace/export/export.h"
#include "trace/export/export_file.h"

typedef struct ascend {
    mnem__export_file operators, record;
} ascend;

static const char operator_head[] =
    "Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us),Duration(us),"
    "Active Duration(us),Allocation Total Allocated(MB),Allocation Total Reserved(MB),"
    "Allocation Total Active(MB),Release Total Allocated(MB),Release Total Reserved(MB),"
    "Release Total Active(MB),Stream Ptr,Device Type\n";
static const char record_head[] = "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),"
                                  "Total Active(MB),Stream Ptr,Device Type\n";

static mnem_status make_folder(const char *path) {
    if (mkdir(path, 0777) == 0 || errno == EEXIST) return MNEM_OK;
    return mnem__fail(MNEM_IO, "%s: can't create the folder: %s", path, strerror(errno));
}

static mnem_status open_files(ascend *a, const char *path) {
    char folder[PATH_MAX], file[PATH_MAX];
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    const int used = snprintf(folder, sizeof folder, "%.*s/ASCEND_PROFILER_OUTPUT", (int)n, path);
    if (used < 0 || (size_t)used + 24 > sizeof folder)
        return mnem__fail(MNEM_INVALID, "%.60s...: the path is too long", path);
    MNEM__TRY(make_folder(path));
    MNEM__TRY(make_folder(folder));
    memcpy(file, folder, (size_t)used);
    strcpy(file + used, "/operator_memory.csv");
    MNEM__TRY(mnem__export_open(&a->operators, file));
    strcpy(file + used, "/memory_record.csv");
    return mnem__export_open(&a->record, file);
}

static void on_open(mnem__export *e, const char *path) {
    ascend *a = e->own;
    a->operators.file.fd = a->record.file.fd = -1; /* not open: closing does nothing */
    e->status = open_files(a, path);
    if (e->status != MNEM_OK) a->operators.status = a->record.status = e->status;
    mnem__export_put(&a->operators, operator_head, sizeof operator_head - 1);
    mnem__export_put(&a->record, record_head, sizeof record_head - 1);
}

/* ---- rows ---- */

static double us(uint64_t ns) {
    return (double)ns / 1e3;
}

static double kib(uint64_t bytes) {
    return (double)bytes / 1024;
}

static double mib(uint64_t bytes) {
    return (double)bytes / (1 << 20);
}

static void put_record(ascend *a, const char *component, uint64_t ns, uint64_t live,
                       uint64_t reserved, uint32_t stream, uint32_t device) {
    mnem__export_text(&a->record, "%s,%.3f,%.7f,%.7f,%.7f,%" PRIu32 ",NPU:%" PRIu32 "\n", component,
                      us(ns), mib(live), mib(reserved), mib(live), stream, device);
}

/* total: of the device, as it ended; NULL: it is still live. */
static void put_operator(mnem__export *e, uint32_t device, const mnem__block *b, uint64_t ns,
                         const uint64_t *total) {
    ascend *a = e->own;
    mnem__export_label label;
    mnem__export_label_of(e, b, ",\"", &label);
    mnem__export_text(&a->operators, "%s %s%s%s,%.4f,%.3f,", label.kind, label.tag,
                      label.site[0] ? " " : "", label.site, kib(b->bytes), us(b->born_ns));
    if (total)
        mnem__export_text(&a->operators, "%.3f,%.3f,%.3f,%.3f,", us(ns), us(ns),
                          us(ns - b->born_ns), us(ns - b->born_ns));
    else
        mnem__export_put(&a->operators, ",,,,", 4);
    const double born = mib(b->total_born);
    mnem__export_text(&a->operators, "%.7f,%.7f,%.7f,", born, born, born);
    if (total)
        mnem__export_text(&a->operators, "%.7f,%.7f,%.7f,", mib(*total), mib(*total), mib(*total));
    else
        mnem__export_put(&a->operators, ",,,", 3);
    mnem__export_text(&a->operators, "%" PRIu32 ",NPU:%" PRIu32 "\n", b->stream, device);
}

static void on_begin(mnem__export *e, uint32_t device, const mnem__block *b) {
    put_record(e->own, "PTA", b->born_ns, b->total_born, b->total_born, b->stream, device);
}

static void on_end(mnem__export *e, uint32_t device, const mnem__block *b, uint64_t ns) {
    const uint64_t live = e->device[device].live;
    put_record(e->own, "PTA", ns, live, live, b->stream, device);
    put_operator(e, device, b, ns, &live);
}

static void on_resident(mnem__export *e, uint64_t ns, uint64_t bytes) {
    put_record(e->own, "APP", ns, 0, bytes, 0, 0);
}

static void put_live(void *context, uint32_t device, const mnem__block *b) {
    put_operator(context, device, b, 0, NULL);
}

static mnem_status on_close(mnem__export *e, mnem_status status) {
    ascend *a = e->own;
    if (status == MNEM_OK) mnem__export_live(e, e, put_live);
    status = mnem__export_close(&a->operators, status);
    return mnem__export_close(&a->record, status);
}

static const mnem__export_format format = {.bytes = sizeof(ascend),
                                           .open = on_open,
                                           .begin = on_begin,
                                           .end = on_end,
                                           .resident = on_resident,
                                           .close = on_close};

mnem_status mnem__trace_write_ascend(mnem_trace_reader *reader, const char *path) {
    return mnem__export_write(&format, reader, path);
}
