#!/usr/bin/env python3
"""Checks the form of every tracked file: length, ASCII, line ends, and text that must not be in the repository.

Source files have at most 800 lines (500 is a warning); kernels 1000. A file that must be longer says why in a line
"file-length: <reason>". Test data is exempt.
usage: scripts/check_files.py
"""
import pathlib
import re
import subprocess
import sys

SOURCE = {".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".cmake"}
TEXT = SOURCE | {".md", ".txt", ".json", ".yml", ""}
CPP = {".h", ".cpp", ".cu", ".cuh"}
DATA = ("tests/data/", "tests/fuzz/corpus/", "models/")

WARN_LINES, MAX_LINES, MAX_KERNEL_LINES = 500, 800, 1000

BANNED = [
    (re.compile(r"(?<![\w.>$}])/(home|root|Users|work|mnt|srv|scratch)/\w"), TEXT, "a path of one machine"),
    (re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b"), SOURCE, "unfinished work: finish it or open an issue"),
    (re.compile(r"\bgetenv\b"), CPP, "settings are options, not environment variables"),
    (re.compile(r"^(<{7}|>{7}) ", re.MULTILINE), TEXT, "a merge conflict"),
]


def tracked(root):
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                           cwd=root, check=True, capture_output=True).stdout.decode().split("\0")
    return [pathlib.Path(n) for n in names if n and (root / n).is_file() and not n.startswith(DATA)]


def max_lines(path):
    kernel = "isa" in path.parts or "kernels" in path.parts
    return MAX_KERNEL_LINES if kernel else MAX_LINES


def problems(root, path):
    raw = (root / path).read_bytes()
    try:
        text = raw.decode("ascii")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        yield f"{path}:{line}: byte {raw[error.start]:#x} is not ASCII"
        return
    if text and not text.endswith("\n"):
        yield f"{path}: no newline at the end"
    for number, line in enumerate(text.split("\n"), 1):
        if line != line.rstrip() or "\t" in line:
            yield f"{path}:{number}: trailing space, tab or carriage return"
    for pattern, suffixes, why in BANNED:
        if path.suffix in suffixes:
            for match in pattern.finditer(text):
                yield f"{path}:{text[: match.start()].count(chr(10)) + 1}: '{match.group().strip()}': {why}"
    if path.suffix in SOURCE and "file-length: " not in text:
        n_lines = text.count("\n")
        if n_lines > max_lines(path):
            yield f"{path}: {n_lines} lines, at most {max_lines(path)}"
        elif n_lines > WARN_LINES:
            print(f"{path}: {n_lines} lines; files over {WARN_LINES} are usually two", file=sys.stderr)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    files = [p for p in tracked(root) if p.suffix in TEXT]
    found = [problem for path in files for problem in problems(root, path)]
    for problem in found:
        print(problem, file=sys.stderr)
    print(f"check_files.py: {len(files)} files, {len(found)} problems", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit(0)
    sys.exit(main())
