"""Written by python/make_declarations from include/mnem: change those, not this."""
import ctypes as C

MNEM_OK = 0
MNEM_INVALID = 1
MNEM_NO_MEMORY = 2
MNEM_OVER_BUDGET = 3
MNEM_IO = 4
MNEM_BAD_FILE = 5
MNEM_UNSUPPORTED = 6
MNEM_NOT_FOUND = 7
MNEM_NOT_READY = 8
MNEM_BUSY = 9
MNEM_CANCELLED = 10
MNEM_NOT_FINITE = 11
MNEM_STATUS_COUNT = 12
MNEM_KV_F16 = 0
MNEM_KV_Q8_0 = 1
MNEM_KV_AUTO = 2
MNEM_KV_F32 = 3
MNEM_KV_Q4_0 = 4
MNEM_KV_Q4_0_UNROTATED = 5
MNEM_KV_PAIRS_END = 65535
MNEM_KIND_WEIGHTS = 0
MNEM_KIND_KV = 1
MNEM_KIND_ACTIVATION = 2
MNEM_KIND_WORKSPACE = 3
MNEM_KIND_GRADIENT = 4
MNEM_KIND_OPTIMIZER = 5
MNEM_KIND_IO = 6
MNEM_KIND_HOST = 7
MNEM_KIND_RUNTIME = 8
MNEM_KIND_COUNT = 9
MNEM_VALUE_U8 = 0
MNEM_VALUE_I8 = 1
MNEM_VALUE_U16 = 2
MNEM_VALUE_I16 = 3
MNEM_VALUE_U32 = 4
MNEM_VALUE_I32 = 5
MNEM_VALUE_F32 = 6
MNEM_VALUE_BOOL = 7
MNEM_VALUE_STRING = 8
MNEM_VALUE_ARRAY = 9
MNEM_VALUE_U64 = 10
MNEM_VALUE_I64 = 11
MNEM_VALUE_F64 = 12
MNEM_VALUE_TYPES = 13
MNEM_POOLING_NONE = 0
MNEM_POOLING_MEAN = 1
MNEM_POOLING_CLS = 2
MNEM_POOLING_LAST = 3
MNEM_LAYERS_NONE = 0
MNEM_LAYERS_ALL = 1
MNEM_LAYERS_FIRST = 2
MNEM_LAYERS_EVERY = 3
MNEM_LAYERS_BUT_EVERY = 4
MNEM_LAYERS_LIST = 5
MNEM_KNOB_NONE = 0
MNEM_KNOB_CHUNK = 1
MNEM_KNOB_KV = 2
MNEM_KNOB_CONTEXT = 3
MNEM_KNOB_DRAFT = 4
MNEM_KNOB_DEVICES = 5
MNEM_KNOB_MODEL = 6
MNEM_KNOB_MOMENTS = 7
MNEM_KNOB_MICRO_BATCH = 8
MNEM_KNOB_COMPUTE = 9
MNEM_CUT_LAYERS = 0
MNEM_CUT_ROWS = 1
MNEM_PLAN_LINES = 40
MNEM_ENCODE_NO_SPECIAL = 1
MNEM_ENCODE_PLAIN = 2
MNEM_CHAT_PLAIN = 0
MNEM_CHAT_CHATML = 1
MNEM_CHAT_LLAMA3 = 2
MNEM_CHAT_MISTRAL = 3
MNEM_CHAT_ZEPHYR = 4

mnem_status = C.c_int
class mnem_ledger_options(C.Structure):
    _fields_ = [
        ("budget_bytes", C.c_uint64),
        ("preparing", C.c_bool),
        ("other_bytes", C.c_uint64),
        ("other_tag", C.c_char_p),
        ("own_process", C.c_bool),
        ("soft_fraction", C.c_double),
        ("on_soft", C.CFUNCTYPE(None, C.c_void_p, C.c_uint64)),
        ("context", C.c_void_p),
    ]

class mnem_ledger(C.Structure):
    pass

class mnem_ledger_info(C.Structure):
    _fields_ = [
        ("budget_bytes", C.c_uint64),
        ("soft_bytes", C.c_uint64),
        ("bytes_live", C.c_uint64),
        ("bytes_peak", C.c_uint64),
        ("refusals", C.c_uint64),
        ("bytes_refused", C.c_uint64),
        ("accounts", C.c_uint),
        ("preparing", C.c_bool),
    ]

