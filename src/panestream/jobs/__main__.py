"""``python -m panestream.jobs``: the command line without the ``panestream`` script."""

from panestream.jobs.cli import app

if __name__ == "__main__":
    app(prog_name="panestream")
