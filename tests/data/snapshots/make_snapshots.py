#!/usr/bin/env python3
"""make_snapshots.py: writes the memory snapshots that tests/trace/test_workload_snapshot reads.

A small model of a caching allocator plays a few steps of a training loop and keeps what PyTorch's
recorder keeps, in the layout of torch.cuda.memory._snapshot(). Deterministic: the same files every
time. Run it in this folder, with any Python from 3.8 on; needs nothing but its library.
"""
import pickle
import struct

MIB = 1 << 20


class Device:
    """Blocks at fixed addresses: first fit in segments of 20 MiB, with a record of events."""

    def __init__(self, index, record_from=0, entries=10**9):
        self.index, self.segments, self.trace, self.clock = index, [], [], 1000
        self.skip, self.entries = record_from, entries

    def record(self, action, addr, size, stream, frames):
        self.clock += 7
        if self.skip > 0:  # the recorder wasn't on yet
            self.skip -= 1
            return
        key = 'device_free' if action == 'oom' else 'addr'
        self.trace.append({'action': action, key: addr, 'size': size, 'stream': stream,
                           'time_us': self.clock, 'frames': frames})
        del self.trace[:-self.entries]  # bounded, as PyTorch's ring is

    def segment(self, size, stream, frames):
        address = 0x7f0000000000 + self.index * (1 << 40) + len(self.segments) * (1 << 26)
        seg = {'device': self.index, 'address': address, 'total_size': size, 'allocated_size': 0,
               'active_size': 0, 'requested_size': 0, 'stream': stream,
               'segment_type': 'large' if size > 2 * MIB else 'small', 'segment_pool_id': (0, 0),
               'is_expandable': False, 'frames': frames,
               'blocks': [{'address': address, 'size': size, 'requested_size': 0,
                           'state': 'inactive', 'frames': []}]}
        self.segments.append(seg)
        self.record('segment_alloc', address, size, stream, frames)
        return seg

    def take(self, seg, i, size, rounded, frames):
        block = seg['blocks'][i]
        if block['size'] > rounded:
            seg['blocks'].insert(i + 1, dict(block, address=block['address'] + rounded,
                                             size=block['size'] - rounded))
        block.update(size=rounded, requested_size=size, state='active_allocated', frames=frames)
        self.record('alloc', block['address'], size, seg['stream'], frames)
        return block['address']

    def alloc(self, size, stream=0, frames=()):
        rounded = (size + 511) // 512 * 512
        for seg in self.segments:
            for i, b in enumerate(seg['blocks']):
                if seg['stream'] == stream and b['state'] == 'inactive' and b['size'] >= rounded:
                    return self.take(seg, i, size, rounded, list(frames))
        large = max(20 * MIB, (rounded + 2 * MIB - 1) // (2 * MIB) * 2 * MIB)
        seg = self.segment(2 * MIB if rounded <= MIB else large, stream, list(frames))
        return self.take(seg, 0, size, rounded, list(frames))

    def find(self, address):
        for seg in self.segments:
            for b in seg['blocks']:
                if b['address'] == address:
                    return seg, b
        raise KeyError(hex(address))

    def free(self, address, complete=True):
        seg, b = self.find(address)
        self.record('free_requested', address, b['requested_size'], seg['stream'], b['frames'])
        b['state'] = 'active_pending_free'
        if complete:
            self.complete(address)

    def complete(self, address):
        seg, b = self.find(address)
        self.record('free_completed', address, b['requested_size'], seg['stream'], b['frames'])
        b.update(state='inactive', requested_size=0, frames=[])


def frame(filename, line, name):
    return {'filename': filename, 'line': line, 'name': name}


LIBRARY = [frame('??', 0, 'torch::unwind::unwind()'),
           frame('/usr/lib/python3/dist-packages/torch/nn/modules/linear.py', 114, 'forward')]
LAYERS = [LIBRARY + [frame('/home/user/train.py', 20 + i, 'block'),
                     frame('/home/user/train.py', 90, '<module>')] for i in range(3)]
INIT = LIBRARY + [frame('/home/user/train.py', 11, '__init__')]


def train(device, steps):
    weights = [device.alloc(3 * MIB + i, frames=INIT) for i in range(4)]
    for step in range(steps):
        acts = [device.alloc((1 + i) * 100000 + 64 * step, frames=LAYERS[i]) for i in range(3)]
        side = device.alloc(70000, stream=0x5581a0, frames=LAYERS[0])
        device.free(side, complete=False)  # another stream still reads it
        for a in reversed(acts):
            device.free(a)
        device.complete(side)
    device.record('oom', 12345, 64 * MIB, 0, LAYERS[2])
    device.record('snapshot', 0, 0, 0, [])
    return weights


def snapshot(devices):
    for d in devices:
        for s in d.segments:
            live = [b for b in s['blocks'] if b['state'] != 'inactive']
            s['active_size'] = sum(b['size'] for b in live)
            s['allocated_size'] = sum(b['size'] for b in live if b['state'] == 'active_allocated')
            s['requested_size'] = sum(b['requested_size'] for b in live)
    return {'segments': [s for d in devices for s in d.segments],
            'device_traces': [d.trace for d in devices],
            'allocator_settings': {'PYTORCH_CUDA_ALLOC_CONF': '', 'max_split_size': -1,
                                   'garbage_collection_threshold': 0.0,
                                   'expandable_segments': False,
                                   'roundup_power2_divisions': {'1': 0, '2': 0}},
            'external_annotations': []}


class CppPickler:
    """The opcodes that torch::jit::Pickler writes (_memory_snapshot_pickled): protocol 2, batches
    of any length, LONG1 of 8 bytes, memo numbers in the order of their ends."""

    def __init__(self):
        self.out, self.memo, self.texts, self.keep = [b'\x80\x02'], {}, {}, []

    def put(self):
        n = len(self.memo) + len(self.texts)
        self.out.append(b'q' + bytes([n]) if n < 256 else b'r' + struct.pack('<I', n))
        return n

    def get(self, n):
        self.out.append(b'h' + bytes([n]) if n < 256 else b'j' + struct.pack('<I', n))

    def push(self, v):
        if isinstance(v, str):
            if v in self.texts:
                return self.get(self.texts[v])
            raw = v.encode()
            self.out.append(b'X' + struct.pack('<I', len(raw)) + raw)
            self.texts[v] = self.put()
        elif isinstance(v, bool):
            self.out.append(b'\x88' if v else b'\x89')
        elif isinstance(v, int):
            self.integer(v)
        elif isinstance(v, float):
            self.out.append(b'G' + struct.pack('>d', v))
        elif isinstance(v, tuple):
            for e in v:
                self.push(e)
            self.out.append(b'\x86')
        else:
            self.container(v)
        return None

    def integer(self, v):
        if 0 <= v < 256:
            self.out.append(b'K' + bytes([v]))
        elif 0 <= v < 65536:
            self.out.append(b'M' + struct.pack('<H', v))
        elif -2**31 <= v < 2**31:
            self.out.append(b'J' + struct.pack('<i', v))
        else:
            self.out.append(b'\x8a\x08' + struct.pack('<q', v))

    def container(self, v):
        if id(v) in self.memo:
            return self.get(self.memo[id(v)])
        self.keep.append(v)
        self.out.append(b'](' if isinstance(v, list) else b'}(')
        for e in v if isinstance(v, list) else [x for pair in v.items() for x in pair]:
            self.push(e)
        self.out.append(b'e' if isinstance(v, list) else b'u')
        self.memo[id(v)] = self.put()
        return None

    def bytes(self, v):
        self.push(v)
        return b''.join(self.out) + b'.'


def write(name, data):
    with open(name, 'wb') as file:
        file.write(data)


def main():
    whole = Device(0)
    train(whole, 3)
    data = snapshot([whole])
    for protocol in (2, 3, 4, 5):
        write(f'whole-{protocol}.pickle', pickle.dumps(data, protocol))
    write('cpp.pickle', CppPickler().bytes(data))

    # The ring kept the last 25 events only: allocations and frees before are lost.
    bounded = Device(0, entries=25)
    train(bounded, 3)
    write('bounded.pickle', pickle.dumps(snapshot([bounded]), 4))

    # Three devices: 0 has blocks and no events, 1 has most events, 2 has some; a block is pending.
    devices = [Device(0, record_from=10**6), Device(1), Device(2, record_from=4)]
    train(devices[0], 1)
    train(devices[1], 4)
    devices[1].free(devices[1].alloc(5000, stream=0x5581a0, frames=INIT), complete=False)
    train(devices[2], 2)
    write('devices.pickle', pickle.dumps(snapshot(devices), 4))

    # Before device_traces existed: the segments alone.
    write('segments.pickle', pickle.dumps(snapshot([whole])['segments'], 4))


if __name__ == '__main__':
    main()
