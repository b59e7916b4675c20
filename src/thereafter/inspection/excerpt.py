"""The beginning of a text as a model's token ids: what an instrument that looks at a few hundred tokens reads."""

from __future__ import annotations

from thereafter.errors import EmptyCorpusError, SourceError
from thereafter.models.base import Ids
from thereafter.text.form import Forming
from thereafter.text.sources import Source, Texts, resolve
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.text.writing import WritingForm, in_style

CHARACTERS = 60_000
PARTS = ("test", "valid", "text")


def excerpt(
    tokenizer: Tokenizer,
    *,
    text: str | None = None,
    source: str | None = None,
    lower: bool = False,
    letters_only: bool = False,
    writing: WritingForm | None = None,
    forming: Forming | None = None,
    characters: int = CHARACTERS,
) -> tuple[Ids, str]:
    """Ids of a text, or of the first `characters` of a source (of a corpus its test part), and its name for a caption.

    `lower`, `letters_only` and `forming` as the model's own text was read, `writing` as it was written.
    """
    if text is not None and source is None:
        given = Source.of_text(text, lower=lower, letters_only=letters_only)
        chosen, caption = in_style(Texts(given.name, {"text": given}), given, writing), _short(text)
    elif source is None or text is not None:
        got = "neither" if source is None else "both"
        raise SourceError(f"got {got} of a text and a source; expected one; try --text 'the cat sat on the mat'")
    else:
        texts = resolve(source, lower=lower, letters_only=letters_only, forming=forming)
        part = next((name for name in PARTS if name in texts.parts), next(iter(texts.parts)))
        chosen = in_style(texts, texts.parts[part], writing)
        caption = f"{texts.name}, {part} part" if part != "text" else texts.name
    read = ""
    for chunk in chosen.chunks():
        read += chunk
        if len(read) >= characters:
            break
    ids = tokenizer.encode(read[:characters])
    if not len(ids):
        raise EmptyCorpusError(f"{caption} has no tokens; expected at least a few words")
    return ids, caption


def _short(text: str) -> str:
    """A text as it is named in a caption.

    >>> _short("the cat sat on the mat and slept until the evening came")
    'the text "the cat sat on the mat and slept until ..."'
    """
    line = " ".join(text.split())
    return f'the text "{line}"' if len(line) <= 40 else f'the text "{line[:40].rsplit(" ", 1)[0]} ..."'
