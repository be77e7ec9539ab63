#!/usr/bin/env python3
"""least.py MNEM MODEL [STARTS [VERB...]]: the budget that a refusal names (`least`) is enough and exact, for every verb.
Each verb is asked within 1 MiB; `least` must be needed_bytes rounded up to 4 KiB. It is then started STARTS (5) times
with that, each time ending well, and STARTS times with 8 KiB less, each time refused before it wrote anything (but a
trace of the refusal). MODEL is a small one, such as the one that ships. Verbs and forms of them without --memory
(merge, a quantize or prune without a text) have no least. Run by hand."""
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
PAGE, LESS = 4096, 8192


class Place:
    """What the verbs read, made once, and the folder that they write into."""

    def __init__(self, mnem, model, root):
        self.mnem, self.model, self.root = mnem, model, pathlib.Path(root)
        self.out = self.root / "out"
        self.env = {"HOME": str(self.root), "PATH": "/usr/bin:/bin", "XDG_STATE_HOME": str(self.root / "state")}
        (self.root / "few.txt").write_text("and the lord said unto him, let there be light.\n" * 60)
        (self.root / "prompts.txt").write_text("In the beginning\nAnd it came to pass\nThe lord said\n")
        body = '{"prompt": "In the beginning", "max_tokens": 8, "temperature": 0}'
        line = '{"custom_id": "%d", "method": "POST", "url": "/v1/completions", "body": ' + body + '}\n'
        (self.root / "requests.jsonl").write_text("".join(line % i for i in range(40)))
        (self.root / "schema.json").write_text('{"type": "object", "properties": {"a": {"enum": ["x", "yy"]}}}')
        done = self.run("train", ["--init", model, "--lora", "4", "--data", self.root / "few.txt", "--any-bytes",
                                  "--out", self.root / "adapter", "--steps", "2", "--context", "64", "--batch", "2"])
        if done[0]:
            sys.exit(f"no adapter: {done[2]}")

    def verbs(self):
        model, root, out = self.model, self.root, self.out
        folder = HERE.parent / "data" / "folders" / "llama_3"
        text, adapter = root / "few.txt", root / "adapter" / "adapter.gguf"
        return {
            "run": ["run", model, "-p", "In the beginning", "-n", 8],
            "run-long": ["run", model, "-p", text.read_text()[:400], "-n", 8, "--ctx", 256],
            "run-adapter": ["run", model, "-p", "In the beginning", "-n", 8, "--lora", adapter],
            "run-trace": ["run", model, "-p", "In the beginning", "-n", 8, "--trace", out / "t.pftrace"],
            "bench": ["bench", model, "-p", 16, "-n", 8, "-r", 1],
            "perplexity": ["perplexity", model, text, "--ctx", 64],
            "embed": ["embed", model, "-p", "In the beginning", "--pooling", "mean"],
            "train": ["train", "--init", model, "--data", text, "--any-bytes", "--out", out / "m", "--steps", 1],
            "train-lora": ["train", "--init", model, "--lora", 4, "--data", text, "--any-bytes", "--out", out / "m",
                           "--steps", 2, "--context", 64, "--batch", 2],
            "quantize-test": ["quantize", model, out / "m.gguf", "Q4_0", "-c", 64, "--test", text],
            "calibrate": ["quantize", model, out / "m.gguf", "Q4_0", "-c", 64, "--calibrate", text, "--no-table"],
            "calibrate-test": ["quantize", model, out / "m.gguf", "Q4_0", "-c", 64, "--calibrate", text, "--test",
                               text],
            **self.solved(),
            **self.forms_of_runs(),
            **self.forms_of_training(),
            **self.forms_of_files(),
            **self.forms_of_servers(),
            "convert": ["convert", folder, "-o", out / "m.gguf"],
            "prune-test": ["prune", model, "-o", out / "m.gguf", "--pattern", "2:4", "-c", 64, "--test", text],
            "prune-calibrate": ["prune", model, "-o", out / "m.gguf", "--pattern", "2:4", "--calibrate", text, "-c",
                                64],
            "probe": ["probe", "--seconds", 0.2],
            "probe-model": ["probe", model, "--seconds", 0.2],
            "serve": ["serve", model, "--port", 0],
            "batch": ["batch", model, root / "requests.jsonl", "-o", out / "t"],
            "batch-many": ["batch", model, root / "requests.jsonl", "-o", out / "t", "--parallel", 32, "-t", 8],
        }

    def solved(self):
        """What is solved on a text, alone, and with what is planned beside it."""
        text, out, test = self.root / "few.txt", self.out / "m.gguf", ["--test", self.root / "few.txt"]
        quantize = ["quantize", self.model, out, "Q4_0", "-c", 64, "--calibrate", text]
        prune = ["prune", self.model, "-o", out, "--pattern", "2:4", "-c", 64, "--calibrate", text]
        return {
            "gptq": [*quantize, "--method", "gptq", "--no-table"],
            "gptq-imatrix": [*quantize, "--method", "gptq", "--imatrix-out", self.out / "i.gguf", "--no-table"],
            "gptq-test": [*quantize, "--method", "gptq", *test],
            "awq-test": [*quantize, "--method", "awq", *test],
            "prune-calibrate-test": [*prune, *test],
            "sparsegpt": [*prune, "--method", "sparsegpt", "--no-table"],
            "sparsegpt-test": [*prune, "--method", "sparsegpt", *test],
        }

    def forms_of_runs(self):
        """Adapters, traces, threads, several texts, constraints: alone and together."""
        text, out = self.root / "few.txt", self.out
        lora = ["--lora", self.root / "adapter" / "adapter.gguf"]
        trace, many = ["--trace", out / "t.pftrace"], ["--prompts", self.root / "prompts.txt"]
        run = ["run", self.model, "-n", 8]
        one = [*run, "-p", "In the beginning"]
        schema = ["--json-schema", self.root / "schema.json"]
        bench = ["bench", self.model, "-p", 16, "-n", 8, "-r", 1]
        perplexity = ["perplexity", self.model, text, "--ctx", 64]
        embed = ["embed", self.model, "--pooling", "mean"]
        return {
            "run-1-thread": [*one, "-t", 1],
            "run-16-threads": [*one, "-t", 16],
            "run-prompts": [*run, *many],
            "run-kv": [*one, "--kv", "q8_0"],
            "run-kv-q4": [*one, "--kv", "q4_0"],
            "run-page-cache": [*one, "--page-cache"],
            "run-schema": [*one, *schema],
            "run-cache": [*one, "--prompt-cache", out / "cache"],
            "run-dry": [*one, "--dry-multiplier", 0.8, "--repeat-penalty", 1.1],
            "run-trace-json": [*one, "--trace", out / "t.json"],
            "run-everything": [*run, *many, *lora, *trace, *schema, "-t", 8, "--kv", "q8_0"],
            "bench-adapter": [*bench, *lora],
            "bench-trace": [*bench, *trace, "-t", 4],
            "bench-sequences": [*bench, "--sequences", 4],
            "perplexity-adapter": [*perplexity, *lora, "-t", 4],
            "perplexity-trace": [*perplexity, *trace],
            "perplexity-kl": [*perplexity, "--kl", self.model],
            "perplexity-kl-kv": [*perplexity, "--kv", "q8_0:q4_0", "--kl", self.model, "--kl-kv", "f32"],
            "embed-adapter": [*embed, *lora, "-p", "In the beginning"],
            "embed-many": [*embed, "-f", self.root / "prompts.txt", "-t", 8],
            "probe-adapter": ["probe", self.model, "--seconds", 0.2, *lora],
            "probe-threads": ["probe", self.model, "--seconds", 0.2, "-t", 8],
        }

    def forms_of_training(self):
        base = ["--data", self.root / "few.txt", "--any-bytes", "--out", self.out / "m", "--steps", 1]
        small = ["--context", 64, "--batch", 2]
        of, lora = ["train", "--init", self.model, *base], ["--lora", 4]
        trace = ["--trace", self.out / "t.pftrace"]
        return {
            "train-tiny": ["train", "--config", "tiny", *base],
            "train-tiny-threads": ["train", "--config", "tiny", *base, "-t", 8],
            "train-tiny-trace": ["train", "--config", "tiny", *base, *trace],
            "train-8bit": [*of, *small, "--moments", "8bit", "--precision", "bf16"],
            "train-distill": [*of, *small, "--distill", self.model],
            "train-distill-both": [*of, *small, "--distill", self.model, "--distill-on", "both", "-t", 4],
            "train-masked": [*of, *small, "--masked"],
            "lora-trace": [*of, *small, *lora, *trace],
            "lora-threads": [*of, *small, *lora, "-t", 8],
            "lora-16-bit": [*of, *small, *lora, "--precision", "f16"],
            "lora-distill": [*of, *small, *lora, "--distill", self.model],
        }

    def forms_of_files(self):
        text, out = self.root / "few.txt", self.out / "m.gguf"
        quantize, prune = ["quantize", self.model, out, "-c", 64], ["prune", self.model, "-o", out, "-c", 64]
        folder = HERE.parent / "data" / "folders"
        return {
            "quantize-threads": [*quantize, "Q4_0", "--test", text, "-t", 8],
            "quantize-loss": [*quantize, "Q4_0", "--test", text, "--max-loss", 50],
            "target-calibrate": [*quantize, "--target", "5", "--calibrate", text, "--no-table"],
            "target-test": [*quantize, "--target", "5", "--calibrate", text, "--test", text],
            "gptq-threads": [*quantize, "Q4_0", "--calibrate", text, "--method", "gptq", "--test", text, "-t", 8],
            "calibrate-spill": [*quantize, "Q4_0", "--calibrate", text, "--spill", self.out / "s", "--no-table"],
            "prune-compact": [*prune, "--pattern", "2:4", "--type", "Q8_0", "--compact", "--test", text],
            "prune-heads": [*prune, "--heads", "50%", "--test", text],
            "prune-ffn": [*prune, "--ffn", "50%", "--calibrate", text, "--no-table"],
            "prune-layers": [*prune, "--layers", "25%", "--calibrate", text, "--test", text, "-t", 4],
            "convert-q4": ["convert", folder / "llama_3", "-o", out, "--type", "Q8_0"],
            "convert-threads": ["convert", folder / "llama_3", "-o", out, "-t", 16],
        }

    def forms_of_servers(self):
        serve = ["serve", self.model, "--port", 0]
        return {
            "serve-adapter": [*serve, "--lora", self.root / "adapter" / "adapter.gguf"],
            "serve-trace": [*serve, "--trace", self.out / "t.pftrace"],
            "serve-swap": [*serve, "--swap", self.out, "--swap-max", "16M"],
            "serve-many": [*serve, "--queue", 1000, "--parallel", 256],
            "serve-one": [*serve, "--queue", 1, "--parallel", 1, "--ctx", 64],
            "serve-threads": [*serve, "-t", 8, "--kv", "q8_0"],
            "serve-everything": [*serve, "-t", 4, "--lora", self.root / "adapter" / "adapter.gguf", "--trace",
                                 self.out / "t.pftrace", "--swap", self.out, "--swap-max", "16M", "--dry-multiplier",
                                 0.8],
        }

    def run(self, verb, args):
        """Exit code, standard output and error. A server is ended as soon as it is ready."""
        command = [self.mnem, verb, *map(str, args)]
        with subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            first = process.stdout.readline() if verb == "serve" else ""
            if '"serving"' in first:
                process.send_signal(signal.SIGTERM)
            out, error = process.communicate(timeout=600)
        return process.returncode, first + out, error

    def within(self, words, budget):
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir()
        threads = [] if "-t" in words else ["-t", 2]
        return self.run(words[0], [*words[1:], *threads, "--json", "--memory", budget])


