import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # `fuzz` and `support`, as the tests import them

if __name__ == "__main__":
    from fuzz.runner import main

    main()
