"""A model as one C99 file and its header: no allocation, no dependency but libm.

parts.c    the functions a generated file may need; only those that it uses are put into it
parts      reads them
arrays     numbers as C text
operations a program's operations as calls
source     the file and the header of a neural model
trie       those of an n-gram
tokens     the vocabulary and, for characters and bytes, the tokenizer
characters what Python knows of lower case and letters, as ranges
target     the target `c`: writes, compiles and runs
"""
