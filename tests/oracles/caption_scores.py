"""Run by the oracle's own interpreter: BLEU by NLTK and CIDEr-D by pycocoevalcap of a JSON file of answers and
references, all as lists of words."""

import json
import sys
import warnings

from nltk.translate.bleu_score import corpus_bleu
from pycocoevalcap.cider.cider_scorer import CiderScorer

warnings.simplefilter("ignore")  # NLTK's, where there is no k-gram in common
with open(sys.argv[1], encoding="utf-8") as given:
    answers, references = json.load(given)
scorer = CiderScorer()
for answer, several in zip(answers, references, strict=True):
    scorer += (" ".join(answer), [" ".join(words) for words in several])
mean, each = scorer.compute_score()
bleu = [100 * float(corpus_bleu(references, answers, weights=[1 / n] * n)) for n in range(1, 5)]
sys.stdout.write(
    json.dumps({"bleu": bleu, "cider_d": float(mean), "cider_d_of_each": [float(score) for score in each]})
)
