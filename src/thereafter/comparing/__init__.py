"""Models compared under one protocol: the same text, the same budget, several seeds.

    compare             language models on one text: plans, trains what is missing, gives a Comparison; where a trial
                        is kept, the machine and the versions that figures depend on
    entries             the names of models, and which options go to which of them
    budget              how much each model reads; the folder of a comparison, and what it was begun with
    shared_text         the one text that all of them get
    matching            the same number of parameters for all
    trials, trial       one model trained and measured; what is kept of it. timing measures how fast it is
    pair_verdicts       its answers to minimal pairs
    rows, mean_spread   the mean and spread over seeds, model by model
    differences         each model against the best, with intervals; model_difference says one in a sentence, from
                        what each line costs
    comparison          what a user gets; tables, advice, report (with curves) show it
    table_rows          the same as rows of numbers
    task_trials         the networks of a task, compared in the same way, beside rows without a network; names those
                        that lose to what is solved at once

What a corpus asks about itself (`evaluation.corpus_probe`) is taken as the corpus offers it; no probe is known by name.
"""
