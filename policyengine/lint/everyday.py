"""Everyday English: the hundred words that are written most, which no phrase should ban by accident."""

from __future__ import annotations

_TEXT = """
the be to of and a in that have I it for not on with he as you do at this but his by from they we say her she or an
will my one all would there their what so up out if about who get which go me when make can like time no just him
know take people into year your good some could them see other than then now look only come its over think also
back after use two how our work first well way even new want because any these give day most us is are was
"""
WORDS = tuple(_TEXT.split())

# A word, and what behind an apostrophe makes another word of it; and before one.
BEFORE_APOSTROPHE = {"can": "can't", "won": "won't", "don": "don't", "let": "let's"}
BEHIND_APOSTROPHE = {"clock": "o'clock", "am": "ma'am", "all": "y'all"}
