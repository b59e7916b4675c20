"""Pictures and clips, whole: reading them, the tasks over them, their networks, measures and figures.

pictures/      pictures read from whatever contains them; labels of pictures that are read step by step
captioning/    captions of pictures
glimpsing/     pictures seen in glimpses
drawing/       pictures drawn stroke by stroke
clips/         labels of clips, and the frames that come next
acting/        games that are played by glimpses

task           what all these tasks have in common
encoder        convolutions over pictures and frames of video
measures       scores of clips, drawings and games; what networks over pictures have to beat
figures        where networks look, what they believe, how they draw
rules          made corpora as files, and random numbers by their place
made_pictures  clips and pictures that are made here, each a corpus by name; the shapes are drawn there

The rest of the package knows these by rows of tables: tasks, codecs, corpora, figures.
"""
