"""Random generators derived from (seed, purpose, round, client).

Every draw has its own generator. Nothing depends on what was drawn before, in which process, or on
whether the run was stopped in between; two methods with one seed see the same clients and batches.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import torch


def derive(seed: int, purpose: str, *path: int) -> int:
    """A 63-bit number that depends on all of ``seed``, ``purpose`` and ``path``.

    >>> derive(0, "cohort", 3) == derive(0, "cohort", 3) != derive(0, "batches", 3)
    True
    """
    text = f"{seed}/{purpose}/" + "/".join(map(str, path))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def request_seed(round: int, client: int, repetition: int = 0) -> tuple[int, ...]:
    """The path of a client's random numbers in a round; repeated requests get other numbers.

    >>> request_seed(3, 7), request_seed(3, 7, 1)
    ((3, 7), (3, 7, 1))
    """
    return (round, client, repetition) if repetition else (round, client)


def torch_generator(seed: int, purpose: str, *path: int) -> torch.Generator:
    """A CPU generator for ``(seed, purpose, *path)``."""
    return torch.Generator().manual_seed(derive(seed, purpose, *path))


def numpy_generator(seed: int, purpose: str, *path: int) -> np.random.Generator:
    """A NumPy generator for ``(seed, purpose, *path)``."""
    return np.random.default_rng(derive(seed, purpose, *path))


def seed_modules(number: int, device: str) -> None:
    """Seed the generators that modules use.

    On the CPU only the default generator is seeded, which is a hundred times faster.
    """
    if device == "cpu":
        torch.default_generator.manual_seed(number)
    else:
        seed_torch(number)


class kept_random_state:
    """Restores the state of PyTorch's generator of the processor at the end of the block.

    It does what ``torch.random.fork_rng(devices=[])`` does, which also looks for devices.
    """

    def __enter__(self) -> None:
        """Keep the state."""
        self._state = torch.default_generator.get_state()

    def __exit__(self, *error: object) -> None:
        """Restore it."""
        torch.default_generator.set_state(self._state)


def seed_torch(number: int) -> None:
    """Seed PyTorch's generators of the processor and of the GPUs in use.

    `torch.manual_seed` formats the stack for devices that are not in use, which takes longer than
    a step of a small model.
    """
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(number)
