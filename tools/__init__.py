"""Commands for people who work on this repository; not part of the package."""
