"""Labels of texts: task, network, measures (several labels per text, too), Naive Bayes to compare with."""
