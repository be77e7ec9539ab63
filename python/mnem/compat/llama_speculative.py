"""Draft models: accepted, and not asked, because they change the speed of llama.cpp and not its text."""


class LlamaDraftModel:
    def __call__(self, input_ids, /, **kwargs):
        raise NotImplementedError


class LlamaPromptLookupDecoding(LlamaDraftModel):
    """Proposes what followed the last tokens where they stood before."""

    def __init__(self, max_ngram_size=2, num_pred_tokens=10):
        self.max_ngram_size, self.num_pred_tokens = max_ngram_size, num_pred_tokens

    @staticmethod
    def find_candidate_pred_tokens(input_ids, max_ngram_size, num_pred_tokens):
        ids = list(input_ids)
        for size in range(min(max_ngram_size, len(ids) - 1), 0, -1):
            for at in range(len(ids) - size):
                if ids[at:at + size] == ids[-size:]:
                    return input_ids[at + size:at + size + num_pred_tokens]
        return input_ids[:0]

    def __call__(self, input_ids, /, **kwargs):
        return self.find_candidate_pred_tokens(input_ids, self.max_ngram_size, self.num_pred_tokens)
