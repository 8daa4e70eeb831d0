"""Fewer and cheaper calls in a traced computation, without changing a bit of its results.

`make_fx` lists every operation below autograd and `vmap`. Many of them change nothing, such as
views with the same shape and products with 1, and some are computed twice. They are removed. The
others are called by PyTorch's own functions, which parse their arguments faster than `torch.ops`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

aten = torch.ops.aten
FUNCTIONS: dict[Any, Callable[..., Any]] = {
    aten.add.Tensor: torch.add,
    aten.bmm.default: torch.bmm,
    aten.cat.default: torch.cat,
    aten.div.Tensor: torch.div,
    aten.expand.default: Tensor.expand,
    aten.gather.default: torch.gather,
    aten.mm.default: torch.mm,
    aten.mul.Scalar: torch.mul,
    aten.mul.Tensor: torch.mul,
    aten.ne.Scalar: torch.ne,
    aten.neg.default: torch.neg,
    aten.relu.default: torch.relu,
    aten.scatter.value: torch.scatter,
    aten.split_with_sizes.default: torch.split_with_sizes,
    aten.squeeze.dims: torch.squeeze,
    aten.sub.Tensor: torch.sub,
    aten.sum.dim_IntList: torch.sum,
    aten.t.default: torch.t,
    aten.transpose.int: torch.transpose,
    aten.unsqueeze.default: torch.unsqueeze,
    aten.view.default: Tensor.view,
    aten._unsafe_view.default: Tensor.view,
    aten.where.self: torch.where,
}
"""Functions that call the same kernel with the same positional arguments."""
VIEWS = (aten.view.default, aten._unsafe_view.default, aten.expand.default)
CONSTANTS = (aten.scalar_tensor.default, aten.lift_fresh_copy.default)


def simplified(traced: GraphModule) -> Callable[..., Any]:
    """The same function with fewer calls. Operations that write into tensors keep their order."""
    nodes = [node for node in traced.graph.nodes if node.op == "call_function"]
    if not any(_writes(node) for node in nodes):
        seen: dict[Any, Node] = {}
        for node in nodes:
            _simplify(traced, node, seen)
        traced.graph.eliminate_dead_code()
    for node in traced.graph.nodes:
        if node.op == "call_function" and not node.kwargs:
            node.target = FUNCTIONS.get(node.target, node.target)
    traced.recompile()
    forward: Callable[..., Any] = traced.forward
    return forward


def _writes(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def _simplify(traced: GraphModule, node: Node, seen: dict[Any, Node]) -> None:
    """Replace a node by an earlier one with the same value, or by a constant, if there is one."""
    same = _operand(node)
    if same is None and node.target in CONSTANTS:
        same = _constant(traced, node)
    if same is None and isinstance(node.target, torch._ops.OpOverload):
        key = (node.target, _frozen(node.args), _frozen(node.kwargs))
        same = seen.setdefault(key, node)
    if same is not None and same is not node:
        node.replace_all_uses_with(same)
        traced.graph.erase_node(node)


def _operand(node: Node) -> Node | None:
    """The operand that the node gives back unchanged, if it does."""
    first = node.args[0] if node.args else None
    if not isinstance(first, Node):
        return None
    if node.target in VIEWS and _shape(node) == _shape(first) is not None:
        return first
    if node.target is aten.mul.Scalar and node.args[1] == 1 and _dtype(node) == _dtype(first):
        return first
    swaps = (aten.t.default, aten.transpose.int)
    if node.target in swaps and first.target is node.target and first.args[1:] == node.args[1:]:
        before = first.args[0]
        return before if isinstance(before, Node) else None
    return None


def _constant(traced: GraphModule, node: Node) -> Node | None:
    """A constant tensor as an attribute, which is made once and not in every call."""
    if node.target is aten.lift_fresh_copy.default:
        first = node.args[0]
        return first if isinstance(first, Node) and first.op == "get_attr" else None
    name = f"_constant_{len(list(traced.buffers()))}"
    traced.register_buffer(name, aten.scalar_tensor.default(*node.args, **node.kwargs))
    with traced.graph.inserting_before(node):
        return traced.graph.get_attr(name)


def _shape(node: Node) -> tuple[int, ...] | None:
    value = node.meta.get("val")
    return tuple(value.shape) if isinstance(value, Tensor) else None


def _dtype(node: Node) -> torch.dtype | None:
    value = node.meta.get("val")
    return value.dtype if isinstance(value, Tensor) else None


def _frozen(value: Any) -> str:
    """A text that is equal for equal arguments."""
    return repr(map_arg(value, lambda node: node))
