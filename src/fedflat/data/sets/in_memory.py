"""Data sets from tensors in Python. They have no text for the command line.

    tensors(x, y, test_x, test_y, lda(0.1), clients=20)
    clients_of([(x0, y0), (x1, y1), ...], test=(test_x, test_y))
    clients_from(make, clients=1_000_000, test=(test_x, test_y), classes=10)

NumPy arrays and pandas columns are accepted too, and a torch Dataset in place of any pair, also one
of dicts: ``tensors(train_set, test_x=test_set)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from fedflat.data.categories import (
    Arrays,
    Categories,
    Labels,
    Pair,
    categories,
    labels,
    numbered,
    pair,
    tensor,
)
from fedflat.data.examples import Augment, ClientData, Examples, leading
from fedflat.data.federation import DataSpec, Federation, OnDemand
from fedflat.data.partitions.given import ByUser
from fedflat.data.partitions.iid import Iid
from fedflat.data.partitions.partition import Partition
from fedflat.data.splitting import check_cut, federate
from fedflat.errors import SettingError, number


@dataclass(frozen=True, repr=False, eq=False)
class Tensors(DataSpec):
    everything: Examples
    train: int
    partition: Partition
    clients: int
    split: float | None
    coarse: Tensor | None
    users: Tensor | None
    seed: int | None
    labels: tuple[str, ...] = ()
    """The names of the classes, if labels were not numbers."""
    owners: tuple[str, ...] = ()
    """The names of the users."""

    key = "tensors"

    def __post_init__(self) -> None:
        check_cut("tensors", self.partition, self.clients, self.split, self.seed)
        if self.train == len(self.everything) and self.split is None:
            raise SettingError(
                "tensors: there is nothing to test on. Give test_x and test_y, or split=0.7."
            )
        for name, ids in (("coarse", self.coarse), ("users", self.users)):
            if ids is not None and len(ids) != self.train:
                raise SettingError(
                    f"tensors: {name} must have an entry for each of {self.train} examples, found "
                    f"{len(ids)}."
                )

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.everything.shape)) or "1"
        return f"tensors(<{self.train} of {shape}>, {self.partition!r}, clients={self.clients})"

    def open(self, seed: int) -> Federation:
        seed = seed if self.seed is None else self.seed
        fed = federate(
            self.everything,
            self.train,
            self.partition,
            self.clients,
            seed,
            split=self.split,
            pool=self.train == len(self.everything),
            coarse=None if self.coarse is None else self.coarse.numpy(),
            users=None if self.users is None else self.users.numpy(),
        )
        return replace(fed, client_names=self.client_names())

    def class_names(self) -> tuple[str, ...]:
        """See `DataSpec.class_names`: the labels, if they were not numbers."""
        return self.labels

    def client_names(self) -> tuple[str, ...]:
        """See `DataSpec.client_names`: the users, if each is a client."""
        return self.owners if isinstance(self.partition, ByUser) else ()


def tensors(
    x: Arrays | Dataset[Any],
    y: Arrays | None = None,
    test_x: Arrays | Dataset[Any] | None = None,
    test_y: Arrays | None = None,
    partition: Partition | None = None,
    *,
    clients: int = 100,
    classes: int | None = None,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    augment: Augment | None = None,
    split: float | None = None,
    coarse: Arrays | None = None,
    users: Arrays | None = None,
    seed: int | None = None,
) -> Tensors:
    """A data set of these examples and labels, divided by ``partition`` (default ``iid()``).

    Inputs are uint8 images, scaled to 0 to 1, or floats; both are normalized by ``mean`` and
    ``std``, one number per channel. Other integers, such as indices of characters, stay unchanged.
    A label is a class, a number (floats: ``task="regression()"``), or an array of either, such as a
    mask (then set ``classes``). Classes are numbers from 0, or words, truth values and other
    numbers, which keep their names. ``users`` has an owner of any kind for each training example
    (for ``by_user()``, then the default), ``coarse`` a coarse class (for ``pam()``). Without test
    examples, clients test on what ``split`` leaves. A torch Dataset, in place of ``x`` and ``y`` or
    of ``test_x`` and ``test_y``, is read once, so its random transforms are applied once;
    ``augment`` is applied anew to every batch.

    >>> x, y = torch.rand(40, 3), torch.arange(40) % 4
    >>> data = tensors(x, y, torch.rand(8, 3), torch.arange(8) % 4, clients=5)
    >>> data.open(seed=0).population
    5
    """
    train = _as_pair(x, y, "x", "y")
    test = (
        None if test_x is None and test_y is None else _as_pair(test_x, test_y, "test_x", "test_y")
    )
    given = [train] if test is None else [train, test]
    ys, names = numbered("tensors", [one_y for _, one_y in given])
    pairs = [(one_x, one_y) for (one_x, _), one_y in zip(given, ys, strict=True)]
    x, y = pairs[0]
    for one_x, one_y in pairs:
        _check(one_x, one_y, pairs[0])
    all_y = _targets(torch.cat(ys))
    examples = Examples(
        torch.cat([one_x for one_x, _ in pairs]) if len(pairs) > 1 else x,
        all_y,
        _classes(all_y, classes if classes is not None else len(names) or None),
        tuple(mean),
        tuple(std),
        augment,
    )
    _channels(x, mean, std)
    owners = None if users is None else _owners(users)
    if partition is None:
        partition = Iid() if owners is None else ByUser()
    kinds = None if coarse is None else tensor("tensors", "coarse classes", coarse)
    return Tensors(
        examples,
        len(y),
        partition,
        clients,
        split,
        kinds,
        None if owners is None else owners.codes,
        seed,
        names,
        () if owners is None else owners.names,
    )


def _owners(users: Arrays) -> Categories:
    values = labels("tensors", users)
    return categories("tensors", "user", values.tolist())


def _as_pair(x: object, y: object, x_name: str, y_name: str) -> tuple[Tensor, Labels]:
    if isinstance(x, Dataset) and y is None:
        return pair("tensors", x)
    if x is None or y is None or isinstance(x, Dataset) or isinstance(y, Dataset):
        raise SettingError(
            f"tensors: give both {x_name} and {y_name}, or a torch Dataset as {x_name} alone, as "
            "in tensors(train_set, test_x=test_set)."
        )
    return pair("tensors", (x, y))  # type: ignore[arg-type]


def clients_of(
    given: Sequence[Pair] | Mapping[str, Pair],
    test: Pair | None = None,
    *,
    classes: int | None = None,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    augment: Augment | None = None,
    split: float | None = None,
    seed: int | None = None,
) -> Tensors:
    """A data set whose clients hold exactly these examples: pairs or torch Datasets, in order.

    given
        For each client, inputs and labels; a dict has the names of the clients as its keys.
    mean, std
        Mean and standard deviation of each channel, for normalization. Empty: none.
    augment
        Changes inputs in training; None: nothing.
    split
        Share of each client's examples that it holds out for its own test, from 0 to 1;
        None: no such test.
    seed
        Seed of what is held out; None: the seed of the run.

    >>> pairs = [(torch.rand(n, 3), torch.zeros(n, dtype=torch.long)) for n in (4, 9)]
    >>> test = torch.rand(5, 3), torch.zeros(5, dtype=torch.long)
    >>> fed = clients_of(pairs, test=test, classes=2).open(0)
    >>> [len(fed.data(k)) for k in range(fed.population)]
    [4, 9]
    """
    if not given:
        raise SettingError("clients_of: there must be at least one client, found none.")
    named = given if isinstance(given, Mapping) else dict(enumerate(given))
    read = [pair(f"clients_of: client {client}", one) for client, one in named.items()]
    last = [] if test is None else [pair("clients_of: the test set", test)]
    ys, names = numbered("clients_of", [y for _, y in [*read, *last]])
    pairs = [(x, y) for (x, _), y in zip([*read, *last], ys, strict=True)]
    tests, pairs = pairs[len(read) :], pairs[: len(read)]
    for client, (x, y) in zip(named, pairs, strict=True):
        _check(x, y, pairs[0], f"clients_of: client {client}")
    users = torch.repeat_interleave(
        torch.arange(len(pairs)), torch.tensor([len(y) for _, y in pairs])
    )
    test_x, test_y = tests[0] if tests else (None, None)
    found = tensors(
        torch.cat([x for x, _ in pairs]),
        torch.cat([y for _, y in pairs]),
        test_x,
        test_y,
        ByUser(),
        clients=len(pairs),
        classes=classes if classes is not None else len(names) or None,
        mean=mean,
        std=std,
        augment=augment,
        split=split,
        users=users,
        seed=seed,
    )
    return replace(found, labels=names, owners=tuple(map(str, named)))


@dataclass(frozen=True, repr=False, eq=False)
class FunctionSet(DataSpec):
    make: Callable[[int], Pair]
    clients: int
    test: Examples

    def __post_init__(self) -> None:
        number("clients_from", "clients", self.clients, low=1, whole=True)

    def __repr__(self) -> str:
        return f"clients_from({getattr(self.make, '__name__', self.make)}, clients={self.clients})"

    def open(self, seed: int) -> Federation:
        test = replace(self.test, augment=None)
        return OnDemand(self.clients, self.examples, ClientData(test, torch.arange(len(test))))

    def examples(self, client: int) -> Examples:
        """The checked result of ``make`` for a client."""
        owner = f"clients_from: client {client}"
        try:
            examples = self.make(client)
        except Exception as error:
            raise SettingError(
                f"{owner} could not be made: {type(error).__name__}: {error}. The function given "
                "to clients_from must give inputs and labels for every number from 0 to "
                f"{self.clients - 1}."
            ) from error
        x, given = pair(owner, examples)
        y = _numbers(given, owner)
        _check(x, y, (leading(self.test.inputs), leading(self.test.targets)), owner)
        _classes(y, self.test.classes, owner)
        return replace(self.test, inputs=x, targets=_targets(y))


def clients_from(
    make: Callable[[int], Pair],
    clients: int,
    test: Pair,
    classes: int,
    *,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    augment: Augment | None = None,
) -> FunctionSet:
    """A data set whose clients are made on demand by ``make(client)``, as inputs and labels.

    It must return the same for the same client. Nothing grows with the number of clients. Worker
    processes need a picklable ``make``.

    mean, std
        Mean and standard deviation of each channel, for normalization. Empty: none.
    augment
        Changes inputs in training; None: nothing.

    >>> def make(client):
    ...     return torch.full((4, 3), float(client)), torch.arange(4) % 2
    >>> test = torch.rand(5, 3), torch.arange(5) % 2
    >>> fed = clients_from(make, clients=10**9, test=test, classes=2).open(0)
    >>> float(fed.data(123_456).batch(torch.tensor([0]), torch.float32).inputs[0, 0])
    123456.0
    """
    x, given = pair("clients_from: the test set", test)
    y = _numbers(given, "clients_from: the test set")
    _check(x, y, (x, y), "clients_from: the test set")
    _channels(x, mean, std, "clients_from")
    _classes(y, classes, "clients_from: the test set")
    return FunctionSet(
        make, clients, Examples(x, _targets(y), classes, tuple(mean), tuple(std), augment)
    )


def _check(x: Tensor, y: Tensor, like: tuple[Tensor, Tensor], owner: str = "tensors") -> None:
    if y.dim() < 1 or x.dim() < 1 or len(y) == 0 or len(x) != len(y):
        raise SettingError(
            f"{owner}: there must be examples and a label for each, found inputs of "
            f"{tuple(x.shape)} and labels of {tuple(y.shape)}."
        )
    if y.is_complex() or (not y.is_floating_point() and int(y.min()) < 0):
        description = f"{y.dtype}" + ("" if y.is_complex() else f" from {y.min().item()}")
        raise SettingError(
            f"{owner}: labels must be whole numbers from 0, or floats to be met, found "
            f"{description}."
        )
    inputs, targets = like
    if y.shape[1:] != targets.shape[1:] or y.is_floating_point() != targets.is_floating_point():
        raise SettingError(
            f"{owner}: all labels must be alike, {tuple(targets.shape[1:])} of {targets.dtype}, "
            f"found {tuple(y.shape[1:])} of {y.dtype}."
        )
    if x.shape[1:] != inputs.shape[1:] or x.dtype != inputs.dtype:
        raise SettingError(
            f"{owner}: all inputs must be alike, {tuple(inputs.shape[1:])} of {inputs.dtype}, "
            f"found {tuple(x.shape[1:])} of {x.dtype}."
        )
    if x.is_complex() or x.dtype == torch.bool:
        raise SettingError(
            f"{owner}: inputs must be floats, uint8 or whole numbers, found {x.dtype}. Convert "
            "them."
        )


def _numbers(y: Labels, owner: str) -> Tensor:
    """Labels that must be numbers: names cannot be known before all clients are made."""
    if not isinstance(y, Tensor):
        raise SettingError(
            f"{owner}: labels must be numbers, found {y.tolist()[:3]}. Number the classes from 0."
        )
    return y


def _channels(
    x: Tensor, mean: Sequence[float], std: Sequence[float], owner: str = "tensors"
) -> None:
    if len(mean) != len(std) or len(mean) not in (0, *x.shape[1:2]):
        raise SettingError(
            f"{owner}: mean and std must have one number for each channel, found {len(mean)} and "
            f"{len(std)} for inputs of {tuple(x.shape[1:])}."
        )


def _targets(y: Tensor) -> Tensor:
    """Floats unchanged, classes as 64-bit integers."""
    return y if y.is_floating_point() else y.long()


def _classes(y: Tensor, classes: int | None, owner: str = "tensors") -> int:
    """The number of classes; 0 if labels are not classes. Masks may contain ignored labels."""
    if y.is_floating_point():
        return classes or 0
    if y.dim() > 1:
        if classes is None:
            raise SettingError(
                f"{owner}: where examples have many labels each, say how many classes: classes=2."
            )
        return classes
    count = int(y.max()) + 1
    if classes is not None and count > classes:
        raise SettingError(f"{owner}: labels must be below classes={classes}, found {count - 1}.")
    return count if classes is None else classes
