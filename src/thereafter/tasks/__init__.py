"""Beyond the next word: tasks that learn from whole examples, on the same cells, training loop and run folders.

task          the contract: reading, codecs, batches, network, answers, measure
tagging, classifying, series_classifying, filling, translating, captioning      one file a task
forecasting   the task of numbers that come next; forecast_frame, forecast_windows, forecast_predicting,
              forecast_answers and forecast_scoring are its steps; forecast_asking, forecast_ahead and
              forecast_backtest: what a trained one says of a whole table, and whether it saw the future
finding       the examples of a source: parts of a corpus, files, or one file that is split
fitting       settings of a task and its training, and the largest batch that a GPU holds; learning and batching give
              the loop its batches
store         a trained task as a run folder: train, save, load, resume; which task is meant by a name
answering     predictions in the order of the questions; predictions: as a table, or as CoNLL-U; validating: what
              examples have been to a trained task
explaining, shown    answers with the evidence for them
lexicon, wording     from words, labels and sentences to numbers and back; batching keeps them with a run
bodies, reading      the layers of a language model under a task, and words as that model reads them
series_answers       answers of a classifier of series, with the evidence of each step; caption_answers: of a captioner
picture_classifying  the task of pictures read step by step; picture_examples: its files; picture_rows: its rivals
caption_rows         what a captioner has to beat
glimpsing            the task of pictures seen in glimpses; an answer is a label with the path that led to it
video, next_frames   labels of clips, and the frames that come next; clip_answers: clips as examples, and what is said
                     of them
drawing       pictures drawn stroke by stroke; an answer is a picture drawn again, and what it costs
acting        games that are played by glimpses, step by step
baselines     simple models to compare with, and other players
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
