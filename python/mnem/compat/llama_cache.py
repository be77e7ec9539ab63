"""Caches of states: a prompt that begins like an earlier one goes on from its keys and values.

A Llama keeps the last text without a cache. A cache holds further ones, each as large as its keys and
values (`Llama.save_state`), outside the byte budget, up to capacity_bytes."""
import hashlib
import os
import pickle
from collections import OrderedDict


def longest_token_prefix(a, b):
    common = 0
    for left, right in zip(a, b):
        if left != right:
            break
        common += 1
    return common


class BaseLlamaCache:
    """A mapping from tokens to LlamaState; the key that has most in common with the asked one counts."""

    def __init__(self, capacity_bytes=2 << 30):
        self.capacity_bytes = capacity_bytes

    @property
    def cache_size(self):
        raise NotImplementedError

    def _keys(self):
        raise NotImplementedError

    def _get(self, key):
        raise NotImplementedError

    def __setitem__(self, key, value):
        raise NotImplementedError

    def _find_longest_prefix_key(self, key):
        best = max(self._keys(), key=lambda other: longest_token_prefix(other, key), default=None)
        return best if best is not None and longest_token_prefix(best, key) else None

    def __contains__(self, key):
        return self._find_longest_prefix_key(tuple(key)) is not None

    def __getitem__(self, key):
        found = self._find_longest_prefix_key(tuple(key))
        if found is None:
            raise KeyError("no text in the cache begins with these tokens")
        return self._get(found)


class LlamaRAMCache(BaseLlamaCache):
    def __init__(self, capacity_bytes=2 << 30):
        super().__init__(capacity_bytes)
        self.cache_state = OrderedDict()

    @property
    def cache_size(self):
        return sum(state.llama_state_size for state in self.cache_state.values())

    def _keys(self):
        return self.cache_state

    def _get(self, key):
        self.cache_state.move_to_end(key)
        return self.cache_state[key]

    def __setitem__(self, key, value):
        self.cache_state[tuple(key)] = value
        self.cache_state.move_to_end(tuple(key))
        while self.cache_state and self.cache_size > self.capacity_bytes:
            self.cache_state.popitem(last=False)


LlamaCache = LlamaRAMCache


class LlamaDiskCache(BaseLlamaCache):
    """A file for each state in a folder of one's own: its files are pickles, so let nobody else write
    there. Not the format of llama-cpp-python's, which needs the package diskcache."""

    def __init__(self, cache_dir=".cache/mnem_llama_cache", capacity_bytes=2 << 30):
        super().__init__(capacity_bytes)
        self.cache_dir = os.fspath(cache_dir)
        os.makedirs(self.cache_dir, mode=0o700, exist_ok=True)
        self.known = {}  # file: its key

    def _files(self):
        """From the oldest used one to the newest."""
        found = [entry for entry in os.scandir(self.cache_dir) if entry.name.endswith(".state")]
        return sorted(found, key=lambda entry: entry.stat().st_mtime_ns)

    @property
    def cache_size(self):
        return sum(entry.stat().st_size for entry in self._files())

    def _read(self, path, whole):
        with open(path, "rb") as file:
            key = pickle.load(file)
            return pickle.load(file) if whole else key

    def _keys(self):
        for entry in self._files():
            if entry.path not in self.known:
                self.known[entry.path] = self._read(entry.path, False)
            yield self.known[entry.path]

    def _path(self, key):
        name = hashlib.sha256(",".join(map(str, key)).encode()).hexdigest()[:32]
        return os.path.join(self.cache_dir, name + ".state")

    def _get(self, key):
        os.utime(self._path(key))
        return self._read(self._path(key), True)

    def __setitem__(self, key, value):
        key = tuple(int(token) for token in key)
        part = self._path(key) + ".part"
        with open(part, "wb") as file:
            pickle.dump(key, file)
            pickle.dump(value, file)
        os.replace(part, self._path(key))
        for entry in self._files():
            if self.cache_size <= self.capacity_bytes:
                break
            os.remove(entry.path)
            self.known.pop(entry.path, None)
