"""Models compared under one protocol: the same text, the same budget, several seeds.

    compare         language models on one text: plans, trains what is missing, gives a Comparison; where a trial is
                    kept, the machine and the versions that figures depend on
    budget          the names of models, which options go to which of them, the same number of parameters for all; the
                    one text that all of them get, and how much each reads; the folder of a comparison, and what it
                    was begun with
    probes          what a corpus asks about itself: agreement, reflexives, filler-gap, memory tasks
    trials          one model trained and measured, and how fast it is
    rows            what is kept of a trial, its answers to minimal pairs too; the mean and spread over seeds, model by
                    model, as rows of numbers
    differences     each model against the best, with intervals, in a sentence too, from what each line costs
    tables, report  what a user gets: tables and sentences of advice, a page with curves
    task_trials     the networks of a task, compared in the same way, beside rows without a network; names those that
                    lose to what is solved at once

A probe is taken as the corpus offers it; `compare` knows none by name.
"""