mnem_kind = C.c_int
class mnem_account_info(C.Structure):
    _fields_ = [
        ("kind", mnem_kind),
        ("tag", C.c_char * 32),
        ("bytes_live", C.c_uint64),
        ("bytes_peak", C.c_uint64),
        ("limit_bytes", C.c_uint64),
        ("charges", C.c_uint64),
    ]

class mnem_model(C.Structure):
    pass

class mnem_rope(C.Structure):
    _fields_ = [
        ("dims", C.c_int32),
        ("neox", C.c_bool),
        ("base", C.c_float),
        ("scale", C.c_float),
        ("yarn_ext", C.c_float),
        ("yarn_attn", C.c_float),
        ("yarn_beta_fast", C.c_float),
        ("yarn_beta_slow", C.c_float),
        ("yarn_unrounded", C.c_bool),
        ("original_context", C.c_int32),
    ]

mnem_layers_kind = C.c_int
class mnem_layer_schedule(C.Structure):
    _fields_ = [
        ("kind", mnem_layers_kind),
        ("n", C.c_int32),
        ("list", C.c_uint8 * 128),
    ]

mnem_pooling = C.c_int
class mnem_route(C.Structure):
    _fields_ = [
        ("used", C.c_int32),
        ("sigmoid", C.c_bool),
        ("normalized", C.c_bool),
        ("scale", C.c_float),
        ("groups", C.c_int32),
        ("groups_used", C.c_int32),
        ("groups_by_best", C.c_bool),
        ("mixer", C.c_float),
        ("on_input", C.c_bool),
    ]

class mnem_row_range(C.Structure):
    _fields_ = [
        ("begin", C.c_int32),
        ("end", C.c_int32),
    ]

class mnem_row_part(C.Structure):
    _fields_ = [
        ("heads", mnem_row_range),
        ("kv_heads", mnem_row_range),
        ("ff", mnem_row_range),
        ("embd", mnem_row_range),
        ("vocab", mnem_row_range),
        ("experts", mnem_row_range),
    ]

class mnem_transformer(C.Structure):
    _fields_ = [
        ("architecture", C.c_char * 16),
        ("layers", C.c_int32),
        ("embd", C.c_int32),
        ("heads", C.c_int32),
        ("kv_heads", C.c_int32),
        ("head_dim", C.c_int32),
        ("ff", C.c_int32),
        ("vocab", C.c_int32),
        ("context", C.c_int32),
        ("epsilon", C.c_float),
        ("rope", mnem_rope),
        ("qkv_bias", C.c_bool),
        ("out_bias", C.c_bool),
        ("qk_norm", C.c_bool),
        ("tied", C.c_bool),
        ("rope_factors", C.c_int32),
        ("wide_qk_norm", C.c_bool),
        ("rms_norms", C.c_bool),
        ("gate_in_up", C.c_bool),
        ("window", C.c_int32),
        ("window_rope_base", C.c_float),
        ("conv_length", C.c_int32),
        ("windowed", mnem_layer_schedule),
        ("unturned", mnem_layer_schedule),
        ("convolving", mnem_layer_schedule),
        ("recurrent", mnem_layer_schedule),
        ("leading", mnem_layer_schedule),
        ("feeding", mnem_layer_schedule),
        ("encoder", C.c_bool),
        ("pooling", mnem_pooling),
        ("token_types", C.c_int32),
        ("embedding_scale", C.c_float),
        ("residual_scale", C.c_float),
        ("attention_scale", C.c_float),
        ("logit_scale", C.c_float),
        ("experts", C.c_int32),
        ("ff_expert", C.c_int32),
        ("ff_shared", C.c_int32),
        ("embd_expert", C.c_int32),
        ("route", mnem_route),
        ("latent", C.c_int32),
        ("latent_q", C.c_int32),
        ("key_dim", C.c_int32),
        ("value_dim", C.c_int32),
        ("value_scale", C.c_float),
        ("index_heads", C.c_int32),
        ("index_dim", C.c_int32),
        ("index_top_k", C.c_int32),
        ("indexed", mnem_layer_schedule),
        ("state_groups", C.c_int32),
        ("state_heads", C.c_int32),
        ("state_rows", C.c_int32),
        ("state_columns", C.c_int32),
        ("state_tiled", C.c_bool),
        ("state_scans", C.c_bool),
        ("state_beside", C.c_bool),
        ("state_channels", C.c_bool),
        ("state_rank", C.c_int32),
        ("state_epsilon", C.c_float),
        ("output_gate", C.c_bool),
        ("head_gates", C.c_bool),
        ("window_heads", C.c_int32),
        ("window_kv_heads", C.c_int32),
        ("window_head_dim", C.c_int32),
        ("window_rope_dims", C.c_int32),
        ("ff_wide", C.c_int32),
        ("wide", mnem_layer_schedule),
        ("kv_shared_layers", C.c_int32),
        ("values_are_keys", C.c_bool),
        ("layer_embd", C.c_int32),
        ("streams", C.c_int32),
        ("laurel", C.c_int32),
        ("attention_cap", C.c_float),
        ("logit_cap", C.c_float),
        ("attention_temperature", C.c_float),
        ("temperature_every", C.c_int32),
        ("temperature_unturned", C.c_bool),
        ("window_chunks", C.c_bool),
        ("unit_heads", C.c_bool),
        ("part_begin", C.c_int32),
        ("part_end", C.c_int32),
        ("rows", mnem_row_part),
    ]

