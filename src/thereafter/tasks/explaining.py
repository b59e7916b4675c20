"""Explained answers: how likely each choice was, and which words mattered.

What the method `explain` of a task gives (`shown.Explained`): it can be read as text and as JSON.
"""

from __future__ import annotations

from dataclasses import dataclass

from thereafter.base.config import Table

_BAR = 20  # characters of the longest bar


@dataclass(frozen=True)
class LabelExplained:
    """A label, the probability of all labels (the likeliest first), and how much each word supports the label.

    `evidence` is the gradient of the label's score in a word's vector, times that vector: above 0 the word supports
    the label, below 0 it speaks against it. `weights`: the share of each word in the pooled vector; they sum to 1.
    """

    label: str
    probabilities: dict[str, float]
    words: tuple[str, ...]
    evidence: tuple[float, ...]
    weights: tuple[float, ...]

    def as_dict(self) -> Table:
        """Plain JSON values."""
        listed = zip(self.words, self.evidence, self.weights, strict=True)
        return {
            "label": self.label,
            "probabilities": self.probabilities,
            "words": [{"word": word, "evidence": evidence, "weight": weight} for word, evidence, weight in listed],
        }

    def __str__(self) -> str:
        most = max(map(abs, self.evidence), default=0.0)
        width = max(map(len, self.words), default=0)
        lines = [", ".join(f"{label} {_percent(p)}" for label, p in self.probabilities.items())]
        for word, evidence in zip(self.words, self.evidence, strict=True):
            bar = ("+" if evidence > 0 else "-") * (round(_BAR * abs(evidence) / most) if most else 0)
            lines.append(f"  {word:<{width}} {evidence:+8.3f} {bar}".rstrip())
        return "\n".join(lines)


@dataclass(frozen=True)
class TagsExplained:
    """The tag of each word, with the probabilities of its likeliest tags (of a CRF its marginals).

    `known`: whether training met the word often enough to learn it; of any other word only its characters are read.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    likeliest: tuple[tuple[tuple[str, float], ...], ...]
    known: tuple[bool, ...]

    def as_dict(self) -> Table:
        """Plain JSON values."""
        listed = zip(self.words, self.tags, self.likeliest, self.known, strict=True)
        return {
            "words": [
                {"word": word, "tag": tag, "likeliest": [[name, p] for name, p in best], "known": known}
                for word, tag, best, known in listed
            ]
        }

    def __str__(self) -> str:
        width, tag_width = max(map(len, self.words)), max(map(len, self.tags))
        return "\n".join(
            f"  {word:<{width}} {tag:<{tag_width}}  {', '.join(f'{name} {_percent(p)}' for name, p in best)}"
            + ("" if known else "  (unknown word)")
            for word, tag, best, known in zip(self.words, self.tags, self.likeliest, self.known, strict=True)
        )


def _percent(p: float) -> str:
    return f"{p:.1%}".replace("%", " %")
