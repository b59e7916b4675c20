"""Figures of traces, measurements and training logs: a plot, a caption, and the numbers as a table.

What every figure is made of:
    figure              Figure: a plot with title, caption and table
    plot                what is used of a plotly figure
    style               colours, fonts, an empty plot in the common look
    spread              lines with the spread over seeds, marks, legends
    scene               3-D plots and their labels

What is drawn, one file for each family:
    traces              gates over a sentence, training curves, parameter counts
    attention           attention maps, positional encodings
    gradients           gradients by distance and depth, Jacobians, truncation; flow_words (their captions)
    stability           activation functions, eigenvalues
    growth              time and memory by sequence length
    dynamics            trajectories, senses of a word, surfaces, saturation, timescales
    memory, agreement, pairs, number_unit      what a model remembers and gets right
    units               a text in the colours of a unit
    text                temperature, sparsity of n-grams
    tasks               alignments, BLEU by length, confusion matrices
    diagrams/           architecture diagrams, read off the code

How it is written:
    catalogue           every figure that `thereafter figure` can draw, and from which file
    comparisons         the results of `thereafter compare` as measurements
    export              files by their ending: page (HTML), pictures (PNG, SVG), CSV, JSON
"""
