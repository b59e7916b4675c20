"""The C file and the header of an n-gram: a trie of constant arrays, in which a context is a node.

`ngram/tables.py` says what the arrays are.
"""

from __future__ import annotations

from collections.abc import Iterator

from thereafter.export.c.arrays import floats, ints
from thereafter.export.c.parts import functions
from thereafter.export.c.tokens import tokens_text
from thereafter.export.plans import NgramPlan

_CODE = """
/* The child of a context with that word; 0 if there is none. */
static int child(int context, int w)
{{
    int low = first_child[context], high = first_child[context + 1];
    const int end = high;
    while (low < high) {{
        const int middle = low + (high - low) / 2;
        if (word[middle] < w) low = middle + 1;
        else high = middle;
    }}
    return low < end && word[low] == w ? low : 0;
}}

void {name}_start({name}_state *state)
{{
    state->node = {first};
}}

void {name}_step({name}_state *state, int token, float *logits)
{{
    if (token == {restart}) {name}_start(state);
    else if (token >= 0 && token < {words}) {{
        int context = state->node, next;
        while (!(next = child(context, token))) context = suffix[context]; /* every word is a child of the root */
        state->node = next < {contexts} ? next : suffix[next];
    }}
    if (logits) {name}_predict(state, logits);
}}
{predict}
void {name}_log_p(float *logits)
{{
    log_softmax(logits, {words});
}}

"""

_BACKOFF = """
void {name}_predict(const {name}_state *state, float *logits)
{{
    int chain[{order}], n = 0;
    for (int context = state->node; context; context = suffix[context]) chain[n++] = context;
    for (int w = 0; w < {words}; w++) logits[w] = logp[1 + w];
    while (n--) {{ /* from the shortest context to the longest */
        const int context = chain[n];
        for (int w = 0; w < {words}; w++) logits[w] += backoff[context];
        for (int i = first_child[context]; i < first_child[context + 1]; i++) logits[word[i]] = logp[i];
    }}
}}
"""

_UNIFORM = """
void {name}_predict(const {name}_state *state, float *logits)
{{
    int context = state->node; /* the longest context after which anything was seen decides */
    while (context && first_child[context] == first_child[context + 1]) context = suffix[context];
    for (int w = 0; w < {words}; w++) logits[w] = context ? backoff[context] : logp[1 + w];
    if (context)
        for (int i = first_child[context]; i < first_child[context + 1]; i++) logits[word[i]] = logp[i];
}}
"""


def trie_text(name: str, header: str, plan: NgramPlan) -> Iterator[str]:
    """The C file, in pieces."""
    yield f"/* written by thereafter: {header} says what it is */\n"
    yield f'#include "{header}"\n\n#include <math.h>\n#include <stddef.h>\n\n'
    for part in ("word", "suffix", "first_child"):
        yield from ints(part, vars(plan)[part])
    yield from floats("logp", plan.logp)
    yield from floats("backoff", plan.backoff)
    words = plan.wording.size
    predict = (_UNIFORM if plan.uniform else _BACKOFF).format(name=name, words=words, order=max(1, plan.order))
    yield (
        "\n"
        + functions({"log_softmax"})
        + _CODE.format(
            name=name,
            first=plan.first,
            restart=-1 if plan.wording.restart is None else plan.wording.restart,
            words=words,
            contexts=len(plan.backoff),
            predict=predict,
        )
    )
    yield from tokens_text(name, plan.wording)
