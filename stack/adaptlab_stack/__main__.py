"""`python -m adaptlab_stack`: the commands of this package alone."""

from adaptlab_stack.cli import application

if __name__ == "__main__":
    application()()
