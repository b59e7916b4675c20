"""The network of a task written as ONNX graphs, checked with drawn inputs before they are handed over.

A form is what one graph computes: its inputs by name, and a function of the network and of these that gives the outputs
by name. `onnx.tracing` writes it down, and the check computes it again with drawn numbers.

    tagger       (words[B, T], lengths[B], letters[U, L], letter_lengths[U], spelled[B, T]) -> scores[B, T, K]
    classifier   (words[B, T], lengths[B]) -> log_p[B, K]
    filler       (words[B, T], lengths[B]) -> log_p[B, T, V], of each word by those on its sides alone
    series       (values[B, T, C], seen[B, T, C], lengths[B]) -> log_p[B, K]

A tagger's scores are log p of each word's tags, unless it has a CRF: then they are what its Viterbi search begins with,
and the constants start[K], transition[K, K] and end[K] come out beside them. Values of a series are scaled as the codec
`channels` says, 0 where missing; `seen` is an input only where the training series had gaps.

A forecaster gives the parameters of its distribution over the steps ahead:

    (past[B, L, D], seen[B, L, D], inputs[B, L, C], ahead[B, H, K])
        -> location, deviation               gaussian, squared and huber heads, linear, ar
           location, spread                  absolute head (Laplace)
           location, spread, freedom         student-t head
           location, dispersion              negative-binomial head: the mean, and what exceeds Poisson
           quantiles[B, H, D, Q], levels[Q]  quantile head

each [B, H, D], scaled as the codecs say: (y - mean) / deviation of the series. Missing values are 0, and false in
`seen`. `inputs` and `ahead` are inputs only where there are covariates. A recursive network gives one step, H = 1: what
it gives is put behind `past` by whoever asks for more. What a forecast is relative to is `WindowBatch.level`.

Translators and captioners are two graphs each: the encoder of a source or a picture, and a step of the decoder.

    encoder   (source[B, S], lengths[B])           -> (last, [memory[B, S, H], keys[B, S, A], inside[B, S],] state...)
    decoder   (token[B], the encoder's outputs...) -> (log_p[B, V], next_state...)

A source ends with the token `end`; a target begins with the token `start`. States are h_l0, c_l0, ... of the decoder;
`last` [B, H] is what the encoder's last layer ended with; memory, keys and inside are there where there is attention.

Of a Transformer the state is the keys and values of the N words written so far, none at first; `look_keys` and
`look_values` are those of the source, made once:

    encoder   (source[B, S], lengths[B])           -> (inside[B, S], look_keys_0[B, K, S, D], look_values_0, ...,
                                                       keys_0[B, K, 0, D], values_0, ...)
    decoder   (token[B], the encoder's outputs...) -> (log_p[B, V], next_keys_0[B, K, N + 1, D], ...)

A captioner's decoder is that of a recurrent translator, and its encoder reads pixels of 0 to 255, fitted to one size,
or features; the graph scales them itself:

    encoder   (pictures[P, C, H, W], or [P, D], [P, S, D] of features) -> (last, [memory, keys, inside,] state...)

Shapes: B rows, T words or steps, U distinct words, L letters or rows that are read, E word vector, C channels or
covariates, D targets or numbers of a head or place, K tags, labels, heads or what is known ahead, H features or steps
ahead, S places of a source, V words, N words so far, A numbers of a key, Q levels, P pictures.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from thereafter.base import progress
from thereafter.data.codecs import store_codecs
from thereafter.errors import ExportError
from thereafter.export.check import MEASURED_STEPS, Checked, difference, refuse
from thereafter.export.export import Exported, beside, check_place, moved_together
from thereafter.export.onnx.graph import Graph
from thereafter.export.onnx.model import TARGET, model_bytes, session
from thereafter.export.onnx.tracing import written_down
from thereafter.export.plan import Array
from thereafter.export.targets import FLOAT32
from thereafter.layers.recurrent import Recurrent
from thereafter.models.task_net import Memory, TaskNet
from thereafter.models.word_decoder import END, WordDecoder
from thereafter.series.batches import WindowBatch
from thereafter.series.classifying.network import SeriesBatch, SeriesClassifier
from thereafter.series.distributions import Distribution, Laplace, NegativeBinomial, Normal, StudentT
from thereafter.series.forecasters.network import Forecaster, ForecastNetwork
from thereafter.series.forecasters.solved import Autoregression, Linear
from thereafter.series.number_heads import Quantiles
from thereafter.tasks.classify.network import ClassBatch, Classifier
from thereafter.tasks.fill import FillBatch, Filler
from thereafter.tasks.fitting import Fitted
from thereafter.tasks.tag.network import TagBatch, Tagger
from thereafter.tasks.translate.network import PairBatch, RecurrentTranslator, TransformerTranslator, Translator
from thereafter.vision.captioning.network import Captioner, PictureBatch

SEED = 7


def export_task(fitted: Fitted, path: Path, *, to: str = "onnx", int8: bool = False) -> Exported:
    """Write the graphs of a task's network: FILE.onnx, and of a translator FILE-encoder.onnx beside its decoder."""
    if to != "onnx":
        graphs_of(fitted.net)  # refuses a network that has no graph either
        raise ExportError(f"the run holds the task {fitted.task.name!r}, which has no form {to!r}; try --to onnx")
    if int8:
        raise ExportError("graphs of whole sequences multiply in float32; try it without --int8")
    made = graphs_of(fitted.net)
    check_place(path, TARGET)
    with beside(path) as folder:
        places = {}
        for number, (name, graph) in enumerate(made.graphs.items()):
            places[name] = folder / (f"{path.stem}-{name}{path.suffix}" if number else path.name)
            places[name].write_bytes(model_bytes(graph, task_facts(fitted, name)))
        checked = check_task(made, places)
        refuse(checked, FLOAT32, path.name)
        paths, replaced = moved_together(tuple(places.values()), path.parent)
    facts = {"graphs": ", ".join(made.graphs)}
    return Exported(paths, to, TARGET.program, False, checked, facts, replaced=replaced)


