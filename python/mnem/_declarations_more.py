"""Written by python/make_declarations from include/mnem: change those, not this."""
import ctypes as C

from ._declarations import *  # noqa: F403

MNEM_PLACE_FEASIBLE = 0
MNEM_PLACE_OPTIMAL = 1
MNEM_PLACE_INFEASIBLE = 2
MNEM_SPACE_DEVICE = 0
MNEM_SPACE_PINNED = 1
MNEM_SPACE_HOST = 2
MNEM_SPACE_COUNT = 3
MNEM_OFFSET_DEFAULT = 0
MNEM_OFFSET_TLSF = 1
MNEM_OFFSET_BUCKET = 2
MNEM_OFFSET_BUDDY = 3
MNEM_OFFSET_FIRST_FIT = 4
MNEM_OFFSET_BEST_FIT = 5
MNEM_OFFSET_WORST_FIT = 6
MNEM_OFFSET_BUMP = 7
MNEM_OFFSET_POLICY_COUNT = 8
MNEM_MISUSE_DOUBLE_FREE = 0
MNEM_MISUSE_FOREIGN_FREE = 1
MNEM_MISUSE_USE_AFTER_FREE = 2
MNEM_MISUSE_WRITE_BEFORE = 3
MNEM_MISUSE_WRITE_PAST = 4
MNEM_MISUSE_COUNT = 5
MNEM_POOL_SEGMENTS = 0
MNEM_POOL_RANGE = 1
MNEM_POOL_RUNG_REUSE = 0
MNEM_POOL_RUNG_GROW = 1
MNEM_POOL_RUNG_TRIM = 2
MNEM_POOL_RUNG_OTHERS = 3
MNEM_POOL_RUNG_DEFRAGMENT = 4
MNEM_POOL_RUNG_DIRECT = 5
MNEM_POOL_RUNG_PLANNED = 6
MNEM_POOL_RUNG_REFUSE = 7
MNEM_POOL_RUNGS = 8

class mnem_place_buffer(C.Structure):
    _fields_ = [
        ("lower", C.c_int64),
        ("upper", C.c_int64),
        ("bytes", C.c_uint64),
        ("alignment", C.c_uint64),
        ("offset", C.c_uint64),
    ]

class mnem_place_gap(C.Structure):
    _fields_ = [
        ("lower", C.c_int64),
        ("upper", C.c_int64),
        ("window_lower", C.c_uint64),
        ("window_upper", C.c_uint64),
    ]

class mnem_place_constraint(C.Structure):
    _fields_ = [
        ("gaps", C.POINTER(mnem_place_gap)),
        ("gap_count", C.c_uint32),
        ("fixed", C.c_bool),
        ("hinted", C.c_bool),
        ("in_place", C.c_uint32),
        ("same_as", C.c_uint32),
    ]

class mnem_place_options(C.Structure):
    _fields_ = [
        ("capacity_bytes", C.c_uint64),
        ("seconds", C.c_double),
        ("seed", C.c_uint64),
        ("steps_max", C.c_uint64),
        ("stop", C.CFUNCTYPE(C.c_bool, C.c_void_p)),
        ("stop_context", C.c_void_p),
    ]

mnem_place_verdict = C.c_int
class mnem_place_result(C.Structure):
    _fields_ = [
        ("peak_bytes", C.c_uint64),
        ("lower_bound_bytes", C.c_uint64),
        ("total_bytes", C.c_uint64),
        ("verdict", mnem_place_verdict),
        ("nodes", C.c_uint64),
    ]

class mnem_device_options(C.Structure):
    _fields_ = [
        ("capacity_bytes", C.c_uint64),
        ("granularity", C.c_uint64),
        ("host_hidden", C.c_bool),
    ]

mnem_space = C.c_int
mnem_pool_growth = C.c_int
mnem_offset_policy = C.c_int
mnem_misuse_what = C.c_int
class mnem_source(C.Structure):
    _fields_ = [
        ("file", C.c_char_p),
        ("line", C.c_uint32),
    ]

class mnem_misuse(C.Structure):
    _fields_ = [
        ("what", mnem_misuse_what),
        ("kind", mnem_kind),
        ("tag", C.c_char_p),
        ("bytes", C.c_uint64),
        ("sequence", C.c_uint64),
        ("address", C.c_uint64),
        ("offset", C.c_int64),
        ("wrong", C.c_uint64),
        ("taken", mnem_source),
        ("freed", mnem_source),
        ("caller", mnem_source),
    ]

class mnem_pool_soft(C.Structure):
    _fields_ = [
        ("kind", mnem_kind),
        ("tag", C.c_char_p),
        ("bytes_over", C.c_uint64),
    ]

