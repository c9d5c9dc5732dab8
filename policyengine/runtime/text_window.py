"""The stretch of an output that was read and may still change: what is held back, and why.

Two readings run side by side. The *original* text goes through the automata once, character by character. What the
client will see, the *visible* text, is a stack of pieces, each with the automata's states after it: one character as it
leaves, or a *unit*, the replacement of a redacted span. A match in the original text replaces its pieces by a unit, and
so does one in the visible text (a join may spell what was not there before), until the visible text holds none.

INVARIANT (shrink): every redaction turns several pieces into one, a character into a unit, or a unit whose own text is
banned into an empty one. So work ends, whatever the rules are.

What may leave is told by `text_frontier`, so that nothing that left would have to change.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import replace
from operator import attrgetter
from typing import Any

from policyengine.runtime.scanners import replacement
from policyengine.runtime.text_found import Found, Matches, rank
from policyengine.runtime.text_frontier import settled
from policyengine.runtime.text_pieces import Piece, Stop
from policyengine.runtime.text_plan import TextPlan


class Window:
    """See the module.

    Attributes:
        out: released text that nobody took yet; found: matches.
        replaced: the end of the last text that was replaced, a place in the original text.
    """

    __slots__ = (
        "_growing",
        "_taken",
        "base",
        "begins",
        "found",
        "orig",
        "out",
        "plan",
        "position",
        "replaced",
        "stack",
    )

    def __init__(self, plan: TextPlan) -> None:
        n = len(plan.scanners)
        self.plan = plan
        self.position = 0
        self.orig = list(plan.initial)
        self.begins: list[list[int]] = [
            [] for _ in range(n)
        ]  # by scanner: the character each of the last symbols is of
        self.base = Piece(0, 0, "", None, True, plan.initial, (0,) * n)  # what lies below the stack
        self.stack: list[Piece] = []
        self.out: list[str] = []
        self.found = Matches()
        self.replaced = 0

    @property
    def top(self) -> Piece:
        """The last piece of the visible text."""
        return self.stack[-1] if self.stack else self.base

    @property
    def held(self) -> int:
        """Characters of the original text that were read and not released."""
        for piece in self.stack:
            if not piece.sent:
                return self.position - piece.start
        return 0

    def begin(self, states: tuple[Any, ...]) -> None:
        """Begin behind text that has left: the states of the original text there, and then those of the visible one."""
        self.orig = list(states[: len(self.orig)])
        self.base = Piece(0, 0, "", None, True, states[len(states) - len(self.orig) :], self.base.counts)

    # -- reading ---------------------------------------------------------------------------------------------------

    def feed(self, text: str) -> Stop | None:
        """Read text; what it allows to release stays until `release`, unless too much is held."""
        plan, stack, orig, limit = self.plan, self.stack, self.orig, self.plan.program.max_hold
        scanners, rewrite = plan.scanners, plan.rewrite
        for ch in text:
            place = self.position
            self.position = place + 1
            found: list[Found] = []
            for k, scanner in enumerate(scanners):
                state, symbols, hits = scanner.step(orig[k], ch)
                orig[k] = state
                begins = self.begins[k]
                read = len(begins)
                if symbols:
                    begins.extend([place] * symbols)
                for end, length, rule in hits:
                    after = read + end
                    found.append(Found(begins[after - length], begins[after - 1] + 1, rule, scanner.merges))
            if not found or not self._swallow(found, place):
                piece = Piece(place, place + 1, rewrite(ch) if rewrite else ch, None, False)
                stop = self._decide(found, deque((piece,))) if found else self._push(piece)
                if stop is not None:
                    return stop
            if (
                stack
                and place - stack[0].start >= limit
                and place - stack[stack[0].sent and len(stack) > 1].start >= limit
            ):
                self.release()
                if self.held > limit:
                    return Stop(None, 0)
        return None

    def finish(self) -> Stop | None:
        """The output ends here, which is an edge."""
        found = []
        for k, scanner in enumerate(self.plan.scanners):
            begins = self.begins[k]
            for end, length, rule in scanner.at_end(self.orig[k]):
                after = len(begins) + end
                found.append(Found(begins[after - length], begins[after - 1] + 1, rule, scanner.merges))
        return (self._decide(found, deque()) if found else None) or self._end()

    def close(self, keep: int, message: str) -> str:
        """End the output after the first `keep` pieces; returns what leaves, with the message at its end.

        A message that would spell something banned, by itself or with the text before it, is left out.
        """
        del self.stack[keep:]
        if message and self._fits(message):
            return self.flush() + message
        while stop := self._end():
            del self.stack[stop.keep :]
        message = message if message and self._fits(message) else ""
        return self.flush() + message

    def _fits(self, message: str) -> bool:
        top = self.top
        for scanner, state in zip(self.plan.scanners, top.states, strict=True):
            after = scanner.read(state, message)
            if after.hits or scanner.at_end(after.state):
                return False
        return True

    def flush(self) -> str:
        """Everything that was not yet taken."""
        text = "".join(self.out) + "".join(piece.text for piece in self.stack if not piece.sent)
        self.out.clear()
        self.stack.clear()
        return text

    # -- deciding --------------------------------------------------------------------------------------------------

    def _decide(self, found: list[Found], queue: deque[Piece]) -> Stop | None:
        """Act on matches of the original text that completed at one character; `queue`: its piece, not yet pushed."""
        final = [match for match in found if not self.plan.is_redaction(match.rule)]
        if not final:
            self._redact(sorted(set(found), key=rank), queue)
            return self._settle(queue)
        cut = min(match.start for match in final)
        before = [match for match in found if match.start < cut and self.plan.is_redaction(match.rule)]
        if before:
            self._redact(sorted(set(before), key=rank), queue)
            if stop := self._settle(queue):
                del self.stack[stop.keep :]
        winner = min(final, key=lambda match: (match.rule, match.start, -match.end))
        self.found.report(winner)
        return Stop(winner.rule, sum(piece.start < cut for piece in self.stack))

    def _swallow(self, found: list[Found], place: int) -> bool:
        """Let the unit on top cover the character at a place too, if that is all that the matches change."""
        unit = self.top
        if (
            unit.leader is None
            or not self.stack
            or not any(match.start < unit.end == place < match.end for match in found)
        ):
            return False
        start, _, leader = unit.leader
        for match in found:
            if match.start < start or (match.start == start and match.rule != leader):
                return False
            if not self.plan.is_redaction(match.rule):
                return False
        for match in sorted(set(found), key=rank):
            self.found.report(match)
        leads = min(unit.leader, *map(rank, found))
        self.stack[-1] = Piece(unit.start, place + 1, unit.text, leads, unit.sent, unit.states, unit.counts)
        self.replaced = max(self.replaced, place + 1)
        return True

    def _redact(self, spans: list[Found], queue: deque[Piece]) -> None:
        """Replace spans of the original text; what lies above them moves into the queue, to be pushed again."""
        for span in spans:
            self.found.report(span)
            while self.stack and self.stack[-1].end > span.start:
                queue.appendleft(self.stack.pop())
        pieces = list(queue)
        for span in spans:
            low = bisect_right(pieces, span.start, key=attrgetter("end"))
            high = bisect_left(pieces, span.end, key=attrgetter("start"))
            covered = pieces[low:high]
            if not covered:
                continue  # inside a unit that left and needs no more room
            text = replacement(self.plan.action(span.rule))
            unit = Piece(min(span.start, covered[0].start), max(span.end, covered[-1].end), text, rank(span), False)
            for piece in covered:
                if piece.leader is not None and (piece.sent or piece.leader <= rank(span)):
                    unit.leader, unit.text, unit.sent = piece.leader, piece.text, piece.sent
            self.replaced = max(self.replaced, unit.end)
            pieces[low:high] = [unit]
        queue.clear()
        queue.extend(pieces)

    def take(self, *, ended: bool) -> list[Found]:
        """The matches found since the last time, but for those that may still grow. `ended`: whether the output has."""
        live = {
            begins[-length]
            for scanner, state, begins in zip(self.plan.scanners, self.orig, self.begins, strict=True)
            if scanner.merges and not ended
            for length in scanner.live(state)
        }
        return self.found.take(live)

    # -- the visible text ------------------------------------------------------------------------------------------

    def _settle(self, queue: deque[Piece]) -> Stop | None:
        """Push the pieces of the queue in order, redacting what they complete, until the queue is empty."""
        while queue:
            piece = queue.popleft()
            stop = self._push(Piece(piece.start, piece.end, piece.text, piece.leader, piece.sent), queue)
            if stop is not None:
                return stop
        return None

    def _push(self, piece: Piece, queue: deque[Piece] | None = None) -> Stop | None:
        """Push one piece, and then whatever a visible match that it completes makes of the stack."""
        below = self.stack[-1] if self.stack else self.base
        states, counts, hits = [], [], None
        for k, scanner in enumerate(self.plan.scanners):
            state, symbols, completed = scanner.read(below.states[k], piece.text)
            count = below.counts[k]
            if completed:
                hits = hits or []
                hits += [(k, count + hit.end - hit.length, count + hit.end, hit.rule) for hit in completed]
            states.append(state)
            counts.append(count + symbols)
        piece.states, piece.counts = tuple(states), tuple(counts)
        self.stack.append(piece)
        if hits is None:
            return None
        return self._visible(hits, deque() if queue is None else queue, settle=queue is None)

    def _end(self) -> Stop | None:
        """Matches of the visible text that complete because it ends."""
        while True:
            top = self.top
            hits = [
                (k, top.counts[k] + end - length, top.counts[k] + end, rule)
                for k, scanner in enumerate(self.plan.scanners)
                for end, length, rule in scanner.at_end(top.states[k])
            ]
            if not hits:
                return None
            if stop := self._visible(hits, deque(), settle=True):
                return stop

    def _visible(self, hits: list[VisibleHit], queue: deque[Piece], *, settle: bool) -> Stop | None:
        """Act on matches of the visible text. The pieces above a redaction go to the queue."""
        stack = self.stack
        redactions: list[tuple[Found, int, int]] = []
        final: list[tuple[Found, int, int]] = []
        for k, first, after, rule in hits:
            if first < self.base.counts[k]:
                raise RuntimeError("a match of text that has left")  # never; but rather an error than without end
            low, high = self.piece_with(k, first, len(stack)), self.piece_with(k, after - 1, len(stack))
            match = Found(stack[low].start, stack[high].end, rule)
            (redactions if self.plan.is_redaction(rule) else final).append((match, low, high))
        if final:
            match, _, _ = min(final, key=lambda entry: (entry[0].rule, entry[1], -entry[2]))
            self.found.report(match)
            return Stop(match.rule, min(low for _, low, _ in final))
        match, low, high = min(redactions, key=lambda entry: (*rank(entry[0]), entry[1], -entry[2]))
        head = stack[low]
        if head.leader is not None and low == high:
            unit = Piece(match.start, match.end, "", head.leader, head.sent)  # its own text is banned: nothing is shown
        else:
            self.found.report(match)
            text, leader = (
                (replacement(self.plan.action(match.rule)), rank(match))
                if head.leader is None
                else (head.text, head.leader)
            )
            unit = Piece(match.start, match.end, text, leader, head.sent)
        self.replaced = max(self.replaced, unit.end)
        queue.extendleft(reversed((unit, *stack[high + 1 :])))
        del stack[low:]
        return self._settle(queue) if settle else None

    def piece_with(self, k: int, symbol: int, below: int) -> int:
        """The place, below the given one, of the piece that holds a symbol of the visible text."""
        return bisect_right(self.stack, symbol, hi=below, key=lambda piece: piece.counts[k])

    # -- releasing -------------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Move to `out` what nothing that may follow can change."""
        stack = self.stack
        count = settled(self)
        if count:
            self.out += [piece.text for piece in stack[:count] if not piece.sent]
            last = stack[count - 1]
            opened = (begins[-n] for begins, n in zip(self.begins, self._longest(), strict=True) if n)
            if last.leader is not None and any(start < last.end for start in opened):
                # A match that began inside this unit may still lengthen it, though not change what it shows.
                stack[count - 1] = replace(last, sent=True)
                count -= 1
            if count:
                self.base = stack[count - 1]
                del stack[:count]
        for begins, n in zip(self.begins, self._longest(), strict=True):
            del begins[: len(begins) - n]

    def _longest(self) -> list[int]:
        """By scanner, the length of the longest live match of the original text; 0: none."""
        return [scanner.longest(state) for scanner, state in zip(self.plan.scanners, self.orig, strict=True)]


VisibleHit = tuple[int, int, int, int]  # scanner, its first symbol, the symbol after its last, rule
