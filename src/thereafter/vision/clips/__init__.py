"""Clips: labels frame by frame, and the frames that come next.

clip, reading      clips in batches; clips of arrays, rules and folders of pictures
moving             digits that move and bounce
labels, next_frames    the two tasks of `--task video`, with their answers
frame_predictor    the network that predicts frames
"""
