import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.*;
import java.time.*;
import java.util.*;
import org.postgresql.PGConnection;

/** pgjdbc against a warehouse: one line per check, "name TAB ok|fail TAB note". */
public class Jdbc {
    static final String SLOW = "SELECT count(*) FROM range(10000000000) a, range(1000) b WHERE a.range % 7 = b.range % 3";

    interface Check { String run() throws Exception; }

    static Connection connect(String more) throws SQLException {
        Map<String, String> env = System.getenv();
        return DriverManager.getConnection("jdbc:postgresql://" + env.get("PGHOST") + ":" + env.get("PGPORT") + "/" + env.get("PGDATABASE") + "?user=" + env.get("PGUSER") + more);
    }

    static void same(Object got, Object want, String what) {
        if (!Objects.equals(got, want)) throw new AssertionError(what + ": got " + got + ", want " + want);
    }

    static Object one(Connection c, String sql) throws SQLException {
        try (Statement s = c.createStatement(); ResultSet r = s.executeQuery(sql)) { r.next(); return r.getObject(1); }
    }

    static String types(String more) throws Exception {
        Object[][] values = {
            {"bool", true}, {"int4", 7}, {"int8", 1L << 62}, {"numeric(20,5)", new BigDecimal("-12345.67890")}, {"float8", 1e-300}, {"text", "ü'\""},
            {"date", LocalDate.of(1999, 12, 31)}, {"time", LocalTime.of(23, 59, 59, 999999000)}, {"timestamp", LocalDateTime.of(2024, 2, 29, 1, 2, 3, 4000)},
            {"timestamptz", OffsetDateTime.of(2024, 7, 1, 12, 0, 0, 0, ZoneOffset.UTC)}, {"uuid", new UUID(0, 7)},
        };
        try (Connection c = connect(more)) {
            for (Object[] v : values) {
                try (PreparedStatement p = c.prepareStatement("SELECT ?::" + v[0])) {
                    for (int i = 0; i < 7; i++) { // the driver changes to binary after the fifth
                        p.setObject(1, v[1]);
                        try (ResultSet r = p.executeQuery()) { r.next(); same(r.getObject(1, v[1].getClass()), v[1], (String) v[0]); }
                    }
                    p.setObject(1, null, Types.OTHER);
                    try (ResultSet r = p.executeQuery()) { r.next(); same(r.getObject(1), null, v[0] + " NULL"); }
                }
            }
            try (PreparedStatement p = c.prepareStatement("SELECT ?::int4[], ?::bytea")) {
                p.setArray(1, c.createArrayOf("int4", new Object[] {1, null, 3}));
                p.setBytes(2, new byte[] {0, -1});
                try (ResultSet r = p.executeQuery()) {
                    r.next();
                    same(Arrays.asList((Object[]) r.getArray(1).getArray()), Arrays.asList(1, null, 3), "int4[]");
                    same(Arrays.toString(r.getBytes(2)), "[0, -1]", "bytea");
                }
            }
        }
        return values.length + 2 + " types";
    }