mnem_value_type = C.c_int
class mnem_value_3(C.Union):
    _fields_ = [
        ("u", C.c_uint64),
        ("i", C.c_int64),
        ("f", C.c_double),
    ]

class mnem_text(C.Structure):
    _fields_ = [
        ("bytes", C.c_void_p),
        ("length", C.c_size_t),
    ]

class mnem_value(C.Structure):
    _anonymous_ = ("unnamed_3",)
    _fields_ = [
        ("type", mnem_value_type),
        ("element", mnem_value_type),
        ("count", C.c_uint64),
        ("unnamed_3", mnem_value_3),
        ("text", mnem_text),
        ("elements", C.c_void_p),
    ]

class mnem_tokenizer(C.Structure):
    pass

class mnem_tokenizer_info(C.Structure):
    _fields_ = [
        ("model", C.c_char_p),
        ("pre", C.c_char_p),
        ("vocab", C.c_int32),
        ("bos", C.c_int32),
        ("eos", C.c_int32),
        ("eot", C.c_int32),
        ("unk", C.c_int32),
        ("pad", C.c_int32),
        ("add_bos", C.c_bool),
        ("add_eos", C.c_bool),
        ("add_space_prefix", C.c_bool),
        ("merges", C.c_uint32),
    ]

mnem_chat_format = C.c_int
class mnem_template_options(C.Structure):
    _fields_ = [
        ("bytes", C.c_uint64),
        ("steps", C.c_uint64),
        ("clock", C.c_int64),
    ]

class mnem_template(C.Structure):
    pass

class mnem_template_input(C.Structure):
    _fields_ = [
        ("messages", C.c_char_p),
        ("tools", C.c_char_p),
        ("documents", C.c_char_p),
        ("arguments", C.c_char_p),
        ("bos", C.c_char_p),
        ("eos", C.c_char_p),
        ("add_generation_prompt", C.c_bool),
    ]

class mnem_dry_breakers(C.Structure):
    _fields_ = [
        ("tokenizer", C.POINTER(mnem_tokenizer)),
        ("words", C.POINTER(C.c_int32)),
        ("word_count", C.c_int32),
    ]

class mnem_logit_bias(C.Structure):
    _fields_ = [
        ("id", C.c_int32),
        ("bias", C.c_float),
    ]

class mnem_sampler_options(C.Structure):
    _fields_ = [
        ("temperature", C.c_float),
        ("top_k", C.c_int32),
        ("top_p", C.c_float),
        ("min_p", C.c_float),
        ("repeat_penalty", C.c_float),
        ("repeat_last", C.c_int32),
        ("presence_penalty", C.c_float),
        ("frequency_penalty", C.c_float),
        ("dry_multiplier", C.c_float),
        ("dry_base", C.c_float),
        ("dry_allowed_length", C.c_int32),
        ("dry_penalty_last", C.c_int32),
        ("dry_breakers", mnem_dry_breakers),
        ("xtc_probability", C.c_float),
        ("xtc_threshold", C.c_float),
        ("bias", C.POINTER(mnem_logit_bias)),
        ("bias_count", C.c_int32),
        ("seed", C.c_uint64),
    ]

