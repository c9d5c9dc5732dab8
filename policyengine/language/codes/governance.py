"""PE3xx: who is responsible. The checks are advice and come with the lints; their codes are registered here."""

from __future__ import annotations

from policyengine.language.codes.model import Code

CODES: tuple[Code, ...] = ()
