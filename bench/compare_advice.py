#!/usr/bin/env python3
"""compare_advice.py MNEM MODEL [--big MODEL] [--wide MODEL] [--only CHECK,...]

Makes what a check of `mnem advise` is about happen in real runs, asks it, does what it says, and
measures: whether the check is silent then, and how much of the gain that was promised came. MODEL:
the small one that ships. --big: one whose weights take much longer from disk than from memory;
--wide: one of 16 bits, that memory decides about (--narrow: it in Q4_K_M, if there is one). Each run is repeated, alternating, and the quickest of each side counts; the
history is one of its own. Times want a quiet machine.

A row: check, unit, before, promised, after, part of the promised gain that came, silent or not.
"""
import argparse, json, os, re, shutil, subprocess, sys, tempfile, threading, time, urllib.error, urllib.request

from control_group import ControlGroup

ROUNDS = 3


class Mnem:
    def __init__(self, path, folder):
        self.path, self.folder = path, folder
        self.env = dict(os.environ, XDG_STATE_HOME=folder + "/state", XDG_CACHE_HOME=folder + "/cache")
        self.env.pop("MNEM_HISTORY", None)

    def run(self, *args, check=True):
        r = subprocess.run([self.path, *map(str, args)], env=self.env, capture_output=True, text=True)
        if check and r.returncode:
            raise RuntimeError(f"mnem {' '.join(map(str, args))}: {r.returncode}: {r.stderr[-400:]}")
        return r

    def advise(self, *args):
        o = json.loads(self.run("advise", *args, "--json").stdout)
        return {a["check"]: a for a in o["advice"]}, o["facts"]


def option(command, name):
    m = re.search(name + r"[ =](\S+)", command)
    if not m:
        raise RuntimeError(f"no {name} in {command!r}")
    return m.group(1)


def row(check, gain, after, silent, note=""):
    before, promised = gain["before"], gain["after"]
    came = (before - after) / (before - promised) if before != promised else float("nan")
    mark = "" if came >= 0.8 and silent else "  <-- short"
    print(f"{check:20} {gain['unit']:12} {before:11.4g} {promised:11.4g} {after:11.4g} "
          f"{100 * came:7.0f} %  {'silent' if silent else 'still speaks'}{mark}  {note}", flush=True)


def measured(mnem, check, fact, fault, cure, model=None, rounds=ROUNDS, of=None, again=0):
    """fault(), cure(advice): make a run each. The quickest of each by the fact counts; what came is of the
    first cure, silent is it after so many more."""
    best = {}
    advice = None
    for _ in range(rounds):
        fault()
        found, facts = mnem.advise(*(["0", model] if model else []))
        if check in found and ("fault" not in best or facts[fact] < best["fault"][1][fact]):
            best["fault"], advice = (found, facts), found[check]
        if advice is None:
            continue
        cure(advice)
        found, facts = mnem.advise(*(["0", model] if model else []))
        if "cure" not in best or facts[fact] < best["cure"][1][fact]:
            best["cure"] = (found, facts)
    if advice is None:
        print(f"{check:20} doesn't speak: {facts}", flush=True)
        return
    found, facts = best["cure"]
    later, times = found, 1
    while check in later and times <= again:
        cure(later[check])
        later, _ = mnem.advise(*(["0", model] if model else []))
        times += 1
    note = f"silent after {times}: " if times > 1 else ""
    row(check, advice["gain"], of(facts) if of else facts[fact], check not in later, note + advice["command"][:60])


# ---- threads, others ----

def threads_too_few(m, a):
    def go(threads):
        m.run("run", a.big or a.model, "-q", "-p", "In the", "-n", 40, "--temp", 0, "-t", threads, "--ctx", 128,
              "--raw")
    measured(m, "threads-too-few", "tokens_seconds", lambda: go(1), lambda x: go(option(x["command"], "--threads")))


