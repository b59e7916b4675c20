"""What is kept of a training, whatever was trained: one folder format, one writer, one lock.

folder      the files of a run, whether a folder may become one, who is writing to it, and its log
writer      a run that is written while it is trained or as a whole, read, and gone on with after a stop; a snapshot of
            a training, from which it goes on to the bit
narrow      weights in fewer bytes: float16, int8
"""
