"""Beyond the next word: tasks that learn from whole examples, on the same cells, training loop and run folders.

task          the contract: reading, codecs, batches, network, answers, measure
tagging, classifying, filling, translating      one file a task
finding       the examples of a source: parts of a corpus, files, or one file that is split
fitting       settings of a task and its training; learning and batching give the loop its batches
store         a trained task as a run folder: train, save, load, resume
answering     predictions in the order of the questions; predictions: as a table, or as CoNLL-U
tag_reading   how a tagger reads text that is not of its corpus
explaining, shown, tracing      answers with the evidence for them, and what the network did step by step
codecs, lexicon, wording        from words, labels and sentences to numbers and back
bodies, reading      the layers of a language model under a task, and words as that model reads them
baselines     simple models to compare with
resampling    answers ready to be resampled, for the intervals of comparisons
"""

from thereafter.registry import Registry

TASKS = Registry(
    "task",
    {
        "tag": "thereafter.tasks.tagging:TAGGING",
        "classify": "thereafter.tasks.classifying:CLASSIFYING",
        "fill": "thereafter.tasks.filling:FILLING",
        "translate": "thereafter.tasks.translating:TRANSLATING",
    },
)

__all__ = ["TASKS"]