def task_facts(fitted: Fitted, graph: str) -> dict[str, str]:
    """What a program needs to feed a graph, as JSON texts: the codecs turn words, letters and labels into ids."""
    facts: dict[str, object] = {"format": "thereafter-onnx 1", "graph": graph, "task": fitted.task.name}
    facts["codecs"] = store_codecs(fitted.codecs)
    if isinstance(fitted.net, WordDecoder):
        facts |= {"start": fitted.net.start, "end": END}
    return {name: json.dumps(value, ensure_ascii=False, separators=(",", ":")) for name, value in facts.items()}


def check_task(made: TaskGraphs, places: Mapping[str, Path]) -> Checked:
    """Drawn batches of at least 1,000 steps in all through the network and through ONNX Runtime."""
    sessions = {name: session(path) for name, path in places.items()}

    def run(name: str, feeds: Feeds) -> dict[str, NDArray[np.generic]]:
        wanted = {given.name for given in sessions[name].get_inputs()}
        outputs = sessions[name].run(None, {key: feeds[key] for key in feeds if key in wanted})
        return dict(zip([given.name for given in sessions[name].get_outputs()], outputs, strict=True))

    draw, largest, steps = np.random.default_rng(SEED), 0.0, 0
    with progress.task("checking", total=MEASURED_STEPS, unit="steps") as advance:
        while steps < MEASURED_STEPS:
            for ours, theirs in made.compare(draw, run):
                largest = max(largest, difference(ours, theirs))
            steps += ROWS * LONGEST
            advance(ROWS * LONGEST)
    return Checked(steps, largest, 0.0, 0.0, "drawn inputs", made.what)


