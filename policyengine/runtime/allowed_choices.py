"""The choices of `allow`, as far as the bans of one request let them be written.

Every choice is followed through the automata of the bans, and one that holds a match is dropped whole. So is every
token on the way to a choice that only other bans forbid (`word_end: eager`, token ids): what is left never leads into
a dead end. Worked out once for each set of bans and kept by the `TokenProgram`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from policyengine.automata import utf8
from policyengine.automata.choices import Choices, Edges
from policyengine.automata.kept import Kept

if TYPE_CHECKING:
    from policyengine.automata.phrases import Ints
    from policyengine.automata.token_matcher import Position
    from policyengine.runtime.ends import Ends
    from policyengine.runtime.token_program import BoundComponent

_NEVER = 1 << 30  # tokens; more than any output has
_NOTHING: Ints = np.zeros(0, dtype=np.int32)
_NOTHING.flags.writeable = False

LEFT = -1  # the place of an output that is no head of a choice


class ChoicePlan:
    """Some choices under some bans. `nearest`, `farthest`: tokens from each node to a whole choice."""

    def __init__(
        self,
        choices: Choices,
        tokens: Sequence[bytes | None],
        bans: Sequence[BoundComponent],
        *,
        forbidden: Collection[int] = (),
        only: Collection[int] | None = None,
        dropped: Collection[bytes] = (),
    ) -> None:
        """tokens: the text of each id. forbidden, only: ids that may not be chosen, and that alone may.

        dropped: choices that other rules exclude.
        """
        self.choices = choices
        self._tokens, self._bans = tokens, tuple(bans)
        self._is_usable = [t not in forbidden and (only is None or t in only) for t in range(len(tokens))]
        self._dropped = {choices.step(choices.ROOT, text) for text in dropped}
        self._positions = self._read()
        self.whole = [whole and self._may_end(node) for node, whole in enumerate(choices.whole)]
        self._edges: dict[int, Edges] = {}
        self.nearest, self.farthest = [_NEVER] * choices.n_nodes, [-1] * choices.n_nodes
        self._walk()
        self._arrays: Kept[tuple[int, int, bytes], Ints] = Kept()
        self._positions, self._is_usable = [], []  # only needed to get here

    # -- construction ----------------------------------------------------------------------------------------------

    def _read(self) -> list[tuple[Position, ...] | None]:
        """Where each automaton stands at each node; None behind a match."""
        choices = self.choices
        found: list[tuple[Position, ...] | None] = [tuple(bound.matcher.START for bound in self._bans)]
        for node in range(1, choices.n_nodes):
            before = found[choices.parents[node]]
            after = []
            for bound, position in zip(self._bans, before or (), strict=before is not None):
                position, completed = read(bound, position, bytes((choices.data[node],)))
                if completed:
                    before = None
                    break
                after.append(position)
            found.append(None if before is None else tuple(after))
        return found

    def _may_end(self, node: int) -> bool:
        positions = self._positions[node]
        if positions is None or node in self._dropped:
            return False
        return not any(bound.matcher.at_end(p) for bound, p in zip(self._bans, positions, strict=True))

    def _walk(self) -> None:
        """Follow the tokens from the start, then keep those from which a whole choice can be reached."""
        choices, reached, open_nodes = self.choices, [], [False] * self.choices.n_nodes
        open_nodes[choices.ROOT] = True
        stops: dict[int, bool] = {}
        for node in range(choices.n_nodes):
            if not open_nodes[node]:
                continue
            reached.append(node)
            found = []
            for token, target in choices.edges(node):
                if not self._is_usable[token] or self._positions[target] is None:
                    continue
                if target not in stops:
                    stops[target] = self._may_stop(node, token)
                if stops[target]:
                    found.append((token, target))
                    open_nodes[target] = True
            self._edges[node] = tuple(found)
        for node in reversed(reached):
            kept = tuple((token, target) for token, target in self._edges[node] if self.nearest[target] < _NEVER)
            self._edges[node] = kept
            ends = [0] if self.whole[node] else []
            self.nearest[node] = min((*ends, *(1 + self.nearest[t] for _, t in kept)), default=_NEVER)
            self.farthest[node] = max((*ends, *(1 + self.farthest[t] for _, t in kept)), default=-1)

    def _may_stop(self, node: int, token: int) -> bool:
        """Whether a token may end where this one does. That is a matter of the place it comes to, not of the token."""
        positions = self._positions[node]
        assert positions is not None
        return not any(bound.matcher.completes(p, token) for bound, p in zip(self._bans, positions, strict=True))

    # -- for sessions ----------------------------------------------------------------------------------------------

    @property
    def least(self) -> int:
        """How many tokens the shortest choice takes; `_NEVER` or more where none is left."""
        return self.nearest[Choices.ROOT]

    @property
    def most(self) -> int:
        """How many tokens a choice can take; -1 where none is left."""
        return self.farthest[Choices.ROOT]

    @property
    def n_items(self) -> int:
        """How many nodes and edges it holds."""
        return self.choices.n_nodes + sum(map(len, self._edges.values()))

    @property
    def is_empty(self) -> bool:
        """Whether no choice can be written."""
        return self.least >= _NEVER

    def step(self, node: int, data: bytes | None) -> int:
        """The node after a token's bytes; `LEFT` where the text is no head of a choice."""
        return node if node == LEFT or not data else self.choices.step(node, data)

    def follow(self, node: int, token: int) -> int:
        """The node that a permitted token leads to; `LEFT`: the token may not be chosen there."""
        return dict(self._edges.get(node, ())).get(token, LEFT)

    def may_end(self, node: int) -> bool:
        """Whether the text is one of the choices, whole."""
        return node != LEFT and self.whole[node]

    def ids(self, node: int, ends: Ends, left: int | None) -> Ints:
        """The ids that may be chosen: int32, sorted, read-only, the same object for the same question while kept.

        left: how many tokens the output may still have, this one among them; None: no limit.
        """
        if node == LEFT:
            return _NOTHING
        if left is None or left > self.farthest[node]:
            left = _NEVER
        key = node, left, ends.key
        known = self._arrays.get(key)
        if known is None:
            found = {token for token, target in self._edges.get(node, ()) if self.nearest[target] < left}
            if self.whole[node]:
                found |= ends.silent
                found.update(i for i in ends.shown.tolist() if self.may_end(self.step(node, self._tokens[i])))
            known = np.array(sorted(found), dtype=np.int32)
            known.flags.writeable = False
            self._arrays.keep(key, known, (known,))
        return known


def read(bound: BoundComponent, position: Position, data: bytes) -> tuple[Position, bool]:
    """Read bytes that need not be a token: the position after them, and whether a match was completed."""
    state, pending = position
    text, tail = utf8.decode(pending + data)
    state, done = bound.matcher.automaton.follow(state, text)
    return (state, tail), bool(done)


__all__ = ["LEFT", "ChoicePlan", "read"]
