/* train_folder.c: a run's folder: one run at a time, and nothing left of a run that never began.
 *
 * The idea: what is made before step 1 (vocabulary, tokens, config) is made in a folder of its own
 * and moved at once when all is there:
 *
 *     OUT/.mnem-tmp/vocabulary.gguf, tokens, config.json  ──► OUT/       the run has begun
 *     OUT.dry-XXXXXX/...                                            --dry-run: never moved
 *
 * Text from standard input is OUT/text from the start, because its cache of tokens knows its name.
 * The text of a run without a checkpoint, which the new one would replace, waits in
 * OUT/.mnem-tmp. Files of these names that no run left are never replaced.
 *
 * Invariant: config.json comes last, so a folder that has it has what it needs; a refusal, Ctrl-C
 * before step 1 and --dry-run leave the disk as it was. Cost: a rename for each file. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "output_file.h"
#include "verbs/train/train_tool.h"

/* In the order in which they are moved. */
static const char *const begun_with[] = {"vocabulary.gguf", "tokens", "config.json"};
enum { BEGUN_WITH = sizeof begun_with / sizeof begun_with[0] };

static bool is_staged(const train_run *run, const char *name) {
    if (!*run->staging) return false;
    for (int i = 0; i < BEGUN_WITH; i++)
        if (!strcmp(name, begun_with[i])) return true;
    return run->asked->dry_run;
}

const char *train_path(const train_run *run, const char *name) {
    static char paths[8][PATH_MAX + 64];
    static int next;
    char *path = paths[next++ % 8];
    const char *folder = is_staged(run, name) ? run->staging : run->out;
    const size_t n = strlen(folder); /* "out/" as completion writes it: one stroke is enough */
    snprintf(path, sizeof paths[0], "%s%s%s", folder, n && folder[n - 1] == '/' ? "" : "/", name);
    return path;
}

/* ---- opening ---- */

/* One run at a time works in a folder; the system lets go of it when the process ends. */
static int lock_folder(const train_run *run) {
    const int fd = open(run->out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return TOOL_OK;
    return tool_failed("the folder %s is in use by another mnem train: wait until that one ends, "
                       "or choose another --out",
                       run->out);
}

static int cant_make(const char *path) {
    return tool_failed("can't create the folder %s: %s", path, strerror(errno));
}

/* A folder that is only ours, with files only. */
static void remove_staging(const char *path) {
    char file[2 * PATH_MAX];
    DIR *folder = opendir(path);
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.') unlink(file);
    }
    closedir(folder);
    rmdir(path);
}

/* Where the text of an earlier run waits until this one has begun. */
static void waiting_text(const char *staging, char path[2 * PATH_MAX]) {
    snprintf(path, 2 * PATH_MAX, "%s/" TRAIN_SPOOL, staging);
}

static void put_text_back(const train_run *run, const char *staging) {
    char path[2 * PATH_MAX];
    waiting_text(staging, path);
    (void)rename(path, train_path(run, TRAIN_SPOOL)); /* if there is one */
}

static int open_staging(train_run *run) {
    char path[sizeof run->staging];
    if (snprintf(path, sizeof path, "%s/" TOOL_NEW_END, run->out) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return cant_make(run->out);
    }
    put_text_back(run, path);
    remove_staging(path); /* of a run that was killed */
    if (run->asked->resume) return TOOL_OK;
    if (mkdir(path, 0777) != 0) return cant_make(path);
    memcpy(run->staging, path, sizeof path);
    return TOOL_OK;
}

/* Beside the run's folder, which may be in use and isn't touched. */
static int open_dry(train_run *run) {
    char path[sizeof run->staging];
    size_t n = strlen(run->out);
    while (n > 1 && run->out[n - 1] == '/') n--;
    if (snprintf(path, sizeof path, "%.*s.dry-XXXXXX", (int)n, run->out) >= (int)sizeof path)
        errno = ENAMETOOLONG;
    else if (mkdtemp(path)) {
        memcpy(run->staging, path, sizeof path);
        return TOOL_OK;
    }
    return cant_make(run->out);
}

static int make_folder(train_run *run) {
    struct stat about;
    if (mkdir(run->out, 0777) == 0) {
        run->made = true;
        return TOOL_OK;
    }
    if (errno == EEXIST && stat(run->out, &about) == 0) {
        if (S_ISDIR(about.st_mode)) return TOOL_OK;
        errno = ENOTDIR;
    }
    return cant_make(run->out);
}

