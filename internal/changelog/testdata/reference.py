"""What a changelog's table must hold, told by another program than the one that wrote it.

reference.py MESSAGES ROWS SCHEMA: MESSAGES has a line [buffer, offset, text] for each message, in order; ROWS a JSON object for
each row, all values but _offset as text; SCHEMA an object of column types. Only the standard library, and none of the engine.
"""
import json
import sys

RESERVED = {"_topic_epoch", "_partition", "_offset", "_timestamp", "_key", "_headers", "_tombstone", "_op", "_version", "_extra",
            "_inserted_at", "_inserted_month", "rowid", "snapshot_id"}


class Number(str):
    """A number as it is written."""


DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number)


def kind(v):
    if v is None:
        return "NULL"
    if isinstance(v, bool):
        return "BOOLEAN"
    if isinstance(v, Number):
        if any(c in v for c in ".eE"):
            return "DOUBLE"
        n = int(v)
        if 0 <= n < 2**64:
            return "UBIGINT"
        return "BIGINT" if -2**63 <= n < 0 else "DOUBLE"
    return "VARCHAR" if isinstance(v, str) else "JSON"


def compact(v):
    if isinstance(v, Number):
        return str(v)
    if isinstance(v, dict):
        return "{" + ",".join(json.dumps(k) + ":" + compact(x) for k, x in v.items()) + "}"
    if isinstance(v, list):
        return "[" + ",".join(compact(x) for x in v) + "]"
    return json.dumps(v, ensure_ascii=False)


def infer(kinds):
    kinds = kinds - {"NULL"}
    if "JSON" in kinds:
        return "JSON", False
    if kinds == {"VARCHAR"} or kinds == {"BOOLEAN"} or kinds == {"DOUBLE"}:
        return kinds.pop(), False
    if kinds <= {"BIGINT", "UBIGINT"}:
        return "BIGINT", False
    if kinds <= {"BIGINT", "UBIGINT", "DOUBLE"}:
        return "DOUBLE", False
    return "VARCHAR", True


def fit(v, typ, mixed):
    """The value as text, or None if it does not fit."""
    k = kind(v)
    if typ == "JSON":
        return compact(v)
    if mixed:
        return v if k == "VARCHAR" else compact(v)
    if typ == "VARCHAR":
        return v if k == "VARCHAR" else None
    if typ == "BOOLEAN":
        return ("true" if v else "false") if k == "BOOLEAN" else None
    if k not in ("BIGINT", "UBIGINT", "DOUBLE"):
        return None
    if typ == "BIGINT":
        if k == "DOUBLE":
            f = float(v)
            return str(int(f)) if f == int(f) and abs(f) < 9.2e18 else None
        return v if -2**63 <= int(v) < 2**63 else None
    if k != "DOUBLE" and int(float(v)) != int(v):
        return None
    return float(v)


def main():
    buffers = {}
    for line in open(sys.argv[1], encoding="utf-8"):
        buffer, offset, text = json.loads(line)
        buffers.setdefault(buffer, []).append((offset, DECODER.decode(text)))
    schema, want = {}, {}
    for buffer in sorted(buffers):
        kinds = {}
        for _, doc in buffers[buffer]:
            for name, v in doc.items():
                kinds.setdefault(name, set()).add(kind(v))
        mixed = {}
        for name, ks in kinds.items():
            if name.lower() not in RESERVED and name.lower() not in {c.lower() for c in schema} and ks != {"NULL"}:
                schema[name], mixed[name] = infer(ks)
        for offset, doc in buffers[buffer]:
            row, extra = {}, {}
            for name, v in doc.items():
                if v is None:
                    continue
                got = fit(v, schema[name], mixed.get(name, False)) if name in schema else None
                if got is None:
                    extra[name] = compact(v)
                else:
                    row[name] = got
            want[offset] = (row, extra)
    bad = 0
    actual = json.load(open(sys.argv[3], encoding="utf-8"))
    if actual != schema:
        bad += 1
        print("schema", actual, "want", schema)
    seen, extras = 0, 0
    for line in open(sys.argv[2], encoding="utf-8"):
        have = json.loads(line)
        row, extra = want.pop(have.pop("_offset"))
        raw = have.pop("_extra", None)
        got_extra = {k: compact(v) for k, v in DECODER.decode(raw).items()} if raw else {}
        got = {}
        for name, text in have.items():
            if text is not None:
                got[name] = float(text) if schema.get(name) == "DOUBLE" else text
        seen += 1
        extras += len(extra)
        if got != row or got_extra != extra:
            bad += 1
            if bad < 10:
                print("row", got, got_extra, "want", row, extra)
    if want:
        bad += 1
        print(len(want), "messages have no row")
    print(f"{seen} rows in {len(buffers)} buffers, {len(schema)} columns, {extras} values in _extra, {bad} differences")
    sys.exit(1 if bad or not extras else 0)


main()
