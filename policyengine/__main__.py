"""`python -m policyengine` is the command `policyengine`."""

from policyengine.cli import main

main()
