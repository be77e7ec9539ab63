#!/usr/bin/env python3
"""make_settings.py: writes snapshots of one workload under several settings of PyTorch's allocator,
and of requests that fail, for test_snapshot and test_tool_snapshot.

The allocator is PyTorch's logic once more, written plainly: lists that are searched from end to end.
What it takes from the device is in the record, so that the tests can hold the model in src/replay to
it. Deterministic. Run it in this folder, with any Python from 3.8 on; needs nothing but its library.
"""
import pickle
import random
import sys

MIB = 1 << 20
KIND = {'small': 2 * MIB, 'large': 20 * MIB}


class Refused(Exception):
    pass


class Block:
    def __init__(self, address, size, mapped=True):
        self.address, self.size, self.mapped, self.live = address, size, mapped, False
        self.asked, self.frames, self.call = 0, [], 0


class Segment:
    """Neighbouring blocks. One that expands has a long tail that isn't mapped."""

    def __init__(self, address, size, stream, kind, expands):
        self.address, self.size, self.stream, self.kind = address, size, stream, kind
        self.expands, self.frames = expands, []
        self.blocks = [Block(address, size, not expands)]


class Allocator:
    def __init__(self, settings=None, limit=None):
        self.s, self.limit = dict(settings or {}), limit
        self.split_max = self.s.get('max_split_size_mb', 1 << 40) * MIB
        self.segments, self.trace, self.clock, self.reserved, self.next = [], [], 5000, 0, 0x7f << 40
        self.calls = {'small': 0, 'large': 0}

    # ---- the record ----

    def record(self, action, address, size, stream, frames):
        self.clock += 13
        key = 'device_free' if action == 'oom' else 'addr'
        self.trace.append({'action': action, key: address, 'size': size, 'stream': stream,
                           'time_us': self.clock, 'frames': frames})

    # ---- sizes ----

    def rounded(self, size):
        divisions = self.s.get('roundup_power2_divisions', 0)
        if divisions > 1 and size > 512 * divisions:
            floor = 1 << (size.bit_length() - 1)
            step = floor // divisions
            if size == floor:
                return size
            return floor + (size - floor + step - 1) // step * step if step else 2 * floor
        return max(512, (size + 511) // 512 * 512)

    @staticmethod
    def segment_size(size):
        if size <= MIB:
            return 2 * MIB
        return 20 * MIB if size < 10 * MIB else (size + 2 * MIB - 1) // (2 * MIB) * 2 * MIB

    # ---- free blocks ----

    def free_blocks(self, kind, stream=None):
        found = [(b.size, b.address, b, s) for s in self.segments for b in s.blocks
                 if b.mapped and not b.live and s.kind == kind and stream in (None, s.stream)]
        return [(b, s) for _, _, b, s in sorted(found, key=lambda f: f[:2])]

    def take_free(self, size, stream, kind):
        self.calls[kind] += 1
        fits = [(b, s) for b, s in self.free_blocks(kind, stream) if b.size >= size]
        if not fits:
            return None

        def expanded(b, s):
            i = s.blocks.index(b)
            tail = s.blocks[i + 1:i + 2]
            return b.size + (tail[0].size if tail and not tail[0].mapped else 0)
        i = 0
        while self.s.get('expandable_segments') and i + 1 < len(fits) and \
                expanded(*fits[i + 1]) < expanded(*fits[i]):
            i += 1
        b, s = fits[i]
        if size < self.split_max <= b.size or (size >= self.split_max and b.size >= size + 20 * MIB):
            return None
        return b, s

    def merge(self, s):
        i = 0
        while i + 1 < len(s.blocks):
            a, b = s.blocks[i:i + 2]
            if not a.live and not b.live and a.mapped == b.mapped:
                a.size, a.call = a.size + b.size, self.calls[s.kind]
                del s.blocks[i + 1]
            else:
                i += 1

    # ---- the device ----

    def take_from_device(self, size, what):
        if self.limit is not None and self.reserved + size > self.limit:
            raise Refused
        self.reserved += size
        return what

    def add_segment(self, size, stream, kind, frames):
        if self.s.get('expandable_segments'):
            return self.expand(size, stream, kind, frames)
        size = self.segment_size(size)
        self.take_from_device(size, None)
        s = Segment(self.next, size, stream, kind, False)
        s.frames = frames
        self.next += size
        self.segments.append(s)
        self.record('segment_alloc', s.address, size, stream, frames)
        return s.blocks[0], s

    def give_back(self, s):
        self.record('segment_free', s.address, s.size, s.stream, s.frames)
        self.reserved -= s.size
        self.segments.remove(s)

    def expand(self, size, stream, kind, frames):
        ranges = [s for s in self.segments if s.expands and (s.stream, s.kind) == (stream, kind)]
        if not ranges:
            base = (1 << 45) + len([s for s in self.segments if s.expands]) * (1 << 42)
            ranges = [Segment(base, 1 << 42, stream, kind, True)]
            self.segments.append(ranges[0])
        s = ranges[0]
        for i, b in enumerate(s.blocks):
            if b.mapped:
                continue
            start = i - 1 if i and not s.blocks[i - 1].live else i
            run = 0
            for other in s.blocks[start:]:
                if other.live:
                    break
                run += other.size
            if run >= size:
                return self.map_from(s, s.blocks[start], size, frames), s
        raise AssertionError

    def map_from(self, s, first, size, frames):
        while not first.mapped or first.size < size:
            i = s.blocks.index(first)
            hole = s.blocks[i + first.mapped]
            need = size - (first.size if first.mapped else 0)
            granule = KIND[s.kind]
            take = min((need + granule - 1) // granule * granule, hole.size)
            address = first.address
            self.take_from_device(take, None)
            self.record('segment_map', hole.address, take, s.stream, frames)
            new = Block(hole.address, take)
            hole.address, hole.size = hole.address + take, hole.size - take
            at = s.blocks.index(hole)
            s.blocks.insert(at, new)
            if not hole.size:
                s.blocks.remove(hole)
            self.merge(s)
            first = [b for b in s.blocks if b.address <= address < b.address + b.size][0]
        return first

    def unmap(self, s, b):
        granule = KIND[s.kind]
        low = s.address + (b.address - s.address + granule - 1) // granule * granule
        high = s.address + (b.address + b.size - s.address) // granule * granule
        if low >= high:
            return
        at = s.blocks.index(b)
        parts = [Block(b.address, low - b.address), Block(low, high - low, False),
                 Block(high, b.address + b.size - high)]
        s.blocks[at:at + 1] = [p for p in parts if p.size]
        self.reserved -= high - low
        self.record('segment_unmap', low, high - low, s.stream, [])
        self.merge(s)

    def release_oversize(self, size, stream, kind):
        if self.split_max >= 1 << 50 or self.s.get('expandable_segments'):
            return False
        wanted = max(size, self.split_max)
        free = self.free_blocks(kind, stream)
        enough = [s for b, s in free if b.size >= wanted]
        if enough:
            self.give_back(enough[0])
            return True
        released = 0
        for b, s in reversed(free):
            if released >= wanted or b.size < self.split_max:
                break
            released += b.size
            self.give_back(s)
        return released >= wanted

    def release_all(self):
        for kind in ('large', 'small'):
            for b, s in self.free_blocks(kind):
                if s.expands:
                    self.unmap(s, b)
                elif len(s.blocks) == 1:
                    self.give_back(s)

    # ---- what a program calls ----

    def find(self, size, stream, kind, frames):
        found = self.take_free(size, stream, kind)
        if found:
            return found
        for release in (lambda: True, lambda: self.release_oversize(size, stream, kind),
                        lambda: self.release_all() or True):
            if not release():
                continue
            try:
                return self.add_segment(size, stream, kind, frames)
            except Refused:
                pass
        self.record('oom', max(0, self.limit - self.reserved), size, stream, frames)
        raise Refused

    def alloc(self, asked, stream=0, frames=()):
        size = self.rounded(asked)
        kind = 'small' if size <= MIB else 'large'
        b, s = self.find(size, stream, kind, list(frames))
        b.live, b.asked, b.frames = True, asked, list(frames)
        rest = b.size - size
        fine = kind == 'small' or self.s.get('expandable_segments')
        if rest >= 512 if fine else size < self.split_max and rest > MIB:
            s.blocks.insert(s.blocks.index(b) + 1, Block(b.address + size, rest))
            b.size = size
        self.record('alloc', b.address, asked, stream, b.frames)
        return b, s

    def free(self, block):
        b, s = block
        self.record('free_requested', b.address, b.asked, s.stream, b.frames)
        self.record('free_completed', b.address, b.asked, s.stream, b.frames)
        b.live, b.asked, b.frames, b.call = False, 0, [], self.calls[s.kind]
        self.merge(s)

    # ---- the file ----

    def describe(self, s, blocks):
        """A segment, or a stretch of one that expands, as the snapshot has it."""
        return {'device': 0, 'address': blocks[0].address, 'stream': s.stream,
                'total_size': sum(b.size for b in blocks), 'segment_type': s.kind,
                'is_expandable': s.expands, 'frames': s.frames,
                'blocks': [{'address': b.address, 'size': b.size, 'requested_size': b.asked,
                            'state': 'active_allocated' if b.live else 'inactive',
                            'frames': b.frames} for b in blocks]}

    def snapshot(self):
        segments = []
        for s in self.segments:
            run = []
            for b in s.blocks + [Block(0, 0, False)]:
                if b.mapped:
                    run.append(b)
                elif run:
                    segments.append(self.describe(s, run))
                    run = []
        text = ','.join(f'{k}:{v}' for k, v in self.s.items())
        n = self.s.get('roundup_power2_divisions', 0)
        return {'segments': segments, 'device_traces': [self.trace],
                'allocator_settings': {
                    'PYTORCH_CUDA_ALLOC_CONF': text,
                    'max_split_size': self.split_max if self.split_max < 1 << 50 else -1,
                    'garbage_collection_threshold':
                        float(self.s.get('garbage_collection_threshold', 0)),
                    'expandable_segments': bool(self.s.get('expandable_segments')),
                    'roundup_power2_divisions': {str(1 << i): n for i in range(16)}},
                'external_annotations': []}


# ---- a program ----

def frame(filename, line, name):
    return {'filename': filename, 'line': line, 'name': name}


TOP = [frame('??', 0, 'torch::unwind::unwind()'),
       frame('??', 0, 'torch::CapturedTraceback::gather(bool, bool, bool)'),
       frame('memory_snapshot.cpp', 0, 'torch::cuda::(anonymous namespace)::gather_with_cpp()'),
       frame('CUDACachingAllocator.cpp', 0, 'c10::cuda::CUDACachingAllocator::Native::malloc()')]
LIB = frame('/opt/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py', 125, 'forward')
MAIN = frame('/home/me/work/project/main.py', 9, '<module>')
SITES = [
    TOP + [frame('??', 0, 'at::_ops::mm::call(at::Tensor const&)'), LIB,
           frame('/home/me/work/project/models/llama/attention.py', 88, 'forward'), MAIN],
    TOP + [LIB, frame('/home/me/work/project/models/llama/feed_forward_with_experts.py', 431,
                      'route_tokens_to_experts'), MAIN],
    TOP + [frame('/home/me/work/project/train.py', 41, 'step'), MAIN],
    TOP + [frame('??', 0, 'at::_ops::mm::call(at::Tensor const&)'),
           frame('', 0, 'torch::autograd::generated::MmBackward0::apply(std::vector<>&&)')],
    TOP + [LIB],
    TOP + [frame('??', 0, 'at::cuda::getNewWorkspace()')],
    TOP,
    TOP + [frame('<frozen importlib>', 5, 'load'), frame('/tmp/ipykernel_7/1.py', 3, '<module>')],
]


def work(a, seed, steps, largest=64):
    """Live blocks of mixed sizes and streams that come and go."""
    rng, live = random.Random(seed), []
    for i in range(steps):
        while live and (len(live) > 30 or rng.random() < 0.45):
            a.free(live.pop(rng.randrange(len(live))))
        size = int(rng.choice([300, 70000, MIB, 3 * MIB, 9 * MIB, largest * MIB]) *
                   rng.uniform(0.2, 1)) + 1
        stream = 0x55aa00 if rng.random() < 0.15 else 0
        live.append(a.alloc(size, stream, SITES[i % len(SITES)]))
    return live


def fragmented(settings=None, limit=400 * MIB):
    """Four segments of 100 MiB, cached, then cut in halves of which every other stays: half of all
    is free, and nothing is as large as the last request."""
    a = Allocator(settings, limit)
    for b in [a.alloc(100 * MIB, frames=SITES[0]) for _ in range(4)]:
        a.free(b)
    blocks = [a.alloc(50 * MIB, frames=SITES[i % 2]) for i in range(8)]
    for b in blocks[::2]:
        a.free(b)
    try:
        a.alloc(64 * MIB, frames=SITES[2])
    except Refused:
        pass
    for b in blocks[1::2]:  # the program goes on, and ends
        a.free(b)
    return a


def many_sites():
    """More sites than a table shows, one of them from before the record, and a time for each."""
    a = Allocator()
    early = [a.alloc(MIB, frames=SITES[2]) for _ in range(3)]
    del a.trace[:]
    a.free(early[0])
    for i in range(14):
        for _ in range(i + 1):
            a.alloc((i + 1) * 100000, frames=TOP + [frame(f'/src/app/part{i}.py', i, 'make'), MAIN])
    return a


def write(name, a):
    with open(name, 'wb') as file:
        pickle.dump(a.snapshot(), file, 4)


SETTINGS = {'default': {}, 'expandable': {'expandable_segments': True},
            'split': {'max_split_size_mb': 32}, 'roundup': {'roundup_power2_divisions': 4}}


def main():
    for name, settings in SETTINGS.items():
        a = Allocator(settings)
        work(a, 7, 80)
        write(f'settings-{name}.pickle', a)
    write('oom.pickle', fragmented())
    write('sites.pickle', many_sites())
    # 50 MiB of 64 are live: nothing but less of it would make room for 30.
    full = Allocator({'max_split_size_mb': 128}, 64 * MIB)
    full.alloc(50 * MIB, frames=SITES[0])
    try:
        full.alloc(30 * MIB, frames=SITES[1])
    except Refused:
        pass
    write('oom-full.pickle', full)


if __name__ == '__main__':
    sys.exit(main())
