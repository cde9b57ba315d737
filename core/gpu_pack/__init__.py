"""The GPU pack: PyTorch with CUDA beside a bundle that carries the CPU build, in the person's data folder.

`what` says whether it is to be had here, `install` makes it, `using` starts the engine from it.
"""
