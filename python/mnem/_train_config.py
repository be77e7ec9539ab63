"""What a training run is: the same config.json as `mnem train` writes, so that either continues a run of
the other. One table of keys reads, checks and writes it."""
import json
import math
import os
from typing import Any, Dict, Optional, Tuple

_TEXT, _COUNT, _REAL = str, int, float
_FIELDS: Dict[str, Tuple[Any, Any, Any]] = {  # kind, least and most; of texts the choices
    "architecture": (_TEXT, None, None), "layers": (_COUNT, 1, 1024), "embd": (_COUNT, 1, 1 << 20),
    "heads": (_COUNT, 1, 4096), "kv_heads": (_COUNT, 1, 4096), "head_dim": (_COUNT, 0, 256),
    "ff": (_COUNT, 1, 1 << 22), "vocab": (_COUNT, 1, 1 << 20), "context": (_COUNT, 1, 1 << 20),
    "epsilon": (_REAL, 1e-12, 0.1), "rope_base": (_REAL, 1, 1e12), "batch": (_COUNT, 1, 1 << 20),
    "steps": (_COUNT, 0, 10**15), "rate": (_REAL, 0, 10), "rate_floor": (_REAL, 0, 10),
    "weight_decay": (_REAL, 0, 10), "dropout": (_REAL, 0, 0.99), "clip": (_REAL, 0, 1e9),
    "heldout": (_REAL, 0, 0.9), "warmup": (_COUNT, 0, 10**15), "time": (_REAL, 0, 1e9),
    "epochs": (_REAL, 0, 1e6), "windows": (_COUNT, 0, 10**15), "seed": (_COUNT, 0, 10**18),
    "memory": (_COUNT, 0, 10**18), "precision": (_TEXT, ("auto", "f32", "bf16", "f16"), None),
    "moments": (_TEXT, ("f32", "8bit"), None),
    "pre": (_TEXT, ("gpt-2", "llama-bpe", "qwen2", "default"), None), "name": (_TEXT, None, None),
    "license": (_TEXT, None, None), "lora": (_COUNT, 0, 65536), "lora_alpha": (_REAL, 0, 1e6),
    "lora_targets": (_TEXT, None, None), "masked": (_COUNT, 0, 1), "distill": (_TEXT, None, None),
    "distill_weight": (_REAL, 0, 1), "distill_temperature": (_REAL, 0, 100),
    "distill_on": (_TEXT, None, None), "init": (_TEXT, None, None), "data": (_TEXT, None, None),
    "template_args": (_TEXT, None, None), "base": (_TEXT, None, None),
    "vocab_asked": (_COUNT, 0, 1 << 20),
}
_SHARED = dict(epsilon=1e-5, rope_base=10000.0, clip=1.0, heldout=0.03, seed=1, precision="auto",
               moments="f32", pre="gpt-2")


def _shape(architecture: str, *numbers: int) -> Dict[str, Any]:
    keys = "layers", "embd", "heads", "kv_heads", "ff", "vocab", "context"
    return {"architecture": architecture, **dict(zip(keys, numbers)), **_SHARED}


_NAMED: Dict[str, Dict[str, Any]] = {
    "tiny": {**_shape("llama", 4, 128, 4, 2, 384, 512, 128), "batch": 16, "steps": 500, "rate": 3e-3,
             "rate_floor": 3e-4, "weight_decay": 0.1, "warmup": 50},
    "5m": {**_shape("llama", 6, 256, 8, 4, 768, 2048, 256), "batch": 12, "steps": 2000, "rate": 2e-3,
           "rate_floor": 2e-4, "weight_decay": 0.2, "dropout": 0.1, "warmup": 100},
    "gpt2-10m": {**_shape("gpt2", 6, 384, 6, 6, 1536, 256, 256), "batch": 8, "steps": 5000, "rate": 1e-3,
                 "rate_floor": 1e-4, "weight_decay": 0.1, "dropout": 0.2, "warmup": 100},
    "gpt2-124m": {**_shape("gpt2", 12, 768, 12, 12, 3072, 50257, 1024), "batch": 32, "steps": 20000,
                  "rate": 6e-4, "rate_floor": 6e-5, "weight_decay": 0.1, "warmup": 700},
}
_ADAPTERS = {**_shape("llama", 6, 256, 8, 4, 768, 2048, 256), "batch": 8, "rate": 1e-3, "rate_floor": 1e-4,
             "warmup": 20}
_EPOCHS, _STEPS_LEAST, _STEPS_MOST = 3, 50, 500  # of runs with init, where no length is given

