"""Models that can be said: ``cnn()``, ``resnet18(norm="batch")``. Each builds itself for given data."""

from fedflat.models.cnn import cnn, fsa_cnn, tiny_convnet
from fedflat.models.resnet import resnet18, resnet20
from fedflat.models.simple import logistic, mlp
from fedflat.models.spec import ModelSpec
from fedflat.models.stochastic import stochastic

__all__ = ["ModelSpec", "cnn", "fsa_cnn", "logistic", "mlp", "resnet18", "resnet20", "stochastic", "tiny_convnet"]
