/* sentencepiece.c: tokenizer.model, SentencePiece's protobuf, of which three fields are needed.
 *
 *     ModelProto   1: pieces, one after another   2: trainer_spec
 *     a piece      1: text   2: score, 4 bytes   3: type
 *     trainer_spec 3: model_type (1 unigram, which is meant when it isn't there, 2 BPE)
 *
 * Everything else is passed over by its length. What is there is held against what is left. */
#include <unistd.h>

#include "base/heap.h"
#include "base/text/utf8.h"
#include "model/import/hf_vocab.h"

enum { WIRE_VARINT, WIRE_8, WIRE_LENGTH, WIRE_4 = 5, PIECE_MAX = 4096, UNIGRAM = 1 };

typedef struct proto {
    mnem__cursor file;
    mnem__hf_vocab *vocab;
    int64_t id;
    uint64_t model_type;
} proto;

static mnem_status bad(const proto *p, const char *text) {
    return mnem__fail(MNEM_BAD_FILE, "%s: byte %llu: %s", p->file.path,
                      (unsigned long long)mnem__cursor_position(&p->file), text);
}

static mnem_status take_varint(proto *p, uint64_t *number) {
    *number = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        uint8_t byte;
        MNEM__TRY(mnem__cursor_read(&p->file, &byte, 1));
        *number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return MNEM_OK;
    }
    return bad(p, "a number has more than 64 bits: the file is damaged; download it again");
}

/* A field's number and how it is written; of one with a length, that. */
static mnem_status take_tag(proto *p, uint64_t *field, int *wire, uint64_t *length) {
    uint64_t tag;
    MNEM__TRY(take_varint(p, &tag));
    *field = tag >> 3;
    *wire = (int)(tag & 7);
    *length = *wire == WIRE_8 ? 8 : 4;
    if (*wire == WIRE_VARINT) *length = 0;
    if (*wire == WIRE_LENGTH) MNEM__TRY(take_varint(p, length));
    if (*wire > WIRE_4 || *wire == 3 || *wire == 4)
        return bad(p, "the file is not a SentencePiece model (tokenizer.model): download it again");
    return *length <= mnem__cursor_left(&p->file)
               ? MNEM_OK
               : bad(p, "the file is cut off; download it again");
}

static mnem_status pass(proto *p, int wire, uint64_t length) {
    uint64_t number;
    return wire == WIRE_VARINT ? take_varint(p, &number)
                               : mnem__cursor_read(&p->file, NULL, length);
}

static mnem_status put_piece(proto *p, const char *text, size_t n, float score, uint64_t type) {
    /* One that the model's users defined is written as an ordinary one. */
    static const uint8_t types[] = {0,
                                    MNEM__HF_NORMAL,
                                    MNEM__HF_UNKNOWN,
                                    MNEM__HF_CONTROL,
                                    MNEM__HF_NORMAL,
                                    MNEM__HF_UNUSED,
                                    MNEM__HF_BYTE};
    if (mnem__utf8_invalid(text, n) != n)
        return bad(p, "a piece (token) is not valid UTF-8: the file is damaged; download it again");
    if (type == 0 || type >= sizeof types)
        return bad(p, "a piece (token) has an unknown type, expected 1 to 6: the file is damaged; "
                      "download it again");
    if (p->id >= p->vocab->most) return MNEM_OK; /* nothing in the model stands for it */
    return mnem__hf_vocab_set(p->vocab, p->id++, text, n, types[type], score);
}

static mnem_status take_piece(proto *p, uint64_t bytes) {
    char text[PIECE_MAX];
    size_t n = 0;
    float score = 0;
    uint64_t type = 1, field, length;
    int wire;
    const uint64_t end = mnem__cursor_position(&p->file) + bytes;
    while (mnem__cursor_position(&p->file) < end) {
        MNEM__TRY(take_tag(p, &field, &wire, &length));
        if (field == 1 && wire == WIRE_LENGTH) {
            if (length > sizeof text)
                return bad(p, "a piece (token) has more than 4096 bytes, the most that this "
                              "version supports");
            n = length;
            MNEM__TRY(mnem__cursor_read(&p->file, text, n));
        } else if (field == 2 && wire == WIRE_4) {
            MNEM__TRY(mnem__cursor_read(&p->file, &score, 4));
        } else if (field == 3 && wire == WIRE_VARINT) {
            MNEM__TRY(take_varint(p, &type));
        } else {
            MNEM__TRY(pass(p, wire, length));
        }
    }
    if (mnem__cursor_position(&p->file) > end)
        return bad(p, "the fields of a piece (token) exceed its length: the file is damaged; "
                      "download it again");
    return put_piece(p, text, n, score, type);
}

static mnem_status take_trainer(proto *p, uint64_t bytes) {
    uint64_t field, length;
    int wire;
    const uint64_t end = mnem__cursor_position(&p->file) + bytes;
    while (mnem__cursor_position(&p->file) < end) {
        MNEM__TRY(take_tag(p, &field, &wire, &length));
        if (field == 3 && wire == WIRE_VARINT)
            MNEM__TRY(take_varint(p, &p->model_type));
        else
            MNEM__TRY(pass(p, wire, length));
    }
    return MNEM_OK;
}

static mnem_status take_file(proto *p) {
    while (mnem__cursor_left(&p->file) > 0) {
        uint64_t field, length;
        int wire;
        MNEM__TRY(take_tag(p, &field, &wire, &length));
        if (field == 1 && wire == WIRE_LENGTH)
            MNEM__TRY(take_piece(p, length));
        else if (field == 2 && wire == WIRE_LENGTH)
            MNEM__TRY(take_trainer(p, length));
        else
            MNEM__TRY(pass(p, wire, length));
    }
    if (p->id == 0)
        return bad(
            p, "the file has no pieces (tokens), so the vocabulary is empty; download it again");
    if (p->model_type == UNIGRAM)
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "%s: a unigram model of SentencePiece isn't supported for models of this architecture",
            p->file.path);
    return MNEM_OK;
}

mnem_status mnem__sentencepiece_read(const char *folder, mnem__hf_vocab *vocab, bool *found) {
    char path[PATH_MAX];
    proto p = {.vocab = vocab, .model_type = UNIGRAM};
    MNEM__TRY(mnem__folder_path(folder, "tokenizer.model", path));
    *found = access(path, F_OK) == 0;
    if (!*found) return MNEM_OK;
    MNEM__TRY(mnem__cursor_open(&p.file, path));
    const mnem_status status = take_file(&p);
    mnem__cursor_close(&p.file);
    return status;
}
