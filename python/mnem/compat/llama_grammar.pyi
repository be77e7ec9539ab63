from os import PathLike
from typing import Union

class LlamaGrammar:
    @classmethod
    def from_string(cls, grammar: str, verbose: bool = True) -> LlamaGrammar: ...
    @classmethod
    def from_file(cls, file: Union[str, PathLike[str]], verbose: bool = True) -> LlamaGrammar: ...
    @classmethod
    def from_json_schema(cls, json_schema: str, verbose: bool = True) -> LlamaGrammar: ...
