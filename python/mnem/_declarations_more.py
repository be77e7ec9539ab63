"""Written by python/make_declarations from include/mnem: change those, not this."""
import ctypes as C

from ._declarations import *  # noqa: F403

MNEM_TYPE_F32 = 0
MNEM_TYPE_F16 = 1
MNEM_TYPE_Q4_0 = 2
MNEM_TYPE_Q4_1 = 3
MNEM_TYPE_Q5_0 = 6
MNEM_TYPE_Q5_1 = 7
MNEM_TYPE_Q8_0 = 8
MNEM_TYPE_Q8_1 = 9
MNEM_TYPE_Q2_K = 10
MNEM_TYPE_Q3_K = 11
MNEM_TYPE_Q4_K = 12
MNEM_TYPE_Q5_K = 13
MNEM_TYPE_Q6_K = 14
MNEM_TYPE_Q8_K = 15
MNEM_TYPE_IQ2_XXS = 16
MNEM_TYPE_IQ2_XS = 17
MNEM_TYPE_IQ3_XXS = 18
MNEM_TYPE_IQ1_S = 19
MNEM_TYPE_IQ4_NL = 20
MNEM_TYPE_IQ3_S = 21
MNEM_TYPE_IQ2_S = 22
MNEM_TYPE_IQ4_XS = 23
MNEM_TYPE_I8 = 24
MNEM_TYPE_I16 = 25
MNEM_TYPE_I32 = 26
MNEM_TYPE_I64 = 27
MNEM_TYPE_F64 = 28
MNEM_TYPE_IQ1_M = 29
MNEM_TYPE_BF16 = 30
MNEM_TYPE_TQ1_0 = 34
MNEM_TYPE_TQ2_0 = 35
MNEM_TYPE_MXFP4 = 39
MNEM_TYPE_A8 = 1000
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
MNEM_DISTILL_LOGITS = 1
MNEM_DISTILL_STATES = 2
MNEM_DISTILL_BOTH = 3
MNEM_MOMENTS_F32 = 0
MNEM_MOMENTS_8BIT = 1
MNEM_SHARD_CHOSEN = 0
MNEM_SHARD_NONE = 1
MNEM_SHARD_OPTIMIZER = 2
MNEM_SHARD_GRADIENTS = 3
MNEM_FEED_STACK_BYTES = 131072
MNEM_REPORT_METRIC_PEAK = 0
MNEM_REPORT_METRIC_END = 1
MNEM_REPORT_METRIC_RESERVED = 2
MNEM_REPORT_METRIC_RESIDENT = 3
MNEM_REPORT_METRIC_UNACCOUNTED = 4
MNEM_REPORT_METRIC_UTILISATION = 5
MNEM_REPORT_METRIC_FRAGMENTATION = 6
MNEM_REPORT_METRIC_INTERNAL = 7
MNEM_REPORT_METRIC_EXTERNAL = 8
MNEM_REPORT_METRIC_UNUSABLE = 9
MNEM_REPORT_METRIC_EFFICIENCY = 10
MNEM_REPORT_METRIC_PREDICTION_ERROR = 11
MNEM_REPORT_METRIC_REFUSALS = 12
MNEM_REPORT_METRIC_LEAKS = 13
MNEM_REPORT_METRIC_LEAKED = 14
MNEM_REPORT_METRIC_GROWING = 15
MNEM_REPORT_METRIC_ALLOCATIONS = 16
MNEM_REPORT_METRIC_DROPPED = 17
MNEM_REPORT_METRIC_SAMPLES_OFF = 18
MNEM_REPORT_METRIC_DURATION = 19
MNEM_REPORT_METRICS = 20
MNEM_FEATURE_TRAIN = 2048
MNEM_FEATURE_TRAIN_ADAPTERS = 4096
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

class mnem_vocabulary_options(C.Structure):
    _fields_ = [
        ("tokens", C.c_int32),
        ("pre", C.c_char_p),
        ("end", C.c_char_p),
        ("bytes_max", C.c_uint64),
        ("progress", mnem_progress),
    ]

