"""`LanguageModel`: what `train` and `load` return for texts. It scores, predicts, generates, is saved and loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from thereafter.base import config as toml
from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.base.devices import check_device
from thereafter.base.progress import show_progress
from thereafter.data.corpora import require_own
from thereafter.data.files import AnySource, Files, Parts
from thereafter.decoding import beam, completion, generation
from thereafter.decoding.beam import NextToken, NextTokens, rank_tokens
from thereafter.decoding.completion import Completions
from thereafter.decoding.generation import Generated, GenerationOptions, GenerationSettings
from thereafter.errors import OptionError
from thereafter.evaluation.scores import Score, score_text
from thereafter.evaluation.switches import Switches
from thereafter.evaluation.text_reading import TOP, Context, items_before, walk_of
from thereafter.evaluation.text_units import check_unit
from thereafter.inspection.surprisal import Surprisals, tabulate
from thereafter.inspection.trace import LIMIT, Trace, record, say_what_is_cut
from thereafter.models.any_model import AnyModel
from thereafter.models.base import State
from thereafter.runs import folder as files
from thereafter.runs.narrow import describe_loss
from thereafter.text.pretokenised import WritingStyle
from thereafter.text.pretokenised_words import restore_stream
from thereafter.text.sources import Source, Texts
from thereafter.text.tokenizers.base import Spelling, Tokenizer
from thereafter.text.writing import WritingForm, in_style, writing_of_run
from thereafter.training import reading
from thereafter.training.finding import describe_changes, find_texts, part_of
from thereafter.training.kinds import MODELS, ModelKind, RunView, Trained, load_trained, save_trained
from thereafter.training.reading import read_surprisals
from thereafter.training.settings import TextSettings

if TYPE_CHECKING:
    from thereafter.evaluation.dynamic_settings import DynamicSettings
    from thereafter.export.export import Exported
    from thereafter.models.cache import CacheSettings


class LanguageModel(RunView):
    """A trained model with its tokenizer."""

    def __init__(self, trained: Trained, texts: Texts | None = None, *, as_written: bool = False) -> None:
        super().__init__(trained.config, trained.log, as_written=as_written)
        self.trained = trained
        """The model with all that is saved beside it."""
        self.texts = trained.texts if texts is None else texts
        """The text it was trained on, if that is still available."""

    @property
    def model(self) -> AnyModel:
        """The model itself, over token ids."""
        return self.trained.model

    @property
    def tokenizer(self) -> Tokenizer:
        return self.trained.tokenizer

    @property
    def style(self) -> WritingStyle | None:
        """How its training text was written, for a pre-tokenised one: plain text is brought into that form.

        None for text as people write it, and with `as_written`.
        """
        return self.writing if isinstance(self.writing, WritingStyle) else None

    @property
    def writing(self) -> WritingForm | None:
        """The form that plain text is brought into: `style`, else the quotes and dashes of its training text.

        None where its training text had several or hardly any, and with `as_written`.
        """
        return None if self.as_written else self._writing

    def score(
        self,
        source: AnySource | None = None,
        *,
        text: str | None = None,
        part: str | None = None,
        encoding: str | None = None,
        cache: bool | Mapping[str, object] | CacheSettings = False,
        dynamic: bool | Mapping[str, object] | DynamicSettings = False,
        tune: AnySource | None = None,
        parts: bool = True,
        context: Context = None,
    ) -> Score:
        """Score a source, or `text=`. Of a corpus with parts the test part is scored, unless `part` names another.

        A folder of train, valid and test files has parts too; `parts=False` scores all its files as one.

        Switches: `cache=True` adds a cache of the last words (or its settings, `cache={"size": 2000}`);
        `dynamic=True` lets a neural model keep learning from the text it has scored. In a mixture each model gets the
        switches that apply to it. `tune` is another text (the valid part of a corpus) on which open settings are
        chosen: weight and theta of the cache, the learning rate, the weights of a mixture. `switches` of the score
        lists what was on.

        `context`: "item" reads each line from a fresh state, a number N after the N lines before it, "document" carries
        the state from line to line. Default: a document; items where the source is a column of a table.
        """
        with show_progress():
            chosen, tuning = self._texts_to_score(source, text, part, encoding, tune, parts=parts)
            before = items_before(context, of_table=_is_own_table(source, chosen))
            chunks, walk = walk_of(chosen, before)
            with reading.switch_on(self.trained, Switches.of(cache, dynamic), tuning) as on:
                read_as = self.trained.context if before is None else "item" if before == 0 else f"{before} items"
                score = score_text(on.model, self.tokenizer, chunks, name=chosen.name, context=read_as, walk=walk)
                return replace(
                    score,
                    switches=reading.describe_switches(self.trained, on, tuning, chosen),
                    weights=on.weights,
                    caveat=reading.caveat(self.trained, chosen, tuning),
                    form=describe_changes(chosen),
                    written="" if chosen.rewriting is None else str(self.writing),
                )

    def surprisal(
        self,
        source: AnySource | None = None,
        *,
        text: str | None = None,
        part: str | None = None,
        encoding: str | None = None,
        by: str = "word",
        detail: bool | None = None,
        top: int = TOP,
        cache: bool | Mapping[str, object] | CacheSettings = False,
        dynamic: bool | Mapping[str, object] | DynamicSettings = False,
        tune: AnySource | None = None,
        context: Context = None,
    ) -> Surprisals:
        """-log2 p of every word of a source, or of `text=`: a table whose bits add up to those of `score`.

        `by`: "word" (as written, between white space), "token", "sentence" or "line". `detail=True` adds what was
        predicted where each word begins: its rank, the entropy, the `top` likeliest tokens, how many tokens the model
        saw; that is a full prediction for each token. Default: on, without alternatives, for the words of items. The
        other options are those of `score`. Several models side by side: `thereafter.surprisal`.

        The words of items (`context`) and of a table have further columns: those of the table, the word and its bits
        without punctuation, its length and its log frequency in the training text.
        """
        check_unit(by)
        switches = Switches.of(cache, dynamic)
        with show_progress():
            chosen, tuning = self._texts_to_score(source, text, part, encoding, tune)
            before = items_before(context, of_table=_is_own_table(source, chosen))
            of_words = by == "word" and (before is not None or chosen.column is not None)
            detail, top = (of_words, 0) if detail is None else (detail, top)
            options: Table = {"detail": detail, "top": top, "before": before, "with_counts": of_words}
            return tabulate([read_surprisals(self.trained, chosen, switches, tuning, **options)], by)

    def _texts_to_score(
        self,
        source: AnySource | None,
        text: str | None,
        part: str | None,
        encoding: str | None,
        tune: AnySource | None,
        *,
        parts: bool = True,
    ) -> tuple[Source, Source | None]:
        """The text to score, and the one to tune on if there is one."""
        if text is not None and (part is not None or encoding is not None):
            raise OptionError("text= has no parts and no encoding; give part= and encoding= with a source")
        settings = self.text_settings(encoding)
        texts = find_texts(source, text, settings, part, parts=parts)
        chosen = part_of(texts if parts else require_own(texts), "test")
        if "text" not in texts.parts:
            for note in texts.notes:
                progress.note(note)
        if source is None or source is not self.texts or self.style is not None:
            chosen = reading.in_own_form(self.trained, texts, chosen, self.writing)
        if tune is None:
            return chosen, None
        others = find_texts(tune, None, settings)
        return chosen, in_style(others, part_of(others, "valid"), self.writing)

    def distribution(self, prompt: str = "") -> NDArray[np.float64]:
        """The probability of every token of the vocabulary after a prompt, [V]."""
        logp_V: NDArray[np.float64] = np.asarray(self.model.predict(self._read(prompt)))[0].astype(np.float64)
        return np.exp(logp_V)

    def next(self, prompt: str = "", k: int = 5) -> list[tuple[str, float]]:
        """The k likeliest continuations as (text to append, probability), the unknown word left out.

        After a space these are words without the space, with their probabilities among those that begin with one.
        """
        return [(token.text, token.p) for token in self.next_tokens(prompt, k)]

    def next_tokens(self, prompt: str = "", k: int = 5) -> list[NextToken]:
        """As `next`, with the token ids beside them."""
        return self._next_tokens.after(self.model, self.normalise(prompt), k)

    def complete(self, prompt: str = "", k: int = 5) -> Completions:
        """The k likeliest words that begin as the last word of a prompt does: "the mon" gives monster, month, ...

        Each has the text to append and its probability among all words that begin so, a share of the `mass` that the
        model gives them after the context. `covered` is below 1 where the words are spelled by pieces and the search
        has left some unfinished. After white space all words are candidates, after punctuation there are none.
        """
        text = self.normalise(prompt)
        if prompt[-1:].isspace() and not text[-1:].isspace():
            text += " "  # the word before it is finished, however the text is rewritten
        return completion.complete(self.model, self.tokenizer, text, k, completer=self._completer)

    def next_ids(self, ids: NDArray[np.int32], k: int = 5) -> list[tuple[int, float]]:
        """The k likeliest tokens after token ids, with their probabilities."""
        if k < 1:
            raise OptionError(f"k is {k}; expected at least 1; try k=5")
        logp_V = np.asarray(self.model.predict(self.state_after(ids)))[0]
        return self.likeliest(logp_V, k)

    def likeliest(self, logp_V: NDArray[np.floating], k: int) -> list[tuple[int, float]]:
        """The k likeliest tokens with their probabilities, the unknown word left out."""
        return rank_tokens(logp_V, k, self._never_generated)

    def encode(self, text: str) -> NDArray[np.int32]:
        """The token ids of a text, normalised as the training text was."""
        return self.tokenizer.encode(self.normalise(text))

    @overload
    def generate(  # type: ignore[overload-overlap]  # a number that is known to be 1 is the narrower case
        self,
        prompt: str = "",
        max_new_tokens: int = 40,
        *,
        num_return_sequences: Literal[1] = 1,
        return_log_probs: Literal[False] = False,
        **options: Unpack[GenerationOptions],
    ) -> str: ...
    @overload
    def generate(
        self,
        prompt: str = "",
        max_new_tokens: int = 40,
        *,
        num_return_sequences: int,
        return_log_probs: Literal[False] = False,
        **options: Unpack[GenerationOptions],
    ) -> list[str]: ...
    @overload
    def generate(
        self,
        prompt: str = "",
        max_new_tokens: int = 40,
        *,
        num_return_sequences: int = 1,
        return_log_probs: Literal[True],
        **options: Unpack[GenerationOptions],
    ) -> list[Generated]: ...
    def generate(
        self,
        prompt: str = "",
        max_new_tokens: int = 40,
        *,
        num_return_sequences: int = 1,
        return_log_probs: bool = False,
        **options: Unpack[GenerationOptions],
    ) -> str | list[str] | list[Generated]:
        """The prompt with its continuation by the model: sampled, unless the options say otherwise.

        Options, named as Hugging Face names them: `temperature` (0 is greedy), `do_sample` (False is greedy), `top_k`,
        `top_p`, `min_p`, `repetition_penalty`; `num_beams`, `length_penalty`, `early_stopping` for a beam search;
        `stop_strings`, one or several: the text ends before the first of them; `seed`: the same seed, the same text;
        `weights`: "bfloat16" or "int8" reads a recurrent model's matrices in fewer bytes, so that steps take less time.
        Several texts (`num_return_sequences`) are a list and cost little more than one. With `return_log_probs` the
        result is a list of `Generated`: text, new tokens and their log probabilities under the model.
        """
        settings = _settings(
            {"max_new_tokens": max_new_tokens, "num_return_sequences": num_return_sequences, **options}
        )
        texts = [
            self._restore(prompt, text) for text in generation.generate(self.begin(prompt, settings.weights), settings)
        ]
        if return_log_probs:
            return texts
        return texts[0].text if num_return_sequences == 1 else [text.text for text in texts]

    def stream(self, prompt: str = "", max_new_tokens: int = 40, **options: Unpack[GenerationOptions]) -> Iterator[int]:
        """The token ids of `generate`, one at a time; its options, except for several texts and beams."""
        pieces = self._pieces_of(prompt, {"max_new_tokens": max_new_tokens, **options})
        return (piece.token for piece in pieces if piece.token is not None)

    def stream_text(
        self, prompt: str = "", max_new_tokens: int = 40, **options: Unpack[GenerationOptions]
    ) -> Iterator[str]:
        """The text of `generate` after the prompt, piece by piece: never half a character or part of a stop string."""
        pieces = self._pieces_of(prompt, {"max_new_tokens": max_new_tokens, **options})
        whole = self.tokenizer.name == "word" and not options.get("stop_strings")
        return restore_stream((piece.text for piece in pieces if piece.text), self.style, prompt, whole=whole)

    def rank(self, candidates: Sequence[str], context: str = "", *, per: str = "sentence") -> list[tuple[str, float]]:
        """Candidates with their log probabilities after a context, best first, ties in the order given.

        A candidate is appended to the context as it is (" mat" after "on the", or "mat" in `word`); no line end is
        added. Unknown words cost the nats of their spelling, so that no candidate wins by being unknown. `per`
        "sentence" compares whole candidates; "token" and "char" compare means, for candidates of different lengths.
        """
        if isinstance(candidates, str):
            raise OptionError(f"candidates are one text, {candidates!r}; expected several; try a list of texts")
        beam.check_per(per)
        texts = [self.normalise(candidate) for candidate in candidates]
        scored = beam.read_candidates(texts, self.tokenizer, self._spelling)
        log_probs = beam.log_probs(self.model, self._read(context), scored, per)
        return sorted(zip(candidates, log_probs, strict=True), key=lambda pair: -pair[1])

    def neighbours(self, word: str, k: int = 10) -> list[tuple[str, float]]:
        """The k tokens whose embeddings are closest to that of a word, with their cosines: neural models only."""
        if k < 1:
            raise OptionError(f"k is {k}; expected at least 1; try k=10")
        embedding = self.model.input_embedding()
        if embedding is None:
            from thereafter.models.build import NEURAL

            raise OptionError(
                f"the model {self.config['model']!r} has no embeddings, so words have no neighbours in it; "
                f"these models have: {', '.join(NEURAL)}"
            )
        from thereafter.inspection.dynamics import find_token, nearest_rows

        token = find_token(word, self.tokenizer, self.normalise)
        near = nearest_rows(embedding, token, k, self._never_generated)
        return [(self.tokenizer.piece(i), cosine) for i, cosine in near]

    def trace(self, text: str, *, limit: int | None = None, top: int = 10) -> Trace:
        """What the model computed at every token of a text: see `Trace`. The first `limit` tokens are recorded.

        Without a limit these are 2,000, with a warning where the text has more; `about["cut"]` of the trace says so.
        """
        most = LIMIT if limit is None else limit
        if most < 1 or top < 1:
            raise OptionError(f"limit is {most} and top is {top}; expected at least 1 each")
        whole = self.encode(text)
        if not len(whole):
            raise OptionError("the text to trace is empty; expected at least one token")
        ids = whole[:most]
        cut = say_what_is_cut(len(ids), len(whole))
        if cut and limit is None:
            progress.warn(cut)
        recorded = record(self.model, ids, [self._pieces[i] for i in ids], list(self._pieces), top)
        return replace(recorded, about=recorded.about | {"cut": cut}) if cut else recorded

    def save(self, run: str | PathLike[str], *, dtype: str = "float32", check: AnySource | None = None) -> Path:
        """Save as a run folder. A mixture cannot be saved; save its models.

        `dtype`: "float16" halves the weights, "int8" makes them four times smaller; both round them (`runs/narrow.py`),
        and `load` reads them into float32. With `check`, a text that was not trained on, what that costs is said in
        bits per byte.
        """
        reading.check_savable(self.trained)
        folder = save_trained(self.trained, Path(run), dtype)
        if check is not None:
            after = load_language_model(folder, as_written=self.as_written).score(check).bits_per_byte
            size = (folder / files.WEIGHTS).stat().st_size
            with show_progress():
                progress.note(f"{folder}: {describe_loss(self.score(check).bits_per_byte, after, dtype, size)}")
        return folder

    def to_arpa(self, path: str | PathLike[str]) -> Path:
        """Write an n-gram model as an ARPA file, gzip where the name ends in `.gz`."""
        from thereafter.training import ngram

        with show_progress():
            return ngram.write_arpa(self.trained, Path(path))

    def export(
        self,
        path: str | PathLike[str],
        to: str = "onnx",
        *,
        int8: bool = False,
        check: AnySource | None = None,
        check_steps: int | None = None,
        dtype: str | None = None,
    ) -> Exported:
        """Write a file that runs without this package: `to` is "onnx", "c", "html" or another of `export.TARGETS`.

        The file is run by an outside program, with the state carried, and compared with this model
        before it is saved; one that differs is not written. `check`: the text of that comparison; without one it
        is the validation part of the training text, else what the model writes itself. `check_steps`: the number of
        tokens (default: 200; 1,000 for int8 and float16; more than the context of a Transformer). `int8`: weights of a
        byte each, which may cost 1 % in bits per byte. `to="run"` writes a run folder as `save` does, with the weights
        as `dtype`, compared in the same way.
        """
        from thereafter.export.export import RUN, dtype_of, export, export_run

        form = dtype_of(to, dtype, int8)
        if to == RUN:
            reading.check_savable(self.trained)
        with show_progress():
            if to == RUN:
                return export_run(self.trained, Path(path), form, check, check_steps)
            return export(self.trained, Path(path), to=to, int8=int8, check_text=check, check_steps=check_steps)

    def summary(self) -> Table:
        """Figures of the model: kind, settings, tokens, vocabulary, results of training."""
        about = self.config
        facts = {"model": about["model"], **about.get(about["model"], {}), **about["text"], **self.results()}
        return {name: value for name, value in facts.items() if value is not None}

    def __repr__(self) -> str:
        about = self.config
        size = f"{len(self.tokenizer.vocabulary):,} {self.tokenizer.name}"
        return f"<LanguageModel {about['model']} over {size} tokens from {about['source']['name']}>"

    def _read(self, prompt: str) -> State:
        """The state after a prompt; no line end is added to it."""
        return self.state_after(self.encode(prompt))

    def state_after(self, ids: NDArray[np.int32]) -> State:
        """The state of the model after the token ids of a prompt."""
        return _state_after(self.model, ids)

    def begin(self, prompt: str, weights: str | None = None) -> generation.Prompted[State]:
        """The model after a prompt, as `decoding.generation` starts from it; `weights`: see `stored_model`."""
        ids, model = self.encode(prompt), self.stored_model(weights)
        state = _state_after(model, ids)
        return generation.Prompted(model, self.tokenizer, prompt, ids, state, self._never_generated)

    def stored_model(self, weights: str | None = None) -> AnyModel:
        """The model itself, or with matrices stored as "bfloat16" or "int8", built at first use."""
        return self.model if weights is None else self.model.stored(weights)

    def _pieces_of(self, prompt: str, options: Mapping[str, object]) -> Iterator[generation.Piece]:
        settings = _settings(options)
        generation.check_stream(settings)
        return generation.pieces(self.begin(prompt, settings.weights), settings)

    def _restore(self, prompt: str, generated: Generated) -> Generated:
        """A generated text in ordinary form, not pre-tokenised."""
        if self.style is None:
            return generated
        return replace(generated, text=prompt + self.style.restored(generated.text[len(prompt) :], before=prompt))

    def text_settings(self, encoding: str | None = None) -> TextSettings:
        """How a text is read for this model: as its training text was, but with an encoding of its own."""
        return TextSettings.of_config(self.config["text"], encoding=encoding)

    def normalise(self, text: str) -> str:
        """A text, normalised as the training text was, and brought into the way that was written."""
        about = self.config["text"]
        normal = Source.of_text(text, lower=about["lower"], letters_only=about["letters_only"]).text()
        return normal if self.writing is None else self.writing.rewritten(normal)

    @cached_property
    def _completer(self) -> completion.Completer:
        return completion.completer_of(self.tokenizer)

    @cached_property
    def _writing(self) -> WritingForm | None:
        return writing_of_run(self.config, self.tokenizer)

    @cached_property
    def _next_tokens(self) -> NextTokens:
        return NextTokens(self.tokenizer, self._never_generated)

    @cached_property
    def _never_generated(self) -> list[int]:
        unknown = self.tokenizer.unknown_id
        return [] if unknown is None else [unknown]

    @cached_property
    def _pieces(self) -> list[str]:
        return [self.tokenizer.piece(i) for i in range(len(self.tokenizer.vocabulary))]

    @cached_property
    def _spelling(self) -> Spelling | None:
        return None if self.tokenizer.unknown_id is None else Spelling.from_forms(self.tokenizer.ordinary_forms)


def _is_own_table(source: AnySource | None, chosen: Source) -> bool:
    """Whether a user names a column of a table, whose rows are items; a text that was read before is a document."""
    return chosen.column is not None and not isinstance(source, Files | Parts)


def load_language_model(
    run: str | PathLike[str], tokens: str = "word", *, as_written: bool = False, device: str = "cpu"
) -> LanguageModel:
    """The language model of a run folder, an ARPA file or a GPT-2 folder; FormatError if the run holds a task.

    `device` as in `api.load`; for inspection rather than long computations, leave the model on the CPU.
    """
    check_device(device)
    path = Path(run)
    if files.is_run(path) or not (files.is_file(path) or files.is_file(path / "config.json")):
        trained = load_trained(path)
    elif files.is_file(path):
        from thereafter.training import ngram

        with show_progress():
            trained = ngram.read_arpa(path, tokens)
    else:
        from thereafter.export import gpt2

        trained = gpt2.read(path)
    lm = LanguageModel(trained, as_written=as_written)
    kind: ModelKind = MODELS.load(lm.config["model"])
    if kind.trained_in_steps:
        from thereafter.base.devices import placed
        from thereafter.models.neural import NeuralModel

        assert isinstance(lm.model, NeuralModel)
        placed(lm.model, device, str(lm.config["model"]))
    elif device == "cuda":
        progress.note(f"the model {lm.config['model']!r} has no network to compute on a GPU: it answers on the CPU")
    return lm


def loaded(model: LanguageModel | str | PathLike[str]) -> LanguageModel:
    """A language model, loaded where it is a path, as `api.load` does."""
    return model if isinstance(model, LanguageModel) else load_language_model(model, device="auto")


def load_several(
    models: Sequence[LanguageModel | str | PathLike[str]], names: Sequence[str] | None = None
) -> dict[str, LanguageModel]:
    """Several models by name, by default their kinds; those that are paths are loaded."""
    if isinstance(models, str | PathLike | LanguageModel):
        raise OptionError(f"models are one model, {models!r}; expected several; try a list")
    if names is not None and len(names) != len(models):
        raise OptionError(f"got {len(names)} names for {len(models)} models; expected one for each")
    several = [loaded(model) for model in models]
    called = reading.distinct_names(list(names or (str(lm.config["model"]) for lm in several)))
    return dict(zip(called, several, strict=True))


def resume_language_model(run: str | PathLike[str]) -> LanguageModel:
    """Resume the training of a language model; see `api.resume`."""
    from thereafter.training.protocol import resume

    with show_progress():
        return LanguageModel(resume(Path(run)))


def _state_after(model: AnyModel, ids: NDArray[np.int32]) -> State:
    state: State = model.start(1)
    return model.read(ids.reshape(1, -1), state) if len(ids) else state


def _settings(options: Mapping[str, object]) -> GenerationSettings:
    return toml.build(GenerationSettings, options, "generate")