class mnem_pool_options(C.Structure):
    _fields_ = [
        ("device", C.POINTER(mnem_device)),
        ("space", mnem_space),
        ("growth", mnem_pool_growth),
        ("policy", mnem_offset_policy),
        ("alignment", C.c_uint64),
        ("bytes_max", C.c_uint64),
        ("bytes_expected", C.c_uint64),
        ("unit_bytes", C.c_uint64),
        ("blocks_max", C.c_uint32),
        ("garbage_steps", C.c_uint32),
        ("ledger", C.POINTER(mnem_ledger)),
        ("kind", mnem_kind),
        ("tag", C.c_char_p),
        ("soft_fraction", C.c_double),
        ("defragment_above", C.c_double),
        ("direct", C.c_bool),
        ("wait", C.c_bool),
        ("debug", C.c_bool),
        ("backtrace", C.c_uint32),
        ("on_misuse", C.CFUNCTYPE(None, C.c_void_p, C.POINTER(mnem_misuse))),
        ("on_soft", C.CFUNCTYPE(None, C.c_void_p, C.POINTER(mnem_pool_soft))),
        ("context", C.c_void_p),
    ]

class mnem_pool(C.Structure):
    pass

class mnem_stream(C.Structure):
    pass

class mnem_block(C.Structure):
    _fields_ = [
        ("device", C.POINTER(mnem_device)),
        ("address", C.c_uint64),
        ("bytes", C.c_uint64),
        ("space", mnem_space),
    ]

class mnem_pool_block(C.Structure):
    _fields_ = [
        ("memory", mnem_block),
        ("id", C.c_uint32),
        ("generation", C.c_uint32),
    ]

class mnem_pool_request(C.Structure):
    _fields_ = [
        ("bytes", C.c_uint64),
        ("alignment", C.c_uint64),
        ("kind", mnem_kind),
        ("tag", C.c_char_p),
        ("stream", C.POINTER(mnem_stream)),
        ("planned", C.c_bool),
        ("moved", C.CFUNCTYPE(None, C.c_void_p, C.POINTER(mnem_pool_block), C.POINTER(mnem_pool_block))),
        ("context", C.c_void_p),
    ]

mnem_pool_rung = C.c_int
class mnem_pool_info(C.Structure):
    _fields_ = [
        ("bytes_max", C.c_uint64),
        ("unit_bytes", C.c_uint64),
        ("bytes_live", C.c_uint64),
        ("bytes_peak", C.c_uint64),
        ("bytes_reserved", C.c_uint64),
        ("bytes_reserved_peak", C.c_uint64),
        ("bytes_planned", C.c_uint64),
        ("bytes_direct", C.c_uint64),
        ("bytes_pending", C.c_uint64),
        ("bytes_largest_free", C.c_uint64),
        ("fragmentation", C.c_double),
        ("fragmentation_free", C.c_double),
        ("blocks_live", C.c_uint32),
        ("segments", C.c_uint32),
        ("streams", C.c_uint32),
        ("rungs", C.c_uint64 * 8),
        ("device_calls", C.c_uint64),
        ("device_frees", C.c_uint64),
        ("soft_calls", C.c_uint64),
        ("bytes_moved", C.c_uint64),
        ("blocks_moved", C.c_uint64),
        ("bytes_remapped", C.c_uint64),
        ("bytes_garbage", C.c_uint64),
        ("steps", C.c_uint64),
    ]

FUNCTIONS = {
    "mnem_place_solve_constrained": (mnem_status, [C.POINTER(mnem_place_buffer), C.POINTER(mnem_place_constraint), C.c_size_t, C.POINTER(mnem_place_options), C.POINTER(mnem_place_result)]),
    "mnem_device_open": (mnem_status, [C.c_char_p, C.POINTER(mnem_device_options), C.POINTER(C.POINTER(mnem_device))]),
    "mnem_device_close": (mnem_status, [C.POINTER(mnem_device)]),
    "mnem_pool_create": (mnem_status, [C.POINTER(mnem_pool_options), C.POINTER(C.POINTER(mnem_pool))]),
    "mnem_pool_destroy": (mnem_status, [C.POINTER(mnem_pool)]),
    "mnem_pool_alloc_from": (mnem_status, [C.POINTER(mnem_pool), C.c_char_p, C.c_int, C.POINTER(mnem_pool_request), C.POINTER(mnem_pool_block)]),
    "mnem_pool_free_from": (mnem_status, [C.POINTER(mnem_pool), C.c_char_p, C.c_int, C.POINTER(mnem_pool_block), C.POINTER(mnem_stream)]),
    "mnem_pool_trim": (mnem_status, [C.POINTER(mnem_pool), C.c_uint64, C.POINTER(C.c_uint64)]),
    "mnem_pool_limit_set": (mnem_status, [C.POINTER(mnem_pool), mnem_kind, C.c_char_p, C.c_uint64]),
    "mnem_pool_account_get": (C.c_bool, [C.POINTER(mnem_pool), C.c_uint, C.POINTER(mnem_account_info)]),
    "mnem_pool_rung_text": (C.c_char_p, [mnem_pool_rung]),
    "mnem_pool_info_get": (None, [C.POINTER(mnem_pool), C.POINTER(mnem_pool_info)]),
}
STRUCTS = [mnem_place_buffer, mnem_place_gap, mnem_place_constraint, mnem_place_options, mnem_place_result, mnem_device_options, mnem_source, mnem_misuse, mnem_pool_soft, mnem_pool_options, mnem_block, mnem_pool_block, mnem_pool_request, mnem_pool_info]
