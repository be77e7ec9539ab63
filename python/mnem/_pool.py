"""Pool: buffers of the host's memory under a budget of bytes, with lifetimes that can't dangle.

A block's memory is seen through one object, its base: the block's memoryview, every slice of it and every
NumPy array over it hold that base. The memory goes back to the pool when the base is gone, so nothing that
Python can still reach is ever reused:

    Block --view--> memoryview --> base <-- memoryview <-- NumPy array
                                    |  gone: mnem_pool_free
"""
# mypy: allow-untyped-calls
import ctypes as C
import os
import sys
import threading
import weakref
from types import TracebackType
from typing import Any, Dict, List, Optional, Type, Union

from . import _declarations_more as D
from ._budget import process
from ._library import Error, OverBudget, check, declare, lib, size_parse, size_text
from ._tables import Line, _table

declare(D.FUNCTIONS)
_FILES: Dict[str, bytes] = {}  # call sites, which the library borrows


class PoolStats:
    """A pool's numbers at the moment it was asked. In bytes: size (the limit), live, peak, reserved,
    reserved_peak, largest_free (the largest request that takes no more memory). blocks: live ones;
    fragmentation: (reserved - live) / reserved; requests: how many were served in which way; lines: live
    bytes and their peak by tag."""

    def __init__(self, info: Any, lines: List[Line]) -> None:
        self.size: int = info.bytes_max
        self.live: int = info.bytes_live
        self.peak: int = info.bytes_peak
        self.reserved: int = info.bytes_reserved
        self.reserved_peak: int = info.bytes_reserved_peak
        self.largest_free: int = info.bytes_largest_free
        self.blocks: int = info.blocks_live
        self.fragmentation: float = info.fragmentation
        self.requests: Dict[str, int] = {
            lib.mnem_pool_rung_text(rung).decode(): count for rung, count in enumerate(info.rungs) if count}
        self.lines = lines

    def __str__(self) -> str:
        last = [(name, "", getattr(self, name)) for name in ("live", "peak", "reserved", "size")]
        return (f"{_table(self.lines, last)}\n{self.blocks} block{'' if self.blocks == 1 else 's'}, fragmentation {self.fragmentation:.2f}"
                + "".join(f", {count} {name}" for name, count in self.requests.items()))

    def __repr__(self) -> str:
        return f"<mnem.PoolStats: {size_text(self.live)} of {size_text(self.size)}, {self.blocks} blocks>"


