"""``python -m panestream.jobs``: the command line, where no ``panestream`` script is on the path."""

from panestream.jobs.cli import app

if __name__ == "__main__":
    app(prog_name="panestream")