ROWS, LONGEST = 8, 40
Feeds = dict[str, NDArray[np.generic]]
Run = Callable[[str, Feeds], Mapping[str, NDArray[np.generic]]]
"""A graph by its name, with its inputs: its outputs by name."""
Pair = tuple[NDArray[np.floating], NDArray[np.floating]]
Tensors = Mapping[str, Tensor]
Inputs = dict[str, tuple[torch.dtype, Sequence[int | str]]]
"""Types and axes by name, where a letter is a free axis."""
N = TypeVar("N", bound=TaskNet[Any])
Recurring = RecurrentTranslator | Captioner
"""Networks whose decoder has recurrent layers."""


@dataclass(frozen=True)
class GraphForm(Generic[N]):
    """What a graph computes."""

    name: str
    inputs: Inputs
    compute: Callable[[N, Tensors], Tensors]

    def graph(self, net: N) -> Graph:
        """The form of a network as a graph."""
        with written_down(self.name, net) as (tracing, copy):
            given = {name: tracing.input(name, kind, axes) for name, (kind, axes) in self.inputs.items()}
            for name, value in self.compute(copy, given).items():
                tracing.output(value, name)
        tracing.g.prune()
        return tracing.g


@dataclass(frozen=True)
class TaskGraphs:
    """`graphs`: by name, the main one first. `compare`: what network and graphs give for a drawn batch. `what`: the
    numbers that are compared."""

    graphs: Mapping[str, Graph]
    compare: Callable[[np.random.Generator, Run], Iterator[Pair]]
    what: str = "log p"


def graphs_of(net: object) -> TaskGraphs:
    """The graphs of a network; ExportError says that it has none."""
    words: Inputs = {"words": (torch.int64, "BT"), "lengths": (torch.int64, "B")}
    if isinstance(net, Tagger):
        spelled: Inputs = {
            "letters": (torch.int64, "UL"),
            "letter_lengths": (torch.int64, "U"),
            "spelled": (torch.int64, "BT"),
        }
        tagger = GraphForm("tagger", words if net.speller is None else words | spelled, _tagged)
        return _alike(net, tagger, partial(_draw_spelled, net))
    if isinstance(net, Classifier):
        return _alike(net, GraphForm("classifier", words, _labelled), partial(_draw_words, net.words.num_embeddings))
    if isinstance(net, Filler):
        return _alike(net, GraphForm("filler", words, _filled), partial(_draw_words, net.head.words))
    if isinstance(net, SeriesClassifier):
        return _alike(net, _series_form(net), partial(_draw_series, net))
    if isinstance(net, Forecaster):
        what = "scaled values, and in the logs of what is positive"
        return replace(_alike(net, _forecaster_form(net), partial(_draw_window, net)), what=what)
    if isinstance(net, TransformerTranslator):
        return TaskGraphs({form.name: form.graph(net) for form in _transformer_forms(net)}, partial(_translated, net))
    if isinstance(net, Recurring):
        compare = partial(_captioned, net) if isinstance(net, Captioner) else partial(_translated, net)
        return TaskGraphs({form.name: form.graph(net) for form in _recurrent_forms(net)}, compare)
    raise ExportError(
        f"the network {type(net).__name__} has no exported form: {why_not(net)}; --to run writes smaller weights"
    )


def _alike(net: N, form: GraphForm[N], draw_feeds: Callable[[np.random.Generator], Feeds]) -> TaskGraphs:
    """A network in one graph, compared output by output."""

    def compare(draw: np.random.Generator, run: Run) -> Iterator[Pair]:
        feeds = draw_feeds(draw)
        with net.quietly():
            outputs = form.compute(net, {name: _on(net, name, feeds[name]) for name in form.inputs})
        ours = {name: tensor.detach().float().cpu().numpy().astype(np.float64) for name, tensor in outputs.items()}
        for name, value in run(form.name, feeds).items():
            theirs = value.astype(np.float64)
            yield (np.log(ours[name]), np.log(theirs)) if name in _POSITIVE else (ours[name], theirs)

    return TaskGraphs({form.name: form.graph(net)}, compare)


def _on(net: N, name: str, values: NDArray[np.generic]) -> Tensor:
    """An input as the network takes it: lengths are read by the host."""
    return torch.from_numpy(values).to("cpu" if name.endswith("lengths") else net.device)


