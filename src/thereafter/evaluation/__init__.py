"""How good a model is, in numbers.

scores              perplexity and bits per byte of a text
surprisal           the same by word, token, sentence or line, as a table: token_costs (nats of every token), text_units
                    (words as they are written), text_reading (both), predicted (rank, entropy, alternatives),
                    aligning (several models; matching: two texts), written_units (their sentences and lines),
                    surprisal_measurement (arrays)
recitation          training lines that a model says verbatim
unknown             the share of unknown words, and when to warn of it
switches            a cache, dynamic evaluation, the weights of a mixture: what makes a score another one
dynamic             dynamic evaluation, with dynamic_settings
tuning              chooses what a switch leaves open, on another text
intervals           the interval of a share (Wilson)
bootstrap           the interval of a difference between two models, by resampling; resampled knows the figures of tasks
verdicts            right answers, counted by distance and in groups
corpus_probe        the contract: questions that a corpus offers about itself; offered is the table
dependencies        the probes of agreement, reflexives and filler-gap, which agreement measures
remembering         the probes of the memory tasks
tagging, classes, pairs, translation    the scores of tasks
forecast_measures   MAE, MASE, CRPS, coverage and the like of forecasts; forecast_score has all of them, by step too
several_labels      several labels of one example: each, and all together
frame_measures      nats and squared error of predicted frames, and copying the last one to compare with
catch_measures      the share of balls that a player catches
drawing_measures    nats a picture of networks that draw
caption_measures    BLEU and CIDEr-D of captions; caption_score has all figures, and two captioners to compare with
hmm, nearest        a tagger, and a classifier of series, to compare with
"""
