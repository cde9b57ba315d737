"""What the model says of a few held-out examples, asked again at every evaluation.

The same examples each time, so that one sees it learn. Nothing here touches the training: the model is put in
evaluation mode, no random number is drawn, and the losses of a run are the same bits with and without.
"""
