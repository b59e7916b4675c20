"""Floor 0: what every room may use. It knows no text, no model and no number of theirs.

config                options as dataclasses and TOML
kinds                 tables of names whose modules are loaded at first use; the kinds of model, one row each
packages, compiled    packages that are imported when needed; the one door to numba, and loop_cache, where its code is
storage               where caches are; arrays and files that are whole or not there; one writer at a time
progress              notes and progress bars, and what is written on a terminal
tabular               answers as tables: rows, CSV, data frames
devices               where networks compute; a full device in words
processor, spinning   what a processor can do, and the tile of a product that its registers and cache can hold; how long
                      threads wait by looking
version               the version of the package
"""
