"""Scores of another model on a client's batch, and the distance of the client's own scores to them.

Loss terms that hold a client to what another model predicts use these: FedNTD, FedGMT and FedSOL.
"""

from __future__ import annotations

from torch import Tensor

from fedflat.client.batch_transforms import Mixup
from fedflat.client.piece import ClientContext, ModelInfo
from fedflat.core.flat import Model
from fedflat.data.examples import Batch
from fedflat.errors import SettingError


def scores_of(v: ClientContext, model: Model, batch: Batch) -> Tensor:
    """Return the scores of ``model`` on a batch, in evaluation mode and without a gradient.

    They are computed once for each batch.
    """
    if v.scratch.get("batch") is not batch:
        v.scratch |= {"batch": batch, "scores": v.output_of(model, batch.inputs)}
    found: Tensor = v.scratch["scores"]
    return found


def divergence(teacher: Tensor, student: Tensor, temperature: float = 1.0) -> Tensor:
    """Return ``KL(softmax(teacher / T) || softmax(student / T))``, mean over the batch.

    >>> import torch
    >>> kl = divergence(torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]]), 3.0)
    >>> round(9 * float(kl), 4)
    0.4954
    """
    known = (teacher / temperature).log_softmax(dim=-1)
    own = (student / temperature).log_softmax(dim=-1)
    return (known.exp() * (known - own)).sum(dim=-1).mean()


def check_classes(owner: str, model_info: ModelInfo, *, one_label: bool = False) -> None:
    """Refuse a task without one class for each example, and mixed examples if ``one_label``."""
    if not model_info.task.classifies:
        raise SettingError(
            f"{owner} compares scores of classes, but {model_info.task} has no classes. Use "
            "classification()."
        )
    mixing = [piece for piece in model_info.pieces if one_label and isinstance(piece, Mixup)]
    if mixing:
        raise SettingError(
            f"{owner} needs one label for each example, and {mixing[0]} blends two. Leave one of "
            "them out."
        )
