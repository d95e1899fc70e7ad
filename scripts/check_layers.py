#!/usr/bin/env python3
"""Checks which folder of src/ includes which: arrows point down only (docs/architecture.md).

Also keeps headers that are slow to compile out of our headers, and CUDA out of everything but its backend.
usage: scripts/check_layers.py
"""
import pathlib
import re
import sys

# Folder -> folders it may include, besides itself and what those may include.
ARROWS = {
    "core": [],
    "gguf": ["core"],
    "safetensors": ["core"],
    "weights": ["gguf", "safetensors"],
    "quant": ["weights"],
    "tokenizer": ["gguf"],
    "grammar": ["tokenizer"],
    "chat": ["core"],
    "backend": ["weights"],
    "model": ["backend", "weights"],
    "cache": ["backend"],
    "sampling": ["core"],
    "engine": ["cache", "sampling", "model", "grammar"],
    "server": ["engine", "chat"],
    "cli": ["server", "quant"],
}

# Backends know their interface, not each other.
BACKENDS = ["reference", "cpu", "cuda"]

HEAVY = re.compile(r"<(nlohmann/json\.hpp|spdlog/|CLI/|httplib\.h|fmt/(?!core\.h))")
CUDA = re.compile(r"<(cuda|cublas|nccl|mma\.h)")
INCLUDE = re.compile(r"^\s*#\s*include\s+([<\"][^>\"]+[>\"])", re.MULTILINE)


def reachable(folder):
    below = {folder}
    for child in ARROWS[folder]:
        below |= reachable(child)
    return below


def backend_of(path):
    return path.parts[1] if path.parts[0] == "backend" and len(path.parts) > 2 and path.parts[1] in BACKENDS else None


def problems(src, path):
    folder = path.parts[0]
    if folder not in ARROWS:
        yield f"src/{path}: folder '{folder}' is not in the table of scripts/check_layers.py"
        return
    for include in INCLUDE.findall((src / path).read_text()):
        target = pathlib.PurePath(include[1:-1])
        if path.suffix == ".h" and HEAVY.match(include):
            yield f"src/{path}: {include} is slow to compile; include it in a .cpp file"
        if CUDA.match(include) and backend_of(path) != "cuda":
            yield f"src/{path}: {include} belongs to src/backend/cuda"
        if include[0] != '"':
            continue
        if len(target.parts) < 2:
            yield f"src/{path}: {include} is not a path from src/"
        elif target.parts[0] not in reachable(folder):
            yield f"src/{path}: {folder} must not include {target.parts[0]} ({include})"
        elif backend_of(path) and backend_of(target) not in (None, backend_of(path)):
            yield f"src/{path}: one backend must not include another ({include})"


def main():
    src = pathlib.Path(__file__).resolve().parent.parent / "src"
    files = sorted(p.relative_to(src) for p in src.rglob("*") if p.suffix in {".h", ".cpp", ".cu", ".cuh"})
    found = [problem for path in files for problem in problems(src, path)]
    for problem in found:
        print(problem, file=sys.stderr)
    print(f"check_layers.py: {len(files)} files, {len(found)} problems", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit(0)
    sys.exit(main())
