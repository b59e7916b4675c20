"""Labels of series: task, network with its settings, answers; the nearest neighbour to compare with."""