class Block:
    """Memory of a pool: `view` is a writable memoryview of its bytes, whose content at first is anything.

    free() ends it, as does `with`, and as does dropping it and all that was made of its view."""

    def __init__(self, base: Any, size: int, tag: str) -> None:
        self._base: Any = base
        self._view: Optional[memoryview] = memoryview(base).cast("B")
        self.address: int = C.addressof(base)
        self.size, self.tag = size, tag

    @property
    def view(self) -> memoryview:
        if self._view is None:
            raise Error(f"mnem: the block {self.tag!r} is freed")
        return self._view

    @property
    def freed(self) -> bool:
        return self._view is None

    def __len__(self) -> int:
        return self.size

    def numpy(self, dtype: Any = "uint8", shape: Any = -1) -> Any:
        """A NumPy array over the block, without a copy; its bytes are as they are."""
        import numpy
        kind = numpy.dtype(dtype)
        return numpy.frombuffer(self.view[:self.size // kind.itemsize * kind.itemsize], kind).reshape(shape)

    def free(self) -> None:
        """Gives the memory back; the view can't be used any more. Calling it again does nothing.
        mnem.Error while a slice of the view or an array over it is still there: nothing changes then."""
        if self._view is None:
            return
        base = weakref.ref(self._base)
        try:
            self._view.release()
        except BufferError:
            raise self._in_use() from None
        self._base = None
        held = base()
        if held is not None:  # by slices of the view
            self._base, self._view = held, memoryview(held).cast("B")
            raise self._in_use()
        self._view = None

    def _in_use(self) -> Error:
        return Error(f"mnem: the block {self.tag!r} is still used by a slice of its view or by an array over "
                     "it: delete that first")

    def __enter__(self) -> "Block":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.free()

    def __repr__(self) -> str:
        return f"<mnem.Block {self.tag!r}: {'freed' if self.freed else size_text(self.size)}>"


class _Handle:
    """The library's pool, which lives until it is closed and its last block is gone."""

    def __init__(self, options: Any) -> None:
        self.process = os.getpid()
        self.lock = threading.RLock()  # a finalizer may run within a call of its own thread
        self.device = C.POINTER(D.mnem_device)()
        self.pool = C.POINTER(D.mnem_pool)()
        self.closed = False
        self.blocks = 0
        check(lib.mnem_device_open(b"host", None, C.byref(self.device)))
        try:
            options.device = self.device
            check(lib.mnem_pool_create(C.byref(options), C.byref(self.pool)))
        except BaseException:
            lib.mnem_device_close(self.device)
            raise

    def free(self, block: Any) -> None:
        if os.getpid() != self.process:
            return
        with self.lock:
            lib.mnem_pool_free_from(self.pool, None, 0, C.byref(block), None)
            self.blocks -= 1
            self.end()

    def end(self) -> None:
        if self.closed and self.blocks == 0 and self.pool:
            lib.mnem_pool_destroy(self.pool)
            lib.mnem_device_close(self.device)
            self.pool = C.POINTER(D.mnem_pool)()


def _site(depth: int) -> "tuple[bytes, int]":
    frame = sys._getframe(depth)
    name = frame.f_code.co_filename
    return _FILES.setdefault(name, name.encode(errors="replace")), frame.f_lineno


class Pool:
    """Allocates and frees buffers under a budget of bytes, and refuses what doesn't fit with the reason.

    memory: the limit, such as "64M" or bytes. alignment: of every block, a power of two. tag: the name of
    its memory in the process's ledger, if there is one (llm.ledger). Any thread may use a pool.

        with mnem.Pool("64M") as pool:
            block = pool.alloc(4096, "batch")
            block.view[:5] = b"Moses"
            numbers = block.numpy("float32")
            print(pool.stats)
    """

    def __init__(self, memory: Union[int, str], *, alignment: int = 256, tag: str = "pool") -> None:
        size = size_parse(memory)
        if not size:
            raise ValueError("mnem: memory is None, but a pool needs a size, such as \"64M\"")
        options = D.mnem_pool_options(bytes_max=size, alignment=alignment, tag=tag.encode())
        if process.ledger:
            options.ledger, options.kind = process.ledger, D.MNEM_KIND_HOST
        self._handle = _Handle(options)
        self._end = weakref.finalize(self, _close, self._handle)
        self.size = size

    def alloc(self, size: int, tag: str = "block", *, alignment: int = 0) -> Block:
        """A block of so many bytes. mnem.OverBudget if it doesn't fit: the text names the largest free run
        and the blocks in the way, with their tags and the lines that allocated them."""
        if size < 1:
            raise ValueError(f"mnem: size is {size}, expected 1 or more")
        handle, made = self._open(), D.mnem_pool_block()
        request = D.mnem_pool_request(bytes=size, alignment=alignment, kind=D.MNEM_KIND_HOST,
                                      tag=tag.encode())
        with handle.lock:
            try:
                check(lib.mnem_pool_alloc_from(handle.pool, *_site(2), C.byref(request), C.byref(made)))
            except OverBudget as refusal:
                refusal.budget = self.size
                raise
            handle.blocks += 1
        base = (C.c_ubyte * size).from_address(made.memory.address)
        weakref.finalize(base, handle.free, made).atexit = False
        return Block(base, size, tag)

    def _open(self) -> _Handle:
        if self._handle.closed:
            raise Error("mnem: the pool is closed")
        if os.getpid() != self._handle.process:
            raise Error("mnem: this pool was made before the fork: make another one in the child")
        return self._handle

    @property
    def stats(self) -> PoolStats:
        handle, info = self._open(), D.mnem_pool_info()
        lines: List[Line] = []
        with handle.lock:
            lib.mnem_pool_info_get(handle.pool, C.byref(info))
            account = D.mnem_account_info()
            while lib.mnem_pool_account_get(handle.pool, len(lines), C.byref(account)):
                lines.append(Line(lib.mnem_kind_text(account.kind).decode(), account.tag.decode(),
                                  account.bytes_live, account.bytes_peak))
        return PoolStats(info, lines)

    def limit(self, tag: str, size: Union[int, str, None]) -> None:
        """At most so many live bytes of a tag; None: no limit any more."""
        handle = self._open()
        with handle.lock:
            check(lib.mnem_pool_limit_set(handle.pool, D.MNEM_KIND_HOST, tag.encode(), size_parse(size)))

    def trim(self, keep: Union[int, str, None] = None) -> int:
        """Gives free memory back to the system, until at most `keep` bytes are reserved; how many it was."""
        handle, given = self._open(), C.c_uint64()
        with handle.lock:
            check(lib.mnem_pool_trim(handle.pool, size_parse(keep), C.byref(given)))
        return given.value

    def close(self) -> None:
        """Ends the pool: no more blocks. Those there are stay usable, and their memory goes back to the
        system when the last of them is gone."""
        self._end()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<mnem.Pool of {size_text(self.size)}{', closed' if self._handle.closed else ''}>"


def _close(handle: _Handle) -> None:
    with handle.lock:
        handle.closed = True
        if os.getpid() == handle.process:
            handle.end()
