"""The `rtm` command: hand the call to a warm process where there is one, or do it here."""

import os
import sys


def main() -> None:
    if socket := os.environ.get("RTM_WARM"):
        from rtm.cli.forkserver import hand_over

        code = hand_over(socket)
        if code is not None:
            sys.exit(code)
    from rtm.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
