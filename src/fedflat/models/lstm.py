"""A recurrent network for texts, letter by letter.

McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS
2017, section 3: an embedding of 8 numbers, two LSTM layers of 100, a linear layer.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from fedflat.errors import MOST_AT_ONCE, SettingError, flag, number
from fedflat.models.inputs import features
from fedflat.models.spec import ModelSpec
from fedflat.registry.specs import register


@dataclass(frozen=True, repr=False)
class CharLstm(ModelSpec):
    """An embedding, LSTM layers, a linear layer: which letter comes next, after every letter or
    after the last.

    Inputs are whole numbers of letters, from 0 to below the number of classes. Outputs are (texts,
    letters, classes), or (texts, classes) with ``every=False``.

    >>> import torch
    >>> net = char_lstm().build((40,), 80)
    >>> net(torch.zeros(3, 40, dtype=torch.long)).shape, sum(p.numel() for p in net.parameters())
    (torch.Size([3, 40, 80]), 133520)
    """

    embedding: int = 8
    hidden: int = 100
    layers: int = 2
    every: bool = True
    """Guess the next letter after each of them, or after the last only."""

    def __post_init__(self) -> None:
        for name, most in (("embedding", MOST_AT_ONCE), ("hidden", MOST_AT_ONCE), ("layers", 100)):
            number("char_lstm", name, getattr(self, name), low=1, high=most, whole=True)
        flag("char_lstm", "every", self.every)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """A freshly initialised module for texts of ``shape[0]`` letters out of ``classes``."""
        if len(shape) != 1:
            raise SettingError(
                f"char_lstm: inputs must be rows of letters, of shape (letters,), found {tuple(shape)}."
            )
        features("char_lstm", shape, classes)
        return CharLSTMNet(classes, self.embedding, self.hidden, self.layers, self.every)


class CharLSTMNet(nn.Module):
    """The network."""

    recorded_as = "Net"
    """The name of the class in the digests that run folders have."""

    def __init__(self, letters: int, embedding: int, hidden: int, layers: int, every: bool) -> None:
        super().__init__()
        self.every = every
        self.letters = nn.Embedding(letters, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.fc = nn.Linear(hidden, letters)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs for each letter that comes next."""
        states = self.lstm(self.letters(x))[0]
        out: Tensor = self.fc(states if self.every else states[:, -1])
        return out


char_lstm = register("model", "char_lstm")(CharLstm)
