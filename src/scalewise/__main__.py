"""``python -m scalewise``: the same as the command ``scalewise``."""

from scalewise.cli import main

if __name__ == "__main__":
    main()
