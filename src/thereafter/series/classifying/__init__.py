"""Labels of series: task, network and its settings, answers; `nearest`, the neighbour to compare with."""
