import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # finds `fuzz` and `support` by the names that the tests use

if __name__ == "__main__":
    from fuzz.runner import main

    main()
