"""Fewer and cheaper calls in a traced computation, without changing a bit of its results.

`recorded` lists every operation below autograd and `vmap`, ten times as fast as PyTorch's `make_fx`.
Many of them change nothing, such as views with the same shape and products with 1, and
some are computed twice. They are removed. The others are called by PyTorch's own functions, which
parse their arguments faster than `torch.ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import getitem
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

aten = torch.ops.aten
FUNCTIONS: dict[Any, Callable[..., Any]] = {
    aten._log_softmax.default: torch._log_softmax,
    aten._log_softmax_backward_data.default: torch._log_softmax_backward_data,
    aten.add.Tensor: torch.add,
    aten.addmm.default: torch.addmm,
    aten.amax.default: torch.amax,
    aten.bmm.default: torch.bmm,
    aten.cat.default: torch.cat,
    aten.div.Tensor: torch.div,
    aten.exp.default: torch.exp,
    aten.expand.default: Tensor.expand,
    aten.gather.default: torch.gather,
    aten.log.default: torch.log,
    aten.mm.default: torch.mm,
    aten.mul.Scalar: torch.mul,
    aten.mul.Tensor: torch.mul,
    aten.ne.Scalar: torch.ne,
    aten.neg.default: torch.neg,
    aten.new_zeros.default: Tensor.new_zeros,
    aten.relu.default: torch.relu,
    aten.scatter.value: torch.scatter,
    aten.scatter_add.default: torch.scatter_add,
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
CONSTANTS = (
    aten.scalar_tensor.default,
    aten.lift_fresh_copy.default,
    aten.lift_fresh.default,
    aten.ones_like.default,
)

CONSTANT_ARGUMENTS = (aten.lift_fresh.default, aten.lift_fresh_copy.default)
"""Operations on tensors that were made of numbers, as by `torch.tensor`."""


class NotTraceable(Exception):
    """Another call may do something else."""


class _Recorder(TorchDispatchMode):
    """Writes every operation below autograd into a graph while it is performed."""

    def __init__(self, inputs: Sequence[Tensor], constants: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph, self.root = Graph(), nn.Module()
        self.nodes: dict[int, Node] = {}
        self.seen: list[Tensor] = []
        """All tensors, so that no two have the same address."""
        for i, tensor in enumerate(inputs):
            self._name(tensor, self.graph.placeholder(f"input_{i}"))
        self._keep_constants(constants)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Otherwise PyTorch imports its compiler for this class, which takes a second."""
        return False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """See `torch.utils._python_dispatch.TorchDispatchMode`."""
        if func in CONSTANT_ARGUMENTS:
            self._keep_constants(args)
        named = tree_map_only(Tensor, self.node, (args, kwargs or {}))
        found = func(*args, **kwargs or {})
        node = self.graph.call_function(func, *named)
        if isinstance(found, Tensor):
            self._name(found, node)
        elif isinstance(found, tuple | list):
            for i, part in enumerate(found):
                if isinstance(part, Tensor):
                    self._name(part, self.graph.call_function(getitem, (node, i)))
        else:
            raise NotTraceable(f"{func} reads a number, which another call may not have")
        return found

    def node(self, tensor: Tensor) -> Node:
        """The node of a tensor: an input, a constant or the result of an operation."""
        if id(tensor) not in self.nodes:
            raise NotTraceable("a tensor comes from outside")
        return self.nodes[id(tensor)]

    def _keep_constants(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            if id(tensor) not in self.nodes:
                name = f"_given_{len(self.seen)}"
                self.root.register_buffer(name, tensor)
                self._name(tensor, self.graph.get_attr(name))

    def _name(self, tensor: Tensor, node: Node) -> None:
        node.meta["val"] = tensor
        self.nodes[id(tensor)] = node
        self.seen.append(tensor)


def recorded(
    function: Callable[..., Any], *inputs: Tensor, constants: Iterable[Tensor] = ()
) -> GraphModule:
    """The operations of a function of tensors, as they are performed for these inputs.

    Raises `NotTraceable` if the function reads numbers, or tensors that are neither inputs nor
    ``constants``.
    """
    with _Recorder(inputs, constants) as recorder:
        outputs = function(*inputs)
    recorder.graph.output(tree_map_only(Tensor, recorder.node, outputs))
    return GraphModule(recorder.root, recorder.graph)


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
        node.meta = {}  # tensors
    traced.recompile()
    vars(traced).update(traced.named_buffers())  # found without `nn.Module.__getattr__`
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
    if node.target is aten.detach.default:
        return first
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
    if node.target in CONSTANT_ARGUMENTS:
        first = node.args[0]
        return first if isinstance(first, Node) and first.op == "get_attr" else None
    name, args = f"_constant_{len(list(traced.buffers()))}", node.args
    if node.target is aten.ones_like.default:
        like = node.args[0].meta.get("val")  # type: ignore[union-attr]
        if not isinstance(like, Tensor):
            return None
        args = (torch.empty(like.shape, dtype=like.dtype, device=like.device),)
    traced.register_buffer(name, node.target(*args, **node.kwargs))  # type: ignore[operator]
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
