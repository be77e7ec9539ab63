/* test_tool_llama.c: command lines of llama.cpp's and Ollama's users: the words of their servers,
 * and names of models that are elsewhere, or nearly here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/kit.h"
#include "tools/tool_run.h"

static void has(const tool_result *r, int code, const char *text) {
    if (r->code != code || !strstr(r->err, text))
        fail_msg("exit code %d, not %d, or no \"%s\" in: %s", r->code, code, text, r->err);
}

/* A first letter that is ours doesn't make the rest its value: -to isn't -t o. */
static void words_of_llama_server_say_what_does_the_same(void **state) {
    (void)state;
    static const struct {
        const char *word, *value, *text;
    } refused[] = {
        {"--reranking", NULL, "there is no reranking"},
        {"--api-key", "secret", "mnem serve has --api-key-file FILE"},
        {"--slot-save-path", "no/such", "must be a folder"},
        {"--ssl-key-file", "x", "no TLS"},
        {"--models-dir", "x", "start one server for each"},
        {"-n", "128", "requests set \"max_tokens\""},
        {"--rpc", "host:50052", "docs/mpi.md"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const tool_result r = RUN("serve", tool_model, refused[i].word, refused[i].value);
        has(&r, 2, refused[i].text);
    }
    static const char *const passed[][2] = {
        {"-to", "600"},         {"--threads-http", "4"}, {"-sps", "0.5"}, {"-cram", "512"},
        {"--embeddings", NULL}, {"--no-webui", NULL},    {"-kvu", NULL},  {"--cpu-mask", "ff"}};
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        const tool_result r =
            RUN("serve", "-m", tool_model, "--dry-run", passed[i][0], passed[i][1]);
        has(&r, 0, " is ignored: ");
    }
    assert_int_equal(RUN("serve", tool_model, "-a", "gpt-4", "--dry-run").code, 0);
}

static void words_of_the_other_programs_do_so_too(void **state) {
    (void)state;
    tool_result r = RUN("run", tool_model, "-p", "x", "-r", "User:");
    has(&r, 2, "--stop TEXT");
    r = RUN("run", tool_model, "-p", "x", "-j", "{}");
    has(&r, 2, "--json-schema");
    r = RUN("quantize", tool_model, "out.gguf", "Q4_0", "--dry-run");
    has(&r, 2, "mnem plan shows");
    r = RUN("perplexity", tool_model, "--hellaswag");
    has(&r, 2, "--kl MODEL");
    r = RUN("embed", tool_model, "-n", "4");
    assert_null(strstr(r.err, "max_tokens"));
    r = RUN("search", "llama");
    has(&r, 2, "models/get_model");
    r = RUN("help", "runn");
    has(&r, 2, "did you mean run?");
    r = RUN("help", "llama-server");
    has(&r, 2, "did you mean: mnem serve");
    r = RUN("convert_hf_to_gguf.py", "x");
    has(&r, 2, "did you mean: mnem convert");
}

static void a_file_of_nearly_that_name_is_suggested(void **state) {
    (void)state;
    char path[4096], said[4200];
    snprintf(path, sizeof path, "%s", tool_file("Tiny-Q8_0.gguf", "GGUF"));
    snprintf(said, sizeof said, "did you mean %s?", path);
    static const char *const wrong[] = {"Tiny", "tiny-q8_0", "Tiny-Q8_0.ggfu", "tiny-Q8_0.gguf"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        strcpy(strrchr(path, '/') + 1, wrong[i]);
        const tool_result r = RUN("run", path, "-p", "x");
        has(&r, 2, said);
    }
}

/* Of a folder with many types, one is named; of a link its file. */
static void names_at_hugging_face_become_a_command(void **state) {
    (void)state;
    static const struct {
        const char *name, *command;
    } cases[] = {
        {"hf.co/owner/name:Q4_K_M", "hf download owner/name --include '*Q4_K_M*' --local-dir ."},
        {"owner/name-GGUF", "hf download owner/name-GGUF FILE.gguf --local-dir ."},
        {"owner/name", "hf download owner/name --local-dir name"},
        {"https://huggingface.co/owner/name/resolve/main/a.gguf?download=true",
         "hf download owner/name a.gguf --local-dir ."},
        {"https://huggingface.co/owner/name", "hf download owner/name --local-dir name"},
        {"absent3.2:1b", "hf download OWNER/NAME FILE.gguf --local-dir ."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tool_result r = RUN("run", cases[i].name, "-p", "x");
        has(&r, 2, cases[i].command);
    }
}

/* A manifest names the file of a model by its digest. */
static void a_model_that_ollama_has_is_named_by_its_file(void **state) {
    (void)state;
    static const char *const folders[] = {"", "/models", "/models/manifests",
                                          "/models/manifests/registry.ollama.ai", NULL};
    static const char manifest[] =
        "{\"layers\":[{\"mediaType\":\"application/"
        "vnd.ollama.image.license\",\"digest\":\"sha256:1\"}"
        ",{\"mediaType\":\"application/vnd.ollama.image.model\",\"digest\":\"sha256:00ff\"}]}";
    static const char *const names[] = {"tiny", "tiny:latest"};
    char home[4096], path[8192];
    snprintf(home, sizeof home, "%s", tool_file("x", ""));
    *strrchr(home, '/') = 0;
    for (int i = 0; folders[i]; i++) {
        snprintf(path, sizeof path, "%s/.ollama%s", home, folders[i]);
        mkdir(path, 0700);
    }
    static const char *const more[] = {"models/manifests/registry.ollama.ai/library",
                                       "models/manifests/registry.ollama.ai/library/tiny",
                                       "models/blobs"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/.ollama/%s", home, more[i]);
        mkdir(path, 0700);
    }
    tool_file(".ollama/models/manifests/registry.ollama.ai/library/tiny/latest", manifest);
    const char *const own = getenv("HOME");
    char before[4096];
    snprintf(before, sizeof before, "%s", own ? own : "");
    setenv("HOME", home, 1);
    const tool_result gone = RUN("run", "tiny:latest"); /* the blob isn't there */
    has(&gone, 2, "hf download");
    tool_file(".ollama/models/blobs/sha256-00ff", "GGUF");
    for (int i = 0; i < 2; i++) {
        const tool_result r = RUN("run", names[i], "-p", "x");
        has(&r, 2, "Ollama has a model of this name: give its file, ");
        has(&r, 2, "/.ollama/models/blobs/sha256-00ff");
    }
    const tool_result other = RUN("run", "tiny:absent");
    has(&other, 2, "hf download");
    if (*before)
        setenv("HOME", before, 1);
    else
        unsetenv("HOME");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_llama_server_say_what_does_the_same),
        cmocka_unit_test(words_of_the_other_programs_do_so_too),
        cmocka_unit_test(a_file_of_nearly_that_name_is_suggested),
        cmocka_unit_test(names_at_hugging_face_become_a_command),
        cmocka_unit_test(a_model_that_ollama_has_is_named_by_its_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