def why_not(net: object) -> str:
    """Why a network has none, and what to try."""
    reasons = {
        "ClipClassifier": "its frames go through convolutions that no graph is written of; try torch.export on net",
        "FramePredictor": "it draws frames from frames it has drawn, a loop that no graph is written of",
        "Glimpser": "where it looks next depends on what it saw, a loop that no graph is written of",
        "Drawer": "it draws with windows that it moves itself, a loop that no graph is written of",
        "Catcher": "it plays a game whose rule is part of the network",
    }
    return reasons.get(
        type(net).__name__,
        "expected a tagger, a classifier of texts, series or pictures, a filler, a forecaster, a translator or a "
        "captioner; try torch.export on task_model.net",
    )


# ---- words in rows


def _draw_words(words: int, draw: np.random.Generator) -> Feeds:
    """Rows of words, [B, T], and their lengths, the first of them the longest."""
    lengths_B = draw.integers(1, LONGEST + 1, ROWS)
    lengths_B[0] = LONGEST
    return {"words": draw.integers(1, words, (ROWS, LONGEST)), "lengths": lengths_B}


def _draw_spelled(net: Tagger, draw: np.random.Generator) -> Feeds:
    feeds = _draw_words(net.words.num_embeddings, draw)
    letters = 2 if net.speller is None else net.speller.embedding.num_embeddings
    feeds |= {"letters": draw.integers(1, letters, (30, 12)), "letter_lengths": draw.integers(1, 13, 30)}
    feeds["letter_lengths"][0] = 12
    return feeds | {"spelled": draw.integers(0, 30, (ROWS, LONGEST))}


def _tagged(net: Tagger, given: Tensors) -> Tensors:
    words_BT, lengths_B = given["words"], given["lengths"]
    if net.speller is None:
        batch = TagBatch(words_BT, lengths_B, words_BT, lengths_B, words_BT)  # of which nobody reads the letters
    else:
        batch = TagBatch(words_BT, lengths_B, given["letters"], given["letter_lengths"], given["spelled"])
    z_BTK = net.scores(batch)
    if net.crf is None:
        return {"scores": z_BTK.log_softmax(-1)}
    return {"scores": z_BTK, "start": net.crf.start_K, "transition": net.crf.transition_KK, "end": net.crf.end_K}


def _labelled(net: Classifier, given: Tensors) -> Tensors:
    return {"log_p": net.scores(ClassBatch(given["words"], given["lengths"])).log_softmax(-1)}


def _filled(net: Filler, given: Tensors) -> Tensors:
    return {"log_p": net.head.log_prob(net.features(FillBatch(given["words"], given["lengths"])))}


# ---- series


def _series_form(net: SeriesClassifier) -> GraphForm[SeriesClassifier]:
    shape = ("B", "T", _channels(net))
    inputs: Inputs = {"values": (torch.float32, shape)}
    inputs |= {"seen": (torch.bool, shape)} if net.gaps else {}
    return GraphForm("classifier", inputs | {"lengths": (torch.int64, "B")}, _labelled_series)


def _channels(net: SeriesClassifier) -> int:
    """How many numbers a step has."""
    first = next(part for part in net.reader.modules() if isinstance(part, Recurrent | nn.Linear | nn.Conv1d))
    inputs = next(vars(first)[name] for name in ("input_size", "in_features", "in_channels") if name in vars(first))
    return int(inputs) // (2 if net.gaps else 1)


def _draw_series(net: SeriesClassifier, draw: np.random.Generator) -> Feeds:
    lengths_B = _draw_words(2, draw)["lengths"]
    seen_BTC = draw.random((ROWS, LONGEST, _channels(net))) < (0.8 if net.gaps else 1.0)
    values_BTC = (draw.standard_normal(seen_BTC.shape) * seen_BTC).astype(np.float32)
    return {"values": values_BTC, "lengths": lengths_B, "seen": seen_BTC}


