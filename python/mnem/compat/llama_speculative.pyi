from typing import Any

class LlamaDraftModel:
    def __call__(self, input_ids: Any, /, **kwargs: Any) -> Any: ...

class LlamaPromptLookupDecoding(LlamaDraftModel):
    max_ngram_size: int
    num_pred_tokens: int
    def __init__(self, max_ngram_size: int = 2, num_pred_tokens: int = 10) -> None: ...
    @staticmethod
    def find_candidate_pred_tokens(input_ids: Any, max_ngram_size: int, num_pred_tokens: int) -> Any: ...
