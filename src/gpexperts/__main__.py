"""`python -m gpexperts` runs the command line."""

from gpexperts.cli import main

if __name__ == "__main__":
    main()