class mnem_vocabulary(C.Structure):
    pass

class mnem_tokenizer_options(C.Structure):
    _fields_ = [
        ("pre", C.c_char_p),
        ("chat_template", C.c_char_p),
    ]

class mnem_gguf_writer(C.Structure):
    pass

class mnem_corpus_row(C.Structure):
    _fields_ = [
        ("ids", C.POINTER(C.c_int32)),
        ("counted", C.POINTER(C.c_bool)),
        ("count", C.c_size_t),
        ("text_bytes", C.c_uint64),
    ]

class mnem_corpus_rows(C.Structure):
    _fields_ = [
        ("next", C.CFUNCTYPE(mnem_status, C.c_void_p, C.POINTER(mnem_corpus_row))),
        ("context", C.c_void_p),
        ("key", C.c_uint64),
        ("joined", C.c_bool),
    ]

class mnem_corpus_options(C.Structure):
    _fields_ = [
        ("files", C.POINTER(C.c_char_p)),
        ("count", C.c_size_t),
        ("cache", C.c_char_p),
        ("tokenizer", C.POINTER(mnem_tokenizer)),
        ("threads", C.c_int32),
        ("progress", mnem_progress),
        ("rows", mnem_corpus_rows),
    ]

class mnem_corpus(C.Structure):
    pass

class mnem_corpus_info(C.Structure):
    _fields_ = [
        ("tokens", C.c_uint64),
        ("text_bytes", C.c_uint64),
        ("file_bytes", C.c_uint64),
        ("checksum", C.c_uint64),
        ("files", C.c_uint32),
        ("width", C.c_uint32),
        ("rows", C.c_uint64),
        ("row_most", C.c_uint64),
        ("vocab", C.c_int32),
        ("made", C.c_bool),
        ("reason", C.c_char_p),
    ]

class mnem_windows(C.Structure):
    _fields_ = [
        ("begin", C.c_uint64),
        ("tokens", C.c_uint64),
        ("count", C.c_uint64),
        ("seed", C.c_uint64),
        ("sequence", C.c_uint32),
        ("shuffled", C.c_bool),
        ("rows", C.c_bool),
    ]

class mnem_feed_options(C.Structure):
    _fields_ = [
        ("corpus", C.POINTER(mnem_corpus)),
        ("windows", mnem_windows),
        ("rows", C.c_uint32),
        ("depth", C.c_uint32),
        ("first", C.c_uint64),
        ("end", C.c_uint64),
        ("group", C.c_uint32),
        ("share_first", C.c_uint32),
        ("share", C.c_uint32),
    ]

class mnem_feed(C.Structure):
    pass

class mnem_batch(C.Structure):
    _fields_ = [
        ("ids", C.POINTER(C.c_int32)),
        ("targets", C.POINTER(C.c_int32)),
        ("first", C.c_uint64),
        ("rows", C.c_uint32),
    ]

class mnem_lora(C.Structure):
    _fields_ = [
        ("rank", C.c_int32),
        ("alpha", C.c_float),
        ("targets", C.c_uint32),
        ("base", C.POINTER(mnem_model)),
    ]

mnem_distill_on = C.c_int
class mnem_distill(C.Structure):
    _fields_ = [
        ("teacher", C.POINTER(mnem_model)),
        ("weight", C.c_float),
        ("temperature", C.c_float),
        ("on", mnem_distill_on),
    ]

mnem_type = C.c_int
mnem_moments = C.c_int
class mnem_optimizer_options(C.Structure):
    _fields_ = [
        ("moments", mnem_moments),
        ("beta1", C.c_double),
        ("beta2", C.c_double),
        ("epsilon", C.c_double),
        ("weight_decay", C.c_double),
        ("seed", C.c_uint64),
    ]

class mnem_schedule(C.Structure):
    _fields_ = [
        ("rate_peak", C.c_double),
        ("rate_floor", C.c_double),
        ("warmup_steps", C.c_uint64),
        ("total_steps", C.c_uint64),
    ]

