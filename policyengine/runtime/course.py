"""Where one output stands in what is forced on it and in what alone it may be.

Forces, in the order in which they count for a position:

1. a text that has begun and is not finished: it goes on to its end, and a force of a position in it is passed over;
2. the force of the position (`start`, a number, `every`), the whole output's before the channel's;
3. a text whose phrase (`after`) has been completed: it begins at the first position that is free, texts of several
   phrases one after the other, by the order of their rules where they were completed by one token. Each once.

The text of `end` begins when the output would end; behind it comes EOS, and no phrase counts in it any more.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from policyengine.automata.choices import Choices
from policyengine.runtime.allowed_choices import LEFT

if TYPE_CHECKING:
    from policyengine.automata.phrases import Ints
    from policyengine.runtime.asked import Layer
    from policyengine.runtime.ends import Ends
    from policyengine.runtime.forces import Ids


class Course:
    """What changes as tokens are chosen. Made only for requests that have forces or allows.

    counts: how many tokens each layer has, as far as that matters. nodes: where its text stands in its choices.
    run: the ids that come next. waiting: texts that will begin. fired: the rules whose phrase was completed.
    """

    __slots__ = ("_closing", "_counts", "_ends", "_fired", "_layers", "_nodes", "_run", "_tokens", "_waiting")

    def __init__(self, tokens: Sequence[bytes | None], ends: Ends) -> None:
        """tokens: the text of each id."""
        self._tokens, self._ends = tokens, ends
        self._layers: tuple[Layer, ...] = ()
        self._counts: tuple[int, ...] = ()
        self._nodes: tuple[int, ...] = ()
        self._run: Ids = ()
        self._waiting: tuple[Ids, ...] = ()
        self._fired: frozenset[int] = frozenset()
        self._closing = False

    def enter(self, layers: Iterable[Layer]) -> None:
        """A channel begins: its layer is the last one, the one before it goes on. What was under way is dropped."""
        kept = len(self._layers) - 1 if self._layers else 0
        self._layers = tuple(layers)
        fresh = len(self._layers) - kept
        self._counts = self._counts[:kept] + (0,) * fresh
        self._nodes = self._nodes[:kept] + (Choices.ROOT,) * fresh
        self._run, self._waiting = (), ()

    # -- what may be chosen now ------------------------------------------------------------------------------------

    @property
    def forced(self) -> int | None:
        """The id that is forced now; None: none is."""
        return self._run[0] if self._run else self._scheduled()

    @property
    def own_forced(self) -> int | None:
        """The id that is forced now by nothing but a position in the channel; None: none is."""
        *before, own = zip(self._layers, self._counts, strict=True)
        if self._run or any(layer.schedule.token(count) is not None for layer, count in before):
            return None
        layer, count = own
        return layer.schedule.token(count)

    def _scheduled(self) -> int | None:
        for layer, count in zip(self._layers, self._counts, strict=True):
            token = layer.schedule.token(count)
            if token is not None:
                return token
        return None

    @property
    def is_short(self) -> bool:
        """Whether a minimum length is not reached."""
        return any(count < layer.least for layer, count in zip(self._layers, self._counts, strict=True))

    def only(self, left: int | None, extra: Ints | None = None) -> Ints | None:
        """The ids that alone may be chosen, int32, ascending; None: any.

        left: how many tokens may still come. extra: what the channel's own allows do not keep from being chosen.
        """
        found: Ints | None = None
        for layer, node in zip(self._layers, self._nodes, strict=True):
            for ids in (layer.ids, None if layer.choices is None else layer.choices.ids(node, self._ends, left)):
                if ids is not None:
                    if extra is not None and layer is self._layers[-1]:
                        ids = np.union1d(ids, extra)
                    found = ids if found is None else np.intersect1d(found, ids, assume_unique=True)
        return found

    def own_permits(self, token: int) -> bool:
        """Whether the channel's forces and ids permit a token; what leads out of it need not be among them."""
        ids, forced = self._layers[-1].ids, self.own_forced
        return (forced is None or token == forced) and (ids is None or holds(ids, token))

    def may_leave(self, under_way: bool) -> bool:
        """Whether the channel's text may come to its end here. under_way: it ends in the head of a marker."""
        plan, node = self._layers[-1].choices, self._nodes[-1]
        return plan is None or plan.may_end(node) or (under_way and node == LEFT)

    def is_unfinished(self, data: bytes | None) -> bool:
        """Whether the channel's text may not end behind these bytes; None: it ends where a marker began before."""
        layer, node = self._layers[-1], self._nodes[-1]
        if self._counts[-1] < layer.least:
            return True
        return (
            layer.choices is not None and data is not None and not layer.choices.may_end(layer.choices.step(node, data))
        )

    def begin_with(self, data: bytes) -> None:
        """The channel's text begins with what a token holds behind a marker, which counts as its first token."""
        layer, node = self._layers[-1], self._nodes[-1]
        self._counts = (*self._counts[:-1], min(1, layer.horizon))
        if layer.choices is not None:
            self._nodes = (*self._nodes[:-1], layer.choices.step(node, data))

    @property
    def closing(self) -> Ids:
        """What is to be written before the output ends here; nothing where it may not, or once that has begun."""
        if self._closing or self._run:
            return ()
        for layer, node in zip(self._layers, self._nodes, strict=True):
            if layer.choices is not None and not layer.choices.may_end(node):
                return ()
        return next((layer.schedule.end for layer in reversed(self._layers) if layer.schedule.end), ())

    # -- what a choice changes -------------------------------------------------------------------------------------

    def advance(self, token: int, *, closes: bool = False, completed: Iterable[int] = ()) -> None:
        """A token was chosen. closes: it stands for an end. completed: the rules whose phrase it completed."""
        steps = zip(self._layers, self._counts, strict=True)
        self._counts = tuple(count + 1 if count < layer.horizon else count for layer, count in steps)
        data = self._tokens[token]
        if data:
            at = zip(self._layers, self._nodes, strict=True)
            self._nodes = tuple(node if la.choices is None else la.choices.step(node, data) for la, node in at)
        if closes:
            self._run = (*self.closing[1:], self._ends.closing)
            self._closing, self._waiting = True, ()
            return
        self._run = self._run[1:]
        if completed and not self._closing:
            self._fire(sorted(set(completed) - self._fired))
        if self._waiting and not self._run and self._scheduled() is None:
            self._run, *rest = self._waiting
            self._waiting = tuple(rest)

    def _fire(self, rules: Sequence[int]) -> None:
        texts: list[Ids] = []
        for rule in rules:
            for layer in self._layers:
                if rule in layer.schedule.after:
                    texts.append(layer.schedule.after[rule])
                    self._fired |= {rule}
        # Of two that begin at once and agree, the longer one says both.
        texts = [t for i, t in enumerate(texts) if not any(_covers(u, t, j < i) for j, u in enumerate(texts) if j != i)]
        self._waiting += tuple(texts)

    @property
    def place(self) -> Hashable:
        """All that choices have changed."""
        return self._counts, self._nodes, self._run, self._waiting, self._fired, self._closing

    @place.setter
    def place(self, place: Any) -> None:
        self._counts, self._nodes, self._run, self._waiting, self._fired, self._closing = place


def holds(ids: Ints, token: int) -> bool:
    """Whether an ascending array holds an id."""
    place = int(ids.searchsorted(token))
    return place < len(ids) and int(ids[place]) == token


def _covers(text: Ids, other: Ids, earlier: bool) -> bool:
    """Whether a text begins with the other; of equal ones, the earlier covers the later."""
    return text[: len(other)] == other and (len(text) > len(other) or earlier)


__all__ = ["Course", "holds"]