Config = Dict[str, Any]


def _checked(key: str, value: Any, where: str) -> Any:
    kind, least, most = _FIELDS.get(key, (None, None, None))
    if kind is None:
        raise ValueError(f"mnem: {where} has the unknown key {key!r}; the keys are: {', '.join(_FIELDS)}")
    if kind is _TEXT:
        if not isinstance(value, str) or (least and value not in least):
            raise ValueError(f"mnem: {where}: {key} is {value!r}, expected "
                             + (f"one of {', '.join(least)}" if least else "a text"))
        return value
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not (whole or (kind is _REAL and isinstance(value, float))) or not least <= value <= most:
        raise ValueError(f"mnem: {where}: {key} is {value!r}, expected a "
                         f"{'number' if kind is _REAL else 'whole number'} from {least} to {most}")
    return kind(value)


def config_read(path: str) -> Config:
    """config.json of a run."""
    with open(path, encoding="utf-8") as file:
        given = json.load(file)
    files = given.pop("files", [])
    return {**{key: kind() for key, (kind, _, _) in _FIELDS.items()},
            **{key: _checked(key, value, path) for key, value in given.items()}, "files": files}


def config_is_run(path: str) -> bool:
    try:
        with open(path, encoding="utf-8") as file:
            given = json.load(file)
    except (OSError, ValueError):
        return False
    return isinstance(given, dict) and all(key in given for key in ("files", "steps", "heldout", "warmup"))


def config_write(path: str, config: Config) -> None:
    """Whole or not at all."""
    whole = {**{key: config[key] for key in _FIELDS}, "files": config["files"]}
    with open(path + ".mnem-tmp", "w", encoding="utf-8") as file:
        json.dump(whole, file, indent=4)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".mnem-tmp", path)


def config_make(name: Any, given: Dict[str, Any]) -> Config:
    """From a name or a dict of keys, and options over that; options that are None aren't given."""
    given = {key: value for key, value in given.items() if value is not None}
    own: Dict[str, Any] = name if isinstance(name, dict) else {}
    if isinstance(name, str) and name not in _NAMED:
        raise ValueError(f"mnem: config is {name!r}, expected one of {', '.join(_NAMED)}, or a dict of keys")
    config = {key: kind() for key, (kind, _, _) in _FIELDS.items()}
    config.update(_NAMED[name] if isinstance(name, str) else _ADAPTERS if given.get("lora") else _NAMED["5m"])
    config.update({key: _checked(key, value, "config") for key, value in own.items()})
    config["distill_on"] = config["distill_on"] or "logits"
    if "rate" in given:
        ratio = config["rate_floor"] / config["rate"] if config["rate"] else 0.1
        config["rate_floor"] = given["rate"] * ratio
    config.update({key: _checked(key, value, "train") for key, value in given.items()})
    config["base"] = name if isinstance(name, str) else "lora" if given.get("lora") else "5m"
    if config["lora"] and not config["init"]:
        raise ValueError("mnem: lora needs init, the model that the adapter is for")
    if config["lora"] and not config["lora_alpha"]:
        config["lora_alpha"] = 2.0 * config["lora"]
    if not config["init"] and config["architecture"] not in ("llama", "gpt2"):
        raise ValueError(f"mnem: config: architecture is {config['architecture']!r}, expected llama or gpt2")
    return config


def config_length(config: Config, steps: Optional[int], epochs: Optional[float], warmup: Optional[int],
                  open_length: bool) -> None:
    """Steps and warm-up, once an epoch's windows are known. open_length: the config has said none."""
    def of(passes: float) -> int:
        windows, batch = int(config["windows"]), int(config["batch"])
        return max(1, math.ceil(passes * windows / batch))

    usual = bool(config["init"]) and open_length and steps is None and epochs is None
    if usual:
        config["steps"] = min(max(of(_EPOCHS), _STEPS_LEAST), _STEPS_MOST)
    if epochs is not None:
        config["epochs"], config["steps"] = float(epochs), of(epochs)
    elif steps is not None:
        config["epochs"], config["steps"] = 0.0, steps
    elif config["epochs"]:
        config["steps"] = of(config["epochs"])
    if config["steps"] < 1:
        raise ValueError("mnem: the length of the run is missing: give steps or epochs")
    fitted = usual or steps is not None or config["epochs"] > 0
    most = config["steps"] // 10 if fitted and warmup is None else config["steps"]
    if config["warmup"] > most:
        config["warmup"] = config["steps"] if warmup is not None else config["steps"] // 10
