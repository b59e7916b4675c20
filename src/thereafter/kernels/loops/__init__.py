"""Compiled loops over steps of recurrent cells. Importing a module of this folder imports numba."""
