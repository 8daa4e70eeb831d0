"""A PyTorch module as one vector of parameters and one vector of buffers.

`Layout` maps names to positions in the vectors. `FlatModule` is a copy of a module whose parameters
are views into one contiguous vector. So all parameters are set with one copy, and the gradient is
one concatenation. No state dictionaries or optimizer objects are needed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from fedflat.errors import SettingError

GradFn = Callable[[Tensor], Tensor]
"""Maps a point ``w`` to the gradient at ``w``."""

TINY = 1e-12


@dataclass(frozen=True)
class Model:
    """A model as two vectors. Optimizers step the parameters; buffers are averaged."""

    params: Tensor
    buffers: Tensor


def unit(v: Tensor) -> Tensor:
    """``v / ||v||`` along the last axis, and 0 where ``v`` is 0.

    >>> unit(torch.tensor([3.0, 4.0])).tolist(), unit(torch.zeros(2)).tolist()
    ([0.6000000238418579, 0.800000011920929], [0.0, 0.0])
    """
    norm: Tensor = torch.linalg.vector_norm(v, dim=-1, keepdim=True)
    return v / (norm + TINY)


@dataclass(frozen=True)
class Layout:
    """Names and shapes of a module's trainable parameters and floating buffers, in vector order."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    buffer_names: tuple[str, ...]
    buffer_shapes: tuple[tuple[int, ...], ...]
    batchnorms: tuple[str, ...] = ()
    """Names of the batch normalization submodules."""
    head: tuple[str, ...] = ()
    """Parameter names of the head: convolutions and linear layers of the submodules listed in the
    module's ``head_layers``. Without that attribute, the last layer."""
    frozen: tuple[str, ...] = ()
    """Names of parameters that keep their values: those of the submodules listed in the module's
    ``frozen_layers``."""

    @classmethod
    def of(cls, module: nn.Module) -> Layout:
        """The layout of ``module``: trainable parameters in the order of `named_parameters`."""
        params = [
            (name, tuple(p.shape)) for name, p in module.named_parameters() if p.requires_grad
        ]
        buffers = [
            (name, tuple(b.shape)) for name, b in module.named_buffers() if b.is_floating_point()
        ]
        if not params:
            raise SettingError(
                "the model has no trainable parameter. Set requires_grad=True on at least one."
            )
        norms = [
            n
            for n, part in module.named_modules()
            if isinstance(part, nn.modules.batchnorm._BatchNorm)
        ]
        return cls(
            *_columns(params),
            *_columns(buffers),
            tuple(norms),
            _head(module, params[-1][0]),
            _frozen(module, [name for name, _ in params]),
        )

    def frozen_mask(self) -> Tensor | None:
        """Mask over the parameter vector: True where it is frozen; None if nothing is."""
        return self.where(lambda name, shape: name in self.frozen) if self.frozen else None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of entries of each parameter."""
        return tuple(map(prod, self.shapes))

    @property
    def buffer_sizes(self) -> tuple[int, ...]:
        """Number of entries of each buffer."""
        return tuple(map(prod, self.buffer_shapes))

    @property
    def dim(self) -> int:
        """Length of the parameter vector."""
        return sum(self.sizes)

    @property
    def slices(self) -> dict[str, slice]:
        """The slice of the vector that each parameter occupies."""
        ends = [sum(self.sizes[: i + 1]) for i in range(len(self.sizes))]
        return {n: slice(e - s, e) for n, s, e in zip(self.names, self.sizes, ends, strict=True)}

    def where(self, test: Callable[[str, tuple[int, ...]], bool]) -> Tensor:
        """Mask over the parameter vector: True where ``test(name, shape)`` is true."""
        mask = torch.zeros(self.dim, dtype=torch.bool)
        for (name, place), shape in zip(self.slices.items(), self.shapes, strict=True):
            mask[place] = test(name, shape)
        return mask

    def statistics(self, norms: Sequence[str] | None = None) -> Tensor:
        """Mask over the buffer vector: running statistics of the batch normalizations ``norms``.

        ``None`` means all batch normalizations.
        """
        norms = self.batchnorms if norms is None else norms
        owned = [name.rpartition(".")[0] in norms for name in self.buffer_names]
        sizes = torch.tensor(self.buffer_sizes, dtype=torch.long)
        return torch.tensor(owned, dtype=torch.bool).repeat_interleave(sizes)

    def classifier(self) -> Tensor:
        """Mask of the last layer: all parameters of the submodule that owns the last parameter."""
        owner = self.names[-1].rpartition(".")[0]
        return self.where(lambda name, shape: name.rpartition(".")[0] == owner)


def _head(module: nn.Module, last: str) -> tuple[str, ...]:
    layers = getattr(module, "head_layers", (last.rpartition(".")[0],))
    weight_layers = [
        (f"{name}." if name else "", part)
        for name, part in module.named_modules()
        if any(name == layer or name.startswith(f"{layer}.") for layer in layers)
        and any(p.dim() > 1 for p in part.parameters(recurse=False))
    ]
    return tuple(
        prefix + own
        for prefix, part in weight_layers
        for own, _ in part.named_parameters(recurse=False)
    )


def _frozen(module: nn.Module, names: Sequence[str]) -> tuple[str, ...]:
    layers = getattr(module, "frozen_layers", ())
    found = [n for n in names if any(n == one or n.startswith(f"{one}.") for one in layers)]
    if names and len(found) == len(names):
        raise SettingError("all layers of the model are frozen. Leave at least one to train.")
    return tuple(found)


def _columns(
    pairs: list[tuple[str, tuple[int, ...]]],
) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]:
    return tuple(name for name, _ in pairs), tuple(shape for _, shape in pairs)


class FlatModule:
    """A copy of a module whose parameters and buffers are views into flat vectors.

    ``forward_in`` is a reusable context manager that is entered for every forward pass. With
    ``copied=False`` it is the module itself, which nobody else may use.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        dtype: torch.dtype = torch.float32,
        device: str = "cpu",
        forward_in: AbstractContextManager[Any] = nullcontext(),
        copied: bool = True,
    ) -> None:
        _refuse_complex(module)
        self.forward_in = forward_in
        own = copy.deepcopy(module) if copied else module
        self.module = own.to(device=device, dtype=dtype)
        _refuse_cumulative_statistics(self.module)
        self.layout = Layout.of(self.module)
        self.device = torch.device(device)
        self.dtype = dtype
        self._leaves = [p for p in self.module.parameters() if p.requires_grad]
        self._params = torch.cat([p.detach().reshape(-1) for p in self._leaves])
        for p, w in zip(
            self._leaves, torch.split(self._params, list(self.layout.sizes)), strict=True
        ):
            p.data = w.view(p.shape)
        for name, p in zip(self.layout.names, self._leaves, strict=True):
            if name in self.layout.frozen:
                p.requires_grad_(False)  # no gradient is computed; it counts as zero
        self._buffers = torch.zeros(
            sum(self.layout.buffer_sizes), dtype=self.dtype, device=self.device
        )
        self._buffer_slots = self._flatten_buffers()
        self._parts = tuple(self.module.modules())

    def _flatten_buffers(self) -> list[tuple[dict[str, Tensor | None], str, Tensor]]:
        """Make floating-point buffers views into one vector.

        Returns for each buffer the dictionary that registers it, its name there, and the view.
        """
        named = dict(self.module.named_buffers())
        parts = self._buffers.split(self.layout.buffer_sizes)
        for name, shape, part in zip(
            self.layout.buffer_names, self.layout.buffer_shapes, parts, strict=True
        ):
            named[name].data = part.view(shape).copy_(named[name])
        owners = [module._buffers for module in self.module.modules()]
        return [
            (owner, leaf, b)
            for owner in owners
            for leaf, b in owner.items()
            if b is not None and b.is_floating_point()
        ]

    def _restore_buffers(self) -> None:
        """Copy back buffers that the module replaced by assignment instead of changing them."""
        for owner, leaf, view in self._buffer_slots:
            buffer = owner[leaf]
            if buffer is view:
                continue
            if buffer is None or buffer.shape != view.shape:
                found = "None" if buffer is None else tuple(buffer.shape)
                raise SettingError(
                    f"the model's buffer {leaf!r} must keep its shape {tuple(view.shape)} in "
                    f"training, found {found}. Buffers are averaged over clients: keep tensors "
                    "that change their shape outside of buffers."
                )
            with torch.no_grad():
                view.copy_(buffer)
            owner[leaf] = view

    def model(self) -> Model:
        """A copy of the current parameters and buffers."""
        return Model(self._params.clone(), self._buffers.clone())

    def state_dict_of(self, model: Model) -> dict[str, Tensor]:
        """``model`` as a state dict of the module, including parameters that are not trained."""
        self._params.copy_(model.params)
        self._buffers.copy_(model.buffers)
        state = self.module.state_dict()
        return {name: value.clone() for name, value in state.items() if isinstance(value, Tensor)}

    def from_state_dict(self, named: dict[str, Tensor]) -> Model:
        """Load a state dict; missing names keep their values. Returns the resulting model."""
        self.module.load_state_dict(named, strict=False)
        return self.model()

    def train(self) -> nn.Module:
        """The module in training mode.

        `nn.Module.train` is called only if needed: checking all submodules is faster.
        """
        return self.module if all(part.training for part in self._parts) else self.module.train()

    def load(self, w: Tensor) -> None:
        """Set the parameters to ``w``."""
        self._params.copy_(w)

    @property
    def buffers(self) -> Tensor:
        """A copy of the buffers."""
        return self._buffers.clone()

    @buffers.setter
    def buffers(self, value: Tensor) -> None:
        self._buffers.copy_(value)

    def gradient(
        self, w: Tensor, loss: Callable[[nn.Module], Tensor], *, move_buffers: bool
    ) -> tuple[Tensor, Tensor]:
        """The loss at ``w`` and its gradient. Buffers are restored unless ``move_buffers``."""
        saved = None if move_buffers or not len(self._buffers) else self._buffers.clone()
        self._params.copy_(w)
        for p in self._leaves:
            # so that backward stores the first gradient instead of adding it to zeros
            p.grad = None
        with self.forward_in:
            value = loss(self.module)
        value.backward()
        self._restore_buffers()
        if saved is not None:
            self._buffers.copy_(saved)
        return value.detach(), torch.cat([_flat_gradient(p) for p in self._leaves])

    @torch.no_grad()
    def forward(self, *inputs: Any, norms: Sequence[str] = ()) -> Any:
        """The module's output at the current parameters, in evaluation mode.

        The batch normalizations named in ``norms`` use the statistics of these inputs. Their
        running statistics do not change.
        """
        self.module.eval()
        with (
            self.forward_in,
            _batch_statistics([self.module.get_submodule(name) for name in norms]),
        ):
            return self.module(*inputs)


