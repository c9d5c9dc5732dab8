"""Errors that a running engine shows to a client or to its operator."""


class RequestError(ValueError):
    """A request asks for something that its server's policies do not offer; the text is fit for an API error."""


class BundleError(ValueError):
    """A bundle is damaged, or of a format that this version does not know."""


class BindError(ValueError):
    """A program cannot hold on this vocabulary; the text names the rule.

    Attributes:
        rule: the rule as `policy/rule`; empty where the error is about no single one.
    """

    def __init__(self, message: str, *, rule: str = "") -> None:
        super().__init__(message)
        self.rule = rule
