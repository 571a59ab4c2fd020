"""What the Python clients share: a list of checks, each printed as "name TAB ok|fail TAB note"."""

import sys
import traceback

checks = []


def check(name):
    def add(f):
        checks.append((name, f))
        return f
    return add


def run():
    for name, f in checks:
        try:
            print(name, "ok", f() or "", sep="\t", flush=True)
        except BaseException as e:
            note = str(e).strip() or repr(e)
            print(name, "fail", " ".join(note.split()), sep="\t", flush=True)
            traceback.print_exc(file=sys.stderr)
