"""`python -m clew`."""

from clew.cli import main

main()
