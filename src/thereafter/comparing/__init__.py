"""Models compared under one protocol: the same text, the same budget, several seeds.

    compare             language models on one text: plans, trains what is missing, gives a Comparison
    entries             the names of models, and which options go to which of them
    budget              how much each model reads
    shared_text         the one text that all of them get
    matching            the same number of parameters for all
    planning            the folder of a comparison, and what it was begun with
    trials, trial       one model trained and measured; what is kept of it. timing measures how fast it is
    planned_trial       where it is kept, with line_sums (what each line costs) and pair_verdicts (minimal pairs)
    rows, mean_spread   the mean and spread over seeds, model by model
    differences         each model against the best, with intervals; model_difference says one in a sentence
    comparison          what a user gets; tables, advice, report (with markup and curves) show it
    table_rows          the same as rows of numbers
    machine             the machine and the versions that figures depend on
    task_trials         the networks of a task, compared in the same way, with task_differences; yardsticks names
                        those that lose to what is solved at once, task_networks which are compared, beside rows
                        without a network

What a corpus asks about itself (`evaluation.corpus_probe`) is taken as the corpus offers it; no probe is known by name.
"""
