"""Runs a command beside another: ``beside.py "make this" -- command …``. The one in quotes is quiet until both are done.

Tests with Spark wait half of their time (for a JVM, a socket, a file), so two parts of them side by side take little longer than
the longer one. What the quiet one printed comes last, in one piece. Ends with 1 if either failed. Ctrl-C reaches both.
"""

import shlex
import subprocess
import sys
import tempfile


def main(quiet: str, shown: list[str]) -> int:
    """Both commands; how they ended."""
    with tempfile.TemporaryFile() as said:
        beside = subprocess.Popen(shlex.split(quiet), stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)  # noqa: S603
        try:
            failed = subprocess.run(shown, check=False).returncode  # noqa: S603
            print(f"-- {quiet}: ran beside, is waited for now", flush=True)
            beside.wait()
        except KeyboardInterrupt:
            failed = 130
            beside.wait(60)
        finally:
            said.seek(0)
            print(f"-- {quiet}", flush=True)
            sys.stdout.buffer.write(said.read())
            sys.stdout.flush()
            if beside.poll() is None:
                beside.kill()
    return 1 if failed or beside.returncode else 0


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[2] != "--":
        sys.exit(f"usage: {sys.argv[0]} 'quiet command' -- command …")
    sys.exit(main(sys.argv[1], sys.argv[3:]))
