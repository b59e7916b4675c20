"""The tables of a finished n-gram model: one trie, flat, ready to be mapped from a file.

Nodes are numbered breadth first: 0 is the empty n-gram, 1 + w the word w (the last of them `<s>`), then the bigrams,
and so on; the children of a node are neighbours, sorted by word. A context *is* a node, so the state of the model
is one number. To read a word, look for it among the children of the context; if it is missing, add the back-off weight
and continue from the suffix. (The automaton form of a back-off model; Allauzen, Mohri and Roark 2003.)

Shapes: M nodes, of which the first C are no longer than order - 1 and can be contexts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import FormatError

Int = NDArray[np.int32]
Float32 = NDArray[np.float32]

_HIGHEST_LOG = 50.0


@dataclass(frozen=True)
class Tables:
    """Arrays of the trie.

    `word` [M] last word; `logp` [M] natural log p(last word | the rest); `suffix` [M] node without its first word;
    `backoff` [C] natural log weight of a context; `first_child` [C + 1], the children of c being
    first_child[c] .. first_child[c + 1]; `level_starts` [order + 2], where each order begins, and M.
    """

    word: Int
    logp: Float32
    suffix: Int
    backoff: Float32
    first_child: Int
    level_starts: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name, values in list(vars(self).items()):
            if name == "level_starts":
                continue
            array = np.asarray(values).view()
            array.flags.writeable = False  # the same type as when mapped from a file: one compiled loop serves both
            object.__setattr__(self, name, array)

    @property
    def order(self) -> int:
        return len(self.level_starts) - 2

    @property
    def vocabulary_size(self) -> int:
        return int(self.level_starts[2]) - 2

    @property
    def contexts(self) -> int:
        return len(self.backoff)

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (self.word, self.logp, self.suffix, self.backoff, self.first_child))

    def sizes(self) -> list[int]:
        """How many n-grams there are of orders 1, 2, ...; `<s>` is not counted among the words."""
        sizes = np.diff(self.level_starts)[1:].tolist()
        return [sizes[0] - 1, *sizes[1:]]

    def order_of(self, nodes: NDArray[np.integer]) -> NDArray[np.int64]:
        """The length of each node's n-gram."""
        return np.searchsorted(self.level_starts, nodes, side="right") - 1

    def path(self, node: int) -> list[int]:
        """The word ids of a context, from first to last."""
        words: list[int] = []
        while node:
            words.append(int(self.word[node]))
            # a number of the array's own type: any other would have the whole array converted at every look-up
            node = int(np.searchsorted(self.first_child, np.int32(node), side="right")) - 1
        return words[::-1]

    def chain(self, node: int) -> list[int]:
        """A context and its ever shorter suffixes, down to the empty one."""
        nodes = [node]
        while nodes[-1]:
            nodes.append(int(self.suffix[nodes[-1]]))
        return nodes

    def find(self, parents: NDArray[np.integer], words: NDArray[np.integer]) -> NDArray[np.int64]:
        """The child of each parent with that word, -1 if there is none (or the parent is -1)."""
        usable = (parents >= 0) & (parents < self.contexts)
        parents = np.where(usable, parents, 0)
        start, end = self.first_child[parents], self.first_child[parents + 1]
        widest = int(np.max(end - start, initial=0))
        for _ in range(widest.bit_length()):  # a binary search among the children of each, all in step
            middle = start + ((end - start) >> 1)  # their sum may be beyond 2**31
            is_before = (start < end) & (self.word[np.minimum(middle, len(self.word) - 1)] < words)
            start, end = np.where(is_before, middle + 1, start), np.where(is_before, end, np.minimum(middle, end))
        place = np.minimum(start, len(self.word) - 1)
        hit = usable & (start < self.first_child[parents + 1]) & (self.word[place] == words)
        return np.where(hit, place, -1).astype(np.int64)

    def check(self) -> None:
        """Refuse tables with indices out of bounds, such as those of a damaged or hostile file."""
        nodes, contexts = len(self.word), self.contexts
        starts = self.level_starts
        sound = (
            all(array.ndim == 1 for array in vars(self).values())
            and len(starts) >= 3
            and starts[0] == 0
            and starts[1] == 1
            and bool(np.all(np.diff(starts) >= 0))
            and starts[-1] == nodes == len(self.logp) == len(self.suffix)
            and starts[-2] == contexts == len(self.first_child) - 1
            and self.vocabulary_size >= 1
            and self.first_child[0] == 1
            and self.first_child[-1] == nodes
            and bool(np.all(np.diff(self.first_child) >= 0))
            # a level's children are the next level, so that every walk to a parent ends
            and bool(np.array_equal(self.first_child[starts[:-2]], starts[1:-1]))
            and bool(np.all((self.word >= 0) & (self.word <= self.vocabulary_size)))
            and bool(np.array_equal(self.word[1 : starts[2]], np.arange(self.vocabulary_size + 1)))
            and bool(np.all(self.word[starts[2] :] < self.vocabulary_size))  # <s> is never predicted
            # logs that can be added up and raised again; a pruned ARPA file may imply some a little above 0
            and bool(np.all(self.logp < _HIGHEST_LOG) and np.all(self.backoff < _HIGHEST_LOG))
            # a suffix lies exactly one order lower, so that every walk along suffixes ends
            and all(
                bool(np.all((self.suffix[begin:end] >= below) & (self.suffix[begin:end] < begin)))
                for below, begin, end in zip(starts, starts[1:], starts[2:], strict=False)
            )
        )
        if not sound:
            raise FormatError("the n-gram tables are damaged: their parts do not fit together; try training again")
