"""ARPA files as trained models: the words of the file become a tokenizer."""

from __future__ import annotations

from pathlib import Path

from thereafter.errors import FormatError, OptionError
from thereafter.ngram import arpa
from thereafter.ngram.model import NgramModel
from thereafter.runs.folder import FORMAT
from thereafter.text.tokenizers import TOKENIZERS
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.text.vocabulary import Vocabulary
from thereafter.training.kinds import Trained

READABLE = ("word", "prose", "char")


def read(path: Path, tokens: str = "word") -> Trained:
    """The model in an ARPA file."""
    if tokens not in READABLE:
        raise OptionError(f"tokens is {tokens!r}; an ARPA file can be read as {', '.join(READABLE)}")
    model, spelled = arpa.read_arpa(path, escaped=tokens != "word")
    kind: type[Tokenizer] = TOKENIZERS.load(tokens)
    try:
        forms = [form.decode("utf-8") for form in spelled]
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path}: a word is not UTF-8 ({error.reason}); try converting the file with iconv"
        ) from error
    if tokens == "word" and model.line_end is None:
        raise FormatError(
            f"{path} has no </s> among its 1-grams: it is no model of lines of words; "
            "try tokens='prose' or 'char' (--tokens) if it was written from such a model"
        )
    tokenizer = kind(Vocabulary(forms))
    stranger = next((form for form in tokenizer.ordinary_forms if not kind.is_form(form)), None)
    if stranger is not None:
        raise FormatError(f"{path}: {stranger!r} is no {tokens} token; try tokens='word' (--tokens word)")
    config = {
        "format": FORMAT,
        "model": "ngram",
        "source": {"name": path.name, "part": path.name, "detail": "ARPA file"},
        "text": {"tokens": tokens, "context": model.context, "lower": False, "letters_only": False},
        "ngram": {"order": model.order, "smoothing": "arpa"},
    }
    line = {"event": "read", "ngrams": model.tables.sizes(), "table_bytes": model.tables.nbytes, "notes": model.notes}
    return Trained(model, tokenizer, config, [line])


def write(trained: Trained, path: Path) -> Path:
    """Write a trained n-gram model; anything else has no ARPA form."""
    model, own = trained.model, trained.tokenizer
    if not isinstance(model, NgramModel):
        raise OptionError(f"a model of kind {trained.config['model']!r} cannot be written as ARPA; only n-grams can")
    if model.context != own.context:
        raise OptionError(
            f"this {own.name} model has the context {model.context!r}, which an ARPA file cannot say: its readers "
            f"take {own.context!r}; try training without context="
        )
    if own.name == "byte":
        forms = [bytes([value]) for value in range(256)]
    else:
        forms = [form.encode("utf-8") for form in own.vocabulary.forms]
    return arpa.write_arpa(model, forms, path, escaped=own.name != "word")