mnem_shard = C.c_int
class mnem_train_options(C.Structure):
    _fields_ = [
        ("ledger", C.POINTER(mnem_ledger)),
        ("shape", mnem_transformer),
        ("lora", mnem_lora),
        ("masked", C.c_bool),
        ("distill", mnem_distill),
        ("sequence", C.c_int32),
        ("batch", C.c_int32),
        ("micro_batch", C.c_int32),
        ("threads", C.c_int32),
        ("compute", mnem_type),
        ("dropout", C.c_float),
        ("seed", C.c_uint64),
        ("optimizer", mnem_optimizer_options),
        ("schedule", mnem_schedule),
        ("norm_max", C.c_double),
        ("comm", C.POINTER(mnem_comm)),
        ("shard", mnem_shard),
        ("device", C.POINTER(mnem_device)),
        ("io_bytes", C.c_uint64),
        ("io_bytes_sequence", C.c_uint64),
    ]

class mnem_train_plan(C.Structure):
    _fields_ = [
        ("micro_batch", C.c_int32),
        ("accumulation", C.c_int32),
        ("threads", C.c_int32),
        ("ranks", C.c_int32),
        ("first", C.c_int32),
        ("share", C.c_int32),
        ("shard", mnem_shard),
        ("sharding", C.c_char * 160),
        ("keep", C.c_uint8 * 1024),
        ("layers", C.c_int32),
        ("layers_recomputed", C.c_int32),
        ("recomputed", C.c_double),
        ("budget_bytes", C.c_uint64),
        ("peak_bytes", C.c_uint64),
        ("parameters", C.c_uint64),
        ("weight_bytes", C.c_uint64),
        ("gradient_bytes", C.c_uint64),
        ("optimizer_bytes", C.c_uint64),
        ("frozen_bytes", C.c_uint64),
        ("teacher_streamed", C.c_bool),
        ("teacher_bytes_read", C.c_uint64),
        ("activation_bytes", C.c_uint64),
        ("activation_bytes_all", C.c_uint64),
        ("lines", C.c_uint),
        ("line", mnem_plan_line * 40),
        ("macs_per_step", C.c_double),
        ("smaller_bytes", C.c_uint64),
        ("larger_bytes", C.c_uint64),
        ("smaller_cost", C.c_double),
        ("larger_cost", C.c_double),
        ("smaller", C.c_char * 160),
        ("larger", C.c_char * 160),
        ("needed_bytes", C.c_uint64),
        ("knob", mnem_knob),
        ("needed_rank", C.c_int32),
    ]

class mnem_trainer(C.Structure):
    pass

class mnem_train_batch(C.Structure):
    _fields_ = [
        ("ids", C.POINTER(C.c_int32)),
        ("targets", C.POINTER(C.c_int32)),
        ("sequences", C.c_int32),
    ]

class mnem_train_source(C.Structure):
    _fields_ = [
        ("next", C.CFUNCTYPE(mnem_status, C.c_void_p, C.POINTER(mnem_train_batch))),
        ("context", C.c_void_p),
    ]

class mnem_train_report(C.Structure):
    _fields_ = [
        ("step", C.c_uint64),
        ("loss", C.c_double),
        ("rate", C.c_double),
        ("norm", C.c_double),
        ("clip", C.c_double),
        ("loss_scale", C.c_double),
        ("applied", C.c_bool),
        ("tokens", C.c_int64),
        ("waited", C.c_double),
    ]

class mnem_trace_options(C.Structure):
    _fields_ = [
        ("path", C.c_char_p),
        ("ledger", C.POINTER(mnem_ledger)),
        ("threads", C.c_uint32),
        ("events", C.c_uint32),
        ("names", C.c_uint32),
        ("bytes_most", C.c_uint64),
    ]

class mnem_trace(C.Structure):
    pass

class mnem_trace_info(C.Structure):
    _fields_ = [
        ("events", C.c_uint64),
        ("dropped", C.c_uint64),
        ("bytes_spilled", C.c_uint64),
        ("threads", C.c_uint32),
        ("names", C.c_uint32),
    ]

