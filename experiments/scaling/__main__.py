"""`python -m experiments.scaling`."""

from experiments.scaling.command import main

if __name__ == "__main__":
    main()