def others_run(m, a):
    def go():
        m.run("run", a.big or a.model, "-q", "-p", "In the", "-n", 60, "--temp", 0, "--ctx", 128)

    def beside():
        loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
        try:
            go()
        finally:
            for p in loops:
                p.kill()
                p.wait()
    measured(m, "others-run", "seconds", beside, lambda x: go())


def bandwidth_reached(m, a):
    small = a.narrow or m.folder + "/narrow.gguf"
    if not a.narrow:
        m.run("quantize", a.wide, "Q4_K_M", "-o", small)

    def go(model):
        m.run("run", model, "-q", "-p", "In the", "-n", 24, "--temp", 0, "--ctx", 128, "--raw")
    measured(m, "bandwidth-reached", "tokens_seconds", lambda: go(a.wide), lambda x: go(small), rounds=2)


def roofs_far(m, a):
    texts = ["And God said", "In the beginning", "Now these are the names of", "The LORD spake"] * 2

    def alone():
        m.run("run", a.model, "-q", "-p", texts[0], "-n", 400, "--temp", 0, "--ctx", 512, "--raw")

    def together(_):
        prompts = [x for t in texts for x in ("-p", t)]
        m.run("run", a.model, "-q", *prompts, "-n", 50, "--temp", 0, "--ctx", 512, "--raw")
    measured(m, "roofs-far", "tokens_seconds", alone, together)


# ---- disk ----

def streamed(m, model, *more, n=12):
    m.run("run", model, "-q", "-p", "In the", "-n", n, "--temp", 0, "--ctx", 128, "--raw", *more)


def peak_of(m, model):
    o = json.loads(m.run("plan", model, "--ctx", 128, "--json").stdout)
    return o["plan"]["peak_bytes"] if "plan" in o else o["peak_bytes"]


def least_memory(m, model, part):
    """A budget in which about so much of the weights stays in memory."""
    return f"{int(peak_of(m, model) * part) >> 20}M"


def disk_awaited(m, a):
    memory = least_memory(m, a.big, 0.6)
    measured(m, "disk-awaited", "seconds", lambda: streamed(m, a.big, "--memory", memory),
             lambda x: streamed(m, a.big, *(["--page-cache", "--memory", memory] if "--page-cache" in x["command"]
                                            else ["--memory", option(x["command"], "--memory")])), rounds=2)


def page_cache(m, a):
    memory = least_memory(m, a.big, 0.4)
    found, facts = m.advise(a.big, "--memory", memory, "--ctx", 128)
    if "page-cache" not in found:
        print("page-cache doesn't speak:", facts)
        return
    advice, best = found["page-cache"], {}
    for _ in range(2):
        for name, more in (("fault", []), ("cure", ["--page-cache"])):
            streamed(m, a.big, "--memory", memory, *more)
            facts = m.advise()[1]
            each = facts["tokens_seconds"] / facts["tokens"]
            best[name] = min(each, best.get(name, each))
    gain = dict(advice["gain"], before=best["fault"], after=best["fault"] - (advice["gain"]["before"] - advice["gain"]["after"]))
    found, _ = m.advise(a.big, "--memory", memory, "--ctx", 128, "--page-cache")
    row("page-cache", gain, best["cure"], "page-cache" not in found, f"promised {advice['gain']['before']:.3g} to {advice['gain']['after']:.3g}")


def reader_idle(m, a):
    """A prompt computes much of what it reads; a disk of two speeds is fast enough with this part in memory."""
    memory = least_memory(m, a.big, 0.7)

    def go(threads):
        m.run("run", a.big, "-q", "-p", "And God said " * 200, "-n", 1, "--ctx", 2048, "--temp", 0, "--raw", "--memory",
              memory, "-t", threads)
    measured(m, "reader-idle", "seconds", lambda: go(1), lambda x: go(option(x["command"], "--threads")))