class mnem_report_options(C.Structure):
    _fields_ = [
        ("device_given", C.c_bool),
        ("device", C.c_uint32),
        ("rank", C.c_uint32),
        ("progress", mnem_progress),
    ]

class mnem_report(C.Structure):
    pass

class mnem_report_level(C.Structure):
    _fields_ = [
        ("known", C.c_bool),
        ("at_peak", C.c_uint64),
        ("most", C.c_uint64),
        ("mean", C.c_double),
    ]

class mnem_report_refused(C.Structure):
    _fields_ = [
        ("count", C.c_uint64),
        ("bytes_largest", C.c_uint64),
        ("bytes_last", C.c_uint64),
    ]

class mnem_report_owner(C.Structure):
    _fields_ = [
        ("kind", C.c_char_p),
        ("tag", C.c_char_p),
        ("site", C.c_char_p),
        ("bytes_at_peak", C.c_uint64),
        ("blocks_at_peak", C.c_uint64),
        ("bytes_most", C.c_uint64),
        ("bytes_end", C.c_uint64),
        ("blocks_end", C.c_uint64),
        ("bytes_total", C.c_uint64),
        ("allocations", C.c_uint64),
    ]

class mnem_report_leak(C.Structure):
    _fields_ = [
        ("kind", C.c_char_p),
        ("tag", C.c_char_p),
        ("site", C.c_char_p),
        ("bytes", C.c_uint64),
        ("blocks", C.c_uint64),
        ("age_oldest", C.c_uint64),
        ("age_median", C.c_uint64),
        ("growing", C.c_bool),
    ]

class mnem_report_operator(C.Structure):
    _fields_ = [
        ("name", C.c_char_p),
        ("sort", C.c_char_p),
        ("count", C.c_uint64),
        ("bytes", C.c_uint64),
        ("multiply_adds", C.c_uint64),
        ("ns_total", C.c_uint64),
        ("ns_longest", C.c_uint64),
    ]

class mnem_report_facts(C.Structure):
    _fields_ = [
        ("path", C.c_char_p),
        ("format", C.c_char_p),
        ("program", C.c_char_p),
        ("roofs", C.c_char_p),
        ("clocked", C.c_bool),
        ("duration", C.c_uint64),
        ("events", C.c_uint64),
        ("allocations", C.c_uint64),
        ("threads", C.c_uint64),
        ("rank", C.c_uint32),
        ("ranks", C.c_uint32),
        ("clock", C.c_char_p),
        ("blocks", C.c_bool),
        ("dropped", C.c_uint64),
        ("budget_bytes", C.c_uint64),
        ("bytes_peak", C.c_uint64),
        ("peak_at", C.c_uint64),
        ("bytes_end", C.c_uint64),
        ("bytes_before", C.c_uint64),
        ("resident_most", C.c_uint64),
        ("resident_at_peak", C.c_uint64),
        ("unaccounted_known", C.c_bool),
        ("unaccounted_bytes", C.c_int64),
        ("samples", C.c_uint64),
        ("samples_equal", C.c_uint64),
        ("predicted_bytes", C.c_uint64),
        ("live", mnem_report_level),
        ("granted", mnem_report_level),
        ("reserved", mnem_report_level),
        ("hole_known", C.c_bool),
        ("hole_at_peak", C.c_uint64),
        ("refused", mnem_report_refused * 4),
        ("disk_bytes", C.c_uint64),
        ("disk_ns", C.c_uint64),
        ("disk_reads", C.c_uint64),
        ("runs_left_out", C.c_uint64),
        ("accounts", C.c_size_t),
        ("sites", C.c_size_t),
        ("leaks", C.c_size_t),
        ("ops", C.c_size_t),
        ("account", C.POINTER(mnem_report_owner)),
        ("site", C.POINTER(mnem_report_owner)),
        ("leak", C.POINTER(mnem_report_leak)),
        ("op", C.POINTER(mnem_report_operator)),
        ("leaked_bytes", C.c_uint64),
        ("leaked_blocks", C.c_uint64),
    ]

