"""``python -m panestream.testing.simulate``."""

import sys

from panestream.testing.simulation.command import main

if __name__ == "__main__":
    sys.exit(main())
