#!/usr/bin/env python3
"""Nothing lost: an old build's command beside the one of this checkout, answer by answer.

    bench/compare_builds.py OLD [--new NEW] [--quick] [--free-texts] [--only GROUP,...] [--jobs N]
                            [--work DIR]

OLD, NEW: a source tree with build/release in it, a build folder, or the command itself (NEW: this
checkout). Both run the same command lines, each in a folder of its own, and must give
  tokens       the same greedy and seeded tokens, for models x budgets x chunk x KV type x threads
  perplexity   the same number to the bit, over the same product
  least        for each least --memory that the old names: the new one accepts it, within the slack
  plans        for each way of --explain and each budget: every line equal or smaller, but `host` 16 KiB
               and 1 % and `runtime` 256 KiB more at most, and no worse way chosen: another one reads
               less, is predicted to be as fast, or is what the old build chooses with as much more
               as the new one doesn't take
  train-plans  the same of `train --dry-run`
  train        losses, norms and validation to the bit, and the same model.gguf
  lora         the same of adapters, and of what `merge` makes of them
  resume       the old build's checkpoints go on in both, with the same losses and files
  quantize     the same files and reports
  calibrate    the same of methods that read a text, at budgets; and of importance matrices
  prune        the same of what `prune` removes, with a text and without
  embed        the same embeddings to the bit, over models, poolings, KV types and budgets
  saved        the same file of a prompt's state; each build goes on from the other's
  serve        the same answers to a scripted load, alone and at once; the same counters and metrics
  ranks        2 and 3 ranks by layers and by rows: the same tokens, which one process gives too,
               perplexities, losses, ways and refusals
  verbs        the same of info, tokenize, and of plans for devices that aren't here
  errors       exit codes and JSON of what can't work
and, counted while those run,
  refusals     the same text and budget_bytes; needed_bytes and least within the slack
  memory       a process within its budget (VmHWM, as `run` and `train` report it).

Models: those of the tests and random weights in four architectures (make_model) at 30 budgets, from
just below the least to all resident; at fewer budgets the shipped model, random ones of all types,
LoRA, and forced levels. The slack is what a plan may need more, 260 KiB: a new build that refuses
an old budget is asked again with so much more.
The address space isn't randomized here: what is loaded where changes a peak by 4 KiB.

Levels of the processor (plain C, AVX2) are forced in builds of their own, of both trees, in
WORK/levels: a header that is included first takes a bit from what CPUID's header knows. The command
needs no switch for it. Where a tree isn't known, or on another processor, these are left out.
Tokens, perplexities, training, adapters and quantization are compared there, at fewer budgets.

--free-texts: texts for humans may differ, as after a change of wording: a refusal still names the
options that would help, an error the same amounts, a table the same words with digits in them.
JSON keys and all other values, exit codes and files are compared as ever.

builds_exceptions.py lists what may differ, and why: it is told, and no failure. Exit code 1 when
anything else differs; the command lines that do are printed, and WORK keeps what they read.
Half an hour on two quiet cores, 3 minutes with --quick; building the levels takes as long, once.
"""
import argparse
import concurrent.futures
import ctypes
import os
import signal
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # no folder of it beside the sources
from builds_exceptions import EXCEPTIONS
from builds_files import calibrate, embed, errors, prune, quantize, verbs
from builds_input import make_models, make_texts
from builds_ranks import ranks
from builds_run import least, perplexity, plans, saved, tokens
from builds_serve import serve
from builds_setup import Extent, Setup
from builds_train import lora, resume, train, train_plans
from two_builds import Build, Pair, executable, force_levels

ROOT = Path(__file__).resolve().parent.parent

GROUPS = {"tokens": tokens, "perplexity": perplexity, "least": least, "plans": plans,
          "train-plans": train_plans, "train": train, "lora": lora, "resume": resume,
          "quantize": quantize, "calibrate": calibrate, "prune": prune, "embed": embed,
          "saved": saved, "serve": serve, "ranks": ranks, "verbs": verbs, "errors": errors}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("old", type=Path, help="tree, build folder or command of the old build")
    parser.add_argument("--new", type=Path, default=ROOT, help="of the new one: this checkout")
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--free-texts", action="store_true", help="texts for humans may differ")
    parser.add_argument("--only", metavar="GROUP,...", help=", ".join(GROUPS))
    parser.add_argument("--levels", choices=["all", "native"], default="all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--work", type=Path, default=ROOT / "build/compare_builds")
    return parser.parse_args()


def interrupted(*_):
    raise KeyboardInterrupt


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, interrupted)  # SIGINT is ignored behind a shell's &
    only = args.only.split(",") if args.only else list(GROUPS)
    if not set(only) <= set(GROUPS):
        sys.exit(f"compare_builds: groups are {' '.join(GROUPS)}")
    work = args.work.resolve()
    ctypes.CDLL(None).personality(0x0040000)  # ADDR_NO_RANDOMIZE, inherited
    for name in ("MNEM_MODEL", "MNEM_MEMORY"):
        os.environ.pop(name, None)
    os.environ["XDG_CACHE_HOME"] = str(work / "cache")  # no profile of this machine: as planned
    pair = Pair(Build(args.old, work / "old"), Build(args.new, work / "new"),
                [*GROUPS, "refusals", "memory"], EXCEPTIONS, args.free_texts)
    make_model = next(filter(None, (executable(p, "make_model") for p in (
        ROOT, args.new, args.old) if p.is_dir())), None)
    if not make_model:
        sys.exit("compare_builds: make_model isn't built (./test does)")
    make_texts(ROOT, work / "text")
    extent = Extent(args.quick)
    models, of_types = make_models(ROOT, make_model, work / "models", extent)
    setup = Setup(pair, extent, models, of_types,
                  force_levels(pair, work) if args.levels == "all" else [])
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for name in only:
            jobs = [pool.submit(*job) for job in GROUPS[name](setup, pair.groups[name])]
            try:
                for job in jobs:
                    job.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                print(f"{name} was not finished; of what was compared:")
                pair.groups[name].report()
                raise
            pair.groups[name].report()
    for name in ("refusals", "memory"):
        pair.groups[name].report()
    failed = sum(g.failed for g in pair.groups.values())
    print(f"{failed} differences" if failed else "nothing lost")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
