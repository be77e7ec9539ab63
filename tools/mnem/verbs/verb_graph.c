/* verb_graph.c: `mnem graph`: the tensors of a model's programs, when they live and where. */
#include <stdlib.h>
#include <string.h>

#include "verbs/layout/graph_tool.h"

enum { PHASE_DECODE, PHASE_PREFILL, PHASE_TRAIN };

static int print_text(const tool_stage *stage, const graph_program *body, const graph_program *head,
                      int32_t tokens) {
    tool_report_model(stdout, stage);
    tool_outf("body, %d token%s through %d layer%s: %d nodes, %d barrier%s between threads\n",
              tokens, tool_s((uint64_t)tokens), stage->plan.layers,
              tool_s((uint64_t)stage->plan.layers), body->sizes.nodes, body->sizes.barriers,
              tool_s((uint64_t)body->sizes.barriers));
    graph_print(body);
    tool_outf("head, %d row%s of logits: %d node%s\n", stage->plan.logits_rows,
              tool_s((uint64_t)stage->plan.logits_rows), head->sizes.nodes,
              tool_s((uint64_t)head->sizes.nodes));
    graph_print(head);
    return tool_out_end();
}

static int print_json(const tool_stage *stage, const graph_program *body, const graph_program *head,
                      int32_t tokens) {
    tool_out_json(json_pack("{s:s, s:i, s:i, s:o, s:o}", "phase",
                            stage->args->phase == PHASE_PREFILL ? "prefill" : "decode", "tokens",
                            tokens, "layers", stage->plan.layers, "body", graph_json(body), "head",
                            graph_json(head)));
    return tool_out_end();
}

static int draw(const tool_stage *stage, const graph_program *body, int32_t tokens) {
    mnem_model_info m;
    char title[160];
    mnem_model_info_get(stage->model, &m);
    const char *slash = strrchr(m.path, '/');
    snprintf(title, sizeof title, "%.100s: body, %d token%s", slash ? slash + 1 : m.path, tokens,
             tool_s((uint64_t)tokens));
    return graph_draw(body, title, stage->args->svg);
}

static int show(const tool_stage *stage) {
    const int32_t tokens = stage->args->phase == PHASE_PREFILL ? stage->plan.chunk : 1;
    graph_program body = {0}, head = {0};
    mnem_status status = mnem_engine_graph_create(stage->model, &stage->options, &stage->plan,
                                                  false, tokens, &body.graph, &body.sizes);
    if (status == MNEM_OK)
        status = mnem_engine_graph_create(stage->model, &stage->options, &stage->plan, true, 0,
                                          &head.graph, &head.sizes);
    int code = status == MNEM_OK ? TOOL_OK : tool_fail(status);
    if (code == TOOL_OK && stage->args->svg) code = draw(stage, &body, tokens);
    if (code == TOOL_OK)
        code = stage->args->json ? print_json(stage, &body, &head, tokens)
                                 : print_text(stage, &body, &head, tokens);
    mnem_graph_destroy(body.graph);
    mnem_graph_destroy(head.graph);
    return code;
}

/* Options of the other phases would change nothing. */
static int check(const tool_args *args) {
    static const char *const training[] = {"batch", "micro-batch", "precision", "moments",
                                           "dropout"};
    static const char *const session[] = {"kv", "chunk", "page-cache"};
    for (size_t i = 0; i < sizeof training / sizeof *training; i++)
        if (args->phase != PHASE_TRAIN && tool_given(args, training[i]))
            return tool_usage("graph", "--%s is of training; add --phase train", training[i]);
    for (size_t i = 0; i < sizeof session / sizeof *session; i++)
        if (args->phase == PHASE_TRAIN && tool_given(args, session[i]))
            return tool_usage("graph", "--%s is of running, not of training", session[i]);
    return TOOL_OK;
}

int verb_graph(const tool_args *args) {
    static tool_stage stage;
    int code = check(args);
    if (code != TOOL_OK) return code;
    code = tool_stage_open(args, &stage);
    if (code == TOOL_OK && args->phase == PHASE_TRAIN) {
        code = graph_train(&stage);
    } else if (code == TOOL_OK) {
        code = tool_stage_plan(&stage);
        if (code == TOOL_OK) code = show(&stage);
    }
    tool_stage_close(&stage);
    return code;
}
