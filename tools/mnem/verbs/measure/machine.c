/* machine.c: bandwidth of memory and of the disk. */
#include "verbs/measure/machine.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "verbs/measure/other_load.h"

/* ---- read bandwidth ---- */

typedef struct reading {
    const uint64_t *words;
    int64_t count;
    uint64_t sums[MNEM_TEAM_MAX]; /* so that the reads can't be left out */
} reading;

typedef uint64_t lanes __attribute__((vector_size(64)));

#define READ_LOOP                                                                                  \
    lanes a = {0}, b = {0}, c = {0}, d = {0};                                                      \
    for (const lanes *v = (const void *)words, *end = v + count / 8; v + 3 < end; v += 4)          \
        a += v[0], b += v[1], c += v[2], d += v[3];                                                \
    a += b + c + d;                                                                                \
    return a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];

static uint64_t read_plain(const uint64_t *words, int64_t count) {
    READ_LOOP
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static uint64_t read_avx2(const uint64_t *words, int64_t count) {
    READ_LOOP
}
__attribute__((target("avx512f"))) static uint64_t read_avx512(const uint64_t *words,
                                                               int64_t count) {
    READ_LOOP
}
#endif

static uint64_t read_words(const uint64_t *words, int64_t count) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return read_avx512(words, count);
    if (__builtin_cpu_supports("avx2")) return read_avx2(words, count);
#endif
    return read_plain(words, count);
}

static void read_part(const mnem_worker *worker, void *context) {
    reading *r = context;
    int64_t begin, end;
    mnem_team_split(worker, r->count, 4096, &begin, &end);
    r->sums[worker->index] += read_words(r->words + begin, end - begin);
}

/* The block: 256 MiB, or half of what the budget leaves. Below 32 MiB caches would be measured. */
static uint64_t block_bytes(const tool_stage *stage) {
    mnem_ledger_info info;
    mnem_ledger_info_get(stage->ledger, &info);
    const uint64_t live = info.bytes_live, most = info.budget_bytes;
    uint64_t left = most > live ? most - live : 0, bytes = (uint64_t)256 << 20;
    if (most && bytes > left / 2) bytes = left / 2;
    return bytes & ~(uint64_t)((1 << 20) - 1);
}

static double time_reads(mnem_team *team, reading *r) {
    double best = 0, end = tool_clock() + 0.7;
    while (tool_clock() < end && !tool_interrupted()) {
        double start = tool_clock();
        mnem_team_run(team, read_part, r);
        double rate = 8.0 * (double)r->count / (tool_clock() - start);
        if (rate > best) best = rate;
    }
    return best;
}

int tool_machine_memory(tool_stage *stage, double *bytes_per_s) {
    static reading r;
    mnem_device *device = NULL;
    mnem_block block = {0};
    mnem_team *team = NULL;
    uint64_t bytes = block_bytes(stage);
    *bytes_per_s = 0;
    if (bytes < (uint64_t)32 << 20) return TOOL_OK; /* the budget has no room to measure in */
    mnem_status status = mnem_device_open("host", NULL, &device);
    if (status == MNEM_OK)
        status = mnem_ledger_alloc(stage->ledger, device, MNEM_KIND_WORKSPACE, "bandwidth", bytes,
                                   64, &block);
    if (status == MNEM_OK) status = mnem_team_create(stage->plan.threads, &team);
    if (status == MNEM_OK) {
        r = (reading){.words = mnem_block_host(&block), .count = (int64_t)(bytes / 8)};
        memset(mnem_block_host(&block), 1, bytes);
        *bytes_per_s = time_reads(team, &r);
    }
    mnem_team_destroy(team);
    if (block.bytes) mnem_ledger_free(stage->ledger, MNEM_KIND_WORKSPACE, "bandwidth", &block);
    mnem_device_close(device);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

int tool_machine_loaded(tool_stage *stage, double *bytes_per_s, tool_profile_age *age) {
    tool_load_times before, after;
    const bool known = tool_load_get(&before);
    const int code = tool_machine_memory(stage, bytes_per_s);
    if (code != TOOL_OK || *bytes_per_s == 0) return code;
    age->load = known && tool_load_get(&after) ? tool_load_share(&before, &after) : -1;
    age->measured_at = (double)time(NULL);
    return TOOL_OK;
}

/* ---- disk bandwidth ---- */

static double time_disk(int fd, char *buffer, size_t room) {
    double start = tool_clock(), seconds = 0;
    uint64_t bytes = 0;
    for (ssize_t n; seconds < 1 && !tool_interrupted() && (n = read(fd, buffer, room)) > 0;) {
        bytes += (uint64_t)n;
        seconds = tool_clock() - start;
    }
    return seconds > 0 ? (double)bytes / seconds : 0;
}

double tool_machine_disk(const tool_stage *stage) {
    enum { ROOM = 1 << 20 };
    mnem_device *device = NULL;
    mnem_block block = {0};
    double rate = 0;
    int fd = open(mnem_model_file_path(stage->model, 0), O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (fd < 0) return 0;
    if (mnem_device_open("host", NULL, &device) == MNEM_OK &&
        mnem_ledger_alloc(stage->ledger, device, MNEM_KIND_IO, "bandwidth", ROOM, 4096, &block) ==
            MNEM_OK) {
        rate = time_disk(fd, mnem_block_host(&block), ROOM);
        mnem_ledger_free(stage->ledger, MNEM_KIND_IO, "bandwidth", &block);
    }
    mnem_device_close(device);
    close(fd);
    return rate;
}

/* ---- both again ---- */

int tool_machine_again(tool_stage *stage, tool_profile_age *age) {
    mnem_machine_profile *p = &stage->profile;
    tool_profile_age now = *age;
    double read;
    age->again_at = 0;
    tool_interrupt_watch(NULL);
    mnem_session_destroy(stage->session);
    stage->session = NULL;
    const int code = tool_machine_loaded(stage, &read, &now);
    if (code != TOOL_OK || read == 0) return code;
    age->again_at = now.measured_at;
    if (read <= p->read_bytes_per_s) return TOOL_OK;
    const double disk = tool_machine_disk(stage);
    p->read_bytes_per_s = read;
    if (disk > p->disk_bytes_per_s) p->disk_bytes_per_s = disk;
    age->measured_at = now.measured_at;
    age->load = now.load;
    return TOOL_OK;
}