class mnem_sampler(C.Structure):
    pass

class mnem_token_logprob(C.Structure):
    _fields_ = [
        ("id", C.c_int32),
        ("logprob", C.c_float),
    ]

class mnem_token_set(C.Structure):
    pass

class mnem_grammar_options(C.Structure):
    _fields_ = [
        ("bytes", C.c_uint64),
        ("state_bytes", C.c_uint64),
        ("cache_bytes", C.c_uint64),
        ("steps", C.c_uint64),
        ("marks", C.POINTER(C.c_int32)),
        ("mark_count", C.c_uint32),
    ]

class mnem_grammar(C.Structure):
    pass

class mnem_grammar_part(C.Structure):
    _fields_ = [
        ("name", C.c_char_p),
        ("json", C.c_char_p),
        ("length", C.c_size_t),
        ("raw_end", C.c_char_p),
    ]

class mnem_match(C.Structure):
    pass

mnem_kv_choice = C.c_int
class mnem_device(C.Structure):
    pass

class mnem_machine_profile(C.Structure):
    _fields_ = [
        ("read_bytes_per_s", C.c_double),
        ("disk_bytes_per_s", C.c_double),
        ("macs_per_s", C.c_double),
        ("generate_bytes_per_s", C.c_double),
    ]

class mnem_adapter(C.Structure):
    _fields_ = [
        ("model", C.POINTER(mnem_model)),
        ("scale", C.c_float),
    ]

class mnem_progress(C.Structure):
    _fields_ = [
        ("tell", C.CFUNCTYPE(C.c_bool, C.c_void_p, C.c_char_p, C.c_uint64, C.c_uint64)),
        ("context", C.c_void_p),
    ]

class mnem_comm(C.Structure):
    pass

mnem_cut = C.c_int
class mnem_comm_link(C.Structure):
    _fields_ = [
        ("seconds", C.c_double),
        ("bytes_per_second", C.c_double),
    ]

mnem_on_experts = C.CFUNCTYPE(None, C.c_void_p, C.c_int32, C.POINTER(C.c_int32), C.c_int32)
mnem_bytes_of_context = C.CFUNCTYPE(C.c_uint64, C.c_void_p, C.c_int32)
class mnem_team(C.Structure):
    pass

class mnem_engine_options(C.Structure):
    _fields_ = [
        ("ledger", C.POINTER(mnem_ledger)),
        ("device", C.POINTER(mnem_device)),
        ("context", C.c_int32),
        ("context_wanted", C.c_int32),
        ("context_needed", C.c_int32),
        ("threads", C.c_int32),
        ("chunk", C.c_int32),
        ("sequences", C.c_int32),
        ("pages_tokens", C.c_int32),
        ("pages_fill", C.c_bool),
        ("states", C.c_int32),
        ("snapshots", C.c_int32),
        ("snapshot_tokens", C.c_int32),
        ("logits_rows", C.c_int32),
        ("kv", mnem_kv_choice),
        ("page_cache", C.c_bool),
        ("profile", C.POINTER(mnem_machine_profile)),
        ("adapters", C.POINTER(mnem_adapter)),
        ("adapter_count", C.c_int32),
        ("progress", mnem_progress),
        ("comm", C.POINTER(mnem_comm)),
        ("layer_begin", C.c_int32),
        ("layer_end", C.c_int32),
        ("cut", mnem_cut),
        ("rows", mnem_row_part),
        ("link", mnem_comm_link),
        ("on_experts", mnem_on_experts),
        ("on_experts_context", C.c_void_p),
        ("scheduler_bytes", mnem_bytes_of_context),
        ("scheduler_context", C.c_void_p),
        ("shares_reserve", C.c_bool),
        ("budget_bytes", C.c_uint64),
        ("name", C.c_char_p),
        ("team", C.POINTER(mnem_team)),
        ("draft", C.c_int32),
        ("draft_wanted", C.c_int32),
    ]

