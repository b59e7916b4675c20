"""Labels of series: task, network with its settings, answers; `nearest`, the neighbour to compare with."""
