"""Tasks of lm-evaluation-harness in local files: whole documents, pairs of sentences, texts to be generated."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TASKS = ("documents", "pairs", "texts")
_METRICS = {
    "documents": ("loglikelihood_rolling", ["word_perplexity", "byte_perplexity", "bits_per_byte"]),
    "pairs": ("multiple_choice", ["acc"]),
    "texts": ("generate_until", ["exact_match"]),
}
_FIELDS = {
    "documents": 'doc_to_text: ""\ndoc_to_target: "{{text}}"\n',
    "pairs": 'doc_to_text: "{{context}}"\ndoc_to_choice: "{{[good, bad]}}"\ndoc_to_target: 0\ntarget_delimiter: ""\n',
    "texts": (
        'doc_to_text: "{{prompt}}"\ndoc_to_target: "{{answer}}"\ntarget_delimiter: ""\n'
        'generation_kwargs:\n  until: ["\\n"]\n  max_gen_toks: 12\n  do_sample: false\n'
    ),
}


@dataclass(frozen=True)
class Questions:
    """What a model is asked: documents, (context, good, bad) and (prompt, answer)."""

    documents: Sequence[str]
    pairs: Sequence[tuple[str, str, str]]
    texts: Sequence[tuple[str, str]]

    def write(self, folder: Path) -> Path:
        """The three tasks as YAML and JSON files in a folder, which `--include_path` takes."""
        folder.mkdir(parents=True)
        rows: dict[str, list[dict[str, str]]] = {
            "documents": [{"text": text} for text in self.documents],
            "pairs": [dict(zip(("context", "good", "bad"), one, strict=True)) for one in self.pairs],
            "texts": [dict(zip(("prompt", "answer"), one, strict=True)) for one in self.texts],
        }
        for name in TASKS:
            data = folder / f"{name}.json"
            data.write_text(json.dumps(rows[name]))
            kind, metrics = _METRICS[name]
            (folder / f"{name}.yaml").write_text(
                f"task: {name}\ndataset_path: json\ndataset_kwargs:\n  data_files:\n    test: {data}\n"
                f"output_type: {kind}\ntest_split: test\n{_FIELDS[name]}metric_list:\n"
                + "".join(f"  - metric: {metric}\n" for metric in metrics)
            )
        return folder
