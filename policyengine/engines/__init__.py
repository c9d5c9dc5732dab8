"""One folder an engine; the only code that imports torch or an engine."""
