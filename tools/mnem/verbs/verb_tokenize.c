/* verb_tokenize.c: `mnem tokenize`: text to ids and pieces, of any file with a tokenizer.
 *
 * A piece may be a part of a character: the table shows its bytes escaped, one by one, JSON has
 * U+FFFD for it. The ids are exact in both. */
#include <stdlib.h>
#include <string.h>

#include "stage.h"

typedef struct tokenize_options {
    tool_args args;
    tool_session_asked session; /* the pre-tokenizer only */
    const char *prompt, *file;
    bool no_special, plain;
} tokenize_options;

/* Opens what this verb needs: no transformer, so that vocabulary-only files work. */
static int open_tokenizer(tool_stage *stage) {
    const char *path = tool_model_path(stage->args);
    if (!path) return TOOL_FAILED;
    mnem_status status = /* a text has no limit of its own */
        mnem_ledger_create_process(&(mnem_ledger_options){.own_process = true}, &stage->ledger);
    if (status == MNEM_OK) status = mnem_model_open(path, &stage->model);
    return status == MNEM_OK ? tool_stage_tokenizer(stage) : tool_fail(status);
}

static int encode(tool_stage *stage, const int32_t **ids, size_t *count) {
    const tokenize_options *o = (const tokenize_options *)stage->args;
    const char *text = o->prompt ? o->prompt : o->args.operand[1];
    size_t length = text ? strlen(text) : 0;
    if (!text || strcmp(text, "-") == 0) {
        const int code = tool_stage_read(stage, o->file ? o->file : "-");
        if (code != TOOL_OK) return code;
        text = stage->prompt.text;
        length = stage->prompt.bytes;
    }
    const unsigned flags =
        (o->no_special ? MNEM_ENCODE_NO_SPECIAL : 0) | (o->plain ? MNEM_ENCODE_PLAIN : 0);
    const mnem_status status =
        mnem_tokenizer_encode(stage->tokenizer, text, length, flags, ids, count);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

/* Prints the piece's bytes in quotes: what isn't a whole printable character is escaped. */
static void print_piece(mnem_text piece) {
    tool_out("\"", 1);
    for (size_t i = 0; i < piece.length;) {
        mnem_utf8_joiner joiner = {0};
        char whole[16];
        size_t used = 1, n = mnem_utf8_join(&joiner, piece.bytes + i, 1, whole);
        while (n == 0 && i + used < piece.length)
            n = mnem_utf8_join(&joiner, piece.bytes + i + used++, 1, whole);
        const unsigned char c = (unsigned char)piece.bytes[i];
        if (c == '\n' || c == '\t' || c == '\r')
            tool_outf("\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
        else if (c == '"' || c == '\\')
            tool_outf("\\%c", c);
        else if (n == used && c >= 0x20 && c != 0x7F &&
                 !(c == 0xC2 && (unsigned char)whole[1] < 0xA0))
            tool_out(whole, n);
        else {
            tool_outf("\\x%02X", c);
            used = 1;
        }
        i += used;
    }
    tool_out("\"\n", 2);
}

static int print_table(const tool_stage *stage, const int32_t *ids, size_t count) {
    size_t bytes = 0;
    for (size_t i = 0; i < count && !tool_out_closed(); i++) {
        const mnem_text piece = mnem_tokenizer_piece(stage->tokenizer, ids[i], true);
        tool_outf("%8d  ", ids[i]);
        print_piece(piece);
        bytes += piece.length;
    }
    const int code = tool_out_end();
    if (!stage->args->quiet)
        tool_message("%zu token%s, %zu byte%s", count, tool_s(count), bytes, tool_s(bytes));
    return code;
}

/* JSON is text: of a piece that isn't whole characters, U+FFFD is shown. */
static json_t *piece_json(mnem_text piece) {
    char *out = NULL;
    size_t room;
    if (__builtin_mul_overflow(piece.length + 4, (size_t)3, &room) || !(out = malloc(room)))
        return NULL;
    mnem_utf8_joiner joiner = {0};
    size_t n = piece.length ? mnem_utf8_join(&joiner, piece.bytes, piece.length, out) : 0;
    n += mnem_utf8_join(&joiner, NULL, 0, out + n);
    json_t *json = json_stringn(out, n);
    free(out);
    return json;
}

static int print_json(const tool_stage *stage, const int32_t *ids, size_t count) {
    json_t *id_list = json_array(), *pieces = json_array();
    bool ok = id_list && pieces;
    for (size_t i = 0; i < count && ok; i++) {
        const mnem_text piece = mnem_tokenizer_piece(stage->tokenizer, ids[i], true);
        ok = json_array_append_new(id_list, json_integer(ids[i])) == 0 &&
             json_array_append_new(pieces, piece_json(piece)) == 0;
    }
    if (ok) {
        tool_out_json("tokens", json_pack("{s:o, s:o}", "ids", id_list, "pieces", pieces));
    } else {
        json_decref(id_list);
        json_decref(pieces);
        tool_out_json("tokens", NULL);
    }
    return tool_out_end();
}

static int verb_tokenize(const tool_args *args) {
    const tokenize_options *o = (const tokenize_options *)args;
    tool_stage stage = {.args = args, .asked = &o->session};
    const int32_t *ids;
    size_t count;
    int code = open_tokenizer(&stage);
    if (code == TOOL_OK) code = encode(&stage, &ids, &count);
    if (code == TOOL_OK)
        code = args->json ? print_json(&stage, ids, count) : print_table(&stage, ids, count);
    tool_stage_close(&stage);
    return code;
}

/* ---- the command line ---- */

#define AT(field) offsetof(tokenize_options, field)
static const tool_option options[] = {
    TOOL_GROUP(tool_model_options, 0),
    {"prompt", 'p', "TEXT", TOOL_VALUE_TEXT, AT(prompt), .help = "the text, as the operand TEXT"},
    {"file", 'f', "FILE", TOOL_VALUE_TEXT, AT(file), .path = TOOL_PATH_READ,
     .help = "read the text from a file (- is standard input)"},
    {"no-special", 0, NULL, TOOL_VALUE_FLAG, AT(no_special),
     .help = "add no BOS or EOS token, even where the model file asks for them"},
    {"plain", 0, NULL, TOOL_VALUE_FLAG, AT(plain),
     .help = "treat the texts of special tokens as plain text"},
    TOOL_GROUP(tool_pre_options, AT(session.pre)),
    TOOL_JSON_OPTION("one object"),
    {0},
};

static tokenize_options asked;
TOOL_VERB(
    tokenize, "MODEL [TEXT|-]", 1, 2, "show the token ids and pieces of a text",
    "Shows how the model's tokenizer splits a text: ids and pieces. The text comes from the\n"
    "command line or from standard input (-, or no operand). Special tokens are recognised in\n"
    "it unless --plain is given.\n",
    "mnem tokenize model.gguf 'In the beginning'  # show ids and pieces\n"
    "mnem tokenize model.gguf - --json < text.txt | jq '.ids | length'  # count the tokens\n");
