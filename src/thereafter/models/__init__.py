"""Sequence models: one contract, every generation; and the networks of tasks.

    base          the contract `SequenceModel`, and what can be known of a model without running it
    settings, build      options of the neural models; a model of a kind with fresh weights
    registering   the class of a cell as a kind of model, in this process
    neural        what all neural models share; network is its part that other files of this room use
    average, window, recurrent (+ streams), transformer      one file a kind of model
    state, scoring, lines, features      the state of a neural model; reading a text in pieces, line by line
    mixture, cache (+ recall)      models made of other models
    graph_step    a step of a language model as one CUDA graph; step_bodies: its layers; kept: what calls leave behind
    shapes        batches of few shapes, for recorded steps
    quiet         blocks without gradients or dropout, shared by threads
    by_layer      the names of weights from the head down
    versions      weights that change while a model is in use; row_heads: the head's product for several rows

Tasks:
    task_net      what their networks share; tagger, classifier, series_classifier (series of numbers, pictures step by
                  step; series_settings: its options), filler, translator, glimpser (pictures seen in small parts;
                  glimpse_settings: its options), catcher (games played by glimpses; catch_board: the games,
                  catch_settings: its options; sensor_settings: those of both), clip_classifier (labels of video),
                  frame_predictor (frames that come next), drawer (pictures drawn stroke by stroke; lone_pixels: to
                  compare with): one file a network
    encoder, decoder     the contracts: sources of any kind in, words out
    word_decoder, recurrent_decoder, transformer_decoder     decoders; recurrent_translator and transformer_translator
                  put an encoder before them, captioner a network over pictures
"""
