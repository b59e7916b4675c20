"""The ground floor of all data: files and where they are, and codecs, which turn values into numbers and back.

files      files under one name, and the parts of a corpus: size and hash
sources    what a source means: a path, a folder, a glob, standard input, the name of a corpus
finding    from paths to files; spool: streams that can be read only once
opening    bytes, inflated where they are gzip
corpora    corpora by name; catalogue: the table of them; download
codecs     the contract of codecs, and the table of those that a run can hold
scaler     numbers to mean 0 and deviation 1

Nothing here knows characters: `text` reads on top of it, as do the examples of tasks.
"""
