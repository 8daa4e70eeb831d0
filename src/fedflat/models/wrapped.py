"""Any network with layers that are not trained, and a network with Gaussian features.

    frozen(resnet18_gem(), "conv1,bn1,layer1,layer2")

The parameters of frozen layers keep the values they start with: no gradient, no perturbation and no
weight decay changes them. Running statistics of batch normalization still move. Frozen parameters
are part of the model: they are loaded by ``--init`` and sent with it.

``stochastic``: the encoder gives the distribution of the features, the head samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from fedflat.errors import MOST_AT_ONCE, SettingError, nearest, number
from fedflat.models.cnn import Cnn
from fedflat.models.spec import ModelSpec
from fedflat.registry.specs import register


@dataclass(frozen=True, repr=False)
class Frozen(ModelSpec):
    """A network some of whose layers are not trained.

    ``layers`` are names of submodules or parameters, separated by commas; a submodule stands for
    all its parameters.

    >>> from fedflat import mlp
    >>> frozen(mlp(hidden=[3]), "fc1").build((2,), 2).frozen_layers
    ('fc1',)
    """

    model: ModelSpec
    layers: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.model, ModelSpec):
            raise SettingError(
                f"frozen: model must be a model such as cnn(), found {self.model!r}."
            )
        if not isinstance(self.layers, str) or not self.names:
            raise SettingError(
                "frozen: layers must be names of layers with commas between, found "
                f"{self.layers!r}. Write layers='conv1,layer1'."
            )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(word.strip() for word in self.layers.split(",") if word.strip()))

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """The model's module, with its attribute ``frozen_layers`` set."""
        module = self.model.build(shape, classes)
        parameters = [name for name, _ in module.named_parameters()]
        for layer in self.names:
            if not any(name == layer or name.startswith(f"{layer}.") for name in parameters):
                known = list(dict.fromkeys(name.partition(".")[0] for name in parameters))
                raise SettingError(
                    f"frozen: {self.model} has no layer {layer!r} with parameters."
                    f"{nearest(layer, known)} Its layers are {', '.join(known)}."
                )
        module.frozen_layers = self.names  # type: ignore[assignment]
        return module


frozen = register("model", "frozen")(Frozen)


class StochasticNet(nn.Module):
    """The logarithm of the class probabilities, averaged over samples of the features.

    In training the samples follow PyTorch's random state. In evaluation the noise is the same for
    every example, so that an output depends on its input only.
    """

    def __init__(
        self, encoder: nn.Module, head: nn.Linear, train_samples: int, test_samples: int
    ) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        self.train_samples, self.test_samples = train_samples, test_samples

    def forward(self, x: Tensor) -> Tensor:
        """Log probabilities, one row for each example."""
        mean, spread = gaussian(self.encoder(x))
        if self.training:
            noise = torch.randn(
                (self.train_samples, *mean.shape), dtype=mean.dtype, device=mean.device
            )
        else:
            still = torch.Generator().manual_seed(0)
            noise = torch.randn(
                (self.test_samples, 1, mean.shape[-1]), dtype=torch.float64, generator=still
            ).to(mean)
        scores: Tensor = self.head(mean + spread * noise).log_softmax(dim=-1)
        return scores.logsumexp(dim=0) - math.log(len(noise))


def gaussian(output: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation from an encoder's output."""
    mean, raw = output.chunk(2, dim=-1)
    return mean, softplus(raw) + 1e-6


@dataclass(frozen=True, repr=False)
class Stochastic(ModelSpec):
    """A network with ``dim`` Gaussian features, as in FedCR; ``body`` is the encoder.

    train_samples, test_samples
        Number of features that are sampled per input in training and in evaluation.
    """

    body: ModelSpec = field(default_factory=Cnn)
    dim: int = 256
    train_samples: int = 15
    test_samples: int = 30

    def __post_init__(self) -> None:
        for name in ("dim", "train_samples", "test_samples"):
            number("stochastic", name, getattr(self, name), low=1, high=MOST_AT_ONCE, whole=True)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """The body with ``2 dim`` outputs, and a linear head."""
        encoder = self.body.build(shape, 2 * self.dim)
        return StochasticNet(
            encoder, nn.Linear(self.dim, classes), self.train_samples, self.test_samples
        )


stochastic = register("model", "stochastic")(Stochastic)
