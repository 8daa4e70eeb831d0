"""Any network with layers that are not trained.

    frozen(resnet18_gem(), "conv1,bn1,layer1,layer2")

The parameters of these layers keep the values they start with: no gradient, no perturbation and no
weight decay changes them. Running statistics of batch normalization still move. Frozen parameters
are part of the model: they are loaded by ``--init`` and sent with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from fedflat.errors import SettingError, nearest
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