/* Is there what no run left, and this one would replace? A run that was killed before it began has
 * no config.json, but what it made. */
static const char *find_foreign(const train_run *run) {
    static const char *const made[] = {"config.json", "vocabulary.gguf", "tokens",
                                       "text",        "log.jsonl",       "loss.svg",
                                       "model.gguf",  "adapter.gguf"};
    const char *path = train_path(run, "config.json");
    struct stat about;
    if (access(path, F_OK) == 0) return train_config_is_run(path) ? NULL : path;
    if (stat(train_path(run, TOOL_NEW_END), &about) == 0) return NULL;
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (lstat(path = train_path(run, made[i]), &about) == 0) return path;
    return NULL;
}

static int check_foreign(const train_run *run) {
    const char *path = find_foreign(run);
    if (!path) return TOOL_OK;
    return tool_failed(
        "%s does not belong to a training run, and a run in %s would replace it: choose "
        "another --out",
        path, run->out);
}

static int open_folder(train_run *run) {
    const train_options *asked = run->asked;
    if (asked->resume) {
        if (access(train_path(run, "config.json"), F_OK) != 0)
            return tool_failed("the folder %s holds no training run to resume: give the --out of "
                               "the run, or leave out "
                               "--resume to start one",
                               run->out);
    } else if (asked->dry_run) {
        return open_dry(run);
    } else if (access(train_path(run, "checkpoint"), F_OK) == 0) {
        return train_resume_say(run);
    }
    int code = asked->resume ? TOOL_OK : check_foreign(run);
    if (code == TOOL_OK && !asked->resume) code = make_folder(run);
    if (code == TOOL_OK) code = lock_folder(run);
    return code == TOOL_OK ? open_staging(run) : code;
}

/* Of several ranks it is rank 0's; the others read what is in it. */
int train_folder_open(train_run *run) {
    run->out = train_resume_folder(run->asked);
    const int code = train_follows() ? TOOL_OK : open_folder(run);
    if (code != TOOL_OK) return code;
    const mnem_status status = train_ranks_say(run->staging, sizeof run->staging);
    if (status != MNEM_OK) return tool_fail(status);
    if (!train_follows() || !run->asked->resume ||
        access(train_path(run, "config.json"), F_OK) == 0)
        return TOOL_OK;
    return tool_failed(
        "this rank can't read the checkpoint in %s: all ranks need access to the folder of the run",
        run->out);
}

/* ---- keeping, or leaving nothing ---- */

int train_folder_keep(train_run *run) {
    char from[BEGUN_WITH][PATH_MAX + 64];
    if (!*run->staging) return TOOL_OK;
    for (int i = 0; i < BEGUN_WITH; i++)
        snprintf(from[i], sizeof from[i], "%s", train_path(run, begun_with[i]));
    char staging[sizeof run->staging];
    memcpy(staging, run->staging, sizeof staging);
    run->staging[0] = 0;
    unlink(train_path(run, "config.json")); /* of a run without a checkpoint, which this replaces */
    char old_text[2 * PATH_MAX];
    waiting_text(staging, old_text);
    for (int i = 0; i < BEGUN_WITH; i++) {
        const char *to = train_path(run, begun_with[i]);
        if (i == BEGUN_WITH - 1) unlink(old_text);
        if (rename(from[i], to) == 0) continue;
        tool_message("can't write the file %s: %s", to, strerror(errno));
        while (i-- > 0) unlink(train_path(run, begun_with[i]));
        memcpy(run->staging, staging, sizeof staging);
        return TOOL_FAILED;
    }
    rmdir(staging);
    return TOOL_OK;
}

void train_folder_close(train_run *run) {
    char staging[sizeof run->staging];
    if (!*run->staging || train_follows()) return;
    memcpy(staging, run->staging, sizeof staging);
    run->staging[0] = 0;
    if (!run->asked->dry_run && run->spooled) {
        unlink(train_path(run, TRAIN_SPOOL));
        put_text_back(run, staging);
    }
    remove_staging(staging);
    if (run->asked->dry_run) return;
    if (run->made) rmdir(run->out);
}

/* ---- standard input ---- */

static int cant_write(const char *path) {
    return tool_failed("can't write the file %s: %s", path, strerror(errno));
}

