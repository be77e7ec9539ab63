"""Written by python/make_declarations from include/mnem: change those, not this."""
import ctypes as C

from ._declarations import *  # noqa: F403

MNEM_PLACE_FEASIBLE = 0
MNEM_PLACE_OPTIMAL = 1
MNEM_PLACE_INFEASIBLE = 2

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

FUNCTIONS = {
    "mnem_place_solve_constrained": (mnem_status, [C.POINTER(mnem_place_buffer), C.POINTER(mnem_place_constraint), C.c_size_t, C.POINTER(mnem_place_options), C.POINTER(mnem_place_result)]),
}
STRUCTS = [mnem_place_buffer, mnem_place_gap, mnem_place_constraint, mnem_place_options, mnem_place_result]
