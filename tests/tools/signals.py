#!/usr/bin/env python3
"""signals.py MNEM MODEL [SIGNALS [SEED]]: signals (500) at random moments to every verb that writes a file; a third of
the runs get a second one. MODEL is a small one, such as the one that ships. No run may crash, and what lies there
afterwards is whole: what was there before, or the new file. Nothing else is left, no .mnem-tmp above all. Run by hand."""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
QUIET = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


class Place:
    """What the verbs read, made once, and the folder that they write into."""

    def __init__(self, mnem, model, root):
        self.mnem, self.model, self.root = mnem, model, pathlib.Path(root)
        self.out = self.root / "out"
        self.env = os.environ | {"XDG_CACHE_HOME": str(self.root / "cache"), "XDG_STATE_HOME": str(self.root / "state")}
        words = random.Random(1)
        some = ["and", "the", "lord", "said", "unto", "him,", "let", "there", "be", "light.\n"]
        (self.root / "text.txt").write_text(" ".join(words.choice(some) for _ in range(8000)))
        (self.root / "few.txt").write_text((self.root / "text.txt").read_text()[:1000])
        (self.root / "config.json").write_text(json.dumps(dict(
            architecture="llama", layers=2, embd=64, heads=4, kv_heads=2, ff=128, vocab=300, context=64, batch=8,
            steps=40, rate=0.005, warmup=5, heldout=0.03)))
        self.run("run", model, "-p", "In the", "-n", "8", "--trace", self.root / "in.pftrace")
        self.run("train", "--init", model, "--lora", "4", "--data", self.root / "text.txt", "--out",
                 self.root / "adapter", "--steps", "2", "--context", "64", "--batch", "2")

    def run(self, *args):
        done = subprocess.run([self.mnem, *map(str, args)], env=self.env, timeout=300, **QUIET)
        if done.returncode:
            sys.exit(f"mnem {' '.join(map(str, args))}: {done.returncode}: {done.stderr.decode()}")

    def verbs(self):
        model, root, out = self.model, self.root, self.out
        folder = HERE.parent / "data" / "folders" / "llama_3"
        return {
            "convert": ["convert", folder, "-o", out / "m.gguf"],
            "quantize": ["quantize", model, out / "m.gguf", "Q4_0"],
            "calibrate": ["quantize", model, out / "m.gguf", "Q4_0", "-c", "32", "--calibrate", root / "few.txt",
                          "--imatrix-out", out / "m.imatrix", "--no-table"],
            "prune": ["prune", model, "-o", out / "m.gguf", "--pattern", "2:4"],
            "merge": ["merge", model, root / "adapter" / "adapter.gguf", "-o", out / "m.gguf"],
            "train": ["train", "--threads", "1", "--data", root / "text.txt", "--config", root / "config.json",
                      "--out", out / "trained"],
            "resume": ["train", "--threads", "1", "--out", out / "trained", "--resume", "--steps", "80"],
            "report": ["report", root / "in.pftrace", "--html", out / "page.html"],
            "bench": ["bench", model, "-p", "16", "-n", "16", "-r", "1", "--refresh"],
            "run": ["run", model, "-p", "In the", "-n", "30", "--raw", "--prompt-cache", out / "cache", "--trace",
                    out / "run.pftrace"],
            "perplexity": ["perplexity", model, root / "few.txt", "--ctx", "64", "--trace", out / "p.json"],
            "graph": ["graph", model, "--svg", out / "graph.svg"],
        }


def check_whole(place, path):
    """Why a file is not whole; None: it is."""
    if path.suffix == ".gguf":
        ask = ["info", path]
    elif path.suffix == ".pftrace":
        ask = ["report", path]
    elif path.suffix in (".svg", ".html"):
        return None if path.read_text().rstrip().endswith(f"</{path.suffix[1:]}>") else "has no end"
    elif path.suffix == ".json":
        try:
            json.loads(path.read_text())
        except ValueError as error:
            return str(error)
        return None
    else:
        return None
    done = subprocess.run([place.mnem, *map(str, ask)], env=place.env, **QUIET)
    return done.stderr.decode() if done.returncode else None


def wrong_of(place, name, code):
    """What is wrong after a run."""
    if code < 0 or code in (132, 134, 135, 136, 139):
        yield f"crashed: {code}"
    elif code not in (0, 128 + signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGHUP):
        yield f"exit code {code}"
    for folder in (place.out, place.root / "cache", place.root / "state"):
        for path in folder.rglob("*"):
            if path.is_dir():
                continue
            if path.name.endswith(".mnem-tmp") or ".json." in path.name:
                yield f"left behind: {path.name}"
            elif why := check_whole(place, path):
                yield f"{path.name}: {why.strip()}"
    trained = place.out / "trained"
    if name in ("train", "resume") and (trained / "checkpoint").exists():
        done = subprocess.run([place.mnem, "train", "--threads", "1", "--out", str(trained), "--resume", "--dry-run"],
                              env=place.env, **QUIET)
        finished = b"is finished" in done.stderr
        if done.returncode and not finished:
            yield f"can't be resumed: {done.stderr.decode().strip()}"


def seconds_of(place, args):
    begin = time.monotonic()
    place.run(*args)
    return time.monotonic() - begin


def one(place, name, args, length, r):
    """A run that gets its signals; what is wrong afterwards."""
    which = r.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    run = subprocess.Popen([place.mnem, *map(str, args)], env=place.env, **QUIET)
    sent = 1
    time.sleep(0.02 + r.random() * length)  # before its handler is there a signal ends it as it does any program
    run.send_signal(which)
    if r.random() < 0.33:
        time.sleep(r.random() * 0.01)
        run.send_signal(r.choice([signal.SIGINT, signal.SIGTERM]))
        sent = 2
    said = run.communicate(timeout=120)[1].decode(errors="replace")
    early = run.returncode == -which and not said
    wrong = [] if early else list(wrong_of(place, name, run.returncode))
    return sent, [f"{name}: {which.name} x{sent}: {w}" for w in wrong]


def main(mnem, model, signals=500, seed=1):
    r, sent, found, ends = random.Random(int(seed)), 0, [], {}
    with tempfile.TemporaryDirectory() as root:
        place, length = Place(mnem, model, root), {}
        while sent < int(signals):
            for name, args in place.verbs().items():
                if name != "resume":
                    shutil.rmtree(place.out, ignore_errors=True)
                    place.out.mkdir()
                elif not (place.out / "trained" / "checkpoint").exists():
                    continue
                if name not in length:
                    length[name] = min(seconds_of(place, args), 4)
                    if name in ("train", "resume", "run"):
                        continue  # what is there is the next one's
                    shutil.rmtree(place.out, ignore_errors=True)
                    place.out.mkdir()
                n, wrong = one(place, name, args, length[name], r)
                sent += n
                ends[name] = ends.get(name, 0) + n
                found += wrong
                for line in wrong:
                    print(line, flush=True)
    print(f"{sent} signals {ends}: {len(found)} wrong")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
