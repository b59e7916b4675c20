"""Beyond the next word: tasks that learn from whole examples, on the same cells, training loop and run folders.

task          the contract: reading, codecs, batches, network, answers, measure
tagging, classifying, series_classifying, filling, translating, captioning      one file a task
choosing      which task is meant where one name stands for several
forecasting   the task of numbers that come next; forecast_frame, _windows, _batches, _predicting, _answers,
              _calibrating and _scoring are its steps; forecast_asking, _points, _ahead and _backtest: what a trained
              one says of a whole table; forecast_leaks: whether a forecast saw the future
finding       the examples of a source: parts of a corpus, files, or one file that is split
fitting       settings of a task and its training; learning and batching give the loop its batches; largest: the
              largest one that a GPU holds
store         a trained task as a run folder: train, save, load, resume
answering     predictions in the order of the questions; predictions: as a table, or as CoNLL-U; validating: their
              score on what was held out
tag_reading   how a tagger reads text that is not of its corpus
explaining, shown, tracing      answers with the evidence for them, and what the network did step by step
codecs, lexicon, wording        from words, labels and sentences to numbers and back
bodies, reading      the layers of a language model under a task, and words as that model reads them
series_answers       answers of a classifier of series, with the evidence of each step; caption_answers: of a captioner
picture_classifying  the task of pictures read step by step; picture_examples and picture_answers: its files and answers
caption_examples     files, words and random draws of a captioner's examples; caption_rows: what it has to beat
glimpsing            the task of pictures seen in glimpses; glimpse_answers: a label with the path that led to it
video, next_frames   labels of clips, and the frames that come next; clip_examples: clips as examples, clip_answers:
                     what is said of them, column_lexicons: several columns of labels
drawing       pictures drawn stroke by stroke; drawing_answers: a picture drawn again, and what it costs
acting        games that are played by glimpses; acting_answers: a game step by step, acting_rows: other players
baselines     simple models to compare with
resampling    answers ready to be resampled, for the intervals of comparisons
"""

from thereafter.registry import Registry

TASKS = Registry(
    "task",
    {
        "tag": "thereafter.tasks.tagging:TAGGING",
        "classify": "thereafter.tasks.classifying:CLASSIFYING",
        "classify-series": "thereafter.tasks.series_classifying:CLASSIFYING_SERIES",
        "classify-pictures": "thereafter.tasks.picture_classifying:CLASSIFYING_PICTURES",
        "fill": "thereafter.tasks.filling:FILLING",
        "translate": "thereafter.tasks.translating:TRANSLATING",
        "caption": "thereafter.tasks.captioning:CAPTIONING",
        "forecast": "thereafter.tasks.forecasting:FORECASTING",
        "glimpse": "thereafter.tasks.glimpsing:GLIMPSING",
        "video": "thereafter.tasks.video:VIDEO",
        "next-frames": "thereafter.tasks.next_frames:NEXT_FRAMES",
        "draw": "thereafter.tasks.drawing:DRAWING",
        "act": "thereafter.tasks.acting:ACTING",
    },
)

__all__ = ["TASKS"]
