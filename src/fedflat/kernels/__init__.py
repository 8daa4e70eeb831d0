"""CPU performance: Winograd convolutions, memory format of images, allocator settings.

Code here changes the time and the rounding of a computation, never its meaning. It knows nothing of
federated learning. Start with `convolution.py`.
"""
