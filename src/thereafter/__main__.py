"""`python -m thereafter` is the command line."""

from thereafter.cli import main

if __name__ == "__main__":
    main()
