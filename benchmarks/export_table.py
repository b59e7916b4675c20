"""Every kind of model and every network of a task, exported to every target: how far each file is off, or why there is
none. `python benchmarks/export.py --table` prints it, and with `--write docs/export.md` puts it into that page. Figures
are kept in `--cells FILE`, from which a run goes on, or several are put together.

Weights are drawn. A figure is the largest difference in log p over 1,000 steps with the state carried, of both files
where a target writes two (a step, and whole sequences 128 tokens at a time). Networks of tasks are given drawn inputs.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from thereafter.errors import ExportError, ThereafterError
from thereafter.export.check import check
from thereafter.export.html.target import InBrowser
from thereafter.export.onnx.model import model_bytes
from thereafter.export.plan import plan_of
from thereafter.export.targets import Target, target_of
from thereafter.export.task_export import check_task, graphs_of

sys.path.append(str(Path(__file__).parents[1] / "tests" / "export"))

BEGIN, END = "<!-- table of benchmarks/export_table.py -->", "<!-- end of the table -->"
NGRAMS = {"n-gram, Kneser-Ney": "modified-kneser-ney", "n-gram, add-alpha": "add-alpha"}


class Reasons:
    """Sentences under a table, each with a number."""

    def __init__(self) -> None:
        self.listed: list[str] = []

    def number(self, sentence: str) -> str:
        sentence = sentence.split("; try")[0].split("; expected")[0].removesuffix(".") + "."
        if sentence not in self.listed:
            self.listed.append(sentence)
        return f"({1 + self.listed.index(sentence)})"

    def lines(self) -> Iterator[str]:
        yield ""
        for number, sentence in enumerate(self.listed, 1):
            yield f"{number}. {sentence[0].upper()}{sentence[1:]}"


class Kept:
    """Figures by row and column, in a file where there is one."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, str] = json.loads(path.read_text()) if path is not None and path.exists() else {}

    def get(self, row: str, column: str, measure: Callable[[], str]) -> str:
        """The figure of a cell, measured where it is not known."""
        name = f"{row} | {column}"
        if name not in self._known:
            self._known[name] = measure()
            if self._path is not None:
                self._path.write_text(json.dumps(self._known, indent=1))
        return self._known[name]


def is_built(name: str) -> bool:
    """Whether a target is in this version."""
    try:
        target_of(name)
    except ThereafterError:
        return False
    return True


def table(targets: list[str], every: bool, kept: Kept) -> Iterator[str]:
    """Language models, a row each."""
    from step_models import CASES, some_ids, toy

    reasons, browser = Reasons(), list[InBrowser]()
    yield "| model | " + " | ".join(targets) + " |"
    yield "|---|" + "---|" * len(targets)
    for case in [*NGRAMS, *(case for case in CASES if every or "=" not in case)]:
        lm = counted(NGRAMS[case]) if case in NGRAMS else toy(case)
        plan = plan_of(lm)
        ids = some_ids(plan.wording.size, 1000)
        cells = [
            why_not(name, plan, reasons) or kept.get(case, name, partial(cell, name, lm, plan, ids, browser))
            for name in targets
        ]
        yield f"| {case} | " + " | ".join(cells) + " |"
    for one in browser:
        one.close()
    yield from reasons.lines()


def counted(smoothing: str) -> Any:
    """An n-gram over the characters of a small text."""
    from step_models import TEXT

    import thereafter

    return thereafter.train(text=TEXT, model="ngram", tokens="char", order=3, smoothing=smoothing).trained


def why_not(name: str, plan: Any, reasons: Reasons) -> str | None:
    """The number of the sentence that says why there is no file."""
    reason = target_of(name).refuses(plan, False)
    return None if reason is None else reasons.number(reason.replace(f"of kind {plan.kind!r}", "of this kind"))


def cell(name: str, lm: Any, plan: Any, ids: np.ndarray, browser: list[InBrowser]) -> str:
    """The largest difference of a file."""
    target = target_of(name)
    with tempfile.TemporaryDirectory() as folder:
        written = target.write(plan, Path(folder) / f"m{target.ending}", int8=False)
        if name == "html" and browser:
            browser[0].open(written.paths[0])  # one browser serves all rows
            return figure(check(lm, browser[0], ids, "").largest, target)
        runner = target.runner(plan, written)
        if runner is None:
            return "not run"
        made = figure(check(lm, runner, ids, "").largest, target)
        if isinstance(runner, InBrowser):
            browser.append(runner)
        else:
            runner.close()
        return made


def figure(largest: float, target: Target) -> str:
    """A difference, and whether an export would be refused for it."""
    tolerance = target.tolerance
    return f"{largest:.0e}" + (", refused" if tolerance is not None and largest > tolerance else "")


