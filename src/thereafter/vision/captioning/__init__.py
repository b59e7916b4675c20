"""Captions of pictures: task with its answers, network, measures; `reading` has the files that captions stand in."""
