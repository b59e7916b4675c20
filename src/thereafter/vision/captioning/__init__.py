"""Captions of pictures: task, network, answers, measures, score (intervals of all figures), figure.

reading     pictures with captions, and the files that captions stand in
baselines   what a captioner has to beat
shapes      pictures of coloured shapes, and five captions for each
"""
