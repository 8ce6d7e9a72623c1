"""A small `tokenizer.json` with one token per word or sign."""

from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, processors


def a_tokenizer_file(path: Path, *words: str) -> Path:
    """Write a tokenizer that truncates, pads and adds two tokens."""
    vocabulary = {word: number for number, word in enumerate(("[UNK]", "[CLS]", "[SEP]", *words))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=4)
    tokenizer.save(str(path))
    return path
