"""What pieces are learned from: the whole text, or groups spread evenly over a long one, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from thereafter.text.tokenizers.base import byte_length
from thereafter.text.tokenizers.prose import prose_forms

# Learning keeps every distinct form in memory, about 60 bytes for each of its bytes. These bounds hold it near
# 200 MB, far above what a few thousand pieces need to be estimated well.
SAMPLE_CHARS = 32_000_000
DISTINCT_BYTES = 3_000_000
_LEARNED_RUN = 100
# The library reads 256 lessons ahead, and needs some hundred bytes for each character of those it works on.
LESSON = 1 << 14


class Lessons:
    """An iterable of lists of texts for the `tokenizers` library.

    The library iterates in its own threads, so an error is kept for the caller to raise. When the distinct forms
    reach their bound, later groups still count the forms already seen.
    """

    def __init__(self, groups: Iterable[str], total: int, advance: Callable[[float], None]) -> None:
        self._groups = groups
        self._share = min(1.0, SAMPLE_CHARS / max(1, total))
        self._advance = advance
        self.failure: Exception | None = None

    def __iter__(self) -> Iterator[list[str]]:
        try:
            yield from self._lists()
        except Exception as failure:
            self.failure = failure

    def _lists(self) -> Iterator[list[str]]:
        met: set[str] = set()
        distinct = passed = taken = 0
        for group in self._groups:
            passed += len(group)
            if taken > self._share * passed:
                continue
            taken += len(group)
            forms = cut_long(prose_forms(group), len(group), _LEARNED_RUN)
            for form in dict.fromkeys(forms):
                if distinct < DISTINCT_BYTES and form not in met:
                    distinct += byte_length(form)
                    met.add(form)
            if distinct < DISTINCT_BYTES and len(max(forms, key=len)) < _LEARNED_RUN:
                yield [group]  # the library splits a text by the same pattern, faster than it takes a list
            else:
                yield [form for form in forms if form in met]
            self._advance(len(group))


def cut_long(forms: list[str], chars: int, longest: int) -> list[str]:
    """The forms, those of more than `longest` characters cut at fixed places; together they have `chars`.

    >>> cut_long(["so", "long"], 6, 3)
    ['so', 'lon', 'g']
    """
    if chars <= longest or len(max(forms, key=len, default="")) <= longest:
        return forms
    return [form[start : start + longest] for form in forms for start in range(0, len(form), longest)]
