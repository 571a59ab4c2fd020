"""psycopg 3 against a warehouse: one line per check, "name TAB ok|fail TAB note"."""

import datetime as dt
import decimal
import threading
import time
import uuid

import psycopg
from psycopg.types.json import Jsonb

import report

SLOW = "SELECT count(*) FROM range(10000000000) a, range(1000) b WHERE a.range % 7 = b.range % 3"

VALUES = [
    ("bool", True), ("int2", -7), ("int4", 1 << 30), ("int8", -(1 << 62)), ("numeric(20,5)", decimal.Decimal("-12345.67890")),
    ("float8", 1e-300), ("text", "tab\t'ü\" \\"), ("bytea", b"\x00\xff\\"), ("date", dt.date(1999, 12, 31)), ("time", dt.time(23, 59, 59, 999999)),
    ("timestamp", dt.datetime(2024, 2, 29, 1, 2, 3, 4)), ("timestamptz", dt.datetime(2024, 7, 1, 12, 0, tzinfo=dt.timezone.utc)),
    ("interval", dt.timedelta(days=3, seconds=5, microseconds=7)), ("uuid", uuid.UUID(int=7)), ("int4[]", [1, None, 3]), ("text[]", ["a b", None, ""]),
]


def connect(**more):
    return psycopg.connect("", autocommit=True, **more)


@report.check("types, text")
def types_text():
    return types(False)


@report.check("types, binary")
def types_binary():
    return types(True)


def types(binary):
    with connect() as c, c.cursor(binary=binary) as cur:
        for sql, v in VALUES:
            fmt = "%b" if binary and not isinstance(v, dt.timedelta) else "%s"
            for value in (v, None):
                got = cur.execute(f"SELECT {fmt}::{sql}", [value]).fetchone()[0]
                assert got == value, f"{sql}: sent {value!r}, got {got!r}"
        got = cur.execute("SELECT %s::json", [Jsonb({"a": [1, None]})]).fetchone()[0]
        assert got == {"a": [1, None]}, got
    return f"{len(VALUES) + 1} types"


@report.check("prepared statements")
def prepared():
    with connect() as c:
        for i in range(10):
            assert c.execute("SELECT %s + 1", [i], prepare=True).fetchone() == (i + 1,)
        with c.pipeline():
            curs = [c.execute("SELECT %s::int", [i]) for i in range(5)]
            got = [cur.fetchone()[0] for cur in curs]
        assert got == list(range(5)), got
    return "also in a pipeline"


@report.check("cursors")
def cursors():
    with connect() as c, c.transaction():
        with c.cursor("named") as cur:
            cur.itersize = 100
            cur.execute("SELECT range FROM range(1000)")
            assert sum(r[0] for r in cur) == 499500
    return "server side, 100 rows at a time"


@report.check("errors")
def errors():
    with connect() as c:
        for sql, kind in [("SELECT * FROM nowhere", psycopg.errors.UndefinedTable), ("SELECT nope", psycopg.errors.UndefinedColumn),
                          ("SELECT CAST('x' AS INTEGER)", psycopg.errors.InvalidTextRepresentation), ("SELEC 1", psycopg.errors.SyntaxError)]:
            try:
                c.execute(sql)
            except kind:
                continue
            raise AssertionError(sql)
        assert c.execute("SELECT 1").fetchone() == (1,)


@report.check("transactions")
def transactions():
    with connect() as c:
        c.execute("CREATE OR REPLACE TABLE py_tx (i INTEGER)")
        try:
            with c.transaction():
                c.execute("INSERT INTO py_tx VALUES (1)")
                raise psycopg.Rollback()
        except psycopg.Rollback:
            pass
        with c.transaction():
            with c.transaction():
                c.execute("INSERT INTO py_tx VALUES (2)")
            try:
                with c.transaction():
                    c.execute("SELECT * FROM nowhere")
            except psycopg.errors.UndefinedTable:
                pass
            c.execute("INSERT INTO py_tx VALUES (3)")
        assert c.execute("SELECT list(i ORDER BY i) FROM py_tx").fetchone()[0] == [2, 3]
    return "nested blocks by savepoints"


@report.check("cancel")
def cancel():
    with connect() as c:
        threading.Timer(0.3, c.cancel).start()
        start = time.time()
        try:
            c.execute(SLOW)
        except psycopg.errors.QueryCanceled:
            assert time.time() - start < 10
            assert c.execute("SELECT 1").fetchone() == (1,)
            return None
    raise AssertionError("the statement ended")


@report.check("COPY in")
def copy_in():
    with connect() as c, c.cursor() as cur:
        c.execute("CREATE OR REPLACE TABLE py_copy (i BIGINT, s TEXT, d DATE)")
        for binary in ("", " (FORMAT binary)"):
            with cur.copy("COPY py_copy FROM STDIN" + binary) as copy:
                if binary:
                    copy.set_types(["int8", "text", "date"])
                for i in range(1000):
                    copy.write_row((i, f"row\t{i}" if i % 10 else None, dt.date(2024, 1, 1)))
        got = c.execute("SELECT count(*), count(s), sum(i)::bigint FROM py_copy").fetchone()
        assert got == (2000, 1800, 999000), got
    return "text, binary"


@report.check("COPY out")
def copy_out():
    with connect() as c, c.cursor() as cur:
        for binary in ("", " (FORMAT binary)"):
            with cur.copy("COPY (SELECT range, 'x' || range FROM range(1000)) TO STDOUT" + binary) as copy:
                copy.set_types(["int8", "text"])
                rows = list(copy.rows())
            assert rows[999] == (999, "x999"), rows[999]
    return "text, binary"


report.run()
