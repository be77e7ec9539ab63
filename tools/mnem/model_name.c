/* model_name.c: what a name is that should be a model's or an adapter's, before it is opened.
 *
 * The idea: a name that can't be a file here is answered with what the user can do: a path that
 * nearly has this name, a command that downloads it, or the option that was meant. A name that may
 * be a path passes: opening it says what is wrong. */
#include "options.h"

#include <dirent.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- names of models that are elsewhere ---- */

/* The command of a name at Hugging Face: hf.co/OWNER/NAME:TYPE, OWNER/NAME, or a link to a file. A
 * folder of GGUF files has all types of a model: one is enough. */
static void download(const char *name, char *out, size_t n) {
    static const char *const before[] = {"https://", "http://", "hf.co/", "huggingface.co/"};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (strncasecmp(name, before[i], strlen(before[i])) == 0) name += strlen(before[i]);
    const size_t owner = strcspn(name, "/:"), from = owner + (name[owner] == '/');
    const size_t length = from + strcspn(name + from, "/:?");
    const char *rest = name + length, *type = strchr(rest, ':');
    const char *file = strrchr(rest, '/');
    if (!owner || from == owner || length == from)
        snprintf(out, n, "hf download OWNER/NAME FILE.gguf --local-dir .");
    else if (file && strstr(file, ".gguf"))
        snprintf(out, n, "hf download %.*s %.*s --local-dir .", (int)length, name,
                 (int)strcspn(file + 1, "?"), file + 1);
    else if (type && type[1])
        snprintf(out, n, "hf download %.*s --include '*%s*' --local-dir .", (int)length, name,
                 type + 1);
    else if (strcasestr(name, "gguf"))
        snprintf(out, n, "hf download %.*s FILE.gguf --local-dir .", (int)length, name);
    else
        snprintf(out, n, "hf download %.*s --local-dir %.*s", (int)length, name,
                 (int)(length - from), name + from);
}

static bool is_gguf(const char *name) {
    const size_t n = strlen(name);
    return n > 5 && strcmp(name + n - 5, ".gguf") == 0;
}

/* The GGUF file whose name begins as this one does up to its last dot, in any case: the shortest,
 * of several the first. An empty text: there is none. */
static void near_file(const char *name, char out[PATH_MAX]) {
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    const char *dot = strrchr(base, '.');
    const size_t folder = (size_t)(base - name), whole = strlen(base);
    const size_t stem = dot && dot > base ? (size_t)(dot - base) : whole;
    char path[PATH_MAX];
    size_t best = SIZE_MAX;
    *out = 0;
    snprintf(path, sizeof path, "%.*s", (int)folder, name);
    DIR *files = whole ? opendir(folder ? path : ".") : NULL;
    if (!files) return;
    for (const struct dirent *entry; (entry = readdir(files));) {
        const char *found = entry->d_name;
        const size_t length = strlen(found);
        if (!is_gguf(found) || length > best || strncasecmp(found, base, stem) != 0) continue;
        snprintf(path, sizeof path, "%.*s%s", (int)folder, name, found);
        if (length == best && strcmp(path, out) > 0) continue;
        best = length;
        memcpy(out, path, sizeof path);
    }
    closedir(files);
}

/* ---- models that Ollama has ---- */

/* The file of a manifest's model, which is a layer of it: blobs/sha256-HEX for sha256:HEX. */
static bool manifest_file(const char *store, const char *manifest, char out[PATH_MAX]) {
    json_t *root = json_load_file(manifest, 0, NULL), *layer;
    size_t i;
    *out = 0;
    json_array_foreach(json_object_get(root, "layers"), i, layer) {
        const char *type = json_string_value(json_object_get(layer, "mediaType"));
        const char *digest = json_string_value(json_object_get(layer, "digest"));
        if (!type || strcmp(type, "application/vnd.ollama.image.model") != 0) continue;
        if (!digest || strncmp(digest, "sha256:", 7) != 0 || strchr(digest, '/')) continue;
        snprintf(out, PATH_MAX, "%s/blobs/sha256-%s", store, digest + 7);
    }
    json_decref(root);
    return *out && access(out, R_OK) == 0;
}

/* NAME[:TAG], OWNER/NAME[:TAG] or HOST/OWNER/NAME[:TAG] in the store of Ollama: the user's, or that
 * of its service. */
static bool ollama_file(const char *name, char out[PATH_MAX]) {
    static const char service[] = "/usr/share/ollama";
    const char *const homes[] = {tool_env("HOME"), service};
    const size_t length = strcspn(name, ":");
    const char *tag = name[length] ? name + length + 1 : "latest";
    int slashes = 0;
    for (size_t i = 0; i < length; i++) slashes += name[i] == '/';
    const char *before = slashes >= 2   ? ""
                         : slashes == 1 ? "registry.ollama.ai/"
                                        : "registry.ollama.ai/library/";
    if (!length || strstr(name, "..") || strchr(tag, '/')) return false;
    for (int i = 0; i < 2; i++) {
        char store[PATH_MAX / 4], manifest[PATH_MAX];
        if (!homes[i]) continue;
        snprintf(store, sizeof store, "%s/.ollama/models", homes[i]);
        const int n = snprintf(manifest, sizeof manifest, "%s/manifests/%s%.*s/%s", store, before,
                               (int)length, name, tag);
        if (n < (int)sizeof manifest && manifest_file(store, manifest, out)) return true;
    }
    return false;
}

