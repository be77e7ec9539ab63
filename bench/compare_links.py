#!/usr/bin/env python3
"""compare_links.py MNEM MODEL [options]: ranks on slow links, measured beside what `mnem plan` says.

Two ranks of this machine, one thread each, whose messages are made as slow as each of --links
(`mnem bench --link`), with layers and with rows; beside it `mnem plan --ranks` with the same link,
by the profile of this machine. So that both see the machine at the same moment, what one process
with one thread reaches is measured anew before each link; the prediction comes of that and of the
link alone. One rank of one thread is taken for a machine of its own, as the plan takes it.
Prints each pair and, over --rounds, medians. All of it lies in a profile of its own.

--network RATE (root): the two ranks are hosts to each other instead, in two network namespaces with
a pair of veth between them that `tc qdisc tbf` holds to RATE (1gbit); MPI goes over TCP there. The
latency that `mnem bench` measures on it goes into the plan's link beside RATE.
"""
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile

LINKS = ["10Gbit/s,0.1ms", "1Gbit/s,0.1ms", "10Gbit/s,1ms", "1Gbit/s,1ms"]
KEYS = {"prompt": ("prompt_tokens_per_s", "predicted_prompt_tokens_per_s"),
        "generation": ("tokens_per_s", "predicted_tokens_per_s")}


def output(words, environment):
    done = subprocess.run([str(x) for x in words], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def objects(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


HOSTS = ("mnem0", "mnem1")
AGENT = """#!/bin/sh
shift # the host: there is one
exec ip netns exec mnem1 unshare --uts sh -c 'hostname mnem1; exec sh -c "$0"' "$*"
"""


def run(*words, check=True):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.stderr}")


@contextlib.contextmanager
def network(rate, folder):
    """Two hosts with a link of this rate; what mpirun is to be called by."""
    agent = os.path.join(folder, "agent")
    with open(agent, "w", encoding="ascii") as f:
        f.write(AGENT)
    os.chmod(agent, 0o755)
    try:
        for host in HOSTS:
            run("ip", "netns", "add", host)
        run("ip", "link", "add", "mnem0v", "netns", "mnem0", "type", "veth", "peer", "name",
            "mnem1v", "netns", "mnem1")
        for i, host in enumerate(HOSTS):
            inside = ("ip", "netns", "exec", host)
            run(*inside, "ip", "addr", "add", f"10.77.0.{i + 1}/24", "dev", host + "v")
            run(*inside, "ip", "link", "set", host + "v", "up")
            run(*inside, "ip", "link", "set", "lo", "up")
            run(*inside, "tc", "qdisc", "add", "dev", host + "v", "root", "tbf", "rate", rate,
                "burst", "128kb", "latency", "50ms")
        yield ["ip", "netns", "exec", "mnem0", "unshare", "--uts", "sh", "-c",
               'hostname mnem0; exec "$0" "$@"', "mpirun", "--mca", "plm_rsh_agent", agent,
               "--host", "10.77.0.1:1,10.77.0.2:1", "--mca", "btl", "tcp,self", "--mca",
               "btl_tcp_if_include", "10.77.0.0/24", "--mca", "oob_tcp_if_include",
               "10.77.0.0/24", "-x", "XDG_CACHE_HOME", "-x", "MNEM_HISTORY", "-n", 2,
               "--bind-to", "none"]
    finally:
        for host in HOSTS:
            run("ip", "netns", "del", host, check=False)


def bench(a, environment, before=(), more=()):
    return objects(output([*before, a.mnem, "bench", a.model, "-p", a.prompt, "-n", a.tokens, "-r",
                           a.repeats, "--ctx", a.ctx, "--json", *more], environment))[-1]


def compare(a, environment, mpirun):
    same = ["--memory", a.memory]
    rows = {}
    for _ in range(a.rounds):
        for link in a.links:
            alone = bench(a, environment, more=["-t", 1])
            print(f"{link:16} one process: prompt {alone['prompt_tokens_per_s']:.1f}, generation "
                  f"{alone['tokens_per_s']:.2f} tokens/s", flush=True)
            for cut in a.cuts:
                did = bench(a, environment, mpirun, ["-t", 1, "--cut", cut, *same] +
                            ([] if a.network else ["--link", link]))
                wire = f"{link.replace('bit', 'bit/s').replace('g', 'G')},{did['link_seconds']}s" \
                    if a.network else link
                said = objects(output([a.mnem, "plan", a.model, "--ranks", a.ranks, "--link", wire,
                                       "--cut", cut, "-t", 1, "--ctx", a.ctx, "--json", *same],
                                      environment))[-1]
                if a.network:
                    print(f"{link:16} {cut:6} link       {8e-9 * did['link_bytes_per_s']:9.3f} Gbit/s"
                          f" {1e3 * did['link_seconds']:9.3f} ms", flush=True)
                for what, (measured, predicted) in KEYS.items():
                    pair = (did[measured], said[predicted])
                    rows.setdefault((cut, link, what), []).append(pair)
                    print(f"{link:16} {cut:6} {what:10} {pair[0]:9.2f} measured {pair[1]:9.2f} "
                          f"predicted {pair[0] / pair[1]:5.2f}", flush=True)
    print(f"\n{'cut':6} {'link':16} {'':10} {'measured':>9} {'predicted':>9} {'ratio':>5}")
    off = 0
    for (cut, link, what), pairs in rows.items():
        ratio = statistics.median(m / p for m, p in pairs)
        off = max(off, ratio - 1, 1 - ratio)
        print(f"{cut:6} {link:16} {what:10} {statistics.median(m for m, _ in pairs):9.2f} "
              f"{statistics.median(p for _, p in pairs):9.2f} {ratio:5.2f}")
    print(f"at most {100 * off:.0f} % off")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mnem")
    parser.add_argument("model")
    parser.add_argument("--links", nargs="+", default=LINKS)
    parser.add_argument("--network", metavar="RATE")
    parser.add_argument("--cuts", nargs="+", default=["layers", "rows"])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--memory", default="900M", help="of each rank")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--ctx", type=int, default=768)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    a = parser.parse_args()
    kept = tempfile.TemporaryDirectory()
    environment = dict(os.environ, XDG_CACHE_HOME=kept.name, MNEM_HISTORY="off",
                       OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    bench(a, environment)  # the machine, all threads
    if a.network:
        a.links = [a.network]
        with network(a.network, kept.name) as mpirun:
            compare(a, environment, mpirun)
    else:
        compare(a, environment,
                ["mpirun", "-n", a.ranks, "--bind-to", "none", "--oversubscribe"])


if __name__ == "__main__":
    main()
