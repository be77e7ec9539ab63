/* rewrite.c: see rewrite.h. Files are the same when device and inode are, whatever their names. */
#include "model/convert/rewrite.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file/new_file.h"
#include "base/team/team.h"
#include "base/thread.h"
#include "model/gguf/gguf.h"

bool mnem__rewrite_drops(const char *key) {
    return strncmp(key, "split.", 6) == 0 || strcmp(key, MNEM__GGUF_COMPACT) == 0;
}

static bool is_part(const mnem_model *model, const char *path) {
    struct stat out, in;
    if (stat(path, &out) != 0) return false;
    for (uint32_t i = 0; mnem_model_file_path(model, i); i++)
        if (stat(mnem_model_file_path(model, i), &in) == 0 && in.st_dev == out.st_dev &&
            in.st_ino == out.st_ino)
            return true;
    return false;
}

mnem_status mnem__rewrite_check(const mnem_model *model, const char *what, const char *to) {
    char temporary[4096 + sizeof MNEM__NEW_FILE_END];
    snprintf(temporary, sizeof temporary, "%.4096s" MNEM__NEW_FILE_END, to);
    const char *paths[] = {to, temporary};
    for (int i = 0; i < 2; i++)
        if (is_part(model, paths[i]))
            return mnem__fail(MNEM_INVALID,
                              "%s: the output would overwrite the %s, which is an input; choose "
                              "another name for the output",
                              paths[i], what);
    return MNEM_OK;
}

static mnem_status write_file(mnem__rewrite *job, const mnem__rewrite_steps *steps,
                              const char *to) {
    mnem_status status = steps->take_buffers(job);
    if (status == MNEM_OK) status = mnem_gguf_create(to, &job->writer);
    if (status == MNEM_OK) status = steps->write_keys(job);
    if (status == MNEM_OK) status = steps->write_tensors(job);
    if (status == MNEM_OK) return mnem_gguf_finish(job->writer);
    mnem_gguf_abort(job->writer);
    return status;
}

mnem_status mnem__rewrite_run(mnem__rewrite *job, const mnem__rewrite_steps *steps,
                              const mnem_model *model, const char *to, int threads) {
    if (threads <= 0) threads = mnem__processors();
    mnem_status status = mnem__rewrite_check(model, "model", to);
    if (status == MNEM_OK)
        status = mnem_team_create(threads > MNEM_TEAM_MAX ? MNEM_TEAM_MAX : threads, &job->team);
    if (status == MNEM_OK) {
        mnem__team_adapt(job->team);
        status = write_file(job, steps, to);
    }
    mnem_team_destroy(job->team);
    return status;
}
