"""ADBC's PostgreSQL driver against a warehouse: Arrow in and out, by COPY in binary."""

import os

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa

import report

URI = f"postgresql://{os.environ['PGUSER']}@{os.environ['PGHOST']}:{os.environ['PGPORT']}/{os.environ['PGDATABASE']}"


@report.check("types, binary")
def types():
    with adbc.connect(URI) as c, c.cursor() as cur:
        cur.execute("SELECT true AS b, 7::int2 AS i2, 8::int4 AS i4, 9::int8 AS i8, 1.5::float4 AS f4, 2.5::float8 AS f8, 'ü' AS t, '\\x00ff'::bytea AS x, DATE '1999-12-31' AS d,"
                    " TIMESTAMP '2024-01-02 03:04:05.000006' AS ts, NULL::int4 AS n, [1, 2]::int4[] AS l")
        row = cur.fetch_arrow_table().to_pylist()[0]
    assert row["t"] == "ü" and row["i8"] == 9 and row["n"] is None and row["l"] == [1, 2] and str(row["d"]) == "1999-12-31" and row["ts"].microsecond == 6, row
    return "12 types into Arrow"


@report.check("prepared statements")
def prepared():
    with adbc.connect(URI) as c, c.cursor() as cur:
        cur.execute("SELECT $1::int8 + 1", (41,))
        assert cur.fetchone() == (42,)


@report.check("COPY in")
def ingest():
    table = pa.table({"i": pa.array(range(10000)), "s": pa.array([f"s{i}" for i in range(10000)]), "f": pa.array([i / 2 for i in range(10000)])})
    with adbc.connect(URI) as c, c.cursor() as cur:
        cur.execute("DROP TABLE IF EXISTS adbc_in")
        cur.adbc_ingest("adbc_in", table, mode="create")
        c.commit()
        cur.execute("SELECT count(*), sum(i)::int8 FROM adbc_in")
        assert cur.fetchone() == (10000, 49995000)
    return "adbc_ingest"


@report.check("COPY out")
def out():
    with adbc.connect(URI) as c, c.cursor() as cur:
        cur.execute("SELECT range AS i, 'x' || range AS s FROM range(100000)")
        t = cur.fetch_arrow_table()
        assert t.num_rows == 100000 and t.column("s")[99999].as_py() == "x99999"
    return "100,000 rows"


@report.check("catalog")
def catalog():
    with adbc.connect(URI) as c:
        with c.cursor() as cur:
            cur.execute("CREATE OR REPLACE TABLE adbc_t (i INTEGER, s TEXT)")
        c.commit()
        assert c.adbc_get_table_schema("adbc_t").names == ["i", "s"]
        objects = c.adbc_get_objects(depth="tables", table_name_filter="adbc_t").read_all().to_pylist()
        names = [t["table_name"] for o in objects for s in o["catalog_db_schemas"] or [] for t in s["db_schema_tables"] or []]
        assert "adbc_t" in names, objects
        assert "table" in c.adbc_get_table_types()
    return "table schema, objects"


@report.check("transactions")
def tx():
    with adbc.connect(URI) as c, c.cursor() as cur:
        cur.execute("CREATE OR REPLACE TABLE adbc_tx (i INTEGER)")
        c.commit()
        cur.execute("INSERT INTO adbc_tx VALUES (1)")
        c.rollback()
        cur.execute("SELECT count(*) FROM adbc_tx")
        assert cur.fetchone() == (0,)


@report.check("errors")
def errors():
    with adbc.connect(URI) as c, c.cursor() as cur:
        try:
            cur.execute("SELECT * FROM nowhere")
        except adbc.ProgrammingError as e:
            assert e.sqlstate == "42P01", e.sqlstate
            return None
    raise AssertionError("no error")


report.run()
