#!/usr/bin/env python3
"""Copies an oracle fixture into tests/data/oracle, keeping what the tests that always run need.

usage: trim_oracle.py SRC_DIR DST_DIR

SRC_DIR holds model.safetensors, config.json, config_official.json, names.json, ref.safetensors and sim.safetensors (see
tests/data/oracle/README.md). The weights are copied whole; of the references, prompts of up to 300 tokens and what
belongs to them, and the logits of the longest prompt at its last 64 positions only.
"""
import json
import os
import shutil
import struct
import sys

KEEP_PREFIXES = ("tok.", "logits.", "gen.", "gen_margin.", "index_gap.", "router_gap.", "logits_sim.", "flip_frac.",
                 "noise_sim.", "tok_alt.", "logits_alt.", "noise_alt.", "rope.")
MAX_LENGTH = 300
LOGIT_TAIL = 64  # rows of logits kept for prompts longer than 130


def read(path):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(size))
        data = f.read()
    header.pop("__metadata__", None)
    return {k: (v["dtype"], v["shape"], data[slice(*v["data_offsets"])]) for k, v in header.items()}


def write(path, tensors):
    header, offset = {}, 0
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, raw in tensors.values():
            f.write(raw)


def trim(tensors):
    kept = {}
    for name, (dtype, shape, raw) in sorted(tensors.items()):
        if not name.startswith(KEEP_PREFIXES):
            continue
        length = name.split(".")[1]
        if length.isdigit() and int(length) > MAX_LENGTH:
            continue
        if name.startswith(("logits.", "logits_sim.", "logits_alt.")) and shape[0] > 130:
            row = len(raw) // shape[0]
            raw, shape = raw[-LOGIT_TAIL * row:], [LOGIT_TAIL] + shape[1:]
        kept[name] = (dtype, shape, raw)
    return kept


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    src, dst = sys.argv[1:]
    os.makedirs(dst, exist_ok=True)
    for name in ("model.safetensors", "config.json", "config_official.json", "names.json"):
        shutil.copyfile(f"{src}/{name}", f"{dst}/{name}")
    for name in ("ref.safetensors", "sim.safetensors"):
        write(f"{dst}/{name}", trim(read(f"{src}/{name}")))


if __name__ == "__main__":
    main()
