"""The `rtm` command: give the call to a fork server where there is one, or run it here."""

import os
import sys


def main() -> None:
    if socket := os.environ.get("RTM_FORKSERVER"):
        from rtm.cli.forkserver import hand_over

        code = hand_over(socket)
        if code is not None:
            sys.exit(code)
    from rtm.cli.main import main as run

    if sys.argv[1:2] == ["--forkserver"]:
        from rtm.cli.forkserver import serve

        serve(sys.argv[2], run)
    run()


if __name__ == "__main__":
    main()
