"""Traces of `mnem run`, as the viewers that they are for read them: the same bytes as the ledger's."""
import csv
import json
import os
import pickle
import shutil
import subprocess
import sys

import pytest

MNEM = os.environ["MNEM_COMMAND"]


def run(trace):
    """Runs with a trace; what the ledger says at the end."""
    out = subprocess.run([MNEM, "run", "-p", "In the beginning", "-n", "24", "-q", "--json", "--trace", str(trace)],
                         capture_output=True, text=True, check=True).stdout
    return json.loads(out.splitlines()[-1])["ledger"]


def peaks(ledger):
    return {(a["kind"], a["tag"]): a["bytes_peak"] for a in ledger["accounts"]}


def needed(name):
    path = os.environ.get(name)
    if not path:
        pytest.skip(f"{name} isn't set")
    return path


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "run.pickle"
    return path, run(path)


# ---- PyTorch's snapshot ----

def walk(entries):
    """Live bytes by kind and tag after each entry, as the entries tell."""
    live, total, at = {}, 0, {}
    most = {}
    for e in entries:
        if e["action"] not in ("alloc", "free_completed"):
            continue
        frame = e["frames"][0]
        key = (frame["filename"], frame["name"])
        sign = 1 if e["action"] == "alloc" else -1
        if sign > 0:
            assert e["addr"] not in at
            at[e["addr"]] = e["size"]
        else:
            assert at.pop(e["addr"]) == e["size"]
        total += sign * e["size"]
        live[key] = live.get(key, 0) + sign * e["size"]
        most[key] = max(most.get(key, 0), live[key])
        most[None] = max(most.get(None, 0), total)
    return most


def test_a_snapshot_is_a_pickle_of_plain_values(snapshot):
    path, ledger = snapshot
    with open(path, "rb") as file:
        data = pickle.load(file)
    most = walk(data["device_traces"][0])
    assert most.pop(None) == ledger["bytes_peak"]
    assert most == {key: bytes for key, bytes in peaks(ledger).items() if bytes}
    for segment in data["segments"]:
        assert sum(b["size"] for b in segment["blocks"]) == segment["total_size"]


@pytest.mark.parametrize("action", ["stats", "trace"])
def test_pytorchs_own_script_reads_it(snapshot, action):
    script = needed("MNEM_MEMORY_VIZ_PY")
    out = subprocess.run([sys.executable, script, action, str(snapshot[0])], capture_output=True, text=True,
                         check=True).stdout
    if action == "stats":
        assert "total_allocated: " in out and "total_free: 0.0B" in out
    else:
        assert "Device 0 ----" in out


def test_pytorchs_viewer_finds_the_same_peak(snapshot):
    viewer = needed("MNEM_MEMORY_VIZ_JS")
    path, ledger = snapshot
    here = os.path.dirname(os.path.abspath(__file__))
    out = subprocess.run(["node", os.path.join(here, "memory_viz.js"), viewer, str(path)], capture_output=True,
                         text=True, check=True).stdout
    seen = json.loads(out)
    assert seen["devices"][0]["peak"] == ledger["bytes_peak"]
    assert seen["devices"][0]["reserved"] == ledger["bytes_peak"]
    assert "unknown" in seen["categories"] and "weights" in seen["categories"]


# ---- the others ----

def test_folded_stacks_sum_to_the_peak(tmp_path):
    ledger = run(tmp_path / "run.folded")
    lines = (tmp_path / "run.folded").read_text().splitlines()
    rows = [line.rsplit(" ", 1) for line in lines]
    # Pools' blocks lie within bytes that the ledger has: stacks of their own, under "pool N".
    ledgers = [row for row in rows if not row[0].startswith("pool ")]
    assert sum(int(bytes) for _, bytes in ledgers) == ledger["bytes_peak"]
    assert all(2 <= len(stack.split(";")) <= 3 for stack, _ in ledgers)


