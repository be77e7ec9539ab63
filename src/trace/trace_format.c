/* trace_format.c: maps the ending of a file's name to a format and its writer. */
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "trace/export/export.h"
#include "trace/trace_source.h"

typedef struct file_format {
    const char *endings[2];
    mnem_trace_format format;
    mnem_status (*write)(mnem_trace_reader *reader, const char *path);
} file_format;

/* A line for each of MNEM_TRACE_FORMAT_LIST. */
static const file_format formats[] = {
    {{".pftrace", ".perfetto"}, MNEM_TRACE_PERFETTO, mnem__trace_write_perfetto},
    {{".json"}, MNEM_TRACE_CHROME, mnem__trace_write_chrome},
    {{".pickle"}, MNEM_TRACE_SNAPSHOT, mnem__trace_write_snapshot},
    {{".folded"}, MNEM_TRACE_FOLDED, mnem__trace_write_folded},
    {{"_ascend_pt", "_ascend_pt/"}, MNEM_TRACE_ASCEND, mnem__trace_write_ascend},
};
_Static_assert(sizeof formats / sizeof *formats == MNEM_TRACE_FORMATS, "one for each");

static bool ends_in(const char *path, const char *ending) {
    const size_t n = strlen(path), m = ending ? strlen(ending) : 0;
    return m && n > m && !strcasecmp(path + n - m, ending);
}

mnem_status mnem_trace_format_of(const char *path, mnem_trace_format *out) {
    for (size_t i = 0; i < MNEM_TRACE_FORMATS; i++) {
        if (!ends_in(path, formats[i].endings[0]) && !ends_in(path, formats[i].endings[1]))
            continue;
        *out = formats[i].format;
        return MNEM_OK;
    }
#define ROW(name, endings, text) "; " endings " (" text ")"
    static const char list[] = MNEM_TRACE_FORMAT_LIST(ROW);
#undef ROW
    return mnem__fail(MNEM_INVALID,
                      "trace: %s: the end of the name chooses the format and must be %s", path,
                      list + 2);
}

mnem_status mnem__trace_write_as(mnem_trace_format format, mnem_trace_reader *reader,
                                 const char *path) {
    return formats[format].write(reader, path);
}
