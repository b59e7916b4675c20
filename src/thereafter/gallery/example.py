"""The running example: as near to the book's as the words of `agreement` come.

The book's trophy was won by athletes and does not fit into its case; most of those words no sentence of the corpus has.
Ours keeps the build: a singular subject, a relative clause with a plural noun in it, then the verb, as many words later
as the gallery's models were trained on.
"""

from __future__ import annotations

BEFORE_VERB = "the trophy that the tall senators from the old city had admired"
SENTENCE = f"{BEFORE_VERB} was very heavy ."
IN_PLURAL = SENTENCE.replace("trophy", "trophies").replace("was", "were")
SUBJECT, VERB = (SENTENCE.split().index(word) for word in ("trophy", "was"))
