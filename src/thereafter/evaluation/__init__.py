"""How good a model is, in numbers.

scores              perplexity and bits per byte of a text; the share of unknown words, and when to warn of it
surprisal           the same by word, token, sentence or line, as a table: token_costs (nats of every token), text_units
                    (words as they are written), text_reading (both, and what an item is read after), predicted (rank,
                    entropy, alternatives), aligning (the texts of several models), surprisal_measurement (arrays)
conditions          figures of items by condition, and how frequent a word is
switches            a cache, dynamic evaluation, the weights of a mixture: what makes a score another one
dynamic             dynamic evaluation, with dynamic_settings
tuning              chooses what a switch leaves open, on another text
bootstrap           the interval of a difference between two models, by resampling, and of a share (Wilson); resampled
                    knows the figures of tasks
verdicts            right answers, counted by distance and in groups
corpus_probe        the contract: questions that a corpus offers about itself
offered             the table of its probes: agreement, reflexives and filler-gap (agreement measures), memory tasks
tagging, classes, pairs, translation    the scores of tasks; classes: several labels of one example too
forecast_measures   MAE, MASE, CRPS, coverage and the like of forecasts; forecast_score has all of them, by step too
frame_measures      nats and squared error of predicted frames, and copying the last one to compare with
catch_measures      the share of balls that a player catches
drawing_measures    nats a picture of networks that draw
caption_measures    BLEU and CIDEr-D of captions; caption_score has all figures, and two captioners to compare with
hmm, nearest        a tagger, and a classifier of series, to compare with
"""
