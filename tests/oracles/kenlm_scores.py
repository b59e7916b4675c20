"""Run by the oracle's own interpreter: log10 probability of every line of a file under an ARPA model, as JSON."""

import json
import sys

import kenlm

model = kenlm.Model(sys.argv[1])
with open(sys.argv[2], encoding="utf-8", newline="\n") as lines:
    sys.stdout.write(json.dumps([model.score(line.rstrip("\n")) for line in lines]))