static int copy_input(int fd, const char *path, uint64_t *bytes) {
    char buffer[1 << 14];
    for (*bytes = 0; !tool_interrupted();) {
        const ssize_t n = read(STDIN_FILENO, buffer, sizeof buffer);
        if (n == 0) return TOOL_OK;
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return tool_failed("can't read standard input: %s", strerror(errno));
        if (!tool_new_write(fd, buffer, (size_t)n)) return cant_write(path);
        *bytes += (uint64_t)n;
    }
    return TOOL_INTERRUPTED;
}

/* The whole path of what was read takes the place of "-". */
static int name_spool(const char *path, char **name) {
    char whole[PATH_MAX];
    char *copy = realpath(path, whole) ? strdup(whole) : NULL;
    if (!copy) return cant_write(path);
    free(*name);
    *name = copy;
    return TOOL_OK;
}

/* What is at OUT/text moves aside. It may be an earlier run's, but not what is read as well. */
static int move_text_aside(const train_run *run, const char *path) {
    char old[2 * PATH_MAX], whole[PATH_MAX];
    struct stat about;
    if (run->asked->dry_run || lstat(path, &about) != 0) return TOOL_OK;
    if (!S_ISREG(about.st_mode))
        return tool_failed("the text of standard input would be saved as %s, which is not a "
                           "regular file: remove it, or choose another --out",
                           path);
    for (int32_t i = 0; realpath(path, whole) && i < run->config.files; i++)
        if (!strcmp(run->config.file[i], whole))
            return tool_failed("the text of standard input would be saved as %s, which --data also "
                               "names: rename that file",
                               path);
    waiting_text(run->staging, old);
    return rename(path, old) == 0 ? TOOL_OK : cant_write(path);
}

static int spool(train_run *run, int32_t file) {
    const char *path = train_path(run, TRAIN_SPOOL);
    uint64_t bytes;
    int code = move_text_aside(run, path);
    if (code != TOOL_OK) return code;
    run->spooled = file + 1;
    if (isatty(STDIN_FILENO) && !run->args->quiet)
        tool_message("reading the text from standard input; press Ctrl-D to end it");
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return cant_write(path);
    code = copy_input(fd, path, &bytes);
    if (close(fd) != 0 && code == TOOL_OK) code = cant_write(path);
    if (code != TOOL_OK) return code;
    if (bytes > 0) return name_spool(path, &run->config.file[file]);
    return tool_failed("standard input has no text to train on: pipe a text into mnem train, or "
                       "name files with --data");
}

int train_folder_spool(train_run *run) {
    int code = TOOL_OK;
    for (int32_t i = 0; i < run->config.files && code == TOOL_OK; i++)
        if (!strcmp(run->config.file[i], "-")) code = spool(run, i);
    return code;
}

/* ---- the disk ---- */

/* Bytes that a new file may have, and all of them together; UINT64_MAX: not limited, or not known.
 */
static void look_at_disk(const char *folder, uint64_t *one, uint64_t *all) {
    struct rlimit limit;
    struct statvfs about;
    *one = *all = UINT64_MAX;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        *one = limit.rlim_cur;
    if (statvfs(folder, &about) == 0 && about.f_blocks > 0)
        *all = (uint64_t)about.f_bavail * about.f_frsize;
}

/* A checkpoint replaces the one before, which stands until then; the result comes last. */
int train_folder_room(const train_run *run) {
    const mnem_train_plan *p = &run->plan;
    const uint64_t checkpoint = p->weight_bytes + p->optimizer_bytes;
    const uint64_t result = run->config.lora ? p->weight_bytes : p->weight_bytes / 2;
    const bool saved = access(train_path(run, "checkpoint"), F_OK) == 0;
    const bool again = run->asked->save_every || train_times_of(run).saves > 1;
    const uint64_t more = saved ? 0 : result > checkpoint || !again ? result : checkpoint;
    char needed[TOOL_TEXT], each[TOOL_TEXT], free_text[TOOL_TEXT];
    uint64_t one, all;
    if (train_follows()) return TOOL_OK;
    look_at_disk(run->out, &one, &all);
    tool_size(checkpoint, each);
    if (checkpoint > one)
        return tool_failed(
            "a checkpoint of this run takes %s, but files may have %s at most (ulimit "
            "-f): raise that limit",
            each, tool_size(one, free_text));
    if (checkpoint + more <= all) return TOOL_OK;
    return tool_failed(
        "the disk of %s has %s free, but the files of this run need %s: a checkpoint "
        "takes %s, the result %s: free some space, or choose an --out on another "
        "disk",
        run->out, tool_size(all, free_text), tool_size(checkpoint + more, needed), each,
        tool_size(result, (char[TOOL_TEXT]){0}));
}
