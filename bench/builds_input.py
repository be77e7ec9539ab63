"""What compare_builds.py gives both builds to read: models of the tests and random ones, texts, and
what a training run is. All are small: a run takes milliseconds.
"""
import json
import shutil
import subprocess

SHAPES = {
    "gpt2": "--arch gpt2 --embd 64 --layers 5 --heads 2 --ff 128",
    "qwen2": "--arch qwen2 --embd 64 --layers 4 --heads 2 --kv-heads 1 --ff 160",
    "qwen3": "--arch qwen3 --embd 96 --layers 3 --heads 4 --kv-heads 2 --head-dim 32 --ff 192",
    "llama": "--arch llama --embd 256 --layers 4 --heads 8 --kv-heads 4 --ff 512",
    "small": "--arch llama --embd 64 --layers 3 --heads 4 --kv-heads 2 --ff 128",
}
WIDE = {"gpt2": "Q8_0", "qwen2": "Q4_0", "qwen3": "BF16 --tied", "llama": "Q4_K"}
TYPES = "F32 F16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K BF16".split()
TRAINED = ["gpt2", "llama"]
ENCODERS = ["bert", "nomic_bert", "bert_cls"]


def make_models(root, make_model, folder, extent):
    """Files of the tests and random ones: names for the whole product, and others."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    files = {p.stem: p for place in ("tests", "models") for p in (root / place).rglob("*.gguf")
             if "-5m-" in p.name or p.stem in ENCODERS}
    for name, path in files.items():
        (folder / f"{name}.gguf").symlink_to(path)

    def make(name, shape, kind, context="256"):
        subprocess.run([make_model, folder / f"{name}.gguf", *SHAPES[shape].split(), "--vocab",
                        "512", "--context", context, "--type", *kind.split()], check=True)
        return name
    random = [make(f"{name}-{kind.split()[0]}", name, kind) for name, kind in WIDE.items()]
    make("tied-gpt2", "gpt2", "F32 --tied", "32")
    make("tied-llama", "small", "F32 --tied", "32")
    make("own-gpt2", "gpt2", "F16", "32")
    make("own-qwen3", "qwen3", "F32")
    of_types = [make(f"types-{kind}", "llama", kind) for kind in extent.types]
    return [*extent.files, *random], [*of_types, *extent.fewer]


def make_texts(root, folder):
    """From the held-out text of the tests; what a training run is, for each architecture."""
    folder.mkdir(exist_ok=True)
    text = next((root / "tests").rglob("heldout.txt")).read_bytes()
    for name, count in (("empty", 0), ("short", 300), ("train", 20000), ("calibration", 6000)):
        (folder / f"{name}.txt").write_bytes(text[:count])
    for name in TRAINED:
        heads = {"heads": 4, "kv_heads": 4 if name == "gpt2" else 2}
        (folder / f"{name}.json").write_text(json.dumps({
            "architecture": name, "layers": 2, "embd": 64, **heads, "ff": 128, "vocab": 300,
            "context": 32, "batch": 4, "steps": 5, "rate": 0.003, "warmup": 2, "heldout": 0.1,
            "dropout": 0.1 if name == "llama" else 0}))