/* ---- folders, and adapters ---- */

static bool is_there(const char *folder, const char *name) {
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n < (int)sizeof path && access(path, F_OK) == 0;
}

/* A folder that `mnem train` made: the model is in it, or isn't there yet. */
static int check_run_folder(const char *verb, const char *name) {
    if (!is_there(name, "log.jsonl")) return TOOL_OK;
    if (is_there(name, "model.gguf"))
        return tool_usage(verb,
                          "%s is the folder of a training run: give its model file, %s/model.gguf",
                          name, name);
    if (is_there(name, "adapter.gguf"))
        return tool_usage(
            verb,
            "%s is the folder of a training run with --lora, which has no model of its own: give "
            "the model that it was trained from, and add --lora %s/adapter.gguf",
            name, name);
    return tool_usage(verb,
                      "%s is the folder of an unfinished training run and has no model yet: mnem "
                      "train --resume %s continues it, and mnem train --resume %s --export FILE "
                      "writes what it has so far",
                      name, name, name);
}

static bool is_folder(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static bool is_peft(const char *folder) {
    return is_there(folder, "adapter_config.json") && !is_there(folder, "config.json");
}

int tool_adapter_path(const char *verb, const char *name, char path[PATH_MAX]) {
    const bool folder = is_there(name, "adapter.gguf");
    snprintf(path, PATH_MAX, folder ? "%s/adapter.gguf" : "%s", name);
    if (folder || !is_folder(name) || is_peft(name)) return TOOL_OK;
    if (!is_there(name, "log.jsonl"))
        return tool_usage(verb,
                          "the folder %s has no adapter (no file adapter.gguf): give a GGUF file "
                          "of an adapter, or the --out folder of mnem train --lora",
                          name);
    if (is_there(name, "model.gguf"))
        return tool_usage(verb,
                          "%s is the folder of a training run without --lora, so it has no "
                          "adapter: use its model %s/model.gguf as MODEL and leave out the adapter",
                          name, name);
    return tool_usage(verb,
                      "%s is the folder of an unfinished training run and has no adapter yet: mnem "
                      "train --resume %s continues it, and mnem train --resume %s --export FILE "
                      "writes the adapter so far",
                      name, name, name);
}

/* Letters only: a word of a text rather than a file or "llama3:8b". */
static bool is_word(const char *name) {
    const size_t letters = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'");
    return letters > 0 && !name[letters + strspn(name + letters, ",.!?")];
}

int tool_check_model(const char *verb, const char *name) {
    uint64_t bytes;
    char command[256], near[PATH_MAX];
    const int code = check_run_folder(verb, name);
    if (code != TOOL_OK) return code;
    if (is_peft(name))
        return tool_usage(
            verb,
            "%s is a PEFT adapter, not a model: mnem run MODEL --lora %s runs it with its model",
            name, name);
    if (access(name, F_OK) == 0) return TOOL_OK;
    near_file(name, near);
    if (*near) return tool_usage(verb, "no file \"%s\"; did you mean %s?", name, near);
    if (ollama_file(name, near))
        return tool_usage(
            verb, "no file \"%s\"; Ollama has a model of this name: give its file, %s", name, near);
    if (!strstr(name, "://") && (strstr(name, ".gguf") || (*name && strchr("/.~", *name))))
        return TOOL_OK; /* a path: opening it says what is wrong */
    if (mnem_size_parse(name, &bytes) == MNEM_OK)
        return tool_usage(verb,
                          "-m names the model, and there is no file \"%s\"; if it is the memory "
                          "budget, use --memory %s",
                          name, name);
    if (!*name || strpbrk(name, " \t\n"))
        return tool_usage(
            verb,
            "the model file \"%s\" does not exist; if this text is the prompt, put -p before it",
            name);
    if (strcmp(verb, "run") == 0 && is_word(name))
        return tool_usage(verb,
                          "no file \"%s\": the first operand names the model's file; for a prompt "
                          "use -p '%s ...', with quotes around all of it; mnem downloads nothing, "
                          "but models/get_model NAME FOLDER gets a small model",
                          name, name);
    download(name, command, sizeof command);
    return tool_usage(verb,
                      "no file \"%s\": a model is a GGUF file or a Hugging Face folder on this "
                      "machine. mnem downloads nothing: %s does, and models/get_model NAME FOLDER "
                      "downloads a small model",
                      name, command);
}
