"""A shell that is told commands one by one, as somebody who follows a page does."""

import subprocess

MARK = "--8<-- end of command"


def told(shell: "subprocess.Popen[str]", command: str) -> str:
    """What a command prints."""
    assert shell.stdin is not None
    assert shell.stdout is not None
    shell.stdin.write(f"{command}\necho '{MARK}'\n")
    shell.stdin.flush()
    said = ""
    while not (line := shell.stdout.readline()).startswith(MARK):
        assert line, f"the shell ended at: {command}"
        said += line
    return said