class mnem_plan_line(C.Structure):
    _fields_ = [
        ("kind", mnem_kind),
        ("tag", C.c_char * 32),
        ("bytes", C.c_uint64),
    ]

mnem_knob_kind = C.c_int
class mnem_knob(C.Structure):
    _fields_ = [
        ("kind", mnem_knob_kind),
        ("value", C.c_int64),
    ]

class mnem_engine_plan(C.Structure):
    _fields_ = [
        ("context", C.c_int32),
        ("threads", C.c_int32),
        ("chunk", C.c_int32),
        ("logits_rows", C.c_int32),
        ("sequences", C.c_int32),
        ("draft", C.c_int32),
        ("pages", C.c_int32),
        ("states", C.c_int32),
        ("snapshots", C.c_int32),
        ("snapshot_tokens", C.c_int32),
        ("page_tokens", C.c_int32),
        ("page_bytes", C.c_uint64),
        ("kv", mnem_kv_choice),
        ("streamed", C.c_bool),
        ("embedding_resident", C.c_bool),
        ("layers", C.c_int32),
        ("layers_resident", C.c_int32),
        ("layer_begin", C.c_int32),
        ("layer_end", C.c_int32),
        ("rows", mnem_row_part),
        ("matrices", C.c_int32),
        ("matrices_resident", C.c_int32),
        ("weight_bytes", C.c_uint64),
        ("weight_bytes_resident", C.c_uint64),
        ("matrices_sparse", C.c_int32),
        ("matrices_compact", C.c_int32),
        ("matrices_dense", C.c_int32),
        ("sparse_saved_bytes", C.c_uint64),
        ("bytes_streamed_per_pass", C.c_uint64),
        ("residency_order", C.c_int32),
        ("expert_slots", C.c_int32),
        ("experts", C.c_int32),
        ("expert_hit_rate", C.c_double),
        ("expert_bytes_per_token", C.c_uint64),
        ("ring_slots", C.c_int32),
        ("ring_slot_bytes", C.c_uint64),
        ("direct_io", C.c_bool),
        ("budget_bytes", C.c_uint64),
        ("peak_bytes", C.c_uint64),
        ("lines", C.c_uint),
        ("line", mnem_plan_line * 40),
        ("why", C.c_char * 256),
        ("smaller_bytes", C.c_uint64),
        ("larger_bytes", C.c_uint64),
        ("smaller_speed", C.c_double),
        ("larger_speed", C.c_double),
        ("smaller", C.c_char * 160),
        ("larger", C.c_char * 160),
        ("predicted_prompt", C.c_double),
        ("predicted_generate", C.c_double),
        ("predicted_together", C.c_double),
        ("together", C.c_int32),
        ("part_by_work", C.c_bool),
        ("part_token_seconds", C.c_double),
        ("part_chunk_seconds", C.c_double),
        ("part_together_seconds", C.c_double),
        ("part_token_sent", C.c_uint64),
        ("part_chunk_sent", C.c_uint64),
        ("ranks_token_seconds", C.c_double),
        ("ranks_chunk_seconds", C.c_double),
        ("predicted_seconds", C.c_double),
        ("context_fixed", C.c_int32),
        ("wanted_bytes", C.c_uint64),
        ("needed_bytes", C.c_uint64),
        ("knob", mnem_knob),
        ("needed_rank", C.c_int32),
    ]

class mnem_engine(C.Structure):
    pass

class mnem_sequence(C.Structure):
    pass

class mnem_step_part(C.Structure):
    _fields_ = [
        ("sequence", C.POINTER(mnem_sequence)),
        ("ids", C.POINTER(C.c_int32)),
        ("n", C.c_int32),
        ("first_logits", C.c_int32),
    ]

mnem_on_step_logits = C.CFUNCTYPE(C.c_bool, C.c_void_p, C.c_int32, C.c_int32, C.POINTER(C.c_float))
class mnem_embed_text(C.Structure):
    _fields_ = [
        ("ids", C.POINTER(C.c_int32)),
        ("n", C.c_int32),
    ]

class mnem_embed_options(C.Structure):
    _fields_ = [
        ("pooling", mnem_pooling),
        ("raw", C.c_bool),
        ("adapter_scales", C.POINTER(C.c_float)),
    ]

