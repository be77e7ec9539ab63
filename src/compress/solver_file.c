/* solver_file.c: stores solved rows until the model is written. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file/file_bytes.h"
#include "compress/solver_private.h"

static mnem_status failed(const mnem__solver *s, const char *what, int error) {
    return mnem__fail(
        MNEM_IO, "%s: the temporary file of new weights can't be %s (%s); run the command again",
        s->path, what,
        error ? strerrordesc_np(error) : "the file became shorter than what was written to it");
}

mnem_status mnem__solver_file_open(mnem__solver *s, const char *path) {
    if (snprintf(s->path, sizeof s->path, "%s.codes", path) >= (int)sizeof s->path)
        return mnem__fail(MNEM_INVALID,
                          "%s: the path of the output has too many bytes for a temporary file "
                          "beside it; choose a shorter one",
                          path);
    s->fd = open(s->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (s->fd < 0) return failed(s, "created", errno);
    unlink(s->path);
    return MNEM_OK;
}

mnem_status mnem__solver_file_write(const mnem__solver *s, uint64_t at, const void *rows,
                                    uint64_t bytes) {
    if (mnem__file_write_at(s->fd, rows, bytes, at) == bytes) return MNEM_OK;
    return failed(s, "written", errno);
}

static mnem_status file_read(const mnem__solver *s, uint64_t at, void *rows, uint64_t bytes) {
    if (mnem__file_read_at(s->fd, rows, bytes, at) == bytes) return MNEM_OK;
    return failed(s, "read", errno);
}

mnem_status mnem__solver_give(void *solver, uint32_t tensor, int64_t first, int64_t rows,
                              uint8_t *out, bool *given) {
    const mnem__solver *s = solver;
    mnem_tensor_info t;
    const uint64_t at = s->bytes ? s->tensors[tensor].at : 0;
    *given = at != 0;
    if (!*given) return MNEM_OK;
    mnem_model_tensor_get(s->model, tensor, &t);
    const uint64_t bytes = mnem_type_row_bytes(s->types[tensor], t.shape[t.dims - 1]);
    return file_read(s, at - 1 + (uint64_t)first * bytes, out, (uint64_t)rows * bytes);
}
