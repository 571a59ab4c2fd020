// node-postgres against a warehouse: one line per check, "name TAB ok|fail TAB note".
const net = require("node:net");
const { pipeline } = require("node:stream/promises");
const { Readable, Writable } = require("node:stream");
const { Client, types } = require("pg");
const Cursor = require("pg-cursor");
const copy = require("pg-copy-streams");

const slow = "SELECT count(*) FROM range(10000000000) a, range(1000) b WHERE a.range % 7 = b.range % 3";

function same(got, want, what) {
  const show = (v) => (Buffer.isBuffer(v) ? v.toString("hex") : JSON.stringify(v));
  if (show(got) !== show(want)) throw new Error(`${what}: got ${show(got)}, want ${show(want)}`);
}

const checks = {
  async "types, text"(c) {
    const values = [
      ["bool", true, true], ["int4", 7, 7], ["int8", "9007199254740993", "9007199254740993"], ["numeric(10,2)", "1.50", "1.50"], ["float8", 1.5, 1.5],
      ["text", "ü'\"", "ü'\""], ["bytea", Buffer.from([0, 255]), Buffer.from([0, 255])], ["uuid", "00000000-0000-0000-0000-000000000007", "00000000-0000-0000-0000-000000000007"],
      ["json", JSON.stringify({ a: 1 }), { a: 1 }], ["int4[]", [1, 2], [1, 2]], ["timestamptz", new Date(1e12), new Date(1e12)], ["text", null, null],
    ];
    for (const [type, sent, want] of values) same((await c.query(`SELECT $1::${type} AS v`, [sent])).rows[0].v, want, type);
    return `${values.length} types`;
  },
  async "prepared statements"(c) {
    for (let i = 0; i < 5; i++) same((await c.query({ name: "plus", text: "SELECT $1::int + 1 AS v", values: [i] })).rows[0].v, i + 1, "prepared");
  },
  async cursors(c) {
    const cursor = c.query(new Cursor("SELECT range AS i FROM range(1000)"));
    let sum = 0;
    for (;;) {
      const rows = await cursor.read(100);
      if (rows.length === 0) break;
      for (const r of rows) sum += Number(r.i);
    }
    await cursor.close();
    same(sum, 499500, "sum");
    return "portals with a limit of rows";
  },
  async errors(c) {
    try {
      await c.query("SELECT * FROM nowhere");
    } catch (e) {
      same(e.code, "42P01", "code");
      same((await c.query("SELECT 1 AS v")).rows[0].v, 1, "after");
      return "";
    }
    throw new Error("no error");
  },
  async transactions(c) {
    await c.query("CREATE OR REPLACE TABLE node_tx (i INTEGER)");
    await c.query("BEGIN");
    await c.query("INSERT INTO node_tx VALUES ($1)", [1]);
    await c.query("ROLLBACK");
    same((await c.query("SELECT count(*)::int AS v FROM node_tx")).rows[0].v, 0, "rolled back");
  },
  async cancel(c) {
    setTimeout(() => {
      const b = Buffer.alloc(16);
      b.writeInt32BE(16, 0), b.writeInt32BE(80877102, 4), b.writeInt32BE(c.processID, 8), b.writeInt32BE(c.secretKey, 12);
      const s = net.connect(c.port, c.host, () => s.end(b));
    }, 300);
    try {
      await c.query(slow);
    } catch (e) {
      same(e.code, "57014", "code");
      same((await c.query("SELECT 1 AS v")).rows[0].v, 1, "after");
      return "";
    }
    throw new Error("the statement ended");
  },
  async "COPY in"(c) {
    await c.query("CREATE OR REPLACE TABLE node_copy (i INTEGER, s TEXT)");
    const lines = Array.from({ length: 1000 }, (_, i) => `${i},"s ${i}"\n`);
    await pipeline(Readable.from(lines), c.query(copy.from("COPY node_copy FROM STDIN CSV")));
    same((await c.query("SELECT count(*)::int AS n, sum(i)::int AS v FROM node_copy")).rows[0], { n: 1000, v: 499500 }, "rows");
    return "CSV";
  },
  async "COPY out"(c) {
    let got = "";
    await pipeline(c.query(copy.to("COPY (SELECT range FROM range(1000)) TO STDOUT")), new Writable({ write(b, _, done) { got += b; done(); } }));
    same(got.trim().split("\n").length, 1000, "lines");
    return "text";
  },
  async catalog(c) {
    const r = await c.query("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = $1 ORDER BY ordinal_position", ["node_copy"]);
    same(r.rows, [{ column_name: "i", data_type: "integer" }, { column_name: "s", data_type: "text" }], "columns");
    return "information_schema with parameters";
  },
};

(async () => {
  for (const [name, f] of Object.entries(checks)) {
    const c = new Client();
    try {
      await c.connect();
      console.log([name, "ok", (await f(c)) || ""].join("\t"));
    } catch (e) {
      console.error(e);
      console.log([name, "fail", String(e.message).replace(/\s+/g, " ")].join("\t"));
    }
    await c.end().catch(() => {});
  }
})();