def pages_lost(m, a):
    """A budget beyond what a control group lets stay, on a machine that swaps (both are made here)."""
    swap = m.folder + "/swap"
    with open(swap, "wb") as out:
        out.write(bytes(1 << 30))
    os.chmod(swap, 0o600)
    try:
        subprocess.run(["mkswap", swap], check=True, capture_output=True)
        subprocess.run(["swapon", swap], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as e:
        print(f"pages-lost           can't be made here: {e}")
        return
    group = ControlGroup("mnem-advice")
    limit = int(peak_of(m, a.big) * 0.7)
    outside = m.run

    def inside(*args, check=True):
        if args[0] != "run":
            return outside(*args, check=check)
        command = ["env", "XDG_STATE_HOME=" + m.env["XDG_STATE_HOME"], "XDG_CACHE_HOME=" + m.env["XDG_CACHE_HOME"],
                   "MNEM_HISTORY=on", m.path]
        return group.run(limit, command + [str(x) for x in args])
    m.run = inside
    try:
        measured(m, "pages-lost", "seconds", lambda: streamed(m, a.big, "--memory", "2G"),
                 lambda x: streamed(m, a.big, "--memory", option(x["command"], "--memory").rstrip(";")), rounds=2)
    finally:
        m.run = outside
        group.remove()
        subprocess.run(["swapoff", swap], check=False)


def disk_slow(m, a):
    memory = least_memory(m, a.big, 0.6)

    def beside():
        reads = [subprocess.Popen(["sh", "-c", f"while :; do dd if='{a.wide}' of=/dev/null bs=4M iflag=direct 2>/dev/null; done"],
                                  start_new_session=True) for _ in range(4)]
        try:
            streamed(m, a.big, "--memory", memory)
        finally:
            for p in reads:
                os.killpg(p.pid, 9)
                p.wait()
    measured(m, "disk-slow", "seconds", beside, lambda x: streamed(m, a.big, "--memory", memory), rounds=2)


# ---- the machine ----

def time_off(m, a):
    """A profile of a machine that was much slower, as after a move to another."""
    path = m.folder + "/cache/mnem/profile.json"
    kept = open(path).read()
    profile = {k: v / 20 for k, v in json.loads(kept).items()}
    open(path, "w").write(json.dumps(profile))
    go = lambda: m.run("run", a.big or a.model, "-q", "-p", "In the", "-n", 40, "--temp", 0, "--ctx", 128, "--raw")
    go()
    found, facts = m.advise()
    if "time-off" not in found:
        print("time-off doesn't speak", facts)
        return
    before = facts["tokens_predicted_seconds"] / facts["tokens_seconds"]
    assert "--refresh" in found["time-off"]["command"]
    m.run("bench", a.big or a.model, "-q", "--refresh")
    go()
    found, facts = m.advise()
    after = facts["tokens_predicted_seconds"] / facts["tokens_seconds"]
    print(f"{'time-off':20} predicted over real: {before:.2f} before, {after:.2f} after; "
          f"{'silent' if 'time-off' not in found else 'still speaks'}", flush=True)


def pages_small(m, a):
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    was = re.search(r"\[(\w+)\]", open(path).read()).group(1)
    go = lambda: m.run("run", a.wide or a.big, "-q", "-p", "In the", "-n", 40, "--temp", 0, "--ctx", 128, "--raw")

    def set_to(value):
        open(path, "w").write(value)

    def fault():
        set_to("never")
        go()

    def cure(advice):
        set_to(re.search(r"echo (\w+)", advice["command"]).group(1))
        go()
    try:
        set_to(was)
    except OSError as e:
        print(f"pages-small          can't be made here: {e}")
        return
    try:
        measured_pages(m, fault, cure)
    finally:
        set_to(was)


def measured_pages(m, fault, cure):
    best, advice = {}, None
    for _ in range(ROUNDS):
        fault()
        found, facts = m.advise()
        advice = found.get("pages-small", advice)
        best["fault"] = min(facts["tokens_seconds"], best.get("fault", 1e9))
        if advice is None:
            print("pages-small doesn't speak", facts)
            return
        cure(advice)
        found, facts = m.advise()
        best["cure"] = min(facts["tokens_seconds"], best.get("cure", 1e9))
    silent = "pages-small" not in found
    print(f"{'pages-small':20} tokens' seconds {best['fault']:.3f} before, {best['cure']:.3f} after; promised "
          f"{advice['gain']}; {'silent' if silent else 'still speaks'}", flush=True)


# ---- training ----

def training_efficiency(m, a):
    text = m.folder + "/text.txt"
    open(text, "w").write("And God said, Let there be light: and there was light. " * 4000)

    def go(batch):
        out = tempfile.mkdtemp(dir=m.folder)
        shutil.rmtree(out)
        m.run("train", "--data", text, "--config", "5m", "--out", out, "--steps", 20, "--memory", "512M", "-q",
              "--ctx", 4, "--batch", batch, "--micro-batch", batch)
    measured(m, "training-efficiency", "step_seconds", lambda: go(1), lambda x: go(int(option(x["command"], "--batch"))),
             of=lambda facts: facts["step_seconds"] / facts["batch"], again=8)


# ---- serving ----

class Server:
    def __init__(self, m, *args):
        self.p = subprocess.Popen([m.path, "serve", *map(str, args), "--port", "0"], env=m.env,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = re.search(r"http://\S+", self.p.stdout.readline()).group(0).rstrip("/")

    def ask(self, prompt, n, answers):
        body = json.dumps({"prompt": prompt, "max_tokens": n, "temperature": 0}).encode()
        r = urllib.request.Request(self.address + "/v1/completions", body, {"Content-Type": "application/json"})
        try:
            answers.append(urllib.request.urlopen(r, timeout=300).status)
        except urllib.error.HTTPError as e:
            answers.append(e.code)

    def all(self, prompts, n):
        answers = []
        threads = [threading.Thread(target=self.ask, args=(p, n, answers)) for p in prompts]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return answers

    def end(self):
        self.p.terminate()
        self.p.wait()


def served(m, check, fact, fault, cure, prompts, n):
    def go(args):
        s = Server(m, *args)
        s.all(prompts, n)
        s.end()
    go(fault)
    found, facts = m.advise()
    if check not in found:
        print(f"{check} doesn't speak: {facts}")
        return
    advice = found[check]
    go(cure(advice))
    found, facts = m.advise()
    row(check, advice["gain"], facts.get(fact, 0), check not in found, advice["command"][:60])


def clients_refused(m, a):
    base = [a.model, "--memory", "1G", "--parallel", 1, "--ctx", 256]
    served(m, "clients-refused", "requests_refused", base + ["--queue", 1],
           lambda x: base + ["--queue", option(x["command"], "--queue")], ["And God said"] * 24, 60)


def work_repeated(m, a):
    base = [a.model, "--memory", "23M", "--parallel", 4, "--ctx", 256]
    prompts = [f"{'And it came to pass ' * 4}{i}" for i in range(8)]
    served(m, "work-repeated", "tokens_recomputed", base, lambda x: base + ["--swap", option(x["command"], "--swap")],
           prompts, 150)


CHECKS = {f.__name__.replace("_", "-"): f for f in (
    threads_too_few, others_run, bandwidth_reached, roofs_far, disk_awaited, disk_slow, reader_idle, pages_lost, page_cache,
    time_off, pages_small, training_efficiency, clients_refused, work_repeated)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("mnem")
    p.add_argument("model")
    p.add_argument("--big")
    p.add_argument("--wide")
    p.add_argument("--narrow")
    p.add_argument("--only")
    a = p.parse_args()
    folder = tempfile.mkdtemp(prefix="advice-")
    m = Mnem(os.path.abspath(a.mnem), folder)
    try:
        m.run("bench", a.big or a.model, "-q")
        m.run("probe", "-q", "--memory", "1G")
        print(f"{'check':20} {'unit':12} {'before':>11} {'promised':>11} {'after':>11} {'came':>9}")
        for name, check in CHECKS.items():
            if a.only and name not in a.only.split(","):
                continue
            try:
                check(m, a)
            except (RuntimeError, KeyError, TypeError) as e:
                print(f"{name}: {type(e).__name__}: {e}", flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