def test_insights_tables_have_the_peak(tmp_path):
    folder = tmp_path / "run_ascend_pt"
    ledger = run(folder)
    with open(folder / "ASCEND_PROFILER_OUTPUT" / "memory_record.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    most = max(float(r["Total Allocated(MB)"]) for r in rows if r["Component"] == "PTA")
    assert round(most * 2**20) == ledger["bytes_peak"]
    with open(folder / "ASCEND_PROFILER_OUTPUT" / "operator_memory.csv", newline="") as file:
        live = [float(r["Size(KB)"]) for r in csv.DictReader(file) if not r["Release Time(us)"]]
    last = [float(r["Total Allocated(MB)"]) for r in rows if r["Component"] == "PTA"][-1]
    assert round(sum(live) * 1024) == pytest.approx(round(last * 2**20), abs=len(live))


def test_perfettos_protos_have_the_same_sums(tmp_path):
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    ledger = run(tmp_path / "run.pftrace")
    trace = protos.Trace()
    trace.ParseFromString((tmp_path / "run.pftrace").read_bytes())
    tracks, live, most, total = {}, {}, {}, 0
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        event = packet.track_event
        if event.type != event.TYPE_COUNTER or not tracks[event.track_uuid].parent_uuid in tracks:
            continue
        kind = tracks[tracks[event.track_uuid].parent_uuid]
        if kind.name not in {a["kind"] for a in ledger["accounts"]}:
            continue
        key = (kind.name, tracks[event.track_uuid].name)
        total += event.counter_value - live.get(key, 0)
        live[key] = event.counter_value
        most[key] = max(most.get(key, 0), event.counter_value)
        most[None] = max(most.get(None, 0), total)
    assert most.pop(None) == ledger["bytes_peak"]
    assert most == {key: bytes for key, bytes in peaks(ledger).items() if bytes}


# ---- several ranks in one file ----

@pytest.fixture(scope="module", params=["pftrace", "json"])
def ranks(request, tmp_path_factory):
    """A trace of three ranks, what rank 0's ledger said, and the report's line for each rank."""
    if not shutil.which("mpirun") or not os.path.exists(MNEM + "-mpi"):
        pytest.skip("there is no mpirun, or no mnem-mpi beside mnem")
    path = tmp_path_factory.mktemp("ranks") / f"ranks.{request.param}"
    more = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    out = subprocess.run(["mpirun", "-n", "3", MNEM, "run", "-p", "In the beginning", "-n", "8", "-q", "-t", "1", "--ctx",
                          "64", "--memory", "100M", "--json", "--trace", str(path)], env=os.environ | more,
                         stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
    told = json.loads(subprocess.run([MNEM, "report", str(path), "--json"], capture_output=True, text=True,
                                     check=True).stdout)
    return path, json.loads(out.splitlines()[-1])["ledger"], told["by_rank"]


def counters_of_perfetto(path):
    """The process's name, the names of its track's parents (the outermost first) and the value of each change."""
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    trace = protos.Trace()
    trace.ParseFromString(path.read_bytes())
    tracks, last = {}, 0
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        event = packet.track_event
        if not packet.HasField("track_event"):
            continue
        assert packet.timestamp >= last  # one timeline
        last = packet.timestamp
        if event.type != event.TYPE_COUNTER:
            continue
        names, track = [], tracks[event.track_uuid]
        while not track.HasField("process"):
            names.insert(0, track.name)
            track = tracks[track.parent_uuid]
        yield track.process.pid, track.process.process_name, names, event.counter_value


def counters_of_chrome(path):
    events = json.loads(path.read_text())["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    threads = [e["tid"] for e in events if e["name"] == "thread_name"]
    assert len(threads) == len(set(threads))
    for e in events:
        if e["ph"] != "C":
            continue
        (key, value), = e["args"].items()
        if e["cat"] == "ledger":
            yield e["pid"], processes[e["pid"]], [f"ledger {e['id']}", e["name"].removesuffix(" bytes"), key], value
        elif e["cat"] == "counter":
            yield e["pid"], processes[e["pid"]], [e["name"]], value


def test_a_trace_of_ranks_has_each_ranks_sums(ranks):
    path, ledger, by_rank = ranks
    live, most, pids, samples = {}, {}, {}, {}
    for pid, process, names, value in (counters_of_perfetto if path.suffix == ".pftrace" else counters_of_chrome)(path):
        pids[process] = pid
        accounts = live.setdefault(process, {})
        if len(names) == 3 and names[0] == "ledger 1":
            accounts[tuple(names[1:])] = value
            peaks_of = most.setdefault(process, {})
            for key, bytes in ((tuple(names[1:]), value), (None, sum(accounts.values()))):
                peaks_of[key] = max(peaks_of.get(key, 0), bytes)
        elif names == ["ledger 1 total"]:  # the ledger's own sum, at that moment
            assert sum(accounts.values()) == value
            samples[process] = samples.get(process, 0) + 1
    names = [f"mnem rank {i}" for i in range(3)]
    assert sorted(pids) == names and len(set(pids.values())) == 3
    for name, told in zip(names, by_rank):
        assert most[name].pop(None) == told["bytes_peak"]
        assert sum(live[name].values()) == told["bytes_end"]
        assert samples[name] == told["samples"] > 1
    assert most[names[0]] == {key: bytes for key, bytes in peaks(ledger).items() if bytes}
    assert by_rank[0]["bytes_peak"] == ledger["bytes_peak"]