def _labelled_series(net: SeriesClassifier, given: Tensors) -> Tensors:
    batch = SeriesBatch(given["values"], given.get("seen", given["values"]), given["lengths"])
    return {"log_p": net.scores(batch).log_softmax(-1)}


_PARAMETERS: dict[type[Distribution], dict[str, str]] = {
    Normal: {"location": "location", "deviation": "spread"},
    Laplace: {"location": "location", "spread": "spread"},
    StudentT: {"location": "location", "spread": "spread", "freedom": "freedom"},
    NegativeBinomial: {"location": "location", "dispersion": "spread"},
    Quantiles: {"quantiles": "values", "levels": "levels_Q"},
}
"""The outputs of a forecaster, and what each is called in its distribution."""
_POSITIVE = ("deviation", "spread", "freedom", "dispersion", "levels")


def _forecaster_form(net: Forecaster) -> GraphForm[Forecaster]:
    facts, past = net.facts, ("B", net.facts.lookback, net.facts.targets)
    inputs: Inputs = {"past": (torch.float32, past), "seen": (torch.bool, past)}
    if isinstance(net, ForecastNetwork) and facts.covariates:
        inputs["inputs"] = (torch.float32, ("B", facts.lookback, facts.covariates))
    if isinstance(net, ForecastNetwork | Linear) and facts.known:
        inputs["ahead"] = (torch.float32, ("B", min(net.reach, facts.horizon), facts.known))
    if isinstance(net, Autoregression):
        return GraphForm("forecaster", inputs, _autoregressed)
    if not isinstance(net, ForecastNetwork | Linear):
        raise ExportError(
            f"the forecaster {type(net).__name__} repeats what it has read and has no weights to export; "
            "try one that is trained, such as model='linear'"
        )
    return GraphForm("forecaster", inputs, _forecast)


def _draw_window(net: Forecaster, draw: np.random.Generator) -> Feeds:
    facts, counts = net.facts, isinstance(net, ForecastNetwork) and net.norm == "mean"
    shape, steps = (ROWS, facts.lookback, facts.targets), min(net.reach, facts.horizon)
    seen_BLD = draw.random(shape) < (0.8 if facts.gaps else 1.0)
    walk_BLD = draw.poisson(5.0, shape) if counts else 0.3 * draw.standard_normal(shape).cumsum(1)
    inputs_BLC, ahead_BHK = (
        draw.standard_normal(size).astype(np.float32)
        for size in ((ROWS, facts.lookback, facts.covariates), (ROWS, steps, facts.known))
    )
    past_BLD = (walk_BLD * seen_BLD).astype(np.float32)
    return {"past": past_BLD, "seen": seen_BLD, "inputs": inputs_BLC, "ahead": ahead_BHK}


def _forecast(net: Forecaster, given: Tensors) -> Tensors:
    facts, past_BLD = net.facts, given["past"]
    none_BL0 = past_BLD[..., :0]
    ahead_BHK = given.get("ahead", none_BL0[:, : min(net.reach, facts.horizon)])
    expected = net.expect(WindowBatch(past_BLD, given["seen"], given.get("inputs", none_BL0), ahead_BHK))
    return {name: getattr(expected, own) for name, own in _PARAMETERS[type(expected)].items()}


def _autoregressed(net: Forecaster, given: Tensors) -> Tensors:
    """The equation H times over is a linear map of the last P values; a missing one is the last before it."""
    if not isinstance(net, Autoregression):
        raise TypeError(type(net).__name__)
    first_HD, map_DHP, deviation_HD = map(torch.from_numpy, unrolled(net))
    steps_L1 = torch.arange(net.facts.lookback)[:, None]
    at_BLD = torch.where(given["seen"], steps_L1, 0).cummax(1).values
    y_BPD = given["past"].gather(1, at_BLD)[:, net.facts.lookback - net.most :]
    moved_BDH1 = map_DHP @ y_BPD.transpose(1, 2)[..., None]
    location_BHD = moved_BDH1.squeeze(3).transpose(1, 2) + first_HD
    return {"location": location_BHD, "deviation": deviation_HD.expand_as(location_BHD)}


