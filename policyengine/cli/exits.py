"""Exit codes, the same for every command and format."""

CLEAN = 0
FINDINGS = 1  # findings, failed tests, a gated difference
FAILED = 2  # could not do the job: usage, unreadable or invalid input
NOTHING = 3  # no policies or no tests found
