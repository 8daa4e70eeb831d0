"""Data sets, who holds what of them, and the batches cut from them."""
