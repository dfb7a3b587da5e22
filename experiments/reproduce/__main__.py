"""`python -m experiments.reproduce`."""

from experiments.reproduce.command import main

if __name__ == "__main__":
    main()