class mnem_draft(C.Structure):
    pass

class mnem_token_run(C.Structure):
    _fields_ = [
        ("sequence", C.POINTER(mnem_sequence)),
        ("sampler", C.POINTER(mnem_sampler)),
        ("last", C.c_int32),
        ("tokenizer", C.POINTER(mnem_tokenizer)),
        ("ends", C.POINTER(C.c_int32)),
        ("end_count", C.c_int32),
        ("seconds", C.c_double),
        ("draft", C.POINTER(mnem_draft)),
    ]

class mnem_saved(C.Structure):
    _fields_ = [
        ("fd", C.c_int),
        ("offset", C.c_uint64),
        ("bytes", C.c_uint64),
        ("from", C.c_int32),
        ("length", C.c_int32),
        ("ready", C.c_int32),
        ("states", C.c_int32),
        ("first_window", C.c_int32),
        ("ids_checksum", C.c_uint64),
        ("choice", C.c_uint64),
    ]

class mnem_engine_stats(C.Structure):
    _fields_ = [
        ("tokens", C.c_uint64),
        ("passes", C.c_uint64),
        ("bytes_streamed", C.c_uint64),
        ("expert_hits", C.c_uint64),
        ("expert_misses", C.c_uint64),
        ("expert_guesses", C.c_uint64),
        ("expert_guessed", C.c_uint64),
        ("seconds_eval", C.c_double),
        ("seconds_waiting", C.c_double),
        ("pages_used", C.c_uint64),
        ("pages", C.c_uint64),
    ]