def objects(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def bytes_of(text):
    return round(float(text[:-1]) * UNITS[text[-1]])


def named(done):
    """needed_bytes, and `least` as text and in bytes."""
    code, out, error = done
    refusals = [o for o in objects(out) if "least" in o]
    if code != 3 or not refusals:
        return None, f"exit {code}, no least: {(out + error).strip()[-300:]}"
    last = refusals[-1]
    least = bytes_of(last["least"])
    if least != (last["needed_bytes"] + PAGE - 1) // PAGE * PAGE:
        return None, f"least {last['least']} isn't needed_bytes {last['needed_bytes']} rounded up"
    return least, last["least"]


def try_verb(place, words, starts):
    least, text = named(place.within(words, "1M"))
    if least is None:
        return text
    for _ in range(starts):
        code, out, error = place.within(words, text)
        if code:
            return f"with --memory {text}: exit {code}: {(out + error).strip()[-300:]}"
        code, out, error = place.within(words, f"{least - LESS}")
        left = [p.name for p in place.out.rglob("*") if p.stem != "t"]
        if code != 3:
            return f"with 8 KiB less than {text}: exit {code}: {error.strip()[-200:]}"
        if left:
            return f"with 8 KiB less than {text}: refused, but wrote {', '.join(left)}"
    return None, text


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    starts, failed = int(sys.argv[3]) if len(sys.argv) > 3 else 5, 0
    with tempfile.TemporaryDirectory() as root:
        place = Place(*map(str, map(pathlib.Path.absolute, map(pathlib.Path, sys.argv[1:3]))), root)
        verbs = place.verbs()
        for name in sys.argv[4:] or verbs:
            result = try_verb(place, verbs[name], starts)
            failed += isinstance(result, str)
            said = result if isinstance(result, str) else f"{starts} of {starts} with {result[1]}, none with less"
            print(f"{'FAILED' if isinstance(result, str) else 'ok':6} {name}: {said}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
