/* verb_graph.c: `mnem graph`: the tensors of a model's programs, when they live and where.
 *
 * What is shown is what a run would execute: the plan is made with the same options, and the graphs
 * are built by the code that builds a session's. Training is in graph_train.c. */
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
    if (!head->graph) return tool_out_end();
    tool_outf("head, %d row%s of logits: %d node%s\n", stage->plan.logits_rows,
              tool_s((uint64_t)stage->plan.logits_rows), head->sizes.nodes,
              tool_s((uint64_t)head->sizes.nodes));
    graph_print(head);
    return tool_out_end();
}

static int print_json(const tool_stage *stage, const graph_program *body, const graph_program *head,
                      const char *phase, int32_t tokens) {
    tool_out_json("graph", json_pack("{s:s, s:i, s:i, s:o, s:o}", "phase", phase, "tokens", tokens,
                                     "layers", stage->plan.layers, "body", graph_json(body), "head",
                                     head->graph ? graph_json(head) : json_null()));
    return tool_out_end();
}

static int show(const tool_stage *stage, const graph_options *asked) {
    const bool prefill = asked->phase == PHASE_PREFILL;
    const int32_t tokens = prefill ? stage->plan.chunk : 1;
    graph_program body = {0}, head = {0};
    mnem_status status = mnem_engine_graph_create(stage->model, &stage->options, &stage->plan,
                                                  false, tokens, &body.graph, &body.sizes);
    if (status == MNEM_OK && !stage->transformer.encoder)
        status = mnem_engine_graph_create(stage->model, &stage->options, &stage->plan, true, 0,
                                          &head.graph, &head.sizes);
    int code = status == MNEM_OK ? TOOL_OK : tool_fail(status);
    if (code == TOOL_OK && asked->svg)
        code = graph_draw(stage, &body, asked->svg, "body, %d token%s", tokens,
                          tool_s((uint64_t)tokens));
    if (code == TOOL_OK)
        code = stage->args->json
                   ? print_json(stage, &body, &head, prefill ? "prefill" : "decode", tokens)
                   : print_text(stage, &body, &head, tokens);
    mnem_graph_destroy(body.graph);
    mnem_graph_destroy(head.graph);
    return code;
}

/* Options of the other phases would change nothing. */
static int check(const tool_args *args, int32_t phase) {
    static const char *const training[] = {"batch", "micro-batch", "precision", "moments",
                                           "dropout"};
    static const char *const session[] = {"kv", "chunk", "page-cache"};
    for (size_t i = 0; i < sizeof training / sizeof *training; i++)
        if (phase != PHASE_TRAIN && tool_given(args, training[i]))
            return tool_usage("graph",
                              "--%s applies to training only: add --phase train, or leave it out",
                              training[i]);
    for (size_t i = 0; i < sizeof session / sizeof *session; i++)
        if (phase == PHASE_TRAIN && tool_given(args, session[i]))
            return tool_usage("graph",
                              "--%s applies to inference only, not to --phase train: leave one out",
                              session[i]);
    return TOOL_OK;
}

static int verb_graph(const tool_args *args) {
    static tool_stage stage;
    const graph_options *o = (const graph_options *)args;
    int code = check(args, o->phase);
    if (code != TOOL_OK) return code;
    code = tool_stage_open(args, &o->session, &stage);
    if (code == TOOL_OK && o->phase == PHASE_TRAIN) {
        code = graph_train(&stage, o);
    } else if (code == TOOL_OK) {
        code = tool_stage_plan(&stage);
        if (code == TOOL_OK) code = show(&stage, o);
    }
    tool_stage_close(&stage);
    return code;
}

/* ---- the command line ---- */

#define AT(field) offsetof(graph_options, field)
static const tool_option options[] = {
    TOOL_GROUP(tool_model_options, 0),
    TOOL_GROUP(tool_session_options, AT(session)),
    {"phase", 0, "NAME", TOOL_VALUE_CHOICE, AT(phase), .choices = "decode prefill train",
     .help = "the graph of one token (decode), of a chunk of a prompt (prefill) or of a training "
             "step (train) (default: decode)"},
    {"svg", 0, "FILE", TOOL_VALUE_TEXT, AT(svg), .path = TOOL_PATH_WRITE,
     .help = "draw the tensors over time to FILE"},
    /* As in mnem train, whose texts speak of options that this verb hasn't. */
    {"batch", 'b', "N", TOOL_VALUE_COUNT, AT(training.batch), .least = 1, .most = 1 << 20,
     .also = "batch-size",
     .help = "with --phase train: number of sequences per training step (default: 8)"},
    {"micro-batch", 0, "N", TOOL_VALUE_COUNT, AT(training.micro_batch), .least = 1, .most = 1 << 20,
     .help = "with --phase train: number of sequences per forward and backward pass; must divide "
             "the batch (default: chosen to fit the budget)"},
    {"precision", 0, "TYPE", TOOL_VALUE_CHOICE, AT(training.precision),
     .choices = "auto f32 bf16 f16",
     .help = "with --phase train: data type of activations: f32, bf16 or f16 (half the bytes), or "
             "auto: f32 if it fits, else bf16 (default: auto)"},
    {"moments", 0, "TYPE", TOOL_VALUE_CHOICE, AT(training.moments), .choices = "f32 8bit",
     .help = "with --phase train: data type of the optimizer's moments: f32, or 8bit (a quarter "
             "of the bytes) (default: f32)"},
    {"dropout", 0, "P", TOOL_VALUE_REAL, AT(training.dropout), .least = 0, .most = 0.99,
     .help = "with --phase train: dropout probability of activations (default: 0)"},
    TOOL_JSON_OPTION("one object"),
    {0},
};

static graph_options asked;
TOOL_VERB(
    graph, "[MODEL]", 0, 1, "show the tensors of a model's graphs: lifetimes and offsets",
    "Shows the graphs that a run would execute: their tensors with bytes, lifetime (the first\n"
    "and last node that uses them) and offset in the block that they share; the bytes that the\n"
    "removal of unneeded nodes and the sharing of memory save; and the smallest size that any\n"
    "placement could have. There are two graphs: the body turns tokens into hidden states\n"
    "through all layers, and the head turns hidden states into logits. The other options are\n"
    "those of mnem plan, which choose the plan whose graphs are shown, and with --phase train\n"
    "those of mnem train: --batch, --micro-batch, --precision, --moments, --dropout.\n",
    "mnem graph model.gguf  # show the graphs of one token\n"
    "mnem graph model.gguf --phase prefill --svg graph.svg  # draw the graphs of a chunk of a "
    "prompt\n"
    "mnem graph model.gguf --phase train --batch 8 -c 256 --svg step.svg  # draw the graph of a "
    "training step\n"
    "mnem graph model.gguf --json | jq '.body.tensors | length'  # count the tensors\n");