class mnem_report_metric_info(C.Structure):
    _fields_ = [
        ("key", C.c_char_p),
        ("text", C.c_char_p),
        ("unit", C.c_char_p),
    ]

mnem_report_metric = C.c_int
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
    "mnem_ledger_hold": (mnem_status, [C.POINTER(mnem_ledger)]),
    "mnem_ledger_charge_planned": (mnem_status, [C.POINTER(mnem_ledger), mnem_kind, C.c_char_p, C.c_uint64]),
    "mnem_ledger_alloc": (mnem_status, [C.POINTER(mnem_ledger), C.POINTER(mnem_device), mnem_kind, C.c_char_p, C.c_uint64, C.c_uint64, C.POINTER(mnem_block)]),
    "mnem_ledger_free": (None, [C.POINTER(mnem_ledger), mnem_kind, C.c_char_p, C.POINTER(mnem_block)]),
    "mnem_transformer_supports": (mnem_status, [C.POINTER(mnem_transformer), C.c_uint32]),
    "mnem_vocabulary_learn": (mnem_status, [C.POINTER(mnem_vocabulary_options), C.POINTER(C.c_char_p), C.c_size_t, C.POINTER(C.POINTER(mnem_vocabulary))]),
    "mnem_vocabulary_destroy": (None, [C.POINTER(mnem_vocabulary)]),
    "mnem_tokenizer_create_from": (mnem_status, [C.POINTER(mnem_vocabulary), C.POINTER(C.POINTER(mnem_tokenizer))]),
    "mnem_tokenizer_create_with": (mnem_status, [C.POINTER(mnem_model), C.POINTER(mnem_tokenizer_options), C.POINTER(C.POINTER(mnem_tokenizer))]),
    "mnem_tokenizer_write": (mnem_status, [C.POINTER(mnem_tokenizer), C.POINTER(mnem_gguf_writer)]),
    "mnem_gguf_create": (mnem_status, [C.c_char_p, C.POINTER(C.POINTER(mnem_gguf_writer))]),
    "mnem_gguf_key_text": (mnem_status, [C.POINTER(mnem_gguf_writer), C.c_char_p, C.c_char_p]),
    "mnem_gguf_finish": (mnem_status, [C.POINTER(mnem_gguf_writer)]),
    "mnem_gguf_abort": (None, [C.POINTER(mnem_gguf_writer)]),
    "mnem_corpus_open": (mnem_status, [C.POINTER(mnem_corpus_options), C.POINTER(C.POINTER(mnem_corpus))]),
    "mnem_corpus_close": (None, [C.POINTER(mnem_corpus)]),
    "mnem_corpus_info_get": (None, [C.POINTER(mnem_corpus), C.POINTER(mnem_corpus_info)]),
    "mnem_windows_split": (mnem_status, [C.c_uint64, C.c_uint32, C.c_double, C.c_uint64, C.POINTER(mnem_windows), C.POINTER(mnem_windows)]),
    "mnem_windows_split_rows": (mnem_status, [C.c_uint64, C.c_uint32, C.c_double, C.c_uint64, C.POINTER(mnem_windows), C.POINTER(mnem_windows)]),
    "mnem_feed_bytes": (C.c_uint64, [C.c_uint32, C.c_uint32, C.c_uint32]),
    "mnem_feed_create": (mnem_status, [C.POINTER(mnem_feed_options), C.c_void_p, C.POINTER(C.POINTER(mnem_feed))]),
    "mnem_feed_next": (mnem_status, [C.POINTER(mnem_feed), C.POINTER(mnem_batch)]),
    "mnem_feed_destroy": (None, [C.POINTER(mnem_feed)]),
    "mnem_lora_targets_parse": (mnem_status, [C.c_char_p, C.POINTER(C.c_uint32)]),
    "mnem_train_plan_make": (mnem_status, [C.POINTER(mnem_train_options), C.POINTER(mnem_train_plan)]),
    "mnem_trainer_create": (mnem_status, [C.POINTER(mnem_train_options), C.POINTER(mnem_train_plan), C.POINTER(C.POINTER(mnem_trainer))]),
    "mnem_trainer_destroy": (None, [C.POINTER(mnem_trainer)]),
    "mnem_trainer_init": (None, [C.POINTER(mnem_trainer), C.c_uint64]),
    "mnem_trainer_load": (mnem_status, [C.POINTER(mnem_trainer), C.POINTER(mnem_model)]),
    "mnem_trainer_write": (mnem_status, [C.POINTER(mnem_trainer), mnem_type, C.POINTER(mnem_gguf_writer)]),
    "mnem_trainer_step": (mnem_status, [C.POINTER(mnem_trainer), C.POINTER(mnem_train_source), C.POINTER(mnem_train_report)]),
    "mnem_trainer_evaluate": (mnem_status, [C.POINTER(mnem_trainer), C.POINTER(mnem_train_source), C.POINTER(C.c_double), C.POINTER(C.c_int64)]),
    "mnem_trainer_cancel": (None, [C.POINTER(mnem_trainer)]),
    "mnem_trainer_save": (mnem_status, [C.POINTER(mnem_trainer), C.c_char_p, C.c_char_p]),
    "mnem_trainer_resume": (mnem_status, [C.POINTER(mnem_trainer), C.c_char_p, C.c_char_p, C.c_size_t]),
    "mnem_trainer_steps": (C.c_uint64, [C.POINTER(mnem_trainer)]),
    "mnem_trace_create": (mnem_status, [C.POINTER(mnem_trace_options), C.POINTER(C.POINTER(mnem_trace))]),
    "mnem_trace_destroy": (None, [C.POINTER(mnem_trace)]),
    "mnem_trace_begin": (None, [C.c_char_p]),
    "mnem_trace_end": (None, [C.c_char_p]),
    "mnem_trace_counter": (None, [C.c_char_p, C.c_uint64]),
    "mnem_trace_note": (mnem_status, [C.POINTER(mnem_trace), C.c_char_p, C.c_char_p]),
    "mnem_trace_info_get": (None, [C.POINTER(mnem_trace), C.POINTER(mnem_trace_info)]),
    "mnem_trace_write": (mnem_status, [C.POINTER(mnem_trace)]),
    "mnem_report_create": (mnem_status, [C.c_char_p, C.POINTER(mnem_report_options), C.POINTER(C.POINTER(mnem_report))]),
    "mnem_report_destroy": (None, [C.POINTER(mnem_report)]),
    "mnem_report_facts_get": (C.POINTER(mnem_report_facts), [C.POINTER(mnem_report)]),
    "mnem_report_metric_get": (mnem_report_metric_info, [mnem_report_metric]),
    "mnem_report_measure": (C.c_bool, [C.POINTER(mnem_report_facts), mnem_report_metric, C.POINTER(C.c_double)]),
}
STRUCTS = [mnem_place_buffer, mnem_place_gap, mnem_place_constraint, mnem_place_options, mnem_place_result, mnem_device_options, mnem_source, mnem_misuse, mnem_pool_soft, mnem_pool_options, mnem_block, mnem_pool_block, mnem_pool_request, mnem_pool_info, mnem_vocabulary_options, mnem_tokenizer_options, mnem_corpus_row, mnem_corpus_rows, mnem_corpus_options, mnem_corpus_info, mnem_windows, mnem_feed_options, mnem_batch, mnem_lora, mnem_distill, mnem_optimizer_options, mnem_schedule, mnem_train_options, mnem_train_plan, mnem_train_batch, mnem_train_source, mnem_train_report, mnem_trace_options, mnem_trace_info, mnem_report_options, mnem_report_level, mnem_report_refused, mnem_report_owner, mnem_report_leak, mnem_report_operator, mnem_report_facts, mnem_report_metric_info]
