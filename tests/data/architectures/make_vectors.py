#!/usr/bin/env python3
"""Tiny random models of every dense family, and what `transformers` makes of a text.

    make_vectors.py LLAMA_CPP [NAME ...]

Needs torch and transformers, and a source tree of llama.cpp, whose converter writes the files; its
check of known tokenizers is overridden, since the vocabulary means nothing here. For each model,
beside this script: NAME.gguf (F32) and NAME.logits: two int32 (rows, vocabulary), then for every
fifth of 200 tokens the logits in f32. Token i is (7 i i + 13 i + 5) mod 96.

Weights are rounded to bf16 (they are stored as f32), which halves what they take in archives."""
import json
import struct
import sys
import tempfile
from pathlib import Path

import torch
import transformers

HERE = Path(__file__).resolve().parent
VOCAB, TOKENS, EVERY = 96, 200, 5
SHAPE = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=40, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
             bos_token_id=0, eos_token_id=0, pad_token_id=0, attn_implementation="eager")
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64)
LONG = dict(rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=64,
            long_factor=[1.0, 1.5, 2.5, 4.0], short_factor=[1.0, 1.1, 1.2, 1.3])
GLM = dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)
MINISTRAL = dict(YARN, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1, beta_fast=32.0,
                 beta_slow=1.0, original_max_position_embeddings=64, max_position_embeddings=256)
GEMMA3 = dict(full_attention=dict(rope_type="default", rope_theta=1000000.0),
              sliding_attention=dict(rope_type="default", rope_theta=10000.0))

# name: (config's class, what differs from SHAPE)
MODELS = {
    "llama": ("LlamaConfig", dict(tie_word_embeddings=False)),
    "llama_tied": ("LlamaConfig", dict(tie_word_embeddings=True, head_dim=16,
                                       num_key_value_heads=1)),
    "llama_bias": ("LlamaConfig", dict(attention_bias=True, num_key_value_heads=4)),
    "llama_linear": ("LlamaConfig", dict(rope_parameters=dict(
        rope_type="linear", rope_theta=10000.0, factor=4.0))),
    "llama_llama3": ("LlamaConfig", dict(rope_parameters=LLAMA3)),
    "llama_yarn": ("LlamaConfig", dict(rope_parameters=YARN)),
    "mistral": ("MistralConfig", dict(head_dim=16, sliding_window=None)),
    "granite": ("GraniteConfig", dict(embedding_multiplier=6.0, residual_multiplier=0.4,
                                      attention_multiplier=0.25, logits_scaling=3.0)),
    "smollm3": ("SmolLM3Config", dict(num_hidden_layers=4, tie_word_embeddings=True)),
    "mistral3": ("Ministral3Config", dict(head_dim=16, rope_parameters=MINISTRAL)),
    "qwen2": ("Qwen2Config", dict(tie_word_embeddings=True)),
    "qwen3": ("Qwen3Config", dict(head_dim=16)),
    "olmo2": ("Olmo2Config", dict()),
    "olmo3": ("Olmo3Config", dict(num_hidden_layers=4, sliding_window=24, rope_parameters=YARN)),
    "starcoder2": ("Starcoder2Config", dict(use_bias=True, sliding_window=None)),
    "phi3": ("Phi3Config", dict(sliding_window=None)),
    "phi3_long": ("Phi3Config", dict(original_max_position_embeddings=64, rope_parameters=LONG)),
    "phi3_window": ("Phi3Config", dict(sliding_window=24, num_key_value_heads=4)),
    "gemma2": ("Gemma2Config", dict(head_dim=16, sliding_window=24, query_pre_attn_scalar=16,
                                    attn_logit_softcapping=5.0, final_logit_softcapping=3.0)),
    "gemma3": ("Gemma3TextConfig", dict(head_dim=8, sliding_window=24, query_pre_attn_scalar=8,
                                        num_hidden_layers=6, rope_parameters=GEMMA3)),
    "glm4": ("Glm4Config", dict(head_dim=16, rope_parameters=GLM, attention_bias=True)),
}


def randomize(model, gemma):
    """Weights that make attention sharp and every tensor matter."""
    for name, p in model.named_parameters():
        if p.dim() == 2:
            scale = 1.0 if "embed" in name else 1.5 / p.shape[1] ** 0.5
            p.data = torch.randn_like(p) * scale
        elif "bias" in name:
            p.data = torch.randn_like(p) * 0.3
        else:
            p.data = torch.randn_like(p) * 0.2 + (0.0 if gemma else 1.0)
        p.data = p.data.bfloat16().float()


def write_vocabulary(self):
    tokens = [chr(33 + i) for i in range(94)] + ["\u0120", "\u010a"]
    self.gguf_writer.add_tokenizer_model("gpt2")
    self.gguf_writer.add_tokenizer_pre("gpt-2")
    self.gguf_writer.add_token_list(tokens)
    self.gguf_writer.add_token_types([1] * VOCAB)
    self.gguf_writer.add_token_merges(["! !"])
    self.gguf_writer.add_bos_token_id(0)
    self.gguf_writer.add_eos_token_id(0)


def convert(converter, folder, out):
    found = converter.get_model_class

    def patched(*args, **kwargs):
        cls = found(*args, **kwargs)
        for c in cls.__mro__ + tuple(v for v in vars(cls).values() if isinstance(v, type)):
            if "set_vocab" in vars(c) or c is cls:
                c.set_vocab = write_vocabulary
        if "Ministral3Model" in vars(cls):
            cls.Ministral3Model.set_vocab = write_vocabulary
            cls.set_vocab = lambda self: self.impl.set_vocab()
        return cls

    converter.get_model_class = patched
    sys.argv = ["convert", str(folder), "--outtype", "f32", "--outfile", str(out)]
    converter.main()
    converter.get_model_class = found


def make(converter, name):
    kind, changes = MODELS[name]
    torch.manual_seed(sum(name.encode()))
    config = getattr(transformers, kind)(**{**SHAPE, **changes})
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    randomize(model, name.startswith("gemma"))
    model.tie_weights()
    ids = torch.tensor([[(7 * i * i + 13 * i + 5) % VOCAB for i in range(TOKENS)]])
    with torch.no_grad():
        logits = model(ids).logits[0].float().numpy()[EVERY - 1::EVERY]
    with open(HERE / f"{name}.logits", "wb") as f:
        f.write(struct.pack("<ii", *logits.shape))
        f.write(logits.astype("<f4").tobytes())
    with tempfile.TemporaryDirectory() as parent:
        folder = parent + "/tiny"  # the converter makes the model's name of it
        model.save_pretrained(folder)
        vocab = {str(i): i for i in range(VOCAB)}
        (Path(folder) / "tokenizer.json").write_text(
            json.dumps(dict(model=dict(vocab=vocab), added_tokens=[])))
        convert(converter, folder, HERE / f"{name}.gguf")


def main():
    llama_cpp, names = sys.argv[1], sys.argv[2:]
    sys.path[:0] = [llama_cpp, llama_cpp + "/gguf-py"]
    import convert_hf_to_gguf
    for name in names or MODELS:
        make(convert_hf_to_gguf, name)


main()
