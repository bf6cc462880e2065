"""When expressions read what they name: arguments that last are read when the call ends, where
memory counts. A page may not be there before, and what a call fills is."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.expressions.operands import Scope
from lbtrace.expressions.tree import (
    AT_RETURN,
    After,
    Comparison,
    Dereference,
    Field,
    Name,
    Node,
    Quoted,
    TextOf,
    has_after,
    names_in,
    parts_of,
)

IN_MEMORY = (After, Dereference, Field, Quoted, TextOf)
"""What reads memory, or compares what is there."""


class Scopes(Struct, frozen=True):
    """The names as they are at the ``entry``, and when the call ends, if its arguments ``last``."""

    entry: Scope
    last: Scope | None

    def shown(self, node: Node) -> Scope:
        """Return the scope of a value to show. What is there at entry is shown as it is then."""
        if self.last is None or isinstance(node, Name) or not self._is_filled(node):
            return self.entry
        return self.last

    def key(self, node: Node) -> Scope:
        """Return the scope of a value by which is aggregated, or of which."""
        if self.last is None or not self._is_late(node):
            return self.entry
        return self.last

    def compared(self, alternatives: Sequence[Comparison]) -> list[Scope]:
        """Return the scopes of comparisons of which one must hold, all at the same moment."""
        if self.last is None or not any(map(self._is_late, alternatives)):
            return [self.entry] * len(alternatives)
        # of what is compared with a number it is the address that counts
        numbers = replace(self.last, contents={})
        return [self.last if _has(each, (Quoted,)) else numbers for each in alternatives]

    def _is_late(self, tree: Node | Comparison) -> bool:
        assert self.last is not None
        if _has(tree, IN_MEMORY):
            return True
        names = names_in(tree) or set()
        if isinstance(tree, Comparison):
            return not names.isdisjoint(AT_RETURN)
        return isinstance(tree, Name) and (tree.name in self.last.contents or self._is_text(tree))

    def _is_text(self, node: Name) -> bool:
        return any(name == node.name and type.is_text() for name, type, _ in self.entry.arguments)

    def _is_filled(self, node: Node) -> bool:
        lasting = self.entry.names.lasting
        names = names_in(node) or set()
        return has_after(node) or (lasting is not None and not names.isdisjoint(lasting.filled))


def scopes_of(entry: Scope) -> Scopes:
    """Return the scopes of expressions, of which this is the one at entry."""
    lasting = entry.names.lasting
    if lasting is None:
        return Scopes(entry, None)
    placed = zip(entry.arguments, lasting.places, strict=True)
    arguments = tuple((name, type, place) for (name, type, _), place in placed)
    last = replace(entry, arguments=arguments, moment="return", contents=lasting.contents)
    return Scopes(entry, last)


def _has(tree: Node | Comparison, kinds: tuple[type, ...]) -> bool:
    return any(isinstance(part, kinds) for part in parts_of(tree))
