"""Clips: labels frame by frame, and the frames that come next.

clip, reading      clips in batches; clips of arrays, rules and folders of pictures
moving             digits that move and bounce
labels, next_frames    the two tasks of `--task video`; answers: clips as examples, and what is predicted for them
frame_predictor    the network that predicts frames
figures            labels believed frame by frame, predicted frames, nats by step
"""