    public static void main(String[] args) {
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("types, text", () -> types("&binaryTransfer=false"));
        checks.put("types, binary", () -> types("&prepareThreshold=-1"));
        checks.put("prepared statements", () -> {
            try (Connection c = connect("&prepareThreshold=1"); PreparedStatement p = c.prepareStatement("SELECT ? + 1")) {
                for (int i = 0; i < 10; i++) { p.setInt(1, i); try (ResultSet r = p.executeQuery()) { r.next(); same(r.getInt(1), i + 1, "sum"); } }
                try (Statement s = c.createStatement()) { s.execute("CREATE OR REPLACE TABLE jdbc_batch (i INTEGER, s TEXT)"); }
                try (PreparedStatement b = c.prepareStatement("INSERT INTO jdbc_batch VALUES (?, ?)")) {
                    for (int i = 0; i < 100; i++) { b.setInt(1, i); b.setString(2, "s" + i); b.addBatch(); }
                    b.executeBatch();
                }
                same(one(c, "SELECT count(*) FROM jdbc_batch"), 100L, "batch");
            }
            return "also a batch of 100";
        });
        checks.put("cursors", () -> {
            try (Connection c = connect("")) {
                c.setAutoCommit(false);
                try (Statement s = c.createStatement()) {
                    s.setFetchSize(100);
                    long sum = 0;
                    try (ResultSet r = s.executeQuery("SELECT range FROM range(1000)")) { while (r.next()) sum += r.getLong(1); }
                    same(sum, 499500L, "sum");
                }
            }
            return "setFetchSize(100)";
        });
        checks.put("errors", () -> {
            try (Connection c = connect("")) {
                try { one(c, "SELECT * FROM nowhere"); throw new AssertionError("no error"); } catch (SQLException e) { same(e.getSQLState(), "42P01", "state"); }
                same(one(c, "SELECT 1"), 1, "after");
            }
            return "";
        });
        checks.put("transactions", () -> {
            try (Connection c = connect("&autosave=always"); Statement s = c.createStatement()) {
                s.execute("CREATE OR REPLACE TABLE jdbc_tx (i INTEGER)");
                c.setAutoCommit(false);
                s.execute("INSERT INTO jdbc_tx VALUES (1)");
                c.rollback();
                same(one(c, "SELECT count(*) FROM jdbc_tx"), 0L, "rolled back");
                s.execute("INSERT INTO jdbc_tx VALUES (2)");
                try { s.execute("SELECT * FROM nowhere"); } catch (SQLException e) { same(e.getSQLState(), "42P01", "state"); }
                Savepoint p = c.setSavepoint();
                s.execute("INSERT INTO jdbc_tx VALUES (3)");
                c.releaseSavepoint(p);
                c.commit();
                same(one(c, "SELECT count(*) FROM jdbc_tx"), 2L, "committed");
            }
            return "autosave=always, savepoints";
        });
        checks.put("cancel", () -> {
            try (Connection c = connect(""); Statement s = c.createStatement()) {
                s.setQueryTimeout(1);
                try { s.executeQuery(SLOW); throw new AssertionError("the statement ended"); } catch (SQLException e) { same(e.getSQLState(), "57014", "state"); }
                same(one(c, "SELECT 1"), 1, "after");
            }
            return "setQueryTimeout";
        });
        checks.put("COPY in", () -> {
            try (Connection c = connect(""); Statement s = c.createStatement()) {
                s.execute("CREATE OR REPLACE TABLE jdbc_copy (i INTEGER, s TEXT)");
                StringBuilder b = new StringBuilder();
                for (int i = 0; i < 1000; i++) b.append(i).append("\ts ").append(i).append('\n');
                same(c.unwrap(PGConnection.class).getCopyAPI().copyIn("COPY jdbc_copy FROM STDIN", new StringReader(b.toString())), 1000L, "rows");
            }
            return "CopyManager, text";
        });
        checks.put("COPY out", () -> {
            try (Connection c = connect("")) {
                StringWriter w = new StringWriter();
                same(c.unwrap(PGConnection.class).getCopyAPI().copyOut("COPY (SELECT range, 'x' FROM range(1000)) TO STDOUT CSV", w), 1000L, "rows");
            }
            return "CopyManager, CSV";
        });
        checks.put("catalog", () -> {
            try (Connection c = connect(""); Statement s = c.createStatement()) {
                s.execute("CREATE SCHEMA IF NOT EXISTS jdbc");
                s.execute("CREATE OR REPLACE TABLE jdbc.t (i INTEGER NOT NULL, n NUMERIC(10,2), s TEXT)");
                DatabaseMetaData m = c.getMetaData();
                List<String> got = new ArrayList<>();
                try (ResultSet r = m.getTables(null, "jdbc", "%", new String[] {"TABLE"})) { while (r.next()) got.add(r.getString("TABLE_NAME")); }
                try (ResultSet r = m.getColumns(null, "jdbc", "t", "%")) {
                    while (r.next()) got.add(r.getString("COLUMN_NAME") + " " + r.getString("TYPE_NAME") + " " + r.getInt("COLUMN_SIZE") + " " + r.getInt("NULLABLE"));
                }
                same(got, List.of("t", "i int4 10 0", "n numeric 10 1", "s text 2147483647 1"), "columns");
                for (ResultSet r : List.of(m.getSchemas(), m.getCatalogs(), m.getTypeInfo(), m.getPrimaryKeys(null, "jdbc", "t"), m.getIndexInfo(null, "jdbc", "t", false, true),
                    m.getImportedKeys(null, "jdbc", "t"), m.getExportedKeys(null, "jdbc", "t"), m.getFunctions(null, null, "%"), m.getProcedures(null, null, "%"),
                    m.getTablePrivileges(null, "jdbc", "t"), m.getTableTypes())) { while (r.next()) { } r.close(); }
                ResultSetMetaData rm = s.executeQuery("SELECT i, n AS renamed FROM jdbc.t").getMetaData();
                same(rm.getColumnTypeName(2) + rm.getPrecision(2), "numeric10", "metadata of a result");
            }
            return "DatabaseMetaData: 13 methods";
        });
        checks.forEach((name, f) -> {
            try {
                System.out.println(name + "\tok\t" + f.run());
            } catch (Throwable e) {
                e.printStackTrace();
                System.out.println(name + "\tfail\t" + String.valueOf(e.getMessage()).replaceAll("\\s+", " "));
            }
        });
    }
}
