/* plan_devices.c: `mnem plan --devices 24G,24G,16G`: which layers go where.
 *
 * The chain of embedding, layers and head is cut into pieces in the order of the devices. The
 * library cuts; here the sizes are read and its answer shown, with the devices that got nothing. */
#include <string.h>

#include "verbs/layout/plan_tool.h"

enum { DEVICES_MAX = 64 };

/* "24G,24G,16G" */
static int parse_devices(const char *text, mnem_engine_device *devices, int32_t *count) {
    for (*count = 0;; text++) {
        char word[32];
        const size_t n = strcspn(text, ",");
        if (*count == DEVICES_MAX)
            return tool_usage(
                "plan", "--devices has more than %d sizes, the most that it takes: leave some out",
                DEVICES_MAX);
        snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word), text);
        if (mnem_size_parse(word, &devices[*count].capacity_bytes) != MNEM_OK)
            return tool_usage("plan",
                              "--devices takes sizes separated by commas, such as 24G,24G,16G; "
                              "\"%s\" is not a size",
                              word);
        ++*count;
        text += n;
        if (!*text) return TOOL_OK;
    }
}

static char *layers_text(const mnem_engine_device *d, char text[TOOL_TEXT]) {
    if (d->layers == 0)
        snprintf(text, TOOL_TEXT, "-");
    else if (d->layers == 1)
        snprintf(text, TOOL_TEXT, "%d", d->layer_begin);
    else
        snprintf(text, TOOL_TEXT, "%d to %d", d->layer_begin, d->layer_begin + d->layers - 1);
    return text;
}

static void print_device(int32_t i, const mnem_engine_device *d) {
    char layers[TOOL_TEXT], size[6][TOOL_TEXT];
    tool_outf("  %6d %12s %10s %10s %11s %10s %10s %10s", i, layers_text(d, layers),
              tool_size(d->weight_bytes, size[0]), tool_size(d->kv_bytes, size[1]),
              tool_size(d->activation_bytes, size[2]), tool_size(d->bytes_used, size[3]),
              tool_size(d->capacity_bytes, size[4]),
              tool_size(d->capacity_bytes - d->bytes_used, size[5]));
    if (d->bytes_used == 0) tool_outf("  not needed");
    if (d->embedding) tool_outf("  embedding");
    if (d->head) tool_outf("  head");
    tool_outf("\n");
}

static int print_split(const tool_stage *stage, const mnem_engine_device *devices, int32_t count,
                       const mnem_engine_split *split) {
    char room[TOOL_TEXT];
    tool_report_model(stdout, stage);
    tool_outf("split over %d device%s: context %d token%s, KV %s, chunks of %d\n", count,
              tool_s((uint64_t)count), split->context, tool_s((uint64_t)split->context),
              mnem_kv_text(split->kv), split->chunk);
    tool_outf("  device       layers    weights         kv activations       used         of"
              "       room\n");
    for (int32_t i = 0; i < count; i++) print_device(i, &devices[i]);
    tool_outf("  the fullest device has %s left; no other split of the layers leaves more\n",
              tool_size(split->room_bytes, room));
    return tool_out_end();
}

static json_t *device_json(const mnem_engine_device *d) {
    return json_pack("{s:I, s:i, s:i, s:b, s:b, s:I, s:I, s:I, s:I}", "capacity_bytes",
                     (json_int_t)d->capacity_bytes, "layer_begin", d->layer_begin, "layers",
                     d->layers, "embedding", d->embedding, "head", d->head, "weight_bytes",
                     (json_int_t)d->weight_bytes, "kv_bytes", (json_int_t)d->kv_bytes,
                     "activation_bytes", (json_int_t)d->activation_bytes, "bytes_used",
                     (json_int_t)d->bytes_used);
}

static int print_json(const mnem_engine_device *devices, int32_t count,
                      const mnem_engine_split *split) {
    json_t *list = json_array();
    for (int32_t i = 0; i < count; i++) json_array_append_new(list, device_json(&devices[i]));
    tool_out_json("devices", json_pack("{s:i, s:s, s:i, s:I, s:o}", "context", split->context, "kv",
                                       mnem_kv_text(split->kv), "chunk", split->chunk, "room_bytes",
                                       (json_int_t)split->room_bytes, "devices", list));
    return tool_out_end();
}

int tool_plan_devices(tool_stage *stage, const char *sizes) {
    mnem_engine_device devices[DEVICES_MAX] = {0};
    mnem_engine_split split;
    int32_t count;
    int code = parse_devices(sizes, devices, &count);
    if (code != TOOL_OK) return code;
    const mnem_status status =
        mnem_engine_split_make(stage->model, &stage->options, devices, count, &split);
    if (status == MNEM_OVER_BUDGET && split.short_bytes)
        return tool_fail_split(&split, devices, count);
    if (status != MNEM_OK) return tool_fail(status);
    if (stage->args->json) return print_json(devices, count, &split);
    return print_split(stage, devices, count, &split);
}