def _flat_gradient(p: nn.Parameter) -> Tensor:
    """The gradient of one parameter as a vector: zeros if the loss does not depend on it."""
    return torch.zeros_like(p).view(-1) if p.grad is None else p.grad.to_dense().reshape(-1)


@contextmanager
def _batch_statistics(norms: Sequence[nn.Module]) -> Iterator[None]:
    """Normalize by batch statistics without changing the running statistics."""
    tracked = [bool(norm.track_running_stats) for norm in norms]
    for norm in norms:
        norm.training, norm.track_running_stats = True, False  # type: ignore[assignment]
    try:
        yield
    finally:
        for norm, before in zip(norms, tracked, strict=True):
            norm.training, norm.track_running_stats = False, before  # type: ignore[assignment]


def _refuse_complex(module: nn.Module) -> None:
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.is_complex():
            raise SettingError(
                f"the model's {name!r} holds complex numbers, whose imaginary part would be lost. "
                "A model is one vector of real numbers: store real and imaginary part as two "
                "real tensors (torch.view_as_real)."
            )


def _refuse_cumulative_statistics(module: nn.Module) -> None:
    for name, part in module.named_modules():
        if (
            isinstance(part, nn.modules.batchnorm._BatchNorm)
            and part.track_running_stats
            and part.momentum is None
        ):
            raise SettingError(
                f"the BatchNorm layer {name!r} has momentum=None, a cumulative average whose "
                "counter is not sent between clients. Set a momentum, e.g. 0.1, or use GroupNorm."
            )


def mean_model(models: Iterable[tuple[Model, float]]) -> Model:
    """The weighted mean of parameters and buffers, computed as a running mean.

    The mean of one model equals that model bit for bit. Weights of 0 are skipped.
    """
    total, mean = 0.0, None
    for model, weight in models:
        if weight > 0:
            total += weight
            share = weight / total
            mean = (
                model
                if mean is None
                else Model(
                    torch.lerp(mean.params, model.params, share),
                    torch.lerp(mean.buffers, model.buffers, share),
                )
            )
    assert mean is not None, "a mean of no models"
    return mean
