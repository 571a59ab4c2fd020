"""SQLAlchemy against a warehouse: reflection, Core and ORM."""

import os

import sqlalchemy as sa
from sqlalchemy import orm

import report

engine = sa.create_engine(f"postgresql+psycopg://{os.environ['PGUSER']}@{os.environ['PGHOST']}:{os.environ['PGPORT']}/{os.environ['PGDATABASE']}")


@report.check("catalog")
def reflection():
    with engine.begin() as c:
        c.execute(sa.text("CREATE SCHEMA IF NOT EXISTS alchemy"))
        c.execute(sa.text("CREATE OR REPLACE TABLE alchemy.orders (id INTEGER NOT NULL, price NUMERIC(10,2) DEFAULT 1.5, tags TEXT[], placed TIMESTAMPTZ, extra JSON)"))
        c.execute(sa.text("COMMENT ON TABLE alchemy.orders IS 'all of them'"))
        c.execute(sa.text("CREATE OR REPLACE VIEW alchemy.cheap AS SELECT id FROM alchemy.orders"))
    i = sa.inspect(engine)
    assert "alchemy" in i.get_schema_names()
    assert i.get_table_names("alchemy") == ["orders"], i.get_table_names("alchemy")
    assert i.get_view_names("alchemy") == ["cheap"]
    assert i.has_table("orders", "alchemy") and not i.has_table("nowhere", "alchemy")
    columns = {c["name"]: c for c in i.get_columns("orders", "alchemy")}
    kinds = {n: str(c["type"]) for n, c in columns.items()}
    assert kinds == {"id": "INTEGER", "price": "NUMERIC(10, 2)", "tags": "ARRAY", "placed": "TIMESTAMP", "extra": "JSON"}, kinds
    assert not columns["id"]["nullable"] and columns["price"]["nullable"]
    assert i.get_table_comment("orders", "alchemy")["text"] == "all of them"
    assert not i.get_foreign_keys("orders", "alchemy") and not i.get_indexes("orders", "alchemy")
    i.get_pk_constraint("orders", "alchemy"), i.get_unique_constraints("orders", "alchemy"), i.get_check_constraints("orders", "alchemy")
    assert "SELECT id" in i.get_view_definition("cheap", "alchemy")
    m = sa.MetaData()
    m.reflect(engine, schema="alchemy", views=True)
    assert set(m.tables) == {"alchemy.orders", "alchemy.cheap"}, m.tables
    return "schemas, tables, views, columns, comments, MetaData.reflect"


class Base(orm.DeclarativeBase):
    pass


class Person(Base):
    __tablename__ = "alchemy_person"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True, autoincrement=False)
    name: orm.Mapped[str]


@report.check("transactions")
def with_orm():
    with engine.begin() as c:
        c.execute(sa.text("CREATE OR REPLACE TABLE alchemy_person (id INTEGER, name TEXT)"))
    with orm.Session(engine) as s:
        s.add_all([Person(id=i, name=f"n{i}") for i in range(5)])
        s.commit()
        s.get(Person, 3).name = "three"
        s.delete(s.get(Person, 4))
        s.commit()
        assert [p.name for p in s.scalars(sa.select(Person).order_by(Person.id))] == ["n0", "n1", "n2", "three"]
        s.add(Person(id=9, name="x"))
        s.rollback()
        assert s.get(Person, 9) is None
    return "ORM: insert, update, delete, rollback"


@report.check("types, text")
def core_types():
    with engine.connect() as c:
        row = c.execute(sa.select(sa.literal(True), sa.literal(7), sa.literal("x"), sa.literal(1.5), sa.literal(None))).one()
        assert tuple(row) == (True, 7, "x", 1.5, None), row


@report.check("cursors")
def stream():
    with engine.connect().execution_options(stream_results=True, yield_per=100) as c:
        assert sum(r[0] for r in c.execute(sa.text("SELECT range FROM range(1000)"))) == 499500


@report.check("errors")
def errors():
    try:
        with engine.connect() as c:
            c.execute(sa.text("SELECT * FROM nowhere"))
    except sa.exc.ProgrammingError as e:
        assert e.orig.sqlstate == "42P01"
        return None
    raise AssertionError("no error")


report.run()
