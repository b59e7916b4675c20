"""Beyond the next word: tasks that learn from whole examples, on the same cells, training loop and run folders.

task          the contract: reading, codecs, batches, network, answers, measure; and what only some tasks can do
tag/, translate/, classify, fill       a folder or file per task; `series` and `vision` have those over numbers and
              pictures; labelling has what those share that answer with labels, their measures too
finding       the examples of a source: parts of a corpus, files, or one file that is split; which task is meant by a
              name
fitting       train, save, load, resume: settings of a task and its training, the largest batch that a GPU holds, a
              trained task as a run folder with its codecs; batching gives the loop its batches
answering     predictions in the order of the questions; what examples have been to a trained task; simple models to
              compare with, which each task names
answers       what they are: rows of a table, or CoNLL-U; with the evidence for them; arrays of a trace
lexicon       from words, labels and sentences to numbers and back
graphs        what a network computes as graphs that other programs run
bodies        the layers of a language model under a task
"""

from thereafter.base.kinds import Registry

TASKS = Registry(
    "task",
    {
        "tag": "thereafter.tasks.tag.task:TAGGING",
        "classify": "thereafter.tasks.classify:CLASSIFYING",
        "classify-series": "thereafter.series.classifying.task:CLASSIFYING_SERIES",
        "classify-pictures": "thereafter.vision.pictures.classifying:CLASSIFYING_PICTURES",
        "fill": "thereafter.tasks.fill:FILLING",
        "translate": "thereafter.tasks.translate.task:TRANSLATING",
        "caption": "thereafter.vision.captioning.task:CAPTIONING",
        "forecast": "thereafter.series.forecasting.task:FORECASTING",
        "glimpse": "thereafter.vision.glimpsing.task:GLIMPSING",
        "video": "thereafter.vision.clips.labels:VIDEO",
        "next-frames": "thereafter.vision.clips.next_frames:NEXT_FRAMES",
        "draw": "thereafter.vision.drawing.task:DRAWING",
        "act": "thereafter.vision.acting.task:ACTING",
    },
)

__all__ = ["TASKS"]
