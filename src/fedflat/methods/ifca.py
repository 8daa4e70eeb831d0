"""IFCA: several models; each client trains the one that fits its data best.

Ghosh et al., An Efficient Framework for Clustered Federated Learning, NeurIPS 2020,
arXiv:2006.04088. It is not in the thesis; it is here as another method that finds clusters.

    client k   j = argmin_j F_k(w_j) over all its examples;  local SGD of w_j
    server     w_j <- sum_{k chose j} N_k w_kj / sum_{k chose j} N_k;   chosen by none: no change

The models start from different random draws. A client is sent all models. Test examples of a known
domain are evaluated with the model that most clients of that domain chose last. Examples of other
domains get the mean of all models' outputs. A client's own test uses its own choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from fedflat.client.piece import BuildNetwork, ClientContext, EvalModel, ModelInfo
from fedflat.composition.method import Method, method
from fedflat.core.flat import Layout, Model
from fedflat.data.domain_inputs import with_numbers
from fedflat.data.examples import ClientData
from fedflat.errors import SettingError, number
from fedflat.methods.domain_models import SeparateMeans, SeparateModels
from fedflat.models.domain_branches import DomainModels, redrawn

CHUNK = 256


@dataclass(frozen=True, repr=False)
class BestModel(SeparateModels):
    """The client's half: it trains the model with the lowest loss on its data."""

    domains: int = 4

    uploads_statistics = "which model fits its data best"

    def __post_init__(self) -> None:
        number("ifca", "models", self.domains, low=1, high=4096, whole=True)

    @property
    def known_domains(self) -> int:
        return 0

    def module(self, build: BuildNetwork, sample: Tensor) -> nn.Module:
        """Return networks with different first parameters."""
        first = build()
        return DomainModels([first, *redrawn(first, build, self.domains - 1)])

    def check(self, model_info: ModelInfo) -> None:
        """Refuse tasks without classes, running statistics, and pieces that change batches."""
        super().check(model_info)
        if len(model_info.layout.buffer_names) > 1:
            raise SettingError(
                "ifca compares models before training, and this model has running statistics. Use "
                "GroupNorm."
            )
        if not model_info.task.classifies:
            raise SettingError(
                f"ifca compares the models' classification loss, and {model_info.task} has no classes. "
                "Leave it out."
            )

    def data(self, v: ClientContext, data: ClientData) -> ClientData:
        """Choose a model; all the client's examples are for it."""
        best = int(self.losses(v, data).argmin())
        v.state["domain"] = torch.tensor([float(best)])
        counts = torch.zeros(self.domains, device=v.sent.device)
        counts[best] = len(data)
        self.count(v, counts)
        return with_numbers(data, torch.full((len(data),), best))

    def losses(self, v: ClientContext, data: ClientData) -> Tensor:
        """Return the mean loss of each model over the client's examples."""
        labels = data.labels

        def evaluate(module: nn.Module) -> Tensor:
            assert isinstance(module, DomainModels)
            total = torch.zeros(self.domains, dtype=torch.float64)
            for chunk in torch.arange(len(data)).split(CHUNK):
                x, y = v.inputs(chunk), labels[chunk]
                for place, network in enumerate(module.networks):
                    loss = nn.functional.cross_entropy(network(x), y, reduction="sum")
                    total[place] += loss.double().cpu()
            return total / len(data)

        found: Tensor = v.value_of(evaluate, Model(v.sent, v.sent.new_full((1,), -1.0)))
        return found

    def eval_model(
        self, layout: Layout, model: Model, states: Sequence[Mapping[str, Tensor]]
    ) -> EvalModel:
        """Return the model with the choice of most of these clients; the lowest of equal ones."""
        if not states:
            return EvalModel(model)
        chosen = torch.stack([state["domain"] for state in states]).flatten().long()
        buffers = model.buffers.clone()
        buffers[0] = torch.bincount(chosen).argmax()  # the domain is the first buffer
        return EvalModel(replace(model, buffers=buffers))


@method
def ifca(models: int = 4) -> Method:
    """Several models, each trained by the clients it fits best (Ghosh et al., NeurIPS 2020).

    models
        Number of models.
    """
    return Method(client=(BestModel(models),), server=(SeparateMeans(models),))
