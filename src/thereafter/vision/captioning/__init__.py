"""Captions of pictures: task, network, answers, measures.

reading     pictures with captions, and the files that captions stand in
shapes      pictures of coloured shapes, and five captions for each
"""
