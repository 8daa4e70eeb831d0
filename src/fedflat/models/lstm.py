"""Recurrent networks for texts, character by character and word by word.

char_lstm   McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized
            Data, AISTATS 2017, section 3: an embedding of 8 numbers, two LSTM layers of 100, a
            linear layer
word_lstm   Reddi et al., Adaptive Federated Optimization, ICLR 2021, StackOverflow: an
            embedding of 96 numbers, an LSTM layer of 670, linear layers of 96 and of all words
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from fedflat.errors import MOST_AT_ONCE, SettingError, flag, number
from fedflat.models.spec import ModelSpec, features
from fedflat.registry.specs import register


@dataclass(frozen=True, repr=False)
class CharLstm(ModelSpec):
    """An embedding, LSTM layers and a linear layer that predict the next character.

    Inputs are indices of characters, below the number of classes. Outputs are (texts, characters,
    classes), or (texts, classes) with ``every=False``.

    embedding, hidden, layers
        Size of the embedding, size of each LSTM layer, and number of these layers.

    >>> import torch
    >>> net = char_lstm().build((40,), 80)
    >>> net(torch.zeros(3, 40, dtype=torch.long)).shape, sum(p.numel() for p in net.parameters())
    (torch.Size([3, 40, 80]), 133520)
    """

    embedding: int = 8
    hidden: int = 100
    layers: int = 2
    every: bool = True
    """Predict the next character after each character, or only after the last."""

    def __post_init__(self) -> None:
        for name, most in (("embedding", MOST_AT_ONCE), ("hidden", MOST_AT_ONCE), ("layers", 100)):
            number("char_lstm", name, getattr(self, name), low=1, high=most, whole=True)
        flag("char_lstm", "every", self.every)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """A new module for texts of ``shape[0]`` characters out of ``classes``."""
        if len(shape) != 1:
            raise SettingError(
                "char_lstm: inputs must be rows of letters, of shape (letters,), found "
                f"{tuple(shape)}. Use a model for images or numbers instead."
            )
        features("char_lstm", shape, classes)
        return CharLSTMNet(classes, self.embedding, self.hidden, self.layers, self.every)


class CharLSTMNet(nn.Module):
    recorded_as = "Net"
    """The class name in the digests of run folders."""

    def __init__(self, letters: int, embedding: int, hidden: int, layers: int, every: bool) -> None:
        super().__init__()
        self.every = every
        self.letters = nn.Embedding(letters, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.fc = nn.Linear(hidden, letters)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the next characters."""
        states = self.lstm(self.letters(x))[0]
        out: Tensor = self.fc(states if self.every else states[:, -1])
        return out


char_lstm = register("model", "char_lstm")(CharLstm)


@dataclass(frozen=True, repr=False)
class WordLstm(ModelSpec):
    """An embedding, an LSTM and two linear layers that predict the next word at each position.

    Inputs are indices of words, below the number of classes. Nothing is between the two linear
    layers. PyTorch's LSTM has a second bias, which adds 4 ``hidden`` numbers to the published
    4,050,748.

    >>> import torch
    >>> net = word_lstm().build((20,), 10_004)
    >>> net(torch.zeros(3, 20, dtype=torch.long)).shape, sum(p.numel() for p in net.parameters())
    (torch.Size([3, 20, 10004]), 4053428)
    """

    embedding: int = 96
    hidden: int = 670

    def __post_init__(self) -> None:
        for name in ("embedding", "hidden"):
            number("word_lstm", name, getattr(self, name), low=1, high=MOST_AT_ONCE, whole=True)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """A new module for sentences of ``shape[0]`` words out of ``classes``."""
        if len(shape) != 1:
            raise SettingError(
                "word_lstm: inputs must be rows of words, of shape (words,), found "
                f"{tuple(shape)}. Use a model for images or numbers instead."
            )
        features("word_lstm", shape, classes)
        return WordLSTMNet(classes, self.embedding, self.hidden)


class WordLSTMNet(nn.Module):
    def __init__(self, words: int, embedding: int, hidden: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, embedding)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True)
        self.fc1 = nn.Linear(hidden, embedding)
        self.fc2 = nn.Linear(embedding, words)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc2(self.fc1(self.lstm(self.words(x))[0]))
        return out


word_lstm = register("model", "word_lstm")(WordLstm)
