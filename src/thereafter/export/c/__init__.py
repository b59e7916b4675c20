"""A model as one C99 file and its header: no allocation, no dependency but libm.

parts.c    the functions a generated file may need; only those that it uses are put into it; templates.c: the text
           around them
source     the file and the header of a neural model: a program's operations as calls; numbers as C text; the
           vocabulary and, for characters and bytes, the tokenizer; lower case and letters, as ranges; reads parts.c
target     the target `c`: writes, compiles and runs; the file and the header of an n-gram
"""