FUNCTIONS = {
    "mnem_version": (C.c_char_p, []),
    "mnem_last_error": (C.c_char_p, []),
    "mnem_status_text": (C.c_char_p, [mnem_status]),
    "mnem_size_parse": (mnem_status, [C.c_char_p, C.POINTER(C.c_uint64)]),
    "mnem_size_format": (C.c_char_p, [C.c_uint64, C.c_char_p, C.c_size_t]),
    "mnem_size_budget": (C.c_char_p, [C.c_uint64, C.c_char_p, C.c_size_t]),
    "mnem_ledger_create_process": (mnem_status, [C.POINTER(mnem_ledger_options), C.POINTER(C.POINTER(mnem_ledger))]),
    "mnem_ledger_destroy": (mnem_status, [C.POINTER(mnem_ledger)]),
    "mnem_ledger_budget_set": (mnem_status, [C.POINTER(mnem_ledger), C.c_uint64]),
    "mnem_ledger_info_get": (None, [C.POINTER(mnem_ledger), C.POINTER(mnem_ledger_info)]),
    "mnem_ledger_charge": (mnem_status, [C.POINTER(mnem_ledger), mnem_kind, C.c_char_p, C.c_uint64]),
    "mnem_ledger_release": (None, [C.POINTER(mnem_ledger), mnem_kind, C.c_char_p, C.c_uint64]),
    "mnem_ledger_account_get": (C.c_bool, [C.POINTER(mnem_ledger), C.c_uint, C.POINTER(mnem_account_info)]),
    "mnem_kind_text": (C.c_char_p, [mnem_kind]),
    "mnem_model_open": (mnem_status, [C.c_char_p, C.POINTER(C.POINTER(mnem_model))]),
    "mnem_model_close": (None, [C.POINTER(mnem_model)]),
    "mnem_model_transformer": (mnem_status, [C.POINTER(mnem_model), C.POINTER(mnem_transformer)]),
    "mnem_model_key_find": (C.c_bool, [C.POINTER(mnem_model), C.c_char_p, C.POINTER(mnem_value)]),
    "mnem_model_key_get": (C.c_bool, [C.POINTER(mnem_model), C.c_uint32, C.POINTER(mnem_text), C.POINTER(mnem_value)]),
    "mnem_adapter_open": (mnem_status, [C.c_char_p, C.POINTER(mnem_model), C.POINTER(C.POINTER(mnem_model))]),
    "mnem_tokenizer_create": (mnem_status, [C.POINTER(mnem_model), C.POINTER(C.POINTER(mnem_tokenizer))]),
    "mnem_tokenizer_destroy": (None, [C.POINTER(mnem_tokenizer)]),
    "mnem_tokenizer_info_get": (None, [C.POINTER(mnem_tokenizer), C.POINTER(mnem_tokenizer_info)]),
    "mnem_tokenizer_encode": (mnem_status, [C.POINTER(mnem_tokenizer), C.c_char_p, C.c_size_t, C.c_uint, C.POINTER(C.POINTER(C.c_int32)), C.POINTER(C.c_size_t)]),
    "mnem_tokenizer_piece": (mnem_text, [C.POINTER(mnem_tokenizer), C.c_int32, C.c_bool]),
    "mnem_tokenizer_is_end": (C.c_bool, [C.POINTER(mnem_tokenizer), C.c_int32]),
    "mnem_tokenizer_chat_format": (mnem_chat_format, [C.POINTER(mnem_tokenizer)]),
    "mnem_chat_format_template": (C.c_char_p, [mnem_chat_format]),
    "mnem_template_open": (mnem_status, [C.c_char_p, C.c_size_t, C.POINTER(mnem_template_options), C.POINTER(C.POINTER(mnem_template))]),
    "mnem_template_close": (None, [C.POINTER(mnem_template)]),
    "mnem_template_encode": (mnem_status, [C.POINTER(mnem_template), C.POINTER(mnem_tokenizer), C.POINTER(mnem_template_input), C.POINTER(C.POINTER(C.c_int32)), C.POINTER(C.c_size_t)]),
    "mnem_template_render": (mnem_status, [C.POINTER(mnem_template), C.POINTER(mnem_template_input), C.POINTER(mnem_text)]),
    "mnem_dry_breakers_size": (C.c_int32, [C.POINTER(C.c_char_p), C.c_int32]),
    "mnem_dry_breakers_init": (mnem_status, [C.POINTER(mnem_tokenizer), C.POINTER(C.c_char_p), C.c_int32, C.POINTER(C.c_int32), C.c_int32, C.POINTER(mnem_dry_breakers)]),
    "mnem_sampler_usual": (mnem_sampler_options, []),
    "mnem_sampler_create": (mnem_status, [C.POINTER(mnem_sampler_options), C.c_int32, C.POINTER(C.POINTER(mnem_sampler))]),
    "mnem_sampler_destroy": (None, [C.POINTER(mnem_sampler)]),
    "mnem_sampler_accept": (None, [C.POINTER(mnem_sampler), C.c_int32]),
    "mnem_sampler_accept_chosen": (None, [C.POINTER(mnem_sampler), C.c_int32]),
    "mnem_sampler_choose": (C.c_int32, [C.POINTER(mnem_sampler), C.POINTER(C.c_float)]),
    "mnem_logprobs_get": (C.c_float, [C.POINTER(C.c_float), C.c_int32, C.c_int32, C.POINTER(mnem_token_logprob), C.c_int32]),
    "mnem_token_set_create": (mnem_status, [C.POINTER(mnem_tokenizer), C.c_int32, C.POINTER(C.POINTER(mnem_token_set))]),
    "mnem_token_set_destroy": (None, [C.POINTER(mnem_token_set)]),
    "mnem_grammar_create": (mnem_status, [C.POINTER(mnem_token_set), C.c_char_p, C.c_size_t, C.POINTER(mnem_grammar_options), C.POINTER(C.POINTER(mnem_grammar))]),
    "mnem_grammar_create_schema": (mnem_status, [C.POINTER(mnem_token_set), C.c_char_p, C.c_size_t, C.POINTER(mnem_grammar_options), C.POINTER(C.POINTER(mnem_grammar))]),
    "mnem_grammar_create_with": (mnem_status, [C.POINTER(mnem_token_set), C.c_char_p, C.c_size_t, C.POINTER(mnem_grammar_part), C.c_uint32, C.POINTER(mnem_grammar_options), C.POINTER(C.POINTER(mnem_grammar))]),
    "mnem_grammar_destroy": (None, [C.POINTER(mnem_grammar)]),
    "mnem_match_create": (mnem_status, [C.POINTER(mnem_grammar), C.POINTER(C.POINTER(mnem_match))]),
    "mnem_match_destroy": (None, [C.POINTER(mnem_match)]),
    "mnem_match_accept": (mnem_status, [C.POINTER(mnem_match), C.c_int32]),
    "mnem_match_choose": (mnem_status, [C.POINTER(mnem_match), C.POINTER(mnem_sampler), C.POINTER(C.c_float), C.POINTER(C.c_int32)]),
    "mnem_match_is_done": (C.c_bool, [C.POINTER(mnem_match)]),
    "mnem_kv_text": (C.c_char_p, [mnem_kv_choice]),
    "mnem_kv_parse": (mnem_status, [C.c_char_p, C.POINTER(mnem_kv_choice)]),
    "mnem_engine_plan_make": (mnem_status, [C.POINTER(mnem_model), C.POINTER(mnem_engine_options), C.POINTER(mnem_engine_plan)]),
    "mnem_engine_create": (mnem_status, [C.POINTER(mnem_model), C.POINTER(mnem_engine_options), C.POINTER(mnem_engine_plan), C.POINTER(C.POINTER(mnem_engine))]),
    "mnem_engine_destroy": (None, [C.POINTER(mnem_engine)]),
    "mnem_engine_cancel": (None, [C.POINTER(mnem_engine)]),
    "mnem_engine_step": (mnem_status, [C.POINTER(mnem_engine), C.POINTER(mnem_step_part), C.c_int32, mnem_on_step_logits, C.c_void_p]),
    "mnem_engine_embed": (mnem_status, [C.POINTER(mnem_engine), C.POINTER(mnem_embed_text), C.c_int32, C.POINTER(mnem_embed_options), C.POINTER(C.c_float)]),
    "mnem_sequence_create": (mnem_status, [C.POINTER(mnem_engine), C.POINTER(C.POINTER(mnem_sequence))]),
    "mnem_sequence_destroy": (None, [C.POINTER(mnem_sequence)]),
    "mnem_sequence_length": (C.c_int32, [C.POINTER(mnem_sequence)]),
    "mnem_sequence_continue": (mnem_status, [C.POINTER(mnem_engine), C.POINTER(mnem_token_run), C.POINTER(C.c_int32), C.c_int32, C.POINTER(C.c_int32)]),
    "mnem_sequence_truncate": (mnem_status, [C.POINTER(mnem_sequence), C.c_int32]),
    "mnem_sequence_fork": (mnem_status, [C.POINTER(mnem_sequence), C.c_int32, C.POINTER(C.POINTER(mnem_sequence))]),
    "mnem_sequence_snapshots_at_turns": (None, [C.POINTER(mnem_sequence), C.POINTER(mnem_tokenizer), C.POINTER(C.c_int32), C.c_int32, C.POINTER(C.c_int32), C.c_int32]),
    "mnem_sequence_save": (mnem_status, [C.POINTER(mnem_sequence), C.POINTER(C.c_int32), C.c_int32, C.c_int, C.c_uint64]),
    "mnem_saved_open": (mnem_status, [C.POINTER(mnem_engine), C.c_int, C.c_uint64, C.POINTER(mnem_saved)]),
    "mnem_saved_ids": (mnem_status, [C.POINTER(mnem_saved), C.POINTER(C.c_int32)]),
    "mnem_sequence_load": (mnem_status, [C.POINTER(mnem_sequence), C.POINTER(mnem_saved), C.c_int32]),
    "mnem_engine_stats_get": (None, [C.POINTER(mnem_engine), C.POINTER(mnem_engine_stats)]),
}
STRUCTS = [mnem_ledger_options, mnem_ledger_info, mnem_account_info, mnem_rope, mnem_layer_schedule, mnem_route, mnem_row_range, mnem_row_part, mnem_transformer, mnem_value_3, mnem_text, mnem_value, mnem_tokenizer_info, mnem_template_options, mnem_template_input, mnem_dry_breakers, mnem_logit_bias, mnem_sampler_options, mnem_token_logprob, mnem_grammar_options, mnem_grammar_part, mnem_machine_profile, mnem_adapter, mnem_progress, mnem_comm_link, mnem_engine_options, mnem_plan_line, mnem_knob, mnem_engine_plan, mnem_step_part, mnem_embed_text, mnem_embed_options, mnem_token_run, mnem_saved, mnem_engine_stats]
