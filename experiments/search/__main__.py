"""`python -m experiments.search`."""

from experiments.search.command import main

if __name__ == "__main__":
    main()
