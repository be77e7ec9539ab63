#!/usr/bin/env python3
"""compare_rpc.py LLAMA_BENCH RPC_SERVER MODEL [options]: one model in two processes, mnem under
mpirun and llama.cpp's RPC.

Two processes hold the weights, one thread each, f16 keys and values, all over TCP of the loopback:
  theirs   two RPC_SERVERs and llama-bench --rpc A,B, which holds none (or, with --local, one server
           and llama-bench itself, which holds the other half of the layers)
  ours     mpirun -n 2 mnem bench, over TCP too (--mca btl tcp,self; with --shared as MPI likes)
In turn, fresh processes each time; medians over --rounds of tokens a second, and of each pair's
ratio. --bytes counts what crosses the loopback of a network of its own (needs root) for each token:
the difference of four repetitions and one, with all headers, so that loading isn't in it.
"""
import argparse
import ctypes
import fcntl
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PORTS = (50152, 50153)


def own_network():
    """A network of this process alone, with nothing but a loopback."""
    if ctypes.CDLL(None).unshare(0x40000000) != 0:
        sys.exit("compare_rpc: no network of its own can be had (root?)")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        request = struct.pack("16sh", b"lo", 0)
        flags = struct.unpack("16sh", fcntl.ioctl(s, 0x8913, request))[1]
        fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", flags | 1))


def loopback_bytes():
    with open("/proc/net/dev", encoding="ascii") as f:
        for line in f:
            name, _, counts = line.partition(":")
            if name.strip() == "lo":
                return int(counts.split()[8])
    sys.exit("compare_rpc: no loopback")


def wait_for(port):
    for _ in range(600):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(.05)
    sys.exit(f"compare_rpc: nobody listens on {port}")


def output(arguments, **more):
    done = subprocess.run([str(x) for x in arguments], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def theirs(a, prompt, tokens, times=1):
    """Tokens a second of a prompt and of generation; 0: not asked for."""
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(a.server))
    ports = PORTS[:1] if a.local else PORTS
    servers = [subprocess.Popen([a.server, "-t", "1", "-d", "CPU", "-H", "127.0.0.1", "-p", str(p)],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                env=environment) for p in ports]
    try:
        for p in ports:
            wait_for(p)
        out = output([a.llama, "-m", a.model, "-t", 1, "-p", prompt, "-n", tokens, "-r", times,
                      "-ngl", a.local or 99, "-fa", 1, "-o", "json", "--rpc",
                      ",".join(f"127.0.0.1:{p}" for p in ports)], env=environment)
    finally:
        for s in servers:
            s.terminate()
            s.wait()
    rows = json.loads(out[out.index("["):])
    speed = {bool(r["n_prompt"]): r["avg_ts"] for r in rows}
    return speed.get(True, 0), speed.get(False, 0)


def ours(a, prompt, tokens, times=1):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       MNEM_HISTORY="off")
    link = [] if a.shared else ["--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"]
    out = output([a.mpirun, *link, "--oversubscribe", "-n", 2, a.mnem, "bench", a.model, "-t", 1,
                  "-p", prompt, "-n", tokens, "-r", times, "--kv", "f16", "--memory", a.memory,
                  "--json"], env=environment)
    row = json.loads([line for line in out.splitlines() if line.startswith("{")][-1])
    return row.get("prompt_tokens_per_s") or 0, row.get("tokens_per_s") or 0


def counted(run, *arguments):
    before = loopback_bytes()
    run(*arguments)
    return loopback_bytes() - before


def show_bytes(a):
    own_network()
    for what, prompt, tokens in (("prompt", a.prompt, 0), ("generation", 0, a.tokens)):
        each = [(counted(run, a, prompt, tokens, 4) - counted(run, a, prompt, tokens, 1))
                / (3 * (prompt + tokens)) for run in (ours, theirs)]
        print(f"{what:<12} bytes for each token: mnem {each[0]:10.0f}   llama.cpp {each[1]:10.0f}"
              f"   {each[0] / each[1]:6.3f}", flush=True)


def show_speed(a):
    pairs = []
    for _ in range(a.rounds):
        pairs.append((ours(a, a.prompt, a.tokens), theirs(a, a.prompt, a.tokens)))
        print("  mnem %.2f, %.2f   llama.cpp %.2f, %.2f" % sum(pairs[-1], ()), flush=True)
    for k, what in enumerate((f"prompt {a.prompt}", f"generation {a.tokens}")):
        mine = statistics.median(p[0][k] for p in pairs)
        peers = statistics.median(p[1][k] for p in pairs)
        ratios = sorted(p[0][k] / p[1][k] for p in pairs)
        print(f"{what:<16} tokens/s: mnem {mine:8.2f}   llama.cpp {peers:8.2f}   "
              f"{statistics.median(ratios):5.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("llama", help="llama-bench, built with GGML_RPC")
    p.add_argument("server", help="ggml-rpc-server")
    p.add_argument("model")
    p.add_argument("--mnem", default=os.path.join(ROOT, "build/release/tools/mnem/mnem"))
    p.add_argument("--mpirun", default="mpirun")
    p.add_argument("--memory", default="700M", help="of each of our ranks")
    p.add_argument("--prompt", type=int, default=256)
    p.add_argument("--tokens", type=int, default=48)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--local", type=int, default=0, metavar="LAYERS",
                   help="one server, which has so many layers; llama-bench has the others")
    p.add_argument("--shared", action="store_true", help="our messages as MPI likes them")
    p.add_argument("--bytes", action="store_true")
    a = p.parse_args()
    a.server = os.path.abspath(a.server)
    show_bytes(a) if a.bytes else show_speed(a)


if __name__ == "__main__":
    main()
