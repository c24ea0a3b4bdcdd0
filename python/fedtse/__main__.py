"""The command line: `python -m fedtse`, or `fedtse`."""

import signal
import sys

from . import _fedtse


def main() -> int:
    # As for any program: Ctrl-C ends it, unless the command itself sees to it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return 0 if _fedtse.main(["fedtse", *sys.argv[1:]]) else 1


if __name__ == "__main__":
    sys.exit(main())