def unrolled(net: Autoregression) -> tuple[Array, Array, Array]:
    """c [H, D] and A [D, H, P] of y_{t+h} = c_h + A_h [y_{t-P+1} ... y_t], and the deviations [H, D], in 64 bits."""
    weight_DP1 = net.weight_DP1.detach().cpu().double().numpy()
    horizon, most = net.facts.horizon, net.most
    rows = np.zeros((len(weight_DP1), most + horizon, most + 1))  # each value as a map of the last P and 1
    rows[:, np.arange(most), np.arange(most)] = 1.0
    psi_DH = np.zeros((len(weight_DP1), horizon))
    for step in range(horizon):
        lags = rows[:, step : step + most][:, ::-1]  # y_{t-1} first
        rows[:, most + step] = np.einsum("dp,dpq->dq", weight_DP1[:, 1:], lags)
        rows[:, most + step, -1] += weight_DP1[:, 0]
        before = psi_DH[:, max(0, step - most) : step][:, ::-1]
        psi_DH[:, step] = 1.0 if step == 0 else (weight_DP1[:, 1 : 1 + before.shape[1]] * before).sum(1)
    sigma_D = net.sigma_D.detach().cpu().double().numpy()
    deviation_HD = np.sqrt((psi_DH**2).cumsum(1)).T * sigma_D
    ahead = rows[:, most:]
    parts = (ahead[..., -1].T, ahead[..., :-1], deviation_HD)
    first, mapped, deviation = (np.ascontiguousarray(part, dtype=np.float32) for part in parts)
    return first, mapped, deviation


# ---- translations and captions


def _encoded(net: Translator | Captioner, given: Tensors) -> Memory:
    if isinstance(net, Captioner):
        return net.encode(PictureBatch(given["pictures"]))
    return net.encode(PairBatch(given["source"], given["lengths"]))


def _source_inputs(net: Translator | Captioner) -> Inputs:
    if isinstance(net, Captioner):
        return {"pictures": (torch.float32, ("P", *net.form.shape))}
    return {"source": (torch.int64, "BS"), "lengths": (torch.int64, "B")}


def _recurrent_forms(net: Recurring) -> list[GraphForm[Recurring]]:
    """Decoder and encoder of a recurrent translator or of a captioner."""
    layers, size = range(net.settings.layers), net.settings.hidden
    fields = list(net.decoder.lanes[0].cell.state_sizes())
    attention = net.attention
    states = {f"{field}_l{layer}": (field, layer) for layer in layers for field in fields}

    def encode(own: Recurring, given: Tensors) -> Tensors:
        source = own.prepare(_encoded(own, given))
        begun = {name: source[f"last_{field}"][:, layer] for name, (field, layer) in states.items()}
        seen = {"memory": "h_BSH", "keys": "keys", "inside": "inside_BS"} if attention is not None else {}
        return {"last": source["last_h"][:, -1], **{name: source[key] for name, key in seen.items()}, **begun}

    def decode(own: Recurring, given: Tensors) -> Tensors:
        source = {"last_h": given["last"][:, None]}
        if attention is not None:
            source |= {"h_BSH": given["memory"], "keys": given["keys"], "inside_BS": given["inside"]}
        before = {field: torch.stack([given[f"{field}_l{layer}"] for layer in layers], 1) for field in fields}
        f_B1F, after = own.advance(given["token"][:, None], source, before)
        written = {f"next_{name}": after[field][:, layer] for name, (field, layer) in states.items()}
        return {"log_p": own.head.log_prob(f_B1F[:, 0]), **written}

    inputs: Inputs = {"token": (torch.int64, "B"), "last": (torch.float32, ("B", size))}
    inputs |= dict.fromkeys(states, (torch.float32, ("B", size)))
    if attention is not None:
        width = size if attention.kind == "dot" else attention.of_memory.out_features
        inputs |= {"memory": (torch.float32, ("B", "S", size)), "keys": (torch.float32, ("B", "S", width))}
        inputs["inside"] = (torch.bool, "BS")
    return [GraphForm("decoder", inputs, decode), GraphForm("encoder", _source_inputs(net), encode)]


