"""`toolyard` and `python -m toolyard`."""

import sys


def main() -> None:
    """Run the command line; `version` is answered without importing it."""
    arguments = sys.argv[1:]
    if arguments in (["version"], ["--version"]):
        from toolyard.constants import VERSION

        sys.stdout.write(f"{VERSION}\n")
        return
    from toolyard.cli.main import run

    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
