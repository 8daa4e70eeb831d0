"""Import this before what imports torchvision, where only its CUDA build is at hand and torch is
the CPU build.

torchvision's compiled half then does not load, and its Python half stops at operators that nobody
here uses. It is enough to declare them.
"""

from __future__ import annotations

import torch

operators = torch.library.Library("torchvision", "FRAGMENT")
for name in ("nms", "qnms"):
    operators.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