def _transformer_forms(net: TransformerTranslator) -> list[GraphForm[TransformerTranslator]]:
    """Decoder and encoder of a Transformer."""
    own_shape = ("B", net.settings.heads, "N", net.settings.hidden // net.settings.heads)
    source_shape = (*own_shape[:2], "S", own_shape[3])
    names = [f"{kind}_{number}" for number in range(net.settings.layers) for kind in ("keys", "values")]

    def encode(own: TransformerTranslator, given: Tensors) -> Tensors:
        source = own.prepare(_encoded(own, given))
        begun = own.begin(source)
        looked = {f"look_{name}": source[name] for name in names}
        return {"inside": source["inside_BS"], **looked, **{name: begun[name] for name in names}}

    def decode(own: TransformerTranslator, given: Tensors) -> Tensors:
        source = {"inside_BS": given["inside"], **{name: given[f"look_{name}"] for name in names}}
        f_B1F, after = own.advance(given["token"][:, None], source, {name: given[name] for name in names})
        return {"log_p": own.head.log_prob(f_B1F[:, 0]), **{f"next_{name}": after[name] for name in names}}

    inputs: Inputs = {"token": (torch.int64, "B"), "inside": (torch.bool, "BS")}
    for name in names:
        inputs |= {name: (torch.float32, own_shape), f"look_{name}": (torch.float32, source_shape)}
    return [GraphForm("decoder", inputs, decode), GraphForm("encoder", _source_inputs(net), encode)]


def _translated(net: Translator, draw: np.random.Generator, run: Run) -> Iterator[Pair]:
    table, longest = net.words if net.source_words is None else net.source_words, min(LONGEST, net.settings.longest)
    drawn = _draw_words(table.words, draw)
    source_BS, lengths_B = drawn["words"][:, :longest], np.minimum(drawn["lengths"], longest)
    source_BS[np.arange(ROWS), lengths_B - 1] = END
    target_BT = draw.integers(1, net.words.words, (ROWS, longest))
    batch = PairBatch(*map(torch.from_numpy, (source_BS, lengths_B, target_BT)))
    with net.quietly():
        right_BTV = net.scores(batch.to(net.device)).float().cpu().numpy()
    yield from _written(net.start, target_BT, right_BTV, run, {"source": source_BS, "lengths": lengths_B})


def _captioned(net: Captioner, draw: np.random.Generator, run: Run) -> Iterator[Pair]:
    shape, longest = (ROWS, *net.form.shape), min(LONGEST, net.settings.longest)
    pixels = net.form.kind == "pixels"
    pictures = draw.integers(0, 256, shape).astype(np.float32) if pixels else draw.random(shape).astype(np.float32)
    target_BT = draw.integers(1, net.words.words, (ROWS, longest))
    batch = PictureBatch(torch.from_numpy(pictures), torch.arange(ROWS), torch.from_numpy(target_BT), torch.arange(1))
    with net.quietly():
        right_BTV = net.scores(batch.to(net.device)).float().cpu().numpy()
    yield from _written(net.start, target_BT, right_BTV, run, {"pictures": pictures})


def _written(
    start: int, target_BT: NDArray[np.int64], right_BTV: NDArray[np.floating], run: Run, feeds: Feeds
) -> Iterator[Pair]:
    """The targets through the decoder, one token at a time with the state carried, beside the network's own log p."""
    memory = dict(run("encoder", feeds))
    tokens_BT = np.concatenate([np.full((ROWS, 1), start), target_BT[:, :-1]], axis=1)
    for step in range(tokens_BT.shape[1]):
        outputs = run("decoder", {"token": tokens_BT[:, step], **memory})
        memory |= {name.removeprefix("next_"): part for name, part in outputs.items() if name != "log_p"}
        yield right_BTV[:, step], outputs["log_p"].astype(np.float64)
