"""The server's public set: a number of examples per class, none of which is in a test set."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

import torch

from fedflat.core.seeds import torch_generator
from fedflat.data.examples import ClientData, arguments
from fedflat.data.federation import Federation
from fedflat.errors import SettingError

AT_A_TIME = 256


def examples_per_class(public: ClientData, per_class: int, seed: int) -> ClientData:
    """Return ``per_class`` random examples of each class, in order.

    A class with fewer gives all of them.
    """
    labels = public.labels.cpu()
    order = torch.randperm(len(labels), generator=torch_generator(seed, "public"))
    chosen = torch.cat([order[labels[order] == label][:per_class] for label in labels.unique()])
    return ClientData(public.examples, public.index[chosen.sort().values.to(public.index.device)])


def check_public_set(owner: str, public: ClientData, fed: Federation, dtype: torch.dtype) -> None:
    """Refuse a public set that lacks a class, or that shares examples with a test set."""
    if not public.examples.has_classes or not fed.test.examples.has_classes:
        raise SettingError(
            f"{owner}: clients are compared by classes, but these data have no class for each "
            "example. Use another description."
        )
    counts = torch.bincount(public.labels.cpu(), minlength=fed.classes)
    if len(counts) > fed.classes or not bool((counts > 0).all()):
        more = len(counts) > fed.classes
        has = f"{len(counts)} classes" if more else f"none of class {int(counts.argmin())}"
        raise SettingError(
            f"{owner}: the server's public set has {has}, but the clients' data have {fed.classes} "
            "classes. Use data with the same classes."
        )
    known = set(_digests(public, dtype))
    for name, test in fed.tests.items():
        shared = sum(one in known for one in _digests(test, dtype))
        if shared:
            raise SettingError(
                f"{owner}: {shared} examples of the server's public set are also in the test set "
                f"{name!r}. Use other data, or remove them from the test set: --server-data "
                "'public_part(digits())' with --on 'without_public_part(digits(lda(0)))'."
            )


def _digests(data: ClientData, dtype: torch.dtype) -> Iterator[bytes]:
    for batch in data.batches(torch.arange(len(data)).split(AT_A_TIME), dtype):
        tensors = [tensor.cpu().contiguous() for tensor in arguments(batch.inputs)]
        for at in range(len(batch)):
            yield blake2b(
                b"".join(tensor[at].numpy().tobytes() for tensor in tensors), digest_size=16
            ).digest()