def task_table(kept: Kept) -> Iterator[str]:
    """Networks of tasks, a row each."""
    reasons = Reasons()
    yield "| network | onnx |"
    yield "|---|---|"
    for name, make in NETWORKS.items():
        torch.manual_seed(0)
        net = make()
        try:
            yield f"| {name} | {kept.get(name, 'onnx', partial(task_cell, net))} |"
        except ExportError as error:
            yield f"| {name} | {reasons.number(str(error))} |"
    yield from reasons.lines()


def task_cell(net: nn.Module) -> str:
    with torch.no_grad():
        for weight in net.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    made = graphs_of(net.eval())
    with tempfile.TemporaryDirectory() as folder:
        places = {name: Path(folder) / f"{name}.onnx" for name in made.graphs}
        for name, place in places.items():
            place.write_bytes(model_bytes(made.graphs[name], {}))
        return f"{check_task(made, places).largest:.0e}"


def networks() -> dict[str, Callable[[], nn.Module]]:
    """A small network of every task."""
    from thereafter.series.classifying.network import ReaderSettings, SeriesClassifier
    from thereafter.series.forecasters.network import WindowFacts
    from thereafter.series.forecasters.settings import ForecastSettings
    from thereafter.series.forecasters.solved import build_forecaster
    from thereafter.tasks import classify as classifier
    from thereafter.tasks import fill as filler
    from thereafter.tasks.tag import network as tagger
    from thereafter.tasks.translate import task as translator
    from thereafter.tasks.translate.task import RecurrentTranslator, TransformerTranslator
    from thereafter.vision.captioning import network as captioner

    facts = WindowFacts(targets=2, covariates=3, known=2, lookback=12, horizon=4, season=3, gaps=True)
    form = captioner.PictureForm("pixels", (3, 12, 9), (0.4, 0.5, 0.6), (0.2, 0.3, 0.2))

    def tagged(**options: Any) -> nn.Module:
        settings = tagger.TaggerSettings(embed=6, hidden=5, letter_embed=4, letter_hidden=3, **options)
        return tagger.Tagger(settings, words=40, letters=20, tags=5)

    def labelled(**options: Any) -> nn.Module:
        return classifier.Classifier(classifier.ClassifierSettings(embed=6, hidden=5, **options), words=40, labels=3)

    def translated(**options: Any) -> nn.Module:
        settings = translator.TranslatorSettings(embed=6, hidden=8, heads=2, layers=2, **options)
        kind = TransformerTranslator if settings.model == "transformer" else RecurrentTranslator
        return kind(settings, source=30, target=25)

    def captioned(**options: Any) -> nn.Module:
        settings = captioner.CaptionerSettings(embed=6, hidden=8, width=4, stages=2, longest=10, **options)
        return captioner.Captioner(settings, form, words=15)

    def series(channels: int, **options: Any) -> nn.Module:
        settings = ReaderSettings(hidden=5, **options)
        return SeriesClassifier(settings, channels=channels, labels=3, gaps=False)

    def forecast(**options: Any) -> nn.Module:
        return build_forecaster(ForecastSettings(hidden=8, **options), facts)

    return {
        "tagger, letters by an LSTM": tagged,
        "tagger, CRF, letters by convolutions": lambda: tagged(crf=True, letters="cnn"),
        "classifier of texts, LSTM": labelled,
        "classifier of texts, convolutions": lambda: labelled(encoder="cnn"),
        "filler of blanks": lambda: filler.Filler(filler.FillerSettings(embed=6, hidden=5), words=20),
        "translator, GRU with attention": translated,
        "translator, LSTM without, reversed": lambda: translated(
            cell="lstm", attention="none", reverse=True, bidirectional=False
        ),
        "translator, Transformer": lambda: translated(model="transformer"),
        "captioner, attention": captioned,
        "captioner, the picture first": lambda: captioned(see="first", norm="group"),
        "classifier of series, GRU": lambda: series(2),
        "classifier of series, residual minGRU": lambda: series(2, encoder="mingru", stack="residual", feed="gated"),
        "classifier of pictures, rows of 28 pixels": lambda: series(28),
        "forecaster, GRU, student-t": lambda: forecast(model="gru", head="student-t"),
        "forecaster, Transformer, quantiles": lambda: forecast(model="transformer", heads=2, head="quantile"),
        "forecaster, linear": lambda: forecast(model="linear"),
        "forecaster, seasonal-naive": lambda: forecast(model="seasonal-naive"),
        **others(),
    }


def others() -> dict[str, Callable[[], nn.Module]]:
    """Networks whose steps decide what they read next, by their names alone."""
    names = {
        "labels of clips": "ClipClassifier",
        "frames that come next": "FramePredictor",
        "glimpses": "Glimpser",
        "drawings": "Drawer",
        "players": "Catcher",
    }
    return {name: lambda kind=kind: type(kind, (nn.Module,), {})() for name, kind in names.items()}


NETWORKS = networks()


def written(page: Path, lines: list[str]) -> None:
    """The lines between the marks of a page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    page.write_text(before + "\n".join([BEGIN, "", *lines, "", END]) + rest.partition(END)[2], encoding="utf-8")
