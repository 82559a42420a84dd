"""``python -m mlsim``: the command line, where the program ``mlsim`` is not on the path."""

from mlsim.cli.main import main

if __name__ == "__main__":  # processes that are started anew import this module under another name
    main()
