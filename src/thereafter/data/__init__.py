"""Data below text: files and where they are, and codecs, which turn values into numbers and back.

files      the bytes of a file, decompressed if they are gzip; several files as one, and the parts of a corpus
finding    from paths, folders and globs to files, and to their parts by their names
corpora    what a source means: a path, a folder, a glob, standard input, the name of a corpus; corpora by name
catalogue  the table of corpora; download
codecs     the contract of codecs, the table of those that a run folder can contain; scalers of numbers and channels

Nothing here decodes characters: `text` is built on top of it, as are the examples of tasks.
"""
